//! The work that costs do not count: upstream prices the comparison of two lists by their length, whatever they contain,
//! and a list that contains another one twice, and so on, contains far more than its text is long.
//!
//! Functions that visit nested values spend a step for each. The evaluator allows them as many steps as the remaining
//! cost pays for. Outside of an evaluation nothing is counted.

use std::cell::Cell;

use crate::error::{Error, Result};

thread_local! {
    /// The steps that the running call may still take.
    static LEFT: Cell<u64> = const { Cell::new(u64::MAX) };
}

/// Counts the visit of some values.
pub(crate) fn spend(steps: u64) -> Result<()> {
    LEFT.with(|left| {
        let rest = left.get().saturating_sub(steps);
        left.set(rest);
        if rest == 0 { Err(Error::Cancelled) } else { Ok(()) }
    })
}

/// Runs a call with so many steps, and returns what it took. A call that exhausts them is cancelled, also if it ignored
/// that.
pub(crate) fn within<T>(steps: u64, call: impl FnOnce() -> Result<T>) -> (Result<T>, u64) {
    let outer = LEFT.replace(steps);
    let result = call();
    match LEFT.replace(outer) {
        0 => (Err(Error::Cancelled), steps),
        left => (result, steps - left),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_end_when_their_steps_are_spent() {
        assert_eq!(within(10, || spend(9)), (Ok(()), 9));
        assert_eq!(within(10, || spend(10)), (Err(Error::Cancelled), 10));
        let ignores = || spend(20).or(Ok(()));
        assert_eq!(within(10, ignores), (Err(Error::Cancelled), 10));
        assert_eq!(spend(1 << 40), Ok(()), "outside of a call");
    }
}
