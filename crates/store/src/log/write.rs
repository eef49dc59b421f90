//! The writer of the log: appends frames, and starts generations.

use std::{error::Error as StdError, sync::Arc};

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
/// The number of prepared log files between snapshots.
const SEGMENTS: u64 = 4;

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

    /// Makes the changes durable, all or none.
    pub(crate) fn commit(&mut self, changes: &Changes) -> Result<(), Error> {
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
        if self.generation.log.end() + self.frame.len() > self.prepared && self.spare.is_ready() {
            self.continue_in_next_log()?;
        }
        let log = &self.generation.log;
        let at = log.end();
        let last = changes.writes.last().map_or(self.last, |write| write.event.revision);
        let end = at + self.frame.seal(log.place(at), last).len() as u64;
        if end > self.prepared {
            let enough = end + PREPARE.min(self.spare.bytes());
            // Without zeros the commit only takes longer; it detects a full disk itself.
            if log.prepare(self.prepared.max(at)..enough).is_ok() {
                self.prepared = enough;
            }
        }
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
        if end > self.prepared / 2 && end > self.spare.bytes().min(PREPARE) / 2 {
            self.spare.start();
        }
        Ok(())
    }

    /// Continues in the prepared log file, or in the current one if that fails.
    fn continue_in_next_log(&mut self) -> Result<(), Error> {
        match self.begin_generation() {
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
    /// empty.
    pub(crate) fn begin_generation(&mut self) -> Result<bool, Error> {
        let log = &self.generation.log;
        if log.base == self.last {
            return Ok(false);
        }
        self.prepared = 0;
        // A completed log ends with its last frame.
        log.cut(log.end())?;
        self.spare.allow_retry();
        (self.generation, self.prepared) = match self.spare.take() {
            Some(file) => {
                (self.generations.begin_in(file, self.spare.path(), self.last)?, self.spare.bytes())
            }
            None => (self.generations.begin(self.last)?, 0),
        };
        Ok(true)
    }

    /// True if a new generation would let a compaction up to a revision free space.
    pub(crate) fn reaches_back(&self, compacted: Revision) -> bool {
        self.generation.log.base < compacted
    }
}
