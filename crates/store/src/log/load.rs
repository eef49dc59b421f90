//! Loading: rebuilds the state from the files when the store opens, and checks that no file or write is missing.
//!
//! Checked, in this order: every frame of the last snapshot and of the logs after it; that each log continues where the one
//! before it ended; every write's link to the one it replaces; the last revision against the witness; the set of live entries
//! against the digest of the last write. An invalid frame ends a log only if no valid frame follows: otherwise it had been
//! synced, because every commit is synced before the next is written, and acknowledged writes would be lost. Files that only
//! history needs are checked when they are read.
//!
//! The last frame of the last log may be in memory only: its writer died before the sync, or the sync failed. It is written again
//! and synced before anything is served, so that no later power loss takes back what a client has seen.

use std::{ops::Range, sync::Arc, time::Instant};

use super::{
    Snapshot,
    file::{Buffer, LogFile, START},
    generations::{Generation, Generations},
    record::{Digest, Record, Totals, Write},
};
use crate::{
    Damage, Error, Event, Revision,
    lease::{Leases, Term},
    state::{self, State},
    witness::Marks,
};

pub(crate) struct Loaded {
    pub(crate) state: State,
    pub(crate) leases: Leases,
    pub(crate) compacted: Revision,
    /// The last revision that may have been assigned.
    pub(crate) assigned: Revision,
}

/// The handling of damage: an error, or a log message and the remaining data.
pub(crate) struct Tolerance {
    accept_loss: bool,
    lost: bool,
}

impl Tolerance {
    pub(crate) fn new(accept_loss: bool) -> Self {
        Tolerance { accept_loss, lost: false }
    }

    pub(crate) fn accept_or_fail(&mut self, damage: Damage) -> Result<(), Error> {
        if !self.accept_loss {
            return Err(damage.into());
        }
        tracing::error!(err = %damage, "opening the store despite lost acknowledged writes (--accept-data-loss)");
        self.lost = true;
        Ok(())
    }

    /// The result of a read; `None` for damage that is accepted.
    pub(crate) fn take<T>(&mut self, read: Result<T, Error>) -> Result<Option<T>, Error> {
        match read {
            Err(Error::Corrupt(damage)) => self.accept_or_fail(damage).map(|()| None),
            read => read.map(Some),
        }
    }
}

pub(crate) fn load(
    generations: &Generations,
    marks: Marks,
    first_revision: Revision,
    tolerance: &mut Tolerance,
) -> Result<Loaded, Error> {
    let mut replay = Replay::new(tolerance);
    let all = generations.all()?;
    replay.state.revision = match all.first() {
        None => first_revision,
        // The first log of a store begins at 0 or 1; any other needs its snapshot.
        Some(oldest) if oldest.snapshot.get().is_none() => oldest.log.base.min(1),
        Some(_) => 0,
    };
    let first = all.iter().rposition(|generation| generation.snapshot.get().is_some()).unwrap_or(0);
    if let Some(snapshot) = all.get(first).and_then(|generation| generation.snapshot.get()) {
        replay.snapshot(snapshot)?;
    }
    for (index, Generation { log, .. }) in all.iter().map(|generation| &**generation).enumerate().skip(first)
    {
        let tail = replay.log(log)?;
        let is_last = index + 1 == all.len();
        if replay.tolerance.lost || !is_last && tail.end == log.end() {
            continue;
        }
        if is_last {
            log.rewrite(tail.clone())?;
        }
        // A frame that was never acknowledged is dropped.
        log.cut(tail.end)?;
    }
    let is_whole = replay.has_all_live_entries();
    let Replay { mut state, leases, compacted, .. } = replay;
    if marks.acknowledged > state.revision {
        let (recovered, acknowledged) = (state.revision, marks.acknowledged);
        tolerance.accept_or_fail(Damage::LostTail { recovered, acknowledged })?;
    }
    if !is_whole {
        tolerance.accept_or_fail(Damage::Live { revision: state.revision })?;
    }
    let assigned = state.revision.max(marks.assigned).max(marks.acknowledged);
    if tolerance.lost {
        state.revision = assigned;
    }
    let is_stale = state.open(&*generations.sealing)?;
    let compacted = match () {
        () if tolerance.lost => assigned,
        () if is_stale => state.revision,
        () => compacted,
    };
    let mut loaded = Loaded { state, leases, compacted, assigned };
    for entry in loaded.state.all() {
        if let Some(id) = entry.lease {
            loaded.leases.attach(&entry.key, id);
        }
    }
    drop(all);
    if tolerance.lost || is_stale {
        write_again(generations, &loaded, tolerance.lost)?;
    }
    Ok(loaded)
}

/// Writes a snapshot of the loaded entries and removes all other files: after an accepted loss, so that the next load finds a
/// consistent store; and when values are to be encrypted in another way, so that nothing on disk is plain or needs the
/// old key.
fn write_again(generations: &Generations, loaded: &Loaded, lost: bool) -> Result<(), Error> {
    let base = loaded.state.revision;
    let mut gone = generations.take_all()?;
    if !lost && gone.last().is_some_and(|last| last.log.base == base) {
        // It has no values, and until the snapshot is on disk only it may have the last leases.
        generations.continue_in(base)?;
    } else {
        generations.begin(base)?;
    }
    Snapshot::of(&loaded.state, &loaded.leases, loaded.compacted).write(generations)?;
    // A file of the same revision was replaced by the new one.
    gone.retain(|old| old.log.base != base);
    generations.remove(&gone)
}

/// The state while records are replayed.
struct Replay<'a> {
    tolerance: &'a mut Tolerance,
    state: State,
    /// The expected digest of the live entries.
    digest: Digest,
    /// The digest of the live entries' revisions.
    of_revisions: u64,
    leases: Leases,
    compacted: Revision,
    now: Instant,
    buffer: Buffer,
}

impl<'a> Replay<'a> {
    fn new(tolerance: &'a mut Tolerance) -> Self {
        Replay {
            tolerance,
            state: State::default(),
            digest: Digest::OfRevisions(0),
            of_revisions: 0,
            leases: Leases::default(),
            compacted: 0,
            now: Instant::now(),
            buffer: Buffer::default(),
        }
    }

    fn snapshot(&mut self, file: &LogFile) -> Result<(), Error> {
        let mut totals = None;
        let Range { end, .. } = self.frames(file, |replay, record| {
            match record {
                Record::Write(write) => {
                    if let Some(entry) = write.entry(write.key.into()) {
                        replay.of_revisions ^= state::mark_of_revision(&entry);
                        replay.state.restore(entry);
                    }
                }
                Record::End(end) => totals = Some(end),
                record => replay.other(&record),
            }
            Ok(())
        })?;
        match totals {
            Some(Totals { revision, digest, compacted, last_lease }) => {
                self.state.revision = revision;
                self.digest = digest;
                self.compacted = compacted;
                self.leases.last = self.leases.last.max(last_lease);
                Ok(())
            }
            None => self.tolerance.accept_or_fail(Damage::Log { file: file.name.to_string(), at: end }),
        }
    }

    /// Replays a log, and returns the place of its last frame.
    fn log(&mut self, file: &LogFile) -> Result<Range<u64>, Error> {
        if file.base != self.state.revision {
            self.tolerance.accept_or_fail(Damage::Log { file: file.name.to_string(), at: 0 })?;
        }
        self.frames(file, |replay, record| match record {
            Record::Write(write) => replay.write(&write),
            record => {
                replay.other(&record);
                Ok(())
            }
        })
    }

    /// Calls `replay` with every record of a file, and returns the place of the last frame.
    fn frames(
        &mut self,
        file: &LogFile,
        mut replay: impl FnMut(&mut Self, Record<'_>) -> Result<(), Error>,
    ) -> Result<Range<u64>, Error> {
        let mut buffer = std::mem::take(&mut self.buffer);
        let (mut last, mut at) = (START, START);
        loop {
            while let Some(frame) = file.frame(at, &mut buffer)? {
                for record in frame.records(&file.name, at) {
                    if let Some(record) = self.tolerance.take(record.map_err(Error::from))? {
                        replay(self, record)?;
                    }
                }
                (last, at) = (at, frame.head.end(at));
            }
            let Some(next) = file.frame_behind(at, &mut buffer)? else { break };
            self.tolerance.accept_or_fail(Damage::Log { file: file.name.to_string(), at })?;
            at = next;
        }
        self.buffer = buffer;
        Ok(last..at)
    }

    fn write(&mut self, write: &Write<'_>) -> Result<(), Error> {
        let Write { revision, previous, digest, key, .. } = *write;
        let replaced = self.state.get(key).cloned();
        if replaced.as_ref().map_or(0, |entry| entry.mod_revision) != previous {
            self.tolerance.accept_or_fail(Damage::Missing { key: key.into(), revision, previous })?;
        }
        let key = replaced.as_ref().map_or_else(|| key.into(), |entry| Arc::clone(&entry.key));
        let current = write.entry(Arc::clone(&key));
        let event = Event { revision, key, current, previous: replaced };
        self.of_revisions = state::advance(self.of_revisions, &event, state::mark_of_revision);
        self.state.apply(&event);
        self.digest = digest;
        Ok(())
    }

    /// True if the live entries are those of the last write.
    fn has_all_live_entries(&self) -> bool {
        match self.digest {
            Digest::OfRevisions(digest) => digest == self.of_revisions,
            Digest::OfKeys(digest) => digest == self.state.digest,
        }
    }

    fn other(&mut self, record: &Record<'_>) {
        match *record {
            Record::Lease { id, ttl_ms, expires_ms } => {
                self.leases.set(id, Some(Term::restore(ttl_ms, expires_ms, self.now)));
            }
            Record::LeaseEnd(id) => self.leases.set(id, None),
            Record::Compacted(revision) => self.compacted = self.compacted.max(revision),
            Record::Write(_) | Record::End(_) | Record::Time(_) => {}
        }
    }
}
