//! The workqueue metrics, under upstream's names.

use corten_serving::metrics::{Exposition, Histogram, Kind};
use jiff::SignedDuration;

/// Upstream's buckets: powers of ten from ten nanoseconds to a thousand seconds.
const BUCKETS: [f64; 12] = [1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0, 100.0, 1000.0];

/// The metrics of one queue.
#[derive(Debug, Clone, Default)]
pub(crate) struct Figures {
    pub(crate) depth: usize,
    pub(crate) adds: u64,
    pub(crate) retries: u64,
    pub(crate) waited: Durations,
    pub(crate) worked: Durations,
}

/// A histogram of durations, with the buckets of work queues.
#[derive(Debug, Clone)]
pub(crate) struct Durations(Histogram);

impl Default for Durations {
    fn default() -> Durations {
        Durations(Histogram::new(&BUCKETS))
    }
}

impl Durations {
    pub(crate) fn observe(&self, took: SignedDuration) {
        self.0.observe(took.as_secs_f64().max(0.0));
    }
}

/// The metrics of all queues in Prometheus' text format.
pub(crate) fn text(queues: &[(&'static str, Figures)]) -> String {
    let mut out = Exposition::default();
    let mut simple = |name: &str, kind: Kind, help: &str, value: fn(&Figures) -> u64| {
        out.family(name, kind, &format!("[ALPHA] {help}"));
        for (queue, figures) in queues {
            out.sample(name, &[("name", queue)], value(figures));
        }
    };
    simple("workqueue_depth", Kind::Gauge, "Current depth of workqueue", |f| f.depth as u64);
    simple("workqueue_adds_total", Kind::Counter, "Total number of adds handled by workqueue", |f| f.adds);
    let retries = "Total number of retries handled by workqueue";
    simple("workqueue_retries_total", Kind::Counter, retries, |f| f.retries);
    let mut histogram = |name: &str, help: &str, of: fn(&Figures) -> &Durations| {
        out.family(name, Kind::Histogram, &format!("[ALPHA] {help}"));
        for (queue, figures) in queues {
            out.histogram(name, &[("name", queue)], &of(figures).0);
        }
    };
    let waited = "How long in seconds an item stays in workqueue before being requested.";
    histogram("workqueue_queue_duration_seconds", waited, |f| &f.waited);
    let worked = "How long in seconds processing an item from workqueue takes.";
    histogram("workqueue_work_duration_seconds", worked, |f| &f.worked);
    out.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_have_upstreams_names() {
        let figures = Figures { depth: 2, adds: 3, ..Figures::default() };
        figures.worked.observe(SignedDuration::from_millis(50));
        let text = text(&[("job", figures)]);
        for line in [
            "workqueue_depth{name=\"job\"} 2",
            "workqueue_adds_total{name=\"job\"} 3",
            "workqueue_work_duration_seconds_bucket{name=\"job\",le=\"1e-08\"} 0",
            "workqueue_work_duration_seconds_bucket{name=\"job\",le=\"0.01\"} 0",
            "workqueue_work_duration_seconds_bucket{name=\"job\",le=\"0.1\"} 1",
            "workqueue_work_duration_seconds_count{name=\"job\"} 1",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
        }
    }
}
