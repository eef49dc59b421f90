//! The metrics of webhooks, with upstream's names and labels.

use std::collections::BTreeMap;
use std::time::Duration;

use corten_serving::metrics::{Exposition, Histogram, Kind};
use parking_lot::Mutex;

use super::configuration::{Webhook, WebhookKind};
use crate::admission::Operation;

const BUCKETS: [f64; 8] = [0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10.0, 25.0];

/// The limit of webhooks that are counted, so that no configuration makes the metrics grow without end.
const MOST_WEBHOOKS: usize = 1000;

/// The result of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::admission) enum Outcome {
    Allowed,
    /// The response could not be carried out.
    Unusable,
    /// With the code of the response.
    Rejected(u16),
    /// The call failed; true if the request failed with it.
    Failed(u16, bool),
}

impl Outcome {
    fn code(self) -> u16 {
        match self {
            Outcome::Allowed => 200,
            Outcome::Unusable => 0,
            Outcome::Rejected(code) | Outcome::Failed(code, _) => code.min(600),
        }
    }

    fn is_rejected(self) -> bool {
        !matches!(self, Outcome::Allowed | Outcome::Failed(_, false))
    }

    fn error_type(self) -> &'static str {
        match self {
            Outcome::Failed(..) => "calling_webhook_error",
            Outcome::Unusable => "apiserver_internal_error",
            _ => "no_error",
        }
    }
}

/// The name of a webhook and its type.
type Name = (String, &'static str);

#[derive(Default)]
struct Stats {
    /// By operation, code and whether the request was rejected.
    requests: BTreeMap<(&'static str, u16, bool), u64>,
    durations: BTreeMap<(&'static str, bool), Durations>,
    /// By operation, type of error and code.
    rejections: BTreeMap<(&'static str, &'static str, u16), u64>,
    failed_open: u64,
}

struct Durations(Histogram);

impl Default for Durations {
    fn default() -> Durations {
        Durations(Histogram::new(&BUCKETS))
    }
}

/// The counters of all webhooks.
#[derive(Default)]
pub(super) struct Counters(Mutex<BTreeMap<Name, Stats>>);

impl Counters {
    pub(super) fn count(&self, webhook: &Webhook, operation: Operation, took: Duration, outcome: Outcome) {
        let mut all = self.0.lock();
        let name = (webhook.name.to_string(), WebhookKind::label(webhook.kind));
        if all.len() >= MOST_WEBHOOKS && !all.contains_key(&name) {
            return;
        }
        let stats = all.entry(name).or_default();
        let (operation, rejected) = (operation.name(), outcome.is_rejected());
        *stats.requests.entry((operation, outcome.code(), rejected)).or_default() += 1;
        stats.durations.entry((operation, rejected)).or_default().0.observe(took.as_secs_f64());
        if rejected {
            *stats.rejections.entry((operation, outcome.error_type(), outcome.code())).or_default() += 1;
        }
        if matches!(outcome, Outcome::Failed(_, false)) {
            stats.failed_open += 1;
        }
    }

    pub(super) fn render(&self, out: &mut Exposition) {
        let all = self.0.lock();
        if all.is_empty() {
            return;
        }
        let name = "apiserver_admission_webhook_request_total";
        out.family(name, Kind::Counter, "Calls of admission webhooks.");
        for ((webhook, kind), stats) in all.iter() {
            for ((operation, code, rejected), count) in &stats.requests {
                let (code, rejected) = (code.to_string(), rejected.to_string());
                let labels = [
                    ("code", code.as_str()),
                    ("name", webhook),
                    ("operation", operation),
                    ("rejected", &rejected),
                    ("type", kind),
                ];
                out.sample(name, &labels, count);
            }
        }
        let name = "apiserver_admission_webhook_admission_duration_seconds";
        out.family(name, Kind::Histogram, "Durations of calls of admission webhooks.");
        for ((webhook, kind), stats) in all.iter() {
            for ((operation, rejected), durations) in &stats.durations {
                let rejected = rejected.to_string();
                let labels = [
                    ("name", webhook.as_str()),
                    ("operation", operation),
                    ("rejected", &rejected),
                    ("type", kind),
                ];
                out.histogram(name, &labels, &durations.0);
            }
        }
        let name = "apiserver_admission_webhook_rejection_count";
        out.family(name, Kind::Counter, "Requests that admission webhooks or their failures rejected.");
        for ((webhook, kind), stats) in all.iter() {
            for ((operation, error, code), count) in &stats.rejections {
                let code = code.to_string();
                let labels = [
                    ("error_type", *error),
                    ("name", webhook),
                    ("operation", operation),
                    ("rejection_code", &code),
                    ("type", kind),
                ];
                out.sample(name, &labels, count);
            }
        }
        let name = "apiserver_admission_webhook_fail_open_count";
        out.family(name, Kind::Counter, "Failed calls of admission webhooks that were ignored.");
        for ((webhook, kind), stats) in all.iter().filter(|(_, stats)| stats.failed_open > 0) {
            out.sample(name, &[("name", webhook), ("type", kind)], stats.failed_open);
        }
    }
}
