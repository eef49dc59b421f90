//! The state that the handle, the committer and the housekeeper share.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use parking_lot::{Mutex, RwLock};
use tokio::sync::watch;

use crate::{
    Error, Event, Outcome, Program, Range, Revision,
    housekeeping::Housekeeping,
    lease::Leases,
    log::{Generations, history, load::Loaded},
    observe::Observers,
    plan::Planner,
    queue::Queue,
    state::{self, State},
};

pub(crate) struct Shared {
    pub(crate) state: RwLock<State>,
    pub(crate) leases: Mutex<Leases>,
    /// The compacted revision, advanced after it is on disk and before any file is removed.
    pub(crate) compacted: AtomicU64,
    /// The published revision.
    pub(crate) progress: watch::Sender<Revision>,
    pub(crate) observers: Observers,
    pub(crate) queue: Queue,
    pub(crate) housekeeping: Housekeeping,
    pub(crate) generations: Arc<Generations>,
}

impl Shared {
    pub(crate) fn new(loaded: Loaded, generations: Arc<Generations>, queue: Queue) -> Self {
        Shared {
            progress: watch::Sender::new(loaded.state.revision),
            state: RwLock::new(loaded.state),
            leases: Mutex::new(loaded.leases),
            compacted: AtomicU64::new(loaded.compacted),
            observers: Observers::default(),
            queue,
            housekeeping: Housekeeping::default(),
            generations,
        }
    }

    pub(crate) fn revision(&self) -> Revision {
        self.state.read().revision
    }

    pub(crate) fn check_not_compacted(&self, requested: Revision) -> Result<(), Error> {
        let compacted = self.compacted.load(Ordering::Acquire);
        if requested < compacted {
            return Err(Error::Compacted { requested, compacted });
        }
        Ok(())
    }

    pub(crate) fn check_not_future(&self, requested: Revision) -> Result<(), Error> {
        let current = self.revision();
        if requested > current {
            return Err(Error::Future { requested, current });
        }
        Ok(())
    }

    /// Runs a program that does not write.
    pub(crate) fn read(&self, program: Program) -> Result<Outcome, Error> {
        let state = self.state.read();
        let leases = self.leases.lock();
        let compacted = self.compacted.load(Ordering::Acquire);
        let sealing = &*self.generations.sealing;
        Planner::new(&state, &leases, sealing, compacted, state.revision, Instant::now()).program(program)
    }

    pub(crate) fn events_since(
        &self,
        prefix: &str,
        after: Revision,
        up_to: Revision,
        limit: usize,
    ) -> Result<Vec<Arc<Event>>, Error> {
        self.check_not_compacted(after)?;
        let limit = if limit == 0 { usize::MAX } else { limit };
        let up_to = up_to.min(self.revision());
        if up_to <= after {
            return Ok(Vec::new());
        }
        let events = history::events(&self.generations, prefix, after, up_to, limit);
        self.check_not_compacted(after)?;
        events
    }

    /// The state as of a revision: entries that have not changed since are in memory, the rest is on disk.
    pub(crate) fn range_at(
        &self,
        prefix: &str,
        from: &str,
        limit: usize,
        revision: Revision,
    ) -> Result<Range, Error> {
        self.check_not_compacted(revision)?;
        self.check_not_future(revision)?;
        let (current, mut entries) = {
            let state = self.state.read();
            if state.revision == revision {
                return Ok(state.range(prefix, from, limit));
            }
            let unchanged = state.iter(prefix, from).filter(|entry| entry.mod_revision <= revision);
            (state.revision, unchanged.cloned().collect::<Vec<_>>())
        };
        let undone = history::undo(&self.generations, prefix, revision, current);
        self.check_not_compacted(revision)?;
        let undone = undone?.into_values().flatten().filter(|entry| &*entry.key >= from);
        entries.extend(undone);
        entries.sort_unstable_by(|a, b| a.key.cmp(&b.key));
        Ok(state::page(entries.iter(), limit, revision))
    }
}
