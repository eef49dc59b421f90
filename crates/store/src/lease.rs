//! Leases, and the keys that are deleted with them.
//!
//! Invariants: a key is in the lease of its live entry and in no other; a lease here is also on disk. While running, deadlines
//! are monotonic; on disk they are wall-clock time, and at load the remaining time is limited to the lease's own length, so
//! that a clock that was set back cannot extend one for ever.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use crate::{Event, LeaseId};

/// The time to live of a lease, and its deadline.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Term {
    pub(crate) ttl: Duration,
    pub(crate) deadline: Instant,
}

impl Term {
    pub(crate) fn starting(now: Instant, ttl: Duration) -> Term {
        Term { ttl, deadline: now + ttl }
    }

    pub(crate) fn restore(ttl_ms: u64, expires_ms: u64, now: Instant) -> Term {
        let ttl = Duration::from_millis(ttl_ms);
        let left = Duration::from_millis(expires_ms.saturating_sub(wall_ms(SystemTime::now())));
        Term { ttl, deadline: now + left.min(ttl) }
    }

    pub(crate) fn ttl_ms(&self) -> u64 {
        u64::try_from(self.ttl.as_millis()).unwrap_or(u64::MAX)
    }

    pub(crate) fn expires_ms(&self) -> u64 {
        let left = self.deadline.saturating_duration_since(Instant::now());
        wall_ms(SystemTime::now() + left)
    }
}

fn wall_ms(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// A lease as a reader sees it.
#[derive(Clone, Debug)]
pub struct LeaseState {
    pub ttl: Duration,
    /// The time until it expires, unless it is kept alive.
    pub remaining: Duration,
    /// Its keys, in order.
    pub keys: Vec<Arc<str>>,
}

#[derive(Debug)]
struct Lease {
    term: Term,
    keys: BTreeSet<Arc<str>>,
}

#[derive(Debug, Default)]
pub(crate) struct Leases {
    leases: BTreeMap<LeaseId, Lease>,
    /// The deadlines of all leases, in order.
    deadlines: BTreeSet<(Instant, LeaseId)>,
    /// The highest id ever granted.
    pub(crate) last: u64,
}

impl Leases {
    pub(crate) fn get(&self, id: LeaseId) -> Option<Term> {
        self.leases.get(&id).map(|lease| lease.term)
    }

    pub(crate) fn state(&self, id: LeaseId, now: Instant) -> Option<LeaseState> {
        let Term { ttl, deadline } = self.get(id)?;
        let remaining = deadline.saturating_duration_since(now);
        Some(LeaseState { ttl, remaining, keys: self.keys(id) })
    }

    /// Grants, renews or (with `None`) revokes a lease.
    pub(crate) fn set(&mut self, id: LeaseId, term: Option<Term>) {
        self.last = self.last.max(id.0);
        if let Some(before) = self.get(id) {
            self.deadlines.remove(&(before.deadline, id));
        }
        if let Some(term) = term {
            self.deadlines.insert((term.deadline, id));
        }
        match term {
            None => {
                self.leases.remove(&id);
            }
            Some(term) => match self.leases.get_mut(&id) {
                Some(lease) => lease.term = term,
                None => {
                    self.leases.insert(id, Lease { term, keys: BTreeSet::new() });
                }
            },
        }
    }

    /// All leases.
    pub(crate) fn terms(&self) -> impl Iterator<Item = (LeaseId, Term)> {
        self.leases.iter().map(|(id, lease)| (*id, lease.term))
    }

    pub(crate) fn attach(&mut self, key: &Arc<str>, id: LeaseId) {
        if let Some(lease) = self.leases.get_mut(&id) {
            lease.keys.insert(Arc::clone(key));
        }
    }

    pub(crate) fn apply(&mut self, event: &Event) {
        let before = event.previous.as_ref().and_then(|entry| entry.lease);
        let after = event.current.as_ref().and_then(|entry| entry.lease);
        if before != after
            && let Some(lease) = before.and_then(|id| self.leases.get_mut(&id))
        {
            lease.keys.remove(&event.key);
        }
        if let Some(id) = after {
            self.attach(&event.key, id);
        }
    }

    pub(crate) fn keys(&self, id: LeaseId) -> Vec<Arc<str>> {
        self.leases.get(&id).map(|lease| lease.keys.iter().cloned().collect()).unwrap_or_default()
    }

    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    /// The leases that have expired, the first ones first.
    pub(crate) fn expired(&self, now: Instant) -> Vec<LeaseId> {
        self.deadlines.iter().take_while(|(deadline, _)| *deadline <= now).map(|(_, id)| *id).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deadlines_follow_grants_renewals_and_revocations() {
        let start = Instant::now();
        let term = |seconds| Some(Term::starting(start, Duration::from_secs(seconds)));
        let mut leases = Leases::default();
        for (id, seconds) in [(1, 30), (2, 10), (3, 20), (4, 10)] {
            leases.set(LeaseId(id), term(seconds));
        }
        let at = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(leases.next_deadline(), Some(at(10)));
        assert_eq!(leases.expired(at(20)), [2, 4, 3].map(LeaseId));
        leases.set(LeaseId(2), term(40));
        leases.set(LeaseId(4), None);
        leases.set(LeaseId(4), None);
        assert_eq!((leases.next_deadline(), leases.expired(at(19))), (Some(at(20)), vec![]));
        assert_eq!(leases.expired(at(40)), [3, 1, 2].map(LeaseId));
        for id in 1..=4 {
            leases.set(LeaseId(id), None);
        }
        assert_eq!(leases.next_deadline(), None);
    }
}
