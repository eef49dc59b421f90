//! Snapshots: the live entries in one file, so that the logs before it need not be loaded.
//!
//! The committer takes a snapshot between two commits, and another thread writes it: entries are immutable and shared, so the
//! file has the state of one revision, whatever is committed meanwhile.

use std::sync::Arc;

use super::{
    file::{LogFile, START},
    frame::Builder,
    generations::Generations,
    record::{Digest, Record, Totals, Write},
};
use crate::{
    Entry, Error, LeaseId, Revision, Sealing,
    lease::{Leases, Term},
    sealing,
    state::State,
};

/// The target size of a frame.
const FRAME: u64 = 64 << 10;
/// The bytes between syncs: one sync at the end would delay commits.
const SYNC: u64 = 4 << 20;

pub(crate) struct Snapshot {
    entries: Vec<Arc<Entry>>,
    leases: Vec<(LeaseId, Term)>,
    totals: Totals,
}

impl Snapshot {
    pub(crate) fn of(state: &State, leases: &Leases, compacted: Revision) -> Self {
        let (revision, digest, last_lease) = (state.revision, Digest::OfKeys(state.digest), leases.last);
        Snapshot {
            entries: state.all().cloned().collect(),
            leases: leases.terms().collect(),
            totals: Totals { revision, digest, compacted, last_lease },
        }
    }

    pub(crate) fn write(mut self, generations: &Generations) -> Result<(), Error> {
        // In the order of a log, so that both are searched in the same way.
        self.entries.sort_unstable_by_key(|entry| entry.mod_revision);
        let file = generations.create_snapshot(self.totals.revision)?;
        if let Err(error) = self.fill(&file, &*generations.sealing) {
            // A temporary file is never loaded; removing it only frees its space.
            let _ = generations.disk.remove(file.path());
            return Err(error);
        }
        generations.complete(file)
    }

    fn fill(&self, file: &LogFile, sealing: &dyn Sealing) -> Result<(), Error> {
        let mut writer = Writer { file, frame: Builder::default(), last: 0, at: START, synced: START };
        for entry in &self.entries {
            let sealed = sealing::seal(sealing, &entry.key, &entry.value)?;
            writer.push(&Record::Write(Write::live(entry, sealed.as_deref())), entry.mod_revision)?;
        }
        for (id, term) in &self.leases {
            writer.push(&Record::lease(*id, Some(term)), 0)?;
        }
        writer.push(&Record::End(self.totals), 0)?;
        writer.flush()?;
        writer.sync()
    }
}

struct Writer<'a> {
    file: &'a LogFile,
    frame: Builder,
    last: Revision,
    at: u64,
    synced: u64,
}

impl Writer<'_> {
    fn push(&mut self, record: &Record<'_>, revision: Revision) -> Result<(), Error> {
        self.frame.push(record);
        self.last = self.last.max(revision);
        if self.frame.len() < FRAME {
            return Ok(());
        }
        self.flush()?;
        if self.at - self.synced >= SYNC { self.sync() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), Error> {
        let frame = self.frame.seal(self.file.place(self.at), self.last);
        self.file.write(frame, self.at).map_err(Error::disk(self.file.path()))?;
        self.at += frame.len() as u64;
        self.frame.clear();
        Ok(())
    }

    fn sync(&mut self) -> Result<(), Error> {
        self.file.sync().map_err(Error::disk(self.file.path()))?;
        self.synced = self.at;
        self.file.announce(self.at);
        Ok(())
    }
}
