//! The limits on proxied endpoints: of one Service, and of all together.
//!
//! Each port of a Service leads to each of its endpoints, so the rules are as many as ports times endpoints. An
//! EndpointSlice has up to 1,000 endpoints and 20,000 ports, a Service any number of slices and one port for each
//! number and protocol: the owner of a namespace could make every node write billions of rules. Upstream has no limit.
//!
//! *Invariant:* a Service of at most `MOST_OF_SMALL` pairs is always proxied whole, however many pairs others have.

use std::collections::HashMap;

use corten_client::Key;

/// The most pairs of a port and an endpoint of one Service, for one IP family.
const MOST_OF_SERVICE: usize = 50_000;
/// The most pairs of all Services together.
const MOST_OF_ALL: usize = 500_000;
/// The pairs that each Service may always have.
const MOST_OF_SMALL: usize = 2_000;

/// The pairs that Services have, of one IP family.
#[derive(Debug, Default)]
pub(crate) struct Limits {
    given: HashMap<Key, Given>,
    total: usize,
}

#[derive(Debug)]
struct Given {
    pairs: usize,
    is_cut: bool,
}

impl Limits {
    /// Returns the number of pairs that a Service may have from now on. Pairs that other Services release are available to it at
    /// its next change.
    pub(crate) fn allow(&mut self, service: &Key, pairs: usize) -> usize {
        let was_cut = self.given.remove(service).is_some_and(|given| {
            self.total -= given.pairs;
            given.is_cut
        });
        let left = MOST_OF_ALL.saturating_sub(self.total).max(MOST_OF_SMALL);
        let allowed = pairs.min(MOST_OF_SERVICE).min(left);
        let is_cut = allowed < pairs;
        if is_cut && !was_cut {
            let (namespace, name) = (service.namespace.as_str(), service.name.as_str());
            tracing::warn!(
                namespace,
                service = name,
                pairs,
                limit = allowed,
                "service has too many ports times endpoints; only some of its endpoints are proxied"
            );
        }
        if allowed > 0 {
            self.total += allowed;
            self.given.insert(service.clone(), Given { pairs: allowed, is_cut });
        }
        allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_services_leave_room_for_small_ones() {
        let mut limits = Limits::default();
        let key = |i: usize| Key::new("n", format!("s{i}"));
        assert_eq!(limits.allow(&key(0), 10), 10);
        assert_eq!(limits.allow(&key(1), usize::MAX), MOST_OF_SERVICE);
        for i in 2..40 {
            limits.allow(&key(i), MOST_OF_SERVICE);
        }
        assert_eq!(limits.allow(&key(40), MOST_OF_SERVICE), MOST_OF_SMALL, "there is no room left");
        assert_eq!(limits.allow(&key(41), MOST_OF_SMALL), MOST_OF_SMALL, "small ones have theirs anyway");
        assert!(limits.total <= MOST_OF_ALL + 40 * MOST_OF_SMALL);
        for i in 0..42 {
            assert_eq!(limits.allow(&key(i), 0), 0);
        }
        assert!(limits.total == 0 && limits.given.is_empty(), "what is gone takes nothing");
    }
}
