//! The rate of cpu usage, from two samples of the total.

use std::collections::HashMap;
use std::time::Duration;

use jiff::Timestamp;

/// The minimum time between the samples of a rate, so that it does not depend on the frequency of requests.
const SPAN: Duration = Duration::from_secs(10);
/// The time after which a key without requests is forgotten.
const FORGET: Duration = Duration::from_secs(600);

#[derive(Debug, Default)]
pub(super) struct Rates(HashMap<String, Known>);

#[derive(Debug, Clone, Copy)]
struct Known {
    /// The sample that rates are computed from, and the one that comes next.
    base: Sample,
    next: Sample,
}

#[derive(Debug, Clone, Copy)]
struct Sample {
    at: Timestamp,
    total: u64,
}

impl Rates {
    /// Takes over a sample. Returns the rate since an earlier one, in billionths of a CPU.
    pub(super) fn add_sample(&mut self, key: &str, at: Timestamp, total: u64) -> Option<u64> {
        let now = Sample { at, total };
        let Some(known) = self.0.get_mut(key).filter(|known| known.next.total <= total) else {
            self.forget(at);
            self.0.insert(key.to_owned(), Known { base: now, next: now });
            return None;
        };
        let rate = rate(known.base, now);
        if since(known.next, now) >= SPAN {
            *known = Known { base: known.next, next: now };
        }
        rate
    }

    fn forget(&mut self, now: Timestamp) {
        let at = |known: &Known| Sample { at: known.next.at, total: 0 };
        self.0.retain(|_, known| since(at(known), Sample { at: now, total: 0 }) < FORGET);
    }
}

fn since(from: Sample, to: Sample) -> Duration {
    Duration::try_from(to.at.duration_since(from.at)).unwrap_or_default()
}

fn rate(from: Sample, to: Sample) -> Option<u64> {
    let nanoseconds = since(from, to).as_nanos();
    let used = u128::from(to.total.saturating_sub(from.total));
    u64::try_from((used * 1_000_000_000).checked_div(nanoseconds)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    #[test]
    fn a_rate_needs_two_samples() {
        let mut rates = Rates::default();
        assert_eq!(rates.add_sample("a", at(0), 100), None);
        assert_eq!(rates.add_sample("a", at(0), 100), None, "no time has passed");
        assert_eq!(rates.add_sample("a", at(2), 2_000_000_100), Some(1_000_000_000));
        assert_eq!(rates.add_sample("b", at(2), 7), None);
    }

    #[test]
    fn rates_are_recent() {
        let mut rates = Rates::default();
        rates.add_sample("a", at(0), 0);
        assert_eq!(rates.add_sample("a", at(10), 10_000_000_000), Some(1_000_000_000));
        assert_eq!(rates.add_sample("a", at(20), 10_000_000_000), Some(500_000_000));
        assert_eq!(rates.add_sample("a", at(30), 10_000_000_000), Some(0));
    }

    #[test]
    fn a_reset_counter_has_no_rate() {
        let mut rates = Rates::default();
        rates.add_sample("a", at(0), 500);
        assert_eq!(rates.add_sample("a", at(10), 10), None);
        assert_eq!(rates.add_sample("a", at(11), 1_000_000_010), Some(1_000_000_000));
    }
}
