//! What a scheduler counts, under upstream's names.

use std::collections::BTreeMap;
use std::fmt::Write;

use corten_api::Str;
use parking_lot::Mutex;

use crate::queue::Depths;

/// Upstream's: from a millisecond, doubling.
const BUCKETS: [f64; 15] = [
    0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.024, 2.048, 4.096, 8.192, 16.384,
];

#[derive(Default)]
pub struct Metrics(Mutex<Figures>);

#[derive(Default)]
struct Figures {
    /// By profile and what came of it.
    attempts: BTreeMap<(Str, Outcome), Histogram>,
    depths: Depths,
    pods: usize,
    nodes: usize,
}

/// What came of trying to find a node for a pod.
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

#[derive(Default)]
struct Histogram {
    buckets: [u64; BUCKETS.len()],
    count: u64,
    sum: f64,
}

impl Histogram {
    fn observe(&mut self, seconds: f64) {
        for (bucket, _) in self.buckets.iter_mut().zip(BUCKETS).filter(|(_, limit)| seconds <= *limit) {
            *bucket += 1;
        }
        self.count += 1;
        self.sum += seconds;
    }
}

impl Metrics {
    pub(crate) fn decided(&self, profile: &Str, outcome: Outcome, seconds: f64) {
        let mut figures = self.0.lock();
        figures.attempts.entry((profile.clone(), outcome)).or_default().observe(seconds);
    }

    pub(crate) fn depths(&self, depths: Depths, pods: usize, nodes: usize) {
        let mut figures = self.0.lock();
        (figures.depths, figures.pods, figures.nodes) = (depths, pods, nodes);
    }

    /// As Prometheus reads it.
    pub fn text(&self) -> String {
        let figures = self.0.lock();
        let mut out = String::new();
        counters(&mut out, &figures.attempts);
        durations(&mut out, &figures.attempts);
        let depths = figures.depths;
        gauge(
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
        gauge(
            &mut out,
            "scheduler_cache_size",
            cached,
            "type",
            &[("nodes", figures.nodes), ("pods", figures.pods)],
        );
        out
    }
}

fn labels((profile, outcome): &(Str, Outcome)) -> String {
    format!("profile=\"{profile}\",result=\"{}\"", outcome.name())
}

/// Writing to a string cannot fail.
fn counters(out: &mut String, attempts: &BTreeMap<(Str, Outcome), Histogram>) {
    let name = "scheduler_schedule_attempts_total";
    let help = "Number of attempts to schedule pods, by the result.";
    let _ = writeln!(out, "# HELP {name} [STABLE] {help}\n# TYPE {name} counter");
    for (key, histogram) in attempts {
        let _ = writeln!(out, "{name}{{{}}} {}", labels(key), histogram.count);
    }
}

fn durations(out: &mut String, attempts: &BTreeMap<(Str, Outcome), Histogram>) {
    let name = "scheduler_scheduling_attempt_duration_seconds";
    let help = "Scheduling attempt latency in seconds (scheduling algorithm + binding)";
    let _ = writeln!(out, "# HELP {name} [STABLE] {help}\n# TYPE {name} histogram");
    for (key, histogram) in attempts {
        let labels = labels(key);
        for (limit, count) in BUCKETS.iter().zip(histogram.buckets) {
            let _ = writeln!(out, "{name}_bucket{{{labels},le=\"{limit}\"}} {count}");
        }
        let _ = writeln!(out, "{name}_bucket{{{labels},le=\"+Inf\"}} {}", histogram.count);
        let _ = writeln!(out, "{name}_sum{{{labels}}} {}", histogram.sum);
        let _ = writeln!(out, "{name}_count{{{labels}}} {}", histogram.count);
    }
}

fn gauge(out: &mut String, name: &str, help: &str, label: &str, values: &[(&str, usize)]) {
    let _ = writeln!(out, "# HELP {name} [STABLE] {help}\n# TYPE {name} gauge");
    for (value, count) in values {
        let _ = writeln!(out, "{name}{{{label}=\"{value}\"}} {count}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_told_in_upstreams_words() {
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
