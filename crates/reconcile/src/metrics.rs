//! What queues count, and how Prometheus reads it: under upstream's names.

use std::fmt::Write;

use jiff::SignedDuration;

/// Upstream's: powers of ten from ten nanoseconds to a thousand seconds.
const BUCKETS: [f64; 12] = [1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0, 100.0, 1000.0];

/// The numbers of one queue.
#[derive(Debug, Clone, Default)]
pub(crate) struct Figures {
    pub(crate) depth: usize,
    pub(crate) adds: u64,
    pub(crate) retries: u64,
    pub(crate) waited: Histogram,
    pub(crate) worked: Histogram,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Histogram {
    buckets: [u64; BUCKETS.len()],
    count: u64,
    sum: f64,
}

impl Histogram {
    pub(crate) fn observe(&mut self, took: SignedDuration) {
        let seconds = took.as_secs_f64().max(0.0);
        for (bucket, _) in self.buckets.iter_mut().zip(BUCKETS).filter(|(_, limit)| seconds <= *limit) {
            *bucket += 1;
        }
        self.count += 1;
        self.sum += seconds;
    }
}

/// All queues' numbers in Prometheus' text form.
pub(crate) fn text(queues: &[(&'static str, Figures)]) -> String {
    let mut out = String::new();
    let mut simple = |name: &str, kind: &str, help: &str, value: fn(&Figures) -> u64| {
        let _ = writeln!(out, "# HELP {name} [ALPHA] {help}\n# TYPE {name} {kind}");
        for (queue, figures) in queues {
            let _ = writeln!(out, "{name}{{name=\"{queue}\"}} {}", value(figures));
        }
    };
    simple("workqueue_depth", "gauge", "Current depth of workqueue", |f| f.depth as u64);
    simple("workqueue_adds_total", "counter", "Total number of adds handled by workqueue", |f| f.adds);
    simple("workqueue_retries_total", "counter", "Total number of retries handled by workqueue", |f| {
        f.retries
    });
    let waited = "How long in seconds an item stays in workqueue before being requested.";
    histogram(&mut out, "workqueue_queue_duration_seconds", waited, queues, |f| &f.waited);
    let worked = "How long in seconds processing an item from workqueue takes.";
    histogram(&mut out, "workqueue_work_duration_seconds", worked, queues, |f| &f.worked);
    out
}

/// Writing to a string cannot fail.
fn histogram(
    out: &mut String,
    name: &str,
    help: &str,
    queues: &[(&'static str, Figures)],
    of: fn(&Figures) -> &Histogram,
) {
    let _ = writeln!(out, "# HELP {name} [ALPHA] {help}\n# TYPE {name} histogram");
    for (queue, figures) in queues {
        let histogram = of(figures);
        for (limit, count) in BUCKETS.iter().zip(histogram.buckets) {
            let _ = writeln!(out, "{name}_bucket{{name=\"{queue}\",le=\"{limit:?}\"}} {count}");
        }
        let _ = writeln!(out, "{name}_bucket{{name=\"{queue}\",le=\"+Inf\"}} {}", histogram.count);
        let _ = writeln!(out, "{name}_sum{{name=\"{queue}\"}} {}", histogram.sum);
        let _ = writeln!(out, "{name}_count{{name=\"{queue}\"}} {}", histogram.count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_told_in_upstreams_words() {
        let mut figures = Figures { depth: 2, adds: 3, ..Figures::default() };
        figures.worked.observe(SignedDuration::from_millis(50));
        let text = text(&[("job", figures)]);
        for line in [
            "workqueue_depth{name=\"job\"} 2",
            "workqueue_adds_total{name=\"job\"} 3",
            "workqueue_work_duration_seconds_bucket{name=\"job\",le=\"0.01\"} 0",
            "workqueue_work_duration_seconds_bucket{name=\"job\",le=\"0.1\"} 1",
            "workqueue_work_duration_seconds_count{name=\"job\"} 1",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
        }
    }
}
