//! Pseudorandom numbers for the choice among equal nodes; not secret.

pub(crate) struct Random(u64);

impl Random {
    /// The same seed gives the same numbers.
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed | 1)
    }

    /// A number from zero up to, not including, a limit.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        let high = (u128::from(self.0) * limit as u128) >> 64;
        usize::try_from(high).unwrap_or(0)
    }
}
