//! The writer of the log: appends frames, and starts generations.

use std::{error::Error as StdError, io, sync::Arc};

use super::{
    frame::Builder,
    generations::{Generation, Generations},
    past::now_ms,
    record::{Record, Write},
    spare::Spare,
};
use crate::{Error, Revision, plan::Changes};

/// The size by which a growing log is filled with zeros: small enough to be written with a commit.
const PREPARE: u64 = 1 << 20;
/// The maximum size of a prepared log file.
const SEGMENT: u64 = 16 << 20;
/// The least part of the zeros that only commits without puts may use, so that a full disk can be emptied.
const RESERVE: u64 = 16 << 10;
/// The number of prepared log files between snapshots.
const SEGMENTS: u64 = 4;

/// The log file of the next generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// The prepared one, if there is one.
    Prepared,
    /// A new one that takes no space before it is written: the old one is replaced to free space.
    Small,
}

pub(crate) struct Engine {
    generations: Arc<Generations>,
    /// The current generation.
    generation: Arc<Generation>,
    /// The revision of the last write.
    last: Revision,
    frame: Builder,
    /// The end of the zeros in the log.
    prepared: u64,
    /// The next log file.
    spare: Spare,
    /// True if commits have their time.
    has_times: bool,
}

impl Engine {
    pub(crate) fn new(
        generations: Arc<Generations>,
        last: Revision,
        snapshot_bytes: u64,
        has_times: bool,
    ) -> Result<Self, Error> {
        let generation = match generations.all()?.pop() {
            Some(generation) => generation,
            None => generations.begin(last)?,
        };
        let spare = generations.spare((snapshot_bytes / SEGMENTS).min(SEGMENT));
        Ok(Engine { generations, generation, last, frame: Builder::default(), prepared: 0, spare, has_times })
    }

    /// Makes the changes durable, all or none. Puts leave the room that a snapshot of all live entries needs, so that history
    /// that is compacted can always be replaced by one.
    pub(crate) fn commit(&mut self, changes: &Changes, snapshot: u64) -> Result<(), Error> {
        self.frame.clear();
        if self.has_times {
            self.frame.push(&Record::Time(now_ms()));
        }
        for write in &changes.writes {
            self.frame.push(&Record::Write(Write::of(&write.event, write.digest, write.sealed.as_deref())));
        }
        for (id, term) in &changes.leases {
            self.frame.push(&Record::lease(*id, term.as_ref()));
        }
        if let Some(revision) = changes.compacted {
            self.frame.push(&Record::Compacted(revision));
        }
        // The head of a frame has 32 bits for its length; a longer frame could not be read again.
        if self.frame.len() > u64::from(u32::MAX) {
            self.frame.clear();
            return Err(Error::Invalid("a commit is larger than 4 GiB"));
        }
        // A new log frees the zeros of this one: a small snapshot fits into them even if others have filled the disk.
        let reserve = snapshot.min(PREPARE).min(self.spare.bytes()).max(RESERVE);
        let kept = if changes.has_puts() { reserve } else { 0 };
        if self.generation.log.end() + self.frame.len() + kept > self.prepared && self.spare.is_ready() {
            self.continue_in_next_log()?;
        }
        let log = &self.generation.log;
        let at = log.end();
        let last = changes.writes.last().map_or(self.last, |write| write.event.revision);
        let end = at + self.frame.seal(log.place(at), last).len() as u64;
        if end + kept > self.prepared {
            let missing = self.prepare(at, end, reserve, snapshot);
            if changes.has_puts()
                && let Err(error) = missing
            {
                self.spare.discard();
                return Err(error);
            }
        }
        let log = &self.generation.log;
        if let Err(error) = log.write(self.frame.whole_pages(at), at) {
            // A partly written frame must not be found at the next open; the next commit overwrites it.
            self.prepared = 0;
            self.spare.discard();
            match log.cut(at) {
                Ok(()) => {}
                Err(error @ Error::Sync { .. }) => return Err(error),
                Err(error) => {
                    tracing::warn!(err = &error as &dyn StdError, "cannot truncate log after failed commit");
                }
            }
            return Err(Error::disk(log.path())(error));
        }
        log.sync_frames()?;
        log.announce(end);
        self.last = last;
        // A store with few writes needs no spare file.
        if end > self.spare.bytes() / 4 && end > self.prepared / 2 {
            self.spare.start();
        }
        Ok(())
    }

    /// Fills the log with zeros behind a frame that is about to be written: as many as several commits need, or else only the
    /// reserve. An error if the frame, the reserve and a snapshot do not fit. Without zeros a commit only takes longer; it
    /// detects a full disk itself.
    fn prepare(&mut self, at: u64, end: u64, reserve: u64, snapshot: u64) -> Result<(), Error> {
        let log = &self.generation.log;
        let (from, free) = (self.prepared.max(at), self.generations.free_bytes());
        let ends = [end + PREPARE.min(self.spare.bytes()), end];
        // Up to its end, commits are not checked again; a new log frees the reserve.
        let fits = |end: &u64| {
            (end + reserve).saturating_sub(from) <= free
                && free.saturating_add(from) >= end.saturating_add(snapshot)
        };
        let Some(enough) = ends.into_iter().find(fits).map(|end| end + reserve) else {
            return Err(Error::NoSpace(Arc::new(io::ErrorKind::StorageFull.into())));
        };
        log.prepare(from..enough.max(from)).map_err(Error::disk(log.path()))?;
        self.prepared = enough.max(from);
        Ok(())
    }

    /// Continues in the prepared log file, or in the current one if that fails.
    fn continue_in_next_log(&mut self) -> Result<(), Error> {
        match self.begin_generation(Next::Prepared) {
            Err(error @ Error::Sync { .. }) => return Err(error),
            Err(error) => {
                tracing::warn!(
                    err = &error as &dyn StdError,
                    "cannot start new log file; appending to the current one"
                );
            }
            Ok(_) => {}
        }
        Ok(())
    }

    /// Continues in a new log file, so that the current state can be written as its snapshot; false if the current log is
    /// empty and needs none.
    pub(crate) fn begin_generation(&mut self, next: Next) -> Result<bool, Error> {
        let log = &self.generation.log;
        if log.base == self.last {
            // An earlier attempt to write its snapshot has failed.
            return Ok(
                self.generation.snapshot.get().is_none() && self.generations.is_loaded_from_before(log.base)
            );
        }
        self.prepared = 0;
        // A completed log ends with its last frame.
        log.cut(log.end())?;
        if next == Next::Small {
            self.spare.discard();
        }
        self.spare.allow_retry();
        (self.generation, self.prepared) = match self.spare.take() {
            Some(file) => {
                (self.generations.begin_in(file, self.spare.path(), self.last)?, self.spare.bytes())
            }
            None => (self.generations.begin(self.last)?, 0),
        };
        Ok(true)
    }

    /// Frees the space that is prepared for further writes.
    pub(crate) fn trim(&mut self) -> Result<(), Error> {
        self.spare.discard();
        self.spare.allow_retry();
        self.prepared = 0;
        self.generation.log.cut(self.generation.log.end())
    }

    /// True if a snapshot would let a compaction up to a revision free space.
    pub(crate) fn reaches_back(&self, compacted: Revision) -> bool {
        self.generations.is_loaded_from_before(compacted)
    }
}
