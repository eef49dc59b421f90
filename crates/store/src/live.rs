//! The published state and its observers: every engine feeds them, every reader reads them.
//!
//! Invariants: events are published in the order of their revisions, and all events of a revision together; `progress` has a
//! revision only after all observers have processed it.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use parking_lot::RwLock;
use tokio::sync::watch;

use crate::{Error, Event, Revision, observe::Observers, state::State};

pub(crate) struct Live {
    pub(crate) state: RwLock<State>,
    /// The compacted revision, advanced before any history is removed.
    pub(crate) compacted: AtomicU64,
    /// The published revision.
    pub(crate) progress: watch::Sender<Revision>,
    pub(crate) observers: Observers,
}

impl Live {
    pub(crate) fn new(state: State, compacted: Revision) -> Live {
        Live {
            progress: watch::Sender::new(state.revision),
            state: RwLock::new(state),
            compacted: AtomicU64::new(compacted),
            observers: Observers::default(),
        }
    }

    pub(crate) fn revision(&self) -> Revision {
        self.state.read().revision
    }

    pub(crate) fn compacted(&self) -> Revision {
        self.compacted.load(Ordering::Acquire)
    }

    /// Publishes the events of whole revisions.
    pub(crate) fn publish<'e>(&self, events: impl DoubleEndedIterator<Item = &'e Arc<Event>> + Clone) {
        let Some(last) = events.clone().next_back() else { return };
        self.observers.publish(&self.state, events);
        self.progress.send_replace(last.revision);
    }

    /// Publishes that there are no further events up to a revision.
    pub(crate) fn advance(&self, revision: Revision) {
        let mut state = self.state.write();
        if state.revision < revision {
            state.revision = revision;
            drop(state);
            self.progress.send_replace(revision);
        }
    }

    pub(crate) fn check_not_compacted(&self, requested: Revision) -> Result<(), Error> {
        let compacted = self.compacted();
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
}
