//! The committer's side of the files: appending frames, and beginning a generation.

use std::{error::Error as StdError, sync::Arc};

use super::{
    frame::Builder,
    generations::{Generation, Generations},
    record::{Record, Write},
    spare::Spare,
};
use crate::{Error, Revision, plan::Changes};

/// How much of a log is filled with zeros at a time if it has to grow: little enough to be written along with a
/// commit.
const PREPARE: u64 = 1 << 20;
/// How large a log is that was prepared as a whole, at most.
const SEGMENT: u64 = 16 << 20;
/// It takes this many of them to be worth a snapshot.
const SEGMENTS: u64 = 4;

pub(crate) struct Engine {
    generations: Arc<Generations>,
    /// The one that is written to.
    generation: Arc<Generation>,
    /// The revision of the last write.
    last: Revision,
    frame: Builder,
    /// How far the log has been filled with zeros.
    prepared: u64,
    /// What the next log will be.
    spare: Spare,
}

impl Engine {
    pub(crate) fn new(
        generations: Arc<Generations>,
        last: Revision,
        snapshot_bytes: u64,
    ) -> Result<Self, Error> {
        let generation = match generations.all()?.pop() {
            Some(generation) => generation,
            None => generations.begin(last)?,
        };
        let spare = generations.spare((snapshot_bytes / SEGMENTS).min(SEGMENT));
        Ok(Engine { generations, generation, last, frame: Builder::default(), prepared: 0, spare })
    }

    /// Makes the changes durable, all or none.
    pub(crate) fn commit(&mut self, changes: &Changes) -> Result<(), Error> {
        self.frame.clear();
        for write in &changes.writes {
            self.frame.push(&Record::Write(Write::of(&write.event, write.digest)));
        }
        for (id, term) in &changes.leases {
            self.frame.push(&Record::lease(*id, term.as_ref()));
        }
        if let Some(revision) = changes.compacted {
            self.frame.push(&Record::Compacted(revision));
        }
        if self.generation.log.end() + self.frame.len() > self.prepared && self.spare.is_ready() {
            self.go_on();
        }
        let log = &self.generation.log;
        let at = log.end();
        let last = changes.writes.last().map_or(self.last, |write| write.event.revision);
        let end = at + self.frame.seal(log.place(at), last).len() as u64;
        if end > self.prepared {
            let enough = end + PREPARE.min(self.spare.bytes());
            // Without it the commit takes longer; whether there is room for itself is for it to find out.
            if log.prepare(self.prepared.max(at)..enough).is_ok() {
                self.prepared = enough;
            }
        }
        if let Err(error) = log.write(self.frame.whole_pages(at), at).and_then(|()| log.sync()) {
            // What got there must not be found at the next open; the next commit takes its place.
            self.prepared = 0;
            self.spare.discard();
            if let Err(error) = log.cut(at) {
                tracing::warn!(%error, "cannot remove what a failed commit wrote");
            }
            return Err(Error::disk(log.path())(error));
        }
        log.announce(end);
        self.last = last;
        // A store that is hardly written to needs none.
        if end > self.prepared / 2 && end > self.spare.bytes().min(PREPARE) / 2 {
            self.spare.want();
        }
        Ok(())
    }

    /// Goes on in the log that is prepared. Without one that works, the log there is takes what comes.
    fn go_on(&mut self) {
        if let Err(error) = self.begin_generation() {
            tracing::warn!(error = &error as &dyn StdError, "cannot go on in another log");
        }
    }

    /// Goes on in a new log, for the state as it is now to be written as its snapshot; false if nothing was written
    /// to the one there is.
    pub(crate) fn begin_generation(&mut self) -> Result<bool, Error> {
        let log = &self.generation.log;
        if log.base == self.last {
            return Ok(false);
        }
        self.prepared = 0;
        // From now on its length says where its frames end.
        log.cut(log.end()).map_err(Error::disk(log.path()))?;
        self.spare.try_again();
        (self.generation, self.prepared) = match self.spare.take() {
            Some(file) => {
                (self.generations.begin_in(file, self.spare.path(), self.last)?, self.spare.bytes())
            }
            None => (self.generations.begin(self.last)?, 0),
        };
        Ok(true)
    }

    /// Whether a compaction up to a revision would free anything if a generation began.
    pub(crate) fn reaches_back(&self, compacted: Revision) -> bool {
        self.generation.log.base < compacted
    }
}
