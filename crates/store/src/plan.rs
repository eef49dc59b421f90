//! Plans the changes of a batch of requests, without applying them.
//!
//! A [`Planner`] sees the published state plus everything decided before in the same batch, so a conflict fails only its own
//! transaction. Pure: when the write to disk fails, the plan is dropped and its revisions stay unused.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::{Duration, Instant},
};

use crate::{
    Committed, Entry, Error, Event, LeaseId, NewValue, Op, Revision, Txn,
    lease::{Leases, Term},
    state::{self, State},
};

/// One write: an event and the digest of the live entries after it.
#[derive(Debug)]
pub(crate) struct Write {
    pub(crate) event: Arc<Event>,
    pub(crate) digest: u64,
}

/// The changes of a batch, in order.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    pub(crate) writes: Vec<Write>,
    /// Leases that are granted, renewed, or (`None`) revoked.
    pub(crate) leases: BTreeMap<LeaseId, Option<Term>>,
    pub(crate) compacted: Option<Revision>,
}

impl Changes {
    pub(crate) fn is_empty(&self) -> bool {
        self.writes.is_empty() && self.leases.is_empty() && self.compacted.is_none()
    }
}

pub(crate) struct Planner<'a> {
    state: &'a State,
    leases: &'a Leases,
    now: Instant,
    compacted: Revision,
    /// The last assigned revision, published or not.
    assigned: Revision,
    /// The revision of the last write that would be visible to the next transaction.
    visible: Revision,
    digest: u64,
    /// Keys changed by this batch.
    changed: HashMap<Arc<str>, Option<Arc<Entry>>>,
    last_lease: u64,
    changes: Changes,
}

impl<'a> Planner<'a> {
    pub(crate) fn new(
        state: &'a State,
        leases: &'a Leases,
        compacted: Revision,
        assigned: Revision,
        now: Instant,
    ) -> Self {
        Planner {
            state,
            leases,
            now,
            compacted,
            assigned,
            visible: state.revision,
            digest: state.digest,
            changed: HashMap::new(),
            last_lease: leases.last,
            changes: Changes::default(),
        }
    }

    /// The changes of the whole batch and the last assigned revision.
    pub(crate) fn finish(self) -> (Changes, Revision) {
        (self.changes, self.assigned)
    }

    pub(crate) fn txn(&mut self, txn: Txn) -> Result<Committed, Error> {
        txn.validate()?;
        let mut currents = Vec::with_capacity(txn.ops.len());
        for (index, op) in txn.ops.iter().enumerate() {
            let current = self.current(op.key());
            if !op.expect().holds(current.as_ref()) {
                return Err(Error::Conflict { op: index, current });
            }
            if let Op::Put { lease: Some(id), .. } = op
                && self.term(*id).is_none()
            {
                return Err(Error::UnknownLease);
            }
            currents.push(current);
        }
        let mut entries = Vec::with_capacity(txn.ops.len());
        let mut revisions = Vec::with_capacity(txn.ops.len());
        for (op, current) in txn.ops.into_iter().zip(currents) {
            let (entry, revision) = match op {
                Op::Check { .. } => (current, 0),
                Op::Delete { .. } => match current {
                    Some(entry) => (Some(Arc::clone(&entry)), self.delete(entry)),
                    None => (None, 0),
                },
                Op::Put { key, value, lease, .. } => {
                    let entry = self.put(key, value, lease, current);
                    let revision = entry.mod_revision;
                    (Some(entry), revision)
                }
                Op::Retire { key, value, .. } => {
                    let entry = self.put(key, value, None, current);
                    let revision = self.delete(Arc::clone(&entry));
                    (Some(entry), revision)
                }
            };
            entries.push(entry);
            revisions.push(revision);
        }
        Ok(Committed { revision: self.visible, entries, revisions })
    }

    pub(crate) fn grant(&mut self, ttl: Duration) -> LeaseId {
        self.last_lease += 1;
        let id = LeaseId(self.last_lease);
        self.changes.leases.insert(id, Some(Term::starting(self.now, ttl)));
        id
    }

    pub(crate) fn keep_alive(&mut self, id: LeaseId) -> Result<(), Error> {
        let term = self.term(id).ok_or(Error::UnknownLease)?;
        self.changes.leases.insert(id, Some(Term::starting(self.now, term.ttl)));
        Ok(())
    }

    /// Revokes a lease and deletes its keys.
    pub(crate) fn revoke(&mut self, id: LeaseId) -> Result<(), Error> {
        self.term(id).ok_or(Error::UnknownLease)?;
        let mut keys = self.leases.keys(id);
        keys.extend(self.changed.keys().cloned());
        keys.sort_unstable();
        keys.dedup();
        for key in keys {
            if let Some(entry) = self.current(&key).filter(|entry| entry.lease == Some(id)) {
                self.delete(entry);
            }
        }
        self.changes.leases.insert(id, None);
        Ok(())
    }

    /// Revokes all expired leases.
    pub(crate) fn expire(&mut self) {
        for id in self.leases.expired(self.now) {
            let still_over = self.term(id).is_some_and(|term| term.deadline <= self.now);
            if still_over {
                let revoked = self.revoke(id);
                debug_assert!(revoked.is_ok(), "a lease with a term can be revoked");
            }
        }
    }

    pub(crate) fn compact(&mut self, revision: Revision) -> Result<(), Error> {
        if revision > self.state.revision {
            return Err(Error::Future { requested: revision, current: self.state.revision });
        }
        if revision > self.compacted {
            self.compacted = revision;
            self.changes.compacted = Some(revision);
        }
        Ok(())
    }

    fn current(&self, key: &Arc<str>) -> Option<Arc<Entry>> {
        match self.changed.get(key) {
            Some(changed) => changed.clone(),
            None => self.state.get(key).cloned(),
        }
    }

    fn term(&self, id: LeaseId) -> Option<Term> {
        match self.changes.leases.get(&id) {
            Some(term) => *term,
            None => self.leases.get(id),
        }
    }

    fn put(
        &mut self,
        key: Arc<str>,
        value: NewValue,
        lease: Option<LeaseId>,
        previous: Option<Arc<Entry>>,
    ) -> Arc<Entry> {
        let revision = self.next_revision();
        // All versions of a key share its first allocation.
        let key = previous.as_ref().map_or(key, |entry| Arc::clone(&entry.key));
        let entry = Arc::new(Entry {
            key: Arc::clone(&key),
            note: value.note.clone(),
            value: value.at(revision),
            create_revision: previous.as_ref().map_or(revision, |entry| entry.create_revision),
            mod_revision: revision,
            version: previous.as_ref().map_or(0, |entry| entry.version) + 1,
            lease,
        });
        self.write(Event { revision, key, current: Some(Arc::clone(&entry)), previous });
        entry
    }

    fn delete(&mut self, entry: Arc<Entry>) -> Revision {
        let revision = self.next_revision();
        let key = Arc::clone(&entry.key);
        self.write(Event { revision, key, current: None, previous: Some(entry) });
        revision
    }

    fn next_revision(&mut self) -> Revision {
        self.assigned += 1;
        self.visible = self.assigned;
        self.assigned
    }

    fn write(&mut self, event: Event) {
        self.digest = state::advance(self.digest, &event);
        self.changed.insert(Arc::clone(&event.key), event.current.clone());
        self.changes.writes.push(Write { event: Arc::new(event), digest: self.digest });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Expect;

    fn put(key: &str, expect: Expect, lease: Option<LeaseId>) -> Txn {
        Op::Put { key: key.into(), expect, value: NewValue::default(), lease }.into()
    }

    fn check(steps: impl FnOnce(&mut Planner<'_>)) -> Vec<String> {
        let (state, leases) = (State::default(), Leases::default());
        let mut planner = Planner::new(&state, &leases, 0, 10, Instant::now());
        steps(&mut planner);
        let show = |write: &Write| {
            let event = &write.event;
            let sign = if event.current.is_some() { '+' } else { '-' };
            format!("{}{sign}{}", event.revision, event.key)
        };
        planner.finish().0.writes.iter().map(show).collect()
    }

    #[test]
    fn a_conflict_fails_only_its_own_transaction() {
        let writes = check(|planner| {
            planner.txn(put("a", Expect::Absent, None)).unwrap();
            let second = planner.txn(put("a", Expect::Absent, None));
            let Err(Error::Conflict { op: 0, current: Some(current) }) = second else { panic!() };
            assert_eq!(current.mod_revision, 11, "sees what came before it in the batch");
            let third = planner.txn(put("a", Expect::ModRevision(11), None)).unwrap();
            assert_eq!(third.revision, 12, "a conflict uses no revision");
        });
        assert_eq!(writes, ["11+a", "12+a"]);
    }

    #[test]
    fn watchers_see_the_last_version_of_a_retired_key() {
        let writes = check(|planner| {
            planner.txn(put("a", Expect::Absent, None)).unwrap();
            let retire =
                |expect| Txn::from(Op::Retire { key: "a".into(), expect, value: NewValue::default() });
            let stale = planner.txn(retire(Expect::ModRevision(10)));
            assert!(matches!(stale, Err(Error::Conflict { op: 0, .. })));
            let retired = planner.txn(retire(Expect::ModRevision(11))).unwrap();
            let last = retired.entries[0].as_ref().unwrap();
            assert_eq!((last.mod_revision, last.version, retired.revisions[0]), (12, 2, 13));
            planner.txn(put("a", Expect::Absent, None)).unwrap();
        });
        assert_eq!(writes, ["11+a", "12+a", "13-a", "14+a"]);
    }

    #[test]
    fn a_revoked_lease_deletes_keys_of_the_same_batch() {
        let writes = check(|planner| {
            let lease = Some(planner.grant(Duration::from_secs(1)));
            planner.txn(put("kept", Expect::Any, lease)).unwrap();
            planner.txn(put("gone", Expect::Any, lease)).unwrap();
            planner.txn(put("kept", Expect::Any, None)).unwrap();
            planner.revoke(LeaseId(1)).unwrap();
            let late = planner.txn(put("late", Expect::Any, lease));
            assert!(matches!(late, Err(Error::UnknownLease)));
            assert!(matches!(planner.keep_alive(LeaseId(1)), Err(Error::UnknownLease)));
        });
        assert_eq!(writes, ["11+kept", "12+gone", "13+kept", "14-gone"]);
    }
}
