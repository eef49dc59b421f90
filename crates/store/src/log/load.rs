//! Rebuilding memory from the files when the store opens, and finding out whether all are there.
//!
//! Checked, in this order: every frame of the last snapshot and of the logs after it; that each log
//! goes on where the one before it ended; every write's link to the one it replaces; the last
//! revision against the witness; the set of live entries against the digest of the last write. A frame
//! that is not whole ends a log only if no whole frame follows: otherwise it was synced once, for every
//! commit is synced before the next is written, and acknowledged writes are about to be dropped. Files
//! that only history needs are checked when they are read.

use std::{sync::Arc, time::Instant};

use super::{
    Snapshot,
    file::{Buffer, LogFile, START},
    generations::{Generation, Generations},
    record::{Record, Totals, Write},
};
use crate::{
    Damage, Error, Event, Revision,
    lease::{Leases, Term},
    state::State,
    witness::Marks,
};

pub(crate) struct Loaded {
    pub(crate) state: State,
    pub(crate) leases: Leases,
    pub(crate) compacted: Revision,
    /// The last revision that may have been handed out.
    pub(crate) assigned: Revision,
}

/// What to do about damage: refuse, or note it and go on with what is left.
pub(crate) struct Tolerance {
    accept_loss: bool,
    lost: bool,
}

impl Tolerance {
    pub(crate) fn new(accept_loss: bool) -> Self {
        Tolerance { accept_loss, lost: false }
    }

    pub(crate) fn meet(&mut self, damage: Damage) -> Result<(), Error> {
        if !self.accept_loss {
            return Err(damage.into());
        }
        tracing::error!(%damage, "accepting a loss of acknowledged writes");
        self.lost = true;
        Ok(())
    }

    /// What was read, unless it is damaged and may be lost.
    pub(super) fn take<T>(&mut self, read: Result<T, Error>) -> Result<Option<T>, Error> {
        match read {
            Err(Error::Corrupt(damage)) => self.meet(damage).map(|()| None),
            read => read.map(Some),
        }
    }
}

pub(crate) fn load(
    generations: &Generations,
    marks: Marks,
    tolerance: &mut Tolerance,
) -> Result<Loaded, Error> {
    let mut replay = Replay::new(tolerance);
    let all = generations.all()?;
    let first = all.iter().rposition(|generation| generation.snapshot.get().is_some()).unwrap_or(0);
    if let Some(snapshot) = all.get(first).and_then(|generation| generation.snapshot.get()) {
        replay.snapshot(snapshot)?;
    }
    for Generation { log, .. } in all[first..].iter().map(|generation| &**generation) {
        replay.log(log)?;
    }
    let Replay { mut state, digest, leases, compacted, .. } = replay;
    if marks.acknowledged > state.revision {
        let (recovered, acknowledged) = (state.revision, marks.acknowledged);
        tolerance.meet(Damage::LostTail { recovered, acknowledged })?;
    }
    if state.digest != digest {
        tolerance.meet(Damage::Live { revision: state.revision })?;
    }
    let assigned = state.revision.max(marks.assigned).max(marks.acknowledged);
    if tolerance.lost {
        state.revision = assigned;
    }
    let compacted = if tolerance.lost { assigned } else { compacted };
    let mut loaded = Loaded { state, leases, compacted, assigned };
    for entry in loaded.state.all() {
        if let Some(id) = entry.lease {
            loaded.leases.attach(&entry.key, id);
        }
    }
    if tolerance.lost {
        settle(generations, &loaded)?;
    }
    Ok(loaded)
}

/// After an accepted loss: begins anew from what is left, so that the next load finds a store that is
/// smaller but whole.
fn settle(generations: &Generations, loaded: &Loaded) -> Result<(), Error> {
    let mut gone = generations.forget()?;
    generations.begin(loaded.state.revision)?;
    Snapshot::of(&loaded.state, &loaded.leases, loaded.compacted).write(generations)?;
    // One of the same revision was replaced by name.
    gone.retain(|old| old.log.base != loaded.state.revision);
    generations.remove(&gone)
}

/// The state as the records up to here have made it.
struct Replay<'a> {
    tolerance: &'a mut Tolerance,
    state: State,
    /// What the digest of the live entries ought to be.
    digest: u64,
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
            digest: 0,
            leases: Leases::default(),
            compacted: 0,
            now: Instant::now(),
            buffer: Buffer::default(),
        }
    }

    fn snapshot(&mut self, file: &LogFile) -> Result<(), Error> {
        let mut totals = None;
        let end = self.frames(file, |replay, record| {
            match record {
                Record::Write(write) => {
                    if let Some(entry) = write.entry(write.key.into()) {
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
            None => self.tolerance.meet(Damage::Log { file: file.name.to_string(), at: end }),
        }
    }

    /// Replays a log, and cuts off what was never acknowledged.
    fn log(&mut self, file: &LogFile) -> Result<(), Error> {
        if file.base != self.state.revision {
            self.tolerance.meet(Damage::Log { file: file.name.to_string(), at: 0 })?;
        }
        let end = self.frames(file, |replay, record| match record {
            Record::Write(write) => replay.write(&write),
            record => {
                replay.other(&record);
                Ok(())
            }
        })?;
        if end < file.end() && !self.tolerance.lost {
            file.cut(end).map_err(Error::file(file.path()))?;
        }
        Ok(())
    }

    /// Gives every record of a file to `replay`, and returns where the frames end.
    fn frames(
        &mut self,
        file: &LogFile,
        mut replay: impl FnMut(&mut Self, Record<'_>) -> Result<(), Error>,
    ) -> Result<u64, Error> {
        let mut buffer = std::mem::take(&mut self.buffer);
        let mut at = START;
        loop {
            while let Some(frame) = file.frame(at, &mut buffer)? {
                for record in frame.records(&file.name, at) {
                    if let Some(record) = self.tolerance.take(record.map_err(Error::from))? {
                        replay(self, record)?;
                    }
                }
                at = frame.head.end(at);
            }
            let Some(next) = file.frame_behind(at, &mut buffer)? else { break };
            self.tolerance.meet(Damage::Log { file: file.name.to_string(), at })?;
            at = next;
        }
        self.buffer = buffer;
        Ok(at)
    }

    fn write(&mut self, write: &Write<'_>) -> Result<(), Error> {
        let Write { revision, previous, digest, key, .. } = *write;
        let replaced = self.state.get(key).cloned();
        if replaced.as_ref().map_or(0, |entry| entry.mod_revision) != previous {
            self.tolerance.meet(Damage::Missing { key: key.into(), revision, previous })?;
        }
        let key = replaced.as_ref().map_or_else(|| key.into(), |entry| Arc::clone(&entry.key));
        let current = write.entry(Arc::clone(&key));
        self.state.apply(&Event { revision, key, current, previous: replaced });
        self.digest = digest;
        Ok(())
    }

    fn other(&mut self, record: &Record<'_>) {
        match *record {
            Record::Lease { id, ttl_ms, expires_ms } => {
                self.leases.set(id, Some(Term::restore(ttl_ms, expires_ms, self.now)));
            }
            Record::LeaseEnd(id) => self.leases.set(id, None),
            Record::Compacted(revision) => self.compacted = self.compacted.max(revision),
            Record::Write(_) | Record::End(_) => {}
        }
    }
}
