//! Quantiles of what was observed lately, as Prometheus' client libraries keep them.
//!
//! Values are counted in classes that grow by a constant factor, so that memory does not depend on the number of
//! observations: a quantile is right within 2.5 %. Counts are kept in slots of time; those of the oldest are dropped.
//!
//! *Invariant:* time is an argument. Nothing here reads a clock.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The quantiles that upstream's components write.
pub(super) const QUANTILES: [f64; 3] = [0.5, 0.9, 0.99];
/// The slots that the window of time is divided into.
const SLOTS: usize = 5;
/// The bound of the first class in seconds, the factor between classes, and their number: up to 100 seconds.
const FIRST: f64 = 1e-6;
const FACTOR: f64 = 1.05;
const CLASSES: usize = 380;

/// Sum, number and quantiles of observed values. Quantiles are of a window of time, sum and number of all time.
#[derive(Debug)]
pub struct Summary {
    slot_age: Duration,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// The counts of each slot by class; empty for a slot without observations.
    slots: [Vec<u32>; SLOTS],
    newest: usize,
    newest_began: Instant,
    sum: f64,
    count: u64,
}

/// A summary at one time.
pub(super) struct Taken {
    pub(super) quantiles: [f64; QUANTILES.len()],
    pub(super) sum: f64,
    pub(super) count: u64,
}

impl Summary {
    /// An empty summary of values that were observed at most `max_age` ago.
    pub fn new(max_age: Duration, now: Instant) -> Summary {
        let state = State { slots: Default::default(), newest: 0, newest_began: now, sum: 0.0, count: 0 };
        Summary { slot_age: max_age / SLOTS as u32, state: Mutex::new(state) }
    }

    /// Counts a value in seconds.
    pub fn observe(&self, value: f64, now: Instant) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.turn(now, self.slot_age);
        let newest = state.newest;
        let slot = &mut state.slots[newest];
        if slot.is_empty() {
            slot.resize(CLASSES, 0);
        }
        let class = &mut slot[class_of(value)];
        *class = class.saturating_add(1);
        state.sum += value;
        state.count += 1;
    }

    pub(super) fn take(&self, now: Instant) -> Taken {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.turn(now, self.slot_age);
        let mut counts = [0u64; CLASSES];
        for slot in &state.slots {
            for (sum, count) in counts.iter_mut().zip(slot) {
                *sum += u64::from(*count);
            }
        }
        Taken { quantiles: QUANTILES.map(|of| quantile(&counts, of)), sum: state.sum, count: state.count }
    }
}

impl State {
    /// Drops the slots that are too old.
    fn turn(&mut self, now: Instant, slot_age: Duration) {
        for _ in 0..SLOTS {
            if now.saturating_duration_since(self.newest_began) < slot_age {
                return;
            }
            self.newest = (self.newest + 1) % SLOTS;
            self.slots[self.newest] = Vec::new();
            self.newest_began += slot_age;
        }
        // All are dropped.
        self.newest_began = self.newest_began.max(now);
    }
}

fn class_of(value: f64) -> usize {
    if value <= FIRST {
        return 0;
    }
    // Casts of floats saturate.
    ((value / FIRST).ln() / FACTOR.ln()).ceil().min((CLASSES - 1) as f64) as usize
}

/// The middle of the class that contains a quantile; not a number without observations.
fn quantile(counts: &[u64; CLASSES], of: f64) -> f64 {
    let total: u64 = counts.iter().sum();
    let rank = (of * total as f64).ceil();
    let mut below = 0;
    for (class, count) in counts.iter().enumerate() {
        below += count;
        if *count > 0 && below as f64 >= rank {
            return FIRST * FACTOR.powf(class as f64 - 0.5);
        }
    }
    f64::NAN
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn is_near(found: f64, expected: f64) -> bool {
        (found / expected - 1.0).abs() < 0.03
    }

    #[test]
    fn quantiles_are_right_within_their_class() {
        let now = Instant::now();
        let summary = Summary::new(HOUR, now);
        assert!(summary.take(now).quantiles.iter().all(|quantile| quantile.is_nan()));
        (1..=1000).for_each(|n| summary.observe(f64::from(n) / 1000.0, now));
        let taken = summary.take(now);
        let [half, most, nearly_all] = taken.quantiles;
        assert!(
            is_near(half, 0.5) && is_near(most, 0.9) && is_near(nearly_all, 0.99),
            "{:?}",
            taken.quantiles
        );
        assert!((taken.sum - 500.5).abs() < 1e-6);
        assert_eq!(taken.count, 1000);
    }

    #[test]
    fn extreme_values_have_a_class() {
        for value in [f64::NEG_INFINITY, -1.0, 0.0, 1e-9, 1e9, f64::INFINITY, f64::NAN] {
            assert!(class_of(value) < CLASSES, "{value}");
        }
    }

    #[test]
    fn old_values_are_dropped_from_the_quantiles_alone() {
        let began = Instant::now();
        let summary = Summary::new(5 * HOUR, began);
        summary.observe(1.0, began);
        summary.observe(2.0, began + 3 * HOUR);
        let at = |hours: u32| summary.take(began + hours * HOUR).quantiles[0];
        assert!(is_near(at(4), 1.0));
        assert!(is_near(at(5), 2.0), "the first is too old");
        assert!(at(8).is_nan());
        // A long silence, and then another value.
        summary.observe(3.0, began + 100 * HOUR);
        assert!(is_near(at(100), 3.0));
        let taken = summary.take(began + 100 * HOUR);
        assert!((taken.sum - 6.0).abs() < 1e-9);
        assert_eq!(taken.count, 3);
    }
}
