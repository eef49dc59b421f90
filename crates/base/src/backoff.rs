//! Delays that grow with every failure.

use std::time::Duration;

/// A delay that doubles from `first` up to `longest`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    pub first: Duration,
    pub longest: Duration,
}

impl Backoff {
    /// The delay after some failures in a row; none without a failure.
    pub fn delay(&self, failures: u32) -> Duration {
        let Some(doublings) = failures.checked_sub(1) else { return Duration::ZERO };
        let factor = 1u32.checked_shl(doublings).unwrap_or(u32::MAX);
        self.first.saturating_mul(factor).min(self.longest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_a_limit() {
        let backoff = Backoff { first: Duration::from_millis(5), longest: Duration::from_secs(1000) };
        let delays = [0, 1, 2, 3, 40].map(|failures| backoff.delay(failures).as_millis());
        assert_eq!(delays, [0, 5, 10, 20, 1_000_000]);
    }
}
