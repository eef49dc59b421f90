//! Prometheus' text format, and histograms.
//!
//! Names, help texts and bucket bounds are the component's, as upstream's component has them. Values of labels are escaped
//! here; names of metrics and labels are constants of the callers and are not checked.

mod summary;

use std::fmt::{Display, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use jiff::Timestamp;
pub use summary::Summary;

/// The type of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Counter,
    Gauge,
    Histogram,
    Summary,
}

/// Names and values of a sample's labels, in the order in which they are written.
pub type Labels<'a> = &'a [(&'a str, &'a str)];

/// Metrics as the text that Prometheus scrapes.
#[derive(Debug, Default)]
pub struct Exposition(String);

// Writing to a string cannot fail.
impl Exposition {
    /// Begins a metric, whose samples follow.
    pub fn family(&mut self, name: &str, kind: Kind, help: &str) {
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
            Kind::Summary => "summary",
        };
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    pub fn sample(&mut self, name: &str, labels: Labels<'_>, value: impl Display) {
        self.sample_at(name, labels, value, None);
    }

    /// A sample with the time at which it was taken, if the scrape is not that time.
    pub fn sample_at(&mut self, name: &str, labels: Labels<'_>, value: impl Display, at: Option<Timestamp>) {
        self.0.push_str(name);
        self.labels(labels, None);
        let _ = write!(self.0, " {value}");
        if let Some(at) = at {
            let _ = write!(self.0, " {}", at.as_millisecond());
        }
        self.0.push('\n');
    }

    /// A metric with one sample and no labels.
    pub fn single(&mut self, name: &str, kind: Kind, help: &str, value: impl Display) {
        self.family(name, kind, help);
        self.sample(name, &[], value);
    }

    /// The samples of a histogram: its buckets, its sum and its count.
    pub fn histogram(&mut self, name: &str, labels: Labels<'_>, histogram: &Histogram) {
        let mut count = 0;
        let bounds = histogram.bounds.iter().map(|bound| bound_text(*bound)).chain(["+Inf".to_owned()]);
        for (bound, within) in bounds.zip(histogram.buckets()) {
            count += within;
            let _ = write!(self.0, "{name}_bucket");
            self.labels(labels, Some(("le", &bound)));
            let _ = writeln!(self.0, " {count}");
        }
        self.totals(name, labels, histogram.sum(), count);
    }

    /// The samples of a summary: its quantiles at a time, its sum and its count.
    pub fn summary(&mut self, name: &str, labels: Labels<'_>, summary: &Summary, now: Instant) {
        let taken = summary.take(now);
        for (quantile, value) in summary::QUANTILES.iter().zip(taken.quantiles) {
            self.0.push_str(name);
            self.labels(labels, Some(("quantile", &bound_text(*quantile))));
            let _ = writeln!(self.0, " {value}");
        }
        self.totals(name, labels, taken.sum, taken.count);
    }

    fn totals(&mut self, name: &str, labels: Labels<'_>, sum: f64, count: u64) {
        for (suffix, value) in [("sum", &sum as &dyn Display), ("count", &count)] {
            let _ = write!(self.0, "{name}_{suffix}");
            self.labels(labels, None);
            let _ = writeln!(self.0, " {value}");
        }
    }

    pub fn finish(self) -> String {
        self.0
    }

    fn labels(&mut self, labels: Labels<'_>, last: Option<(&str, &str)>) {
        let all = labels.iter().copied().chain(last);
        let mut opened = false;
        for (label, value) in all {
            self.0.push(if opened { ',' } else { '{' });
            opened = true;
            self.0.push_str(label);
            self.0.push_str("=\"");
            for character in value.chars() {
                match character {
                    '\\' => self.0.push_str("\\\\"),
                    '"' => self.0.push_str("\\\""),
                    '\n' => self.0.push_str("\\n"),
                    character => self.0.push(character),
                }
            }
            self.0.push('"');
        }
        if opened {
            self.0.push('}');
        }
    }
}

/// A bound as Go writes it, and so upstream's components: `0.001`, `16000`, `1e-08`.
fn bound_text(bound: f64) -> String {
    if bound != 0.0 && bound.abs() < 1e-4 {
        let text = format!("{bound:e}");
        return match text.split_once("e-") {
            Some((mantissa, exponent)) if exponent.len() < 2 => format!("{mantissa}e-0{exponent}"),
            _ => text,
        };
    }
    bound.to_string()
}

/// The number of sets of counters in a histogram.
const SHARDS: usize = 4;

static NEXT_SHARD: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// The counters that this thread increments.
    static SHARD: usize = NEXT_SHARD.fetch_add(1, Ordering::Relaxed) % SHARDS;
}

/// Counts observations by the smallest bound they are within. Observing takes no lock, so a histogram can be shared; threads
/// have counters of their own where there are few, because one that two processors increment costs each of them a transfer of
/// its cache line.
#[derive(Debug)]
pub struct Histogram {
    bounds: &'static [f64],
    shards: [OnceLock<Shard>; SHARDS],
}

/// The observations within each bound that are not within a smaller one, those beyond all bounds, and the bits of the sum,
/// an `f64`.
#[derive(Debug)]
struct Shard(Box<[AtomicU64]>);

impl Shard {
    fn new(bounds: &[f64]) -> Shard {
        Shard(std::iter::repeat_with(AtomicU64::default).take(bounds.len() + 2).collect())
    }

    fn count(&self, bucket: usize, value: f64) {
        let [buckets @ .., sum] = &*self.0 else { return };
        if let Some(bucket) = buckets.get(bucket) {
            bucket.fetch_add(1, Ordering::Relaxed);
        }
        let add = |sum| Some((f64::from_bits(sum) + value).to_bits());
        // The closure always returns a value, so the update never fails.
        let _ = sum.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
    }

    fn bucket(&self, at: usize) -> u64 {
        self.0.get(at).map_or(0, |bucket| bucket.load(Ordering::Relaxed))
    }

    fn sum(&self) -> f64 {
        self.0.last().map_or(0.0, |sum| f64::from_bits(sum.load(Ordering::Relaxed)))
    }
}

impl Histogram {
    /// An empty histogram. `bounds` are the upper bounds of its buckets, in ascending order, without infinity.
    pub fn new(bounds: &'static [f64]) -> Histogram {
        Histogram { bounds, shards: Default::default() }
    }

    pub fn observe(&self, value: f64) {
        let bucket = self.bounds.iter().position(|bound| value <= *bound).unwrap_or(self.bounds.len());
        if let Some(shard) = self.shards.get(SHARD.with(|shard| *shard)) {
            shard.get_or_init(|| Shard::new(self.bounds)).count(bucket, value);
        }
    }

    /// The number of observations.
    pub fn count(&self) -> u64 {
        self.buckets().sum()
    }

    /// The sum of all observed values.
    pub fn sum(&self) -> f64 {
        // The sum of no floats is -0.
        self.shards().map(Shard::sum).fold(0.0, |all, sum| all + sum)
    }

    /// The counts of the buckets, and last those beyond all bounds.
    fn buckets(&self) -> impl Iterator<Item = u64> {
        (0..=self.bounds.len()).map(|at| self.shards().map(|shard| shard.bucket(at)).sum())
    }

    fn shards(&self) -> impl Iterator<Item = &Shard> {
        self.shards.iter().filter_map(OnceLock::get)
    }
}

impl Clone for Histogram {
    fn clone(&self) -> Histogram {
        let load = |value: &AtomicU64| AtomicU64::new(value.load(Ordering::Relaxed));
        let copy = |shard: &OnceLock<Shard>| match shard.get() {
            Some(shard) => OnceLock::from(Shard(shard.0.iter().map(load).collect())),
            None => OnceLock::new(),
        };
        Histogram { bounds: self.bounds, shards: self.shards.each_ref().map(copy) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_lines_with_escaped_labels() {
        let mut text = Exposition::default();
        text.single("up", Kind::Gauge, "Up.", 1.0);
        text.family("a_total", Kind::Counter, "All.");
        let at = Timestamp::from_millisecond(1500).unwrap();
        text.sample_at("a_total", &[("x", "1\"\\\n"), ("y", "")], 0.25, Some(at));
        let expected = "# HELP up Up.\n# TYPE up gauge\nup 1\n# HELP a_total All.\n# TYPE a_total counter\n\
                        a_total{x=\"1\\\"\\\\\\n\",y=\"\"} 0.25 1500\n";
        assert_eq!(text.finish(), expected);
    }

    #[test]
    fn buckets_of_a_histogram_are_cumulative() {
        let histogram = Histogram::new(&[0.5, 1.0, 10.0]);
        [0.25, 1.0, 5.0, 100.0].into_iter().for_each(|value| histogram.observe(value));
        let copy = histogram.clone();
        histogram.observe(0.0);
        assert_eq!((copy.count(), copy.sum(), histogram.count()), (4, 106.25, 5));
        let mut text = Exposition::default();
        text.family("h", Kind::Histogram, "Help.");
        text.histogram("h", &[("a", "b")], &copy);
        text.histogram("h", &[], &Histogram::new(&[]));
        let expected = "# HELP h Help.\n# TYPE h histogram\n\
            h_bucket{a=\"b\",le=\"0.5\"} 1\nh_bucket{a=\"b\",le=\"1\"} 2\nh_bucket{a=\"b\",le=\"10\"} 3\n\
            h_bucket{a=\"b\",le=\"+Inf\"} 4\nh_sum{a=\"b\"} 106.25\nh_count{a=\"b\"} 4\n\
            h_bucket{le=\"+Inf\"} 0\nh_sum 0\nh_count 0\n";
        assert_eq!(text.finish(), expected);
    }

    #[test]
    fn observations_of_all_threads_are_counted() {
        let histogram = Histogram::new(&[1.0]);
        std::thread::scope(|scope| {
            for _ in 0..2 * SHARDS {
                scope.spawn(|| (0..1000).for_each(|_| histogram.observe(0.5)));
            }
        });
        let all = 2 * SHARDS as u64 * 1000;
        assert_eq!((histogram.count(), histogram.sum()), (all, all as f64 * 0.5));
        assert_eq!(histogram.buckets().collect::<Vec<_>>(), [all, 0]);
    }

    #[test]
    fn a_summary_has_upstreams_quantiles() {
        let now = Instant::now();
        let summary = Summary::new(std::time::Duration::from_secs(5), now);
        let mut text = Exposition::default();
        text.family("s", Kind::Summary, "Help.");
        text.summary("s", &[("a", "b")], &summary, now);
        let expected = "# HELP s Help.\n# TYPE s summary\n\
            s{a=\"b\",quantile=\"0.5\"} NaN\ns{a=\"b\",quantile=\"0.9\"} NaN\ns{a=\"b\",quantile=\"0.99\"} NaN\n\
            s_sum{a=\"b\"} 0\ns_count{a=\"b\"} 0\n";
        assert_eq!(text.finish(), expected);
    }

    #[test]
    fn bounds_are_written_as_go_writes_them() {
        let bounds = [0.0, 1e-8, 2.5e-5, 1e-4, 0.00025, 0.1, 1.0, 16e3, 1e-12];
        let expected = ["0", "1e-08", "2.5e-05", "0.0001", "0.00025", "0.1", "1", "16000", "1e-12"];
        assert_eq!(bounds.map(bound_text), expected);
    }
}
