//! Plans the changes of a batch of requests, without applying them.
//!
//! A [`Planner`] sees the published state plus everything decided before in the same batch, so a conflict fails only its own
//! transaction. Pure: when the write to disk fails, the plan is dropped and its revisions stay unused.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;

use crate::{
    Committed, Entry, Error, Event, Keys, LeaseId, NewValue, Note, Op, Revision, Txn,
    lease::{Leases, Term},
    sealing::{self, Sealing},
    state::{self, State},
};

/// One write: an event and the digest of the live entries after it.
#[derive(Debug)]
pub(crate) struct Write {
    pub(crate) event: Arc<Event>,
    pub(crate) digest: u64,
    /// The value as it is written to disk, if that is not the entry's.
    pub(crate) sealed: Option<Vec<u8>>,
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
    pub(crate) fn has_puts(&self) -> bool {
        self.writes.iter().any(|write| write.event.current.is_some())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.writes.is_empty() && self.leases.is_empty() && self.compacted.is_none()
    }
}

pub(crate) struct Planner<'a> {
    state: &'a State,
    leases: &'a Leases,
    sealing: &'a dyn Sealing,
    now: Instant,
    compacted: Revision,
    /// The last assigned revision, published or not.
    assigned: Revision,
    /// The revision of the last write that would be visible to the next transaction.
    visible: Revision,
    digest: u64,
    /// Keys changed by this batch.
    changed: BTreeMap<Arc<str>, Option<Arc<Entry>>>,
    /// Keys that this batch put with a lease, by lease.
    leased: BTreeMap<LeaseId, Vec<Arc<str>>>,
    last_lease: u64,
    changes: Changes,
}

impl<'a> Planner<'a> {
    pub(crate) fn new(
        state: &'a State,
        leases: &'a Leases,
        sealing: &'a dyn Sealing,
        compacted: Revision,
        assigned: Revision,
        now: Instant,
    ) -> Self {
        Planner {
            state,
            leases,
            sealing,
            now,
            compacted,
            assigned,
            visible: state.revision,
            digest: state.digest,
            changed: BTreeMap::new(),
            leased: BTreeMap::new(),
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
        let revision = self.assigned + 1;
        let mut entries = Vec::with_capacity(txn.ops.len());
        let mut writes = Vec::with_capacity(txn.ops.len());
        for (op, current) in txn.ops.into_iter().zip(currents) {
            entries.push(match op {
                Op::Check { .. } => current,
                Op::Delete { .. } => {
                    writes.extend(current.clone().map(|entry| (Self::deletion(&entry, revision), None)));
                    current
                }
                Op::Put { key, value, lease, .. } => {
                    let event = Self::put(key, value, lease, current, revision);
                    let entry = event.current.clone();
                    let sealed =
                        entry.as_deref().map(|entry| self.seal(&entry.key, &entry.value)).transpose()?;
                    writes.push((event, sealed.flatten()));
                    entry
                }
            });
        }
        for (event, sealed) in writes {
            self.write(event, sealed);
        }
        Ok(Committed { revision: self.visible, entries })
    }

    /// Grants a lease with an id that the caller chose, or with the next one.
    pub(crate) fn grant(&mut self, id: Option<LeaseId>, ttl: Duration) -> Result<LeaseId, Error> {
        let chosen = id.is_some();
        let id = id.unwrap_or(LeaseId(self.last_lease + 1));
        if self.has_lease(id) {
            return Err(Error::LeaseExists);
        }
        // So that the ids that the store chooses never run out.
        if id.0 == 0 || id.0 > MAX_CHOSEN_LEASE && chosen {
            return Err(Error::Invalid("a lease id is not positive"));
        }
        self.last_lease = self.last_lease.max(id.0);
        self.changes.leases.insert(id, Some(Term::starting(self.now, ttl)));
        Ok(id)
    }

    pub(crate) fn keep_alive(&mut self, id: LeaseId) -> Result<(), Error> {
        let term = self.term(id).ok_or(Error::UnknownLease)?;
        self.changes.leases.insert(id, Some(Term::starting(self.now, term.ttl)));
        Ok(())
    }

    /// Revokes a lease and deletes its keys, in one revision.
    pub(crate) fn revoke(&mut self, id: LeaseId) -> Result<(), Error> {
        self.term(id).ok_or(Error::UnknownLease)?;
        let mut keys = self.leases.keys(id);
        keys.extend(self.leased.remove(&id).into_iter().flatten());
        keys.sort_unstable();
        keys.dedup();
        let revision = self.assigned + 1;
        for key in keys {
            if let Some(entry) = self.current(&key).filter(|entry| entry.lease == Some(id)) {
                self.write(Self::deletion(&entry, revision), None);
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

    /// Skips revisions, as those of failed commits are skipped.
    pub(crate) fn raise(&mut self, revision: Revision) -> Result<(), Error> {
        if i64::try_from(revision).is_err() {
            return Err(Error::Invalid("the revision is larger than any that etcd has"));
        }
        self.assigned = self.assigned.max(revision);
        Ok(())
    }

    /// The revision of the next write.
    pub(crate) fn next_revision(&self) -> Revision {
        self.assigned + 1
    }

    /// The revision that a reader sees.
    pub(crate) fn visible(&self) -> Revision {
        self.visible
    }

    /// Fails for a revision that is compacted or does not exist yet.
    pub(crate) fn check_readable(&self, requested: Revision) -> Result<(), Error> {
        if requested > self.visible {
            return Err(Error::Future { requested, current: self.visible });
        }
        if requested < self.compacted {
            return Err(Error::Compacted { requested, compacted: self.compacted });
        }
        Ok(())
    }

    /// The current entries of a range, in key order.
    pub(crate) fn entries<'k>(&'k self, keys: &'k Keys) -> impl Iterator<Item = Arc<Entry>> + use<'k> {
        let changed = keys.bounds().map(|bounds| self.changed.range::<str, _>(bounds));
        let mut changed = changed.into_iter().flatten().peekable();
        let mut stored = self.state.scan(keys).peekable();
        // A merge of two ordered lists, in which a change hides the stored entry.
        std::iter::from_fn(move || {
            loop {
                match (changed.peek(), stored.peek()) {
                    (Some((key, _)), Some(entry)) if entry.key < **key => return stored.next().cloned(),
                    (Some((key, current)), entry) => {
                        if entry.is_some_and(|entry| entry.key == **key) {
                            stored.next();
                        }
                        let current = (*current).clone();
                        changed.next();
                        if current.is_some() {
                            return current;
                        }
                    }
                    (None, _) => return stored.next().cloned(),
                }
            }
        })
    }

    /// The form of a value on disk, if that is not the value.
    pub(crate) fn seal(&self, key: &Arc<str>, value: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        sealing::seal(self.sealing, key, value)
    }

    pub(crate) fn has_lease(&self, id: LeaseId) -> bool {
        self.term(id).is_some()
    }

    pub(crate) fn current(&self, key: &Arc<str>) -> Option<Arc<Entry>> {
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
        key: Arc<str>,
        value: NewValue,
        lease: Option<LeaseId>,
        previous: Option<Arc<Entry>>,
        revision: Revision,
    ) -> Event {
        let note = value.note.clone();
        Self::put_bytes(key, value.at(revision), note, lease, previous, revision)
    }

    /// A put of bytes that do not contain their revision.
    pub(crate) fn put_bytes(
        key: Arc<str>,
        value: Bytes,
        note: Option<Note>,
        lease: Option<LeaseId>,
        previous: Option<Arc<Entry>>,
        revision: Revision,
    ) -> Event {
        // All versions of a key share its first allocation.
        let key = previous.as_ref().map_or(key, |entry| Arc::clone(&entry.key));
        let entry = Arc::new(Entry {
            key: Arc::clone(&key),
            note,
            value,
            create_revision: previous.as_ref().map_or(revision, |entry| entry.create_revision),
            mod_revision: revision,
            version: previous.as_ref().map_or(0, |entry| entry.version) + 1,
            lease,
        });
        Event { revision, key, current: Some(entry), previous }
    }

    pub(crate) fn deletion(entry: &Arc<Entry>, revision: Revision) -> Event {
        let (key, previous) = (Arc::clone(&entry.key), Some(Arc::clone(entry)));
        Event { revision, key, current: None, previous }
    }

    pub(crate) fn write(&mut self, event: Event, sealed: Option<Vec<u8>>) {
        self.assigned = event.revision;
        self.visible = event.revision;
        self.digest = state::advance(self.digest, &event, state::mark);
        if let Some(id) = event.current.as_ref().and_then(|entry| entry.lease) {
            self.leased.entry(id).or_default().push(Arc::clone(&event.key));
        }
        self.changed.insert(Arc::clone(&event.key), event.current.clone());
        self.changes.writes.push(Write { event: Arc::new(event), digest: self.digest, sealed });
    }
}

/// The highest lease id that a caller may choose: half of all numbers are left for those of the store.
const MAX_CHOSEN_LEASE: u64 = i64::MAX as u64;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Expect, sealing::Plain};

    fn put(key: &str, expect: Expect, lease: Option<LeaseId>) -> Txn {
        Op::Put { key: key.into(), expect, value: NewValue::default(), lease }.into()
    }

    fn check(steps: impl FnOnce(&mut Planner<'_>)) -> Vec<String> {
        let (state, leases) = (State::default(), Leases::default());
        let mut planner = Planner::new(&state, &leases, &Plain, 0, 10, Instant::now());
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
    fn a_transaction_has_one_revision() {
        let writes = check(|planner| {
            let op = |key: &str| Op::Put {
                key: key.into(),
                expect: Expect::Any,
                value: NewValue { bytes: Vec::new(), revision_at: Some(0), note: None },
                lease: None,
            };
            let done = planner.txn(Txn { ops: vec![op("a"), op("b")] }).unwrap();
            let values: Vec<_> = done.entries.iter().flatten().map(|entry| entry.value.clone()).collect();
            assert_eq!((done.revision, values), (11, vec!["11".into(), "11".into()]));
            let nothing = Op::Delete { key: "c".into(), expect: Expect::Any };
            assert_eq!(planner.txn(nothing.into()).unwrap().revision, 11, "wrote nothing");
            let a = Op::Delete { key: "a".into(), expect: Expect::ModRevision(11) };
            assert_eq!(planner.txn(Txn { ops: vec![a, op("b")] }).unwrap().revision, 12);
        });
        assert_eq!(writes, ["11+a", "11+b", "12-a", "12+b"]);
    }

    #[test]
    fn chosen_lease_ids_leave_room_for_those_of_the_store() {
        check(|planner| {
            let mut grant = |id: Option<u64>| planner.grant(id.map(LeaseId), Duration::from_secs(1));
            assert_eq!(grant(Some(5)).unwrap(), LeaseId(5));
            assert!(matches!(grant(Some(5)), Err(Error::LeaseExists)));
            assert_eq!(grant(None).unwrap(), LeaseId(6));
            for invalid in [0, u64::MAX, 1 << 63] {
                assert!(matches!(grant(Some(invalid)), Err(Error::Invalid(_))), "{invalid}");
            }
            assert_eq!(grant(Some(i64::MAX as u64)).unwrap(), LeaseId(i64::MAX as u64));
            assert_eq!(grant(None).unwrap(), LeaseId(1 << 63));
        });
    }

    #[test]
    fn a_revoked_lease_deletes_keys_of_the_same_batch() {
        let writes = check(|planner| {
            let lease = Some(planner.grant(None, Duration::from_secs(1)).unwrap());
            planner.txn(put("kept", Expect::Any, lease)).unwrap();
            planner.txn(put("gone", Expect::Any, lease)).unwrap();
            planner.txn(put("gone too", Expect::Any, lease)).unwrap();
            planner.txn(put("kept", Expect::Any, None)).unwrap();
            planner.revoke(LeaseId(1)).unwrap();
            let late = planner.txn(put("late", Expect::Any, lease));
            assert!(matches!(late, Err(Error::UnknownLease)));
            assert!(matches!(planner.keep_alive(LeaseId(1)), Err(Error::UnknownLease)));
        });
        assert_eq!(
            writes,
            ["11+kept", "12+gone", "13+gone too", "14+kept", "15-gone", "15-gone too"],
            "in one revision"
        );
    }
}
