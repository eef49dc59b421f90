//! The scheduler's metrics, under upstream's names.

use std::collections::BTreeMap;

use corten_api::Str;
use corten_serving::metrics::{Exposition, Histogram, Kind};
use parking_lot::Mutex;

use crate::queue::Depths;

/// Upstream's buckets: from a millisecond, doubling.
const BUCKETS: [f64; 15] = [
    0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.024, 2.048, 4.096, 8.192, 16.384,
];

#[derive(Default)]
pub struct Metrics(Mutex<Figures>);

#[derive(Default)]
struct Figures {
    /// By profile and result.
    attempts: BTreeMap<(Str, Outcome), Histogram>,
    depths: Depths,
    pods: usize,
    nodes: usize,
}

/// The result of a scheduling attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Outcome {
    Error,
    Scheduled,
    Unschedulable,
}

impl Outcome {
    fn name(self) -> &'static str {
        match self {
            Outcome::Error => "error",
            Outcome::Scheduled => "scheduled",
            Outcome::Unschedulable => "unschedulable",
        }
    }
}

impl Metrics {
    pub(crate) fn decided(&self, profile: &Str, outcome: Outcome, seconds: f64) {
        let mut figures = self.0.lock();
        let new = || Histogram::new(&BUCKETS);
        figures.attempts.entry((profile.clone(), outcome)).or_insert_with(new).observe(seconds);
    }

    pub(crate) fn depths(&self, depths: Depths, pods: usize, nodes: usize) {
        let mut figures = self.0.lock();
        (figures.depths, figures.pods, figures.nodes) = (depths, pods, nodes);
    }

    /// All metrics in Prometheus' text format.
    pub fn text(&self) -> String {
        let figures = self.0.lock();
        let mut out = Exposition::default();
        write_attempts(&mut out, &figures.attempts);
        let depths = figures.depths;
        write_gauge(
            &mut out,
            "scheduler_pending_pods",
            "Number of pending pods, by the queue type.",
            "queue",
            &[
                ("active", depths.active),
                ("backoff", depths.backoff),
                ("gated", depths.gated),
                ("unschedulable", depths.unschedulable),
            ],
        );
        let cached = "Number of nodes, pods, and assumed (bound) pods in the scheduler cache.";
        let sizes = [("nodes", figures.nodes), ("pods", figures.pods)];
        write_gauge(&mut out, "scheduler_cache_size", cached, "type", &sizes);
        out.finish()
    }
}

fn labels((profile, outcome): &(Str, Outcome)) -> [(&str, &str); 2] {
    [("profile", profile), ("result", outcome.name())]
}

fn write_attempts(out: &mut Exposition, attempts: &BTreeMap<(Str, Outcome), Histogram>) {
    let name = "scheduler_schedule_attempts_total";
    out.family(name, Kind::Counter, "[STABLE] Number of attempts to schedule pods, by the result.");
    for (key, histogram) in attempts {
        out.sample(name, &labels(key), histogram.count());
    }
    let name = "scheduler_scheduling_attempt_duration_seconds";
    let help = "[STABLE] Scheduling attempt latency in seconds (scheduling algorithm + binding)";
    out.family(name, Kind::Histogram, help);
    for (key, histogram) in attempts {
        out.histogram(name, &labels(key), histogram);
    }
}

fn write_gauge(out: &mut Exposition, name: &str, help: &str, label: &str, values: &[(&str, usize)]) {
    out.family(name, Kind::Gauge, &format!("[STABLE] {help}"));
    for (value, count) in values {
        out.sample(name, &[(label, value)], count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_have_upstreams_names() {
        let metrics = Metrics::default();
        let (profile, other) = (Str::new("default-scheduler"), Str::new("other"));
        metrics.decided(&profile, Outcome::Scheduled, 0.0015);
        metrics.decided(&other, Outcome::Unschedulable, 0.0015);
        metrics.depths(Depths { active: 2, ..Depths::default() }, 5, 3);
        let text = metrics.text();
        for line in [
            "scheduler_pending_pods{queue=\"active\"} 2",
            "scheduler_cache_size{type=\"nodes\"} 3",
            "scheduler_schedule_attempts_total{profile=\"default-scheduler\",result=\"scheduled\"} 1",
            "scheduler_schedule_attempts_total{profile=\"other\",result=\"unschedulable\"} 1",
            "scheduler_scheduling_attempt_duration_seconds_bucket{profile=\"default-scheduler\",result=\"scheduled\",le=\"0.002\"} 1",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
        }
    }
}
