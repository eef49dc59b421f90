//! The metrics of policies, with upstream's names and labels.

use std::collections::BTreeMap;
use std::time::Duration;

use corten_serving::metrics::{Exposition, Histogram, Kind};
use parking_lot::Mutex;

const BUCKETS: [f64; 5] = [0.000_000_5, 0.001, 0.01, 0.1, 1.0];

/// The limit of series, so that no configuration makes the metrics grow without end.
const MOST_SERIES: usize = 5000;

/// The consequence of a validation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::admission) enum Enforced {
    Allow,
    Deny,
    Audit,
    Warn,
}

impl Enforced {
    fn label(self) -> &'static str {
        match self {
            Enforced::Allow => "allow",
            Enforced::Deny => "deny",
            Enforced::Audit => "audit",
            Enforced::Warn => "warn",
        }
    }
}

/// Policy, binding, type of error, and consequence, which only validating policies have.
type Labels = (String, String, &'static str, &'static str);

#[derive(Default)]
pub(in crate::admission) struct Counters {
    validating: Mutex<BTreeMap<Labels, Histogram>>,
    mutating: Mutex<BTreeMap<Labels, Histogram>>,
}

impl Counters {
    pub(in crate::admission) fn validated(
        &self,
        (policy, binding): (&str, &str),
        message: &str,
        enforced: Enforced,
        took: Duration,
    ) {
        observe(&self.validating, (policy, binding), error_type(message), enforced.label(), took);
    }

    /// Counts a mutation; `error` is the message of one that failed.
    pub(in crate::admission) fn mutated(
        &self,
        (policy, binding): (&str, &str),
        error: Option<&str>,
        took: Duration,
    ) {
        observe(&self.mutating, (policy, binding), error.map_or("no_error", error_type), "", took);
    }

    pub(super) fn render(&self, out: &mut Exposition) {
        let about = "Validations of requests by admission policies";
        render(out, "apiserver_validating_admission_policy_check", about, &self.validating.lock());
        let about = "Mutations of requests by admission policies";
        render(out, "apiserver_mutating_admission_policy_check", about, &self.mutating.lock());
    }
}

fn error_type(message: &str) -> &'static str {
    if message.starts_with("compilation") {
        "compile_error"
    } else if message.starts_with("validation failed due to running out of cost budget") {
        "out_of_budget"
    } else {
        "invalid_error"
    }
}

fn observe(
    series: &Mutex<BTreeMap<Labels, Histogram>>,
    (policy, binding): (&str, &str),
    error: &'static str,
    enforced: &'static str,
    took: Duration,
) {
    let mut series = series.lock();
    let labels = (policy.to_owned(), binding.to_owned(), error, enforced);
    if series.len() >= MOST_SERIES && !series.contains_key(&labels) {
        return;
    }
    let histogram = series.entry(labels).or_insert_with(|| Histogram::new(&BUCKETS));
    histogram.observe(took.as_secs_f64());
}

fn render(out: &mut Exposition, name: &str, about: &str, series: &BTreeMap<Labels, Histogram>) {
    if series.is_empty() {
        return;
    }
    let labels = |labels: &Labels| -> Vec<(&'static str, String)> {
        let (policy, binding, error, enforced) = labels;
        let mut found = vec![("error_type", (*error).to_owned()), ("policy", policy.clone())];
        found.push(("policy_binding", binding.clone()));
        if !enforced.is_empty() {
            found.insert(0, ("enforcement_action", (*enforced).to_owned()));
        }
        found
    };
    let total = format!("{name}_total");
    out.family(&total, Kind::Counter, &format!("{about}."));
    for (key, histogram) in series {
        let labels = labels(key);
        let labels: Vec<(&str, &str)> = labels.iter().map(|(name, value)| (*name, value.as_str())).collect();
        out.sample(&total, &labels, histogram.count());
    }
    let durations = format!("{name}_duration_seconds");
    out.family(&durations, Kind::Histogram, &format!("{about}, in seconds."));
    for (key, histogram) in series {
        let labels = labels(key);
        let labels: Vec<(&str, &str)> = labels.iter().map(|(name, value)| (*name, value.as_str())).collect();
        out.histogram(&durations, &labels, histogram);
    }
}
