//! Backoff of containers that crash and images that cannot be pulled.
//!
//! As upstream: ten seconds, doubled each time, five minutes at most; reset after twice the maximum without a
//! failure.

use std::collections::HashMap;
use std::time::Duration;

use jiff::Timestamp;

#[derive(Debug)]
pub(crate) struct Backoffs {
    first: Duration,
    longest: Duration,
    entries: HashMap<String, Entry>,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    wait: Duration,
    updated: Timestamp,
}

impl Backoffs {
    pub(crate) fn new(first: Duration, longest: Duration) -> Backoffs {
        Backoffs { first, longest, entries: HashMap::new() }
    }

    /// The remaining backoff, if the failure happened at `since`.
    pub(crate) fn wait(&self, key: &str, since: Timestamp, now: Timestamp) -> Option<Duration> {
        let entry = self.entries.get(key).filter(|entry| !self.is_over(entry, since))?;
        let left = entry.wait.checked_sub(elapsed(since, now))?;
        (!left.is_zero()).then_some(left)
    }

    /// The whole length of the current backoff.
    pub(crate) fn length(&self, key: &str) -> Duration {
        self.entries.get(key).map_or(Duration::ZERO, |entry| entry.wait)
    }

    /// The time when the backoff was last increased.
    pub(crate) fn updated(&self, key: &str) -> Option<Timestamp> {
        self.entries.get(key).map(|entry| entry.updated)
    }

    /// Increases the backoff.
    pub(crate) fn grow(&mut self, key: &str, since: Timestamp, now: Timestamp) {
        let wait = match self.entries.get(key) {
            Some(entry) if !self.is_over(entry, since) => (entry.wait * 2).min(self.longest),
            _ => self.first,
        };
        self.entries.insert(key.to_owned(), Entry { wait, updated: now });
    }

    /// Forgets all keys with a prefix.
    pub(crate) fn forget(&mut self, prefix: &str) {
        self.entries.retain(|key, _| !key.starts_with(prefix));
    }

    fn is_over(&self, entry: &Entry, since: Timestamp) -> bool {
        elapsed(entry.updated, since) > self.longest * 2
    }
}

fn elapsed(from: Timestamp, to: Timestamp) -> Duration {
    Duration::try_from(to.duration_since(from)).unwrap_or(Duration::ZERO)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn backoff_doubles_to_its_maximum_and_is_reset() {
        let mut backoffs = Backoffs::new(Duration::from_secs(10), Duration::from_secs(300));
        let mut now = 0;
        assert_eq!(backoffs.wait("a", at(0), at(0)), None, "the first failure has no backoff");
        for expected in [10, 20, 40, 80, 160, 300, 300] {
            backoffs.grow("a", at(now), at(now));
            assert_eq!(backoffs.wait("a", at(now), at(now)), Some(Duration::from_secs(expected)));
            assert_eq!(backoffs.wait("a", at(now), at(now + 4)), Some(Duration::from_secs(expected - 4)));
            now += i64::try_from(expected).unwrap();
            assert_eq!(backoffs.wait("a", at(now - i64::try_from(expected).unwrap()), at(now)), None);
        }
        let much_later = now + 601;
        assert_eq!(backoffs.wait("a", at(much_later), at(much_later)), None);
        backoffs.grow("a", at(much_later), at(much_later));
        assert_eq!(backoffs.length("a"), Duration::from_secs(10));
    }
}
