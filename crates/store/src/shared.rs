//! The state that the handle, the committer and the housekeeper of an embedded store share.

use std::{error::Error as StdError, sync::Arc, time::Instant};

use corten_serving::metrics::Histogram;
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::{
    Error, Event, Outcome, Program, Range, Revision,
    housekeeping::Housekeeping,
    lease::Leases,
    live::Live,
    log::{Generations, history, load::Loaded},
    plan::Planner,
    queue::Queue,
    state,
};

pub(crate) struct Shared {
    pub(crate) live: Arc<Live>,
    pub(crate) leases: Mutex<Leases>,
    pub(crate) queue: Queue,
    pub(crate) housekeeping: Housekeeping,
    pub(crate) generations: Arc<Generations>,
    /// The time that writing and syncing a commit took.
    pub(crate) commits: Histogram,
    /// The failed sync after which nothing is committed any more.
    pub(crate) failure: watch::Sender<Option<Error>>,
}

/// etcd's bounds for its write-ahead log.
const COMMIT_BOUNDS: [f64; 14] =
    [0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.024, 2.048, 4.096, 8.192];

impl Shared {
    pub(crate) fn new(loaded: Loaded, generations: Arc<Generations>, queue: Queue) -> Self {
        Shared {
            live: Arc::new(Live::new(loaded.state, loaded.compacted)),
            leases: Mutex::new(loaded.leases),
            queue,
            housekeeping: Housekeeping::default(),
            generations,
            commits: Histogram::new(&COMMIT_BOUNDS),
            failure: watch::Sender::new(None),
        }
    }

    /// Ends all commits after a failed sync, until the store is opened again.
    pub(crate) fn fail(&self, error: &Error) {
        tracing::error!(
            err = error as &dyn StdError,
            "cannot sync the datastore; rejecting all writes until it is opened again"
        );
        self.failure.send_if_modified(|failure| failure.replace(error.clone()).is_none());
    }

    /// Reports an error that only a failed sync makes final.
    pub(crate) fn fail_or_warn(&self, error: &Error, message: &'static str) {
        match error {
            Error::Sync { .. } => self.fail(error),
            error => tracing::warn!(err = error as &dyn StdError, "{message}"),
        }
    }

    pub(crate) fn failure(&self) -> Option<Error> {
        self.failure.borrow().clone()
    }

    /// Runs a program that does not write.
    pub(crate) fn read(&self, program: Program) -> Result<Outcome, Error> {
        let state = self.live.state.read();
        let leases = self.leases.lock();
        let compacted = self.live.compacted();
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
        self.live.check_not_compacted(after)?;
        let limit = if limit == 0 { usize::MAX } else { limit };
        let up_to = up_to.min(self.live.revision());
        if up_to <= after {
            return Ok(Vec::new());
        }
        let events = history::events(&self.generations, prefix, after, up_to, limit);
        self.live.check_not_compacted(after)?;
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
        self.live.check_not_compacted(revision)?;
        let range = self.state_at(prefix, from, limit, revision);
        self.live.check_not_compacted(revision)?;
        range
    }

    /// The same for a revision whose history is on disk, compacted or not.
    pub(crate) fn state_at(
        &self,
        prefix: &str,
        from: &str,
        limit: usize,
        revision: Revision,
    ) -> Result<Range, Error> {
        self.live.check_not_future(revision)?;
        let (current, mut entries) = {
            let state = self.live.state.read();
            if state.revision == revision {
                return Ok(state.range(prefix, from, limit));
            }
            let unchanged = state.iter(prefix, from).filter(|entry| entry.mod_revision <= revision);
            (state.revision, unchanged.cloned().collect::<Vec<_>>())
        };
        let undone = history::undo(&self.generations, prefix, revision, current)?;
        let undone = undone.into_values().flatten().filter(|entry| &*entry.key >= from);
        entries.extend(undone);
        entries.sort_unstable_by(|a, b| a.key.cmp(&b.key));
        Ok(state::page(entries.iter(), limit, revision))
    }
}
