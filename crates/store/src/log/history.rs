//! Reads of history from the files, concurrently with the committer.
//!
//! Invariants: every frame is verified when read; a read never returns writes beyond the requested revisions, so writes that
//! are on disk but not yet published stay invisible. The caller checks for a concurrent compaction *after* reading, because
//! compaction is announced before files are removed.

use std::{collections::BTreeMap, ops::ControlFlow, sync::Arc};

use super::{
    file::{Buffer, LogFile},
    generations::{Generation, Generations},
    record::{Record, Write},
};
use crate::{Damage, Entry, Error, Event, Revision, Sealing, sealing};

/// The events under `prefix` after one revision up to and including another: the first `limit`, and the others of the last
/// one's revision.
pub(crate) fn events(
    generations: &Generations,
    prefix: &str,
    after: Revision,
    up_to: Revision,
    limit: usize,
) -> Result<Vec<Arc<Event>>, Error> {
    let past = Past::of(generations)?;
    let mut events = Vec::new();
    past.each_write(after, up_to, |write| {
        let last = events.last().map_or(0, |event: &Arc<Event>| event.revision);
        if events.len() >= limit && write.revision != last {
            return Ok(ControlFlow::Break(()));
        }
        if write.key.starts_with(prefix) {
            let previous = past.replaced(write)?;
            let key = previous.as_ref().map_or_else(|| write.key.into(), |entry| Arc::clone(&entry.key));
            let current = past.opened(write.entry(Arc::clone(&key)))?;
            events.push(Arc::new(Event { revision: write.revision, key, current, previous }));
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(events)
}

/// For every key under `prefix` that changed after one revision up to and including another: its
/// entry as of the first.
pub(crate) fn undo(
    generations: &Generations,
    prefix: &str,
    after: Revision,
    up_to: Revision,
) -> Result<BTreeMap<Arc<str>, Option<Arc<Entry>>>, Error> {
    let past = Past::of(generations)?;
    let mut entries = BTreeMap::new();
    past.each_write(after, up_to, |write| {
        if write.key.starts_with(prefix) && !entries.contains_key(write.key) {
            entries.insert(write.key.into(), past.replaced(write)?);
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(entries)
}

pub(super) struct Past<'a> {
    pub(super) generations: Vec<Arc<Generation>>,
    sealing: &'a dyn Sealing,
}

impl<'a> Past<'a> {
    pub(super) fn of(generations: &'a Generations) -> Result<Past<'a>, Error> {
        Ok(Past { generations: generations.all()?, sealing: &*generations.sealing })
    }

    pub(super) fn opened(&self, entry: Option<Arc<Entry>>) -> Result<Option<Arc<Entry>>, Error> {
        entry.map(|entry| sealing::open(self.sealing, entry).map(|(entry, _)| entry)).transpose()
    }

    /// Calls `visit` with the writes after one revision up to and including another, in order.
    fn each_write(
        &self,
        after: Revision,
        up_to: Revision,
        mut visit: impl FnMut(&Write<'_>) -> Result<ControlFlow<()>, Error>,
    ) -> Result<(), Error> {
        let mut buffer = Buffer::default();
        let first = self.generations.iter().rposition(|generation| generation.log.base <= after).unwrap_or(0);
        for Generation { log, .. } in self.generations[first..].iter().map(|generation| &**generation) {
            let mut at = log.frame_after(after)?;
            while at < log.end() {
                let frame = log.expect_frame(at, &mut buffer)?;
                for record in frame.records(&log.name, at) {
                    let Record::Write(write) = record? else { continue };
                    if write.revision > up_to {
                        return Ok(());
                    }
                    if write.revision > after && visit(&write)?.is_break() {
                        return Ok(());
                    }
                }
                at = frame.head.end(at);
            }
        }
        Ok(())
    }

    /// The entry that a write replaced.
    fn replaced(&self, write: &Write<'_>) -> Result<Option<Arc<Entry>>, Error> {
        let Write { revision, previous, key, .. } = *write;
        if previous == 0 {
            return Ok(None);
        }
        match self.entry(key, previous)? {
            Some(entry) => Ok(Some(entry)),
            None => Err(Damage::Missing { key: key.into(), revision, previous }.into()),
        }
    }

    /// The entry of a key that was put at a revision.
    pub(super) fn entry(&self, key: &str, previous: Revision) -> Result<Option<Arc<Entry>>, Error> {
        let log = self.generations.iter().rev().find(|generation| generation.log.base < previous);
        let file = match log {
            Some(generation) => Some(&generation.log),
            None => self.generations.first().and_then(|generation| generation.snapshot.get()),
        };
        let found = file.map(|file| find(file, key, previous)).transpose()?.flatten();
        self.opened(found)
    }
}

/// The entry of a key that was put at a revision, if the file has it.
fn find(file: &LogFile, key: &str, revision: Revision) -> Result<Option<Arc<Entry>>, Error> {
    let mut buffer = Buffer::default();
    let mut at = file.frame_after(revision - 1)?;
    // A snapshot may have the entries of one revision in several frames.
    while at < file.end() {
        let frame = file.expect_frame(at, &mut buffer)?;
        for record in frame.records(&file.name, at) {
            let Record::Write(write) = record? else { continue };
            if write.revision > revision {
                return Ok(None);
            }
            if write.revision == revision && write.key == key {
                return Ok(write.entry(key.into()));
            }
        }
        at = frame.head.end(at);
    }
    Ok(None)
}
