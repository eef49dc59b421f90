//! Who is told about commits.
//!
//! Invariants: an observer registered at revision r is given every event after r under its prefix,
//! once, in order, and nothing before; publishing and registering exclude each other, while plain
//! reads only ever wait for the map to be updated, not for observers.

use std::sync::Arc;

use parking_lot::{Mutex, RwLock};

use crate::{Entry, Event, Observer, Revision, plan::Write, state::State};

struct Subscription {
    prefix: Box<str>,
    observer: Arc<dyn Observer>,
}

#[derive(Default)]
pub(crate) struct Observers {
    subscriptions: Mutex<Subscriptions>,
}

#[derive(Default)]
struct Subscriptions {
    closed: bool,
    active: Vec<Subscription>,
}

impl Observers {
    /// Registers an observer; `snapshot` sees the state its events continue from.
    pub(crate) fn subscribe<T>(
        &self,
        state: &RwLock<State>,
        prefix: &str,
        observer: Arc<dyn Observer>,
        snapshot: impl FnOnce(&State) -> T,
    ) -> T {
        let mut subscriptions = self.subscriptions.lock();
        if subscriptions.closed {
            observer.closed();
        } else {
            subscriptions.active.push(Subscription { prefix: prefix.into(), observer });
        }
        snapshot(&state.read())
    }

    /// Makes the writes visible to readers, then tells the observers.
    pub(crate) fn publish(&self, state: &RwLock<State>, writes: &[Write]) {
        let Some(last) = writes.last() else { return };
        let revision = last.event.revision;
        let mut subscriptions = self.subscriptions.lock();
        {
            let mut state = state.write();
            for write in writes {
                state.apply(&write.event);
            }
        }
        subscriptions.active.retain(|subscription| !subscription.observer.finished());
        let mut events: Vec<Arc<Event>> = Vec::with_capacity(writes.len());
        for subscription in &subscriptions.active {
            events.clear();
            let all = writes.iter().map(|write| &write.event);
            events.extend(all.filter(|event| event.key.starts_with(&*subscription.prefix)).cloned());
            if !events.is_empty() {
                subscription.observer.apply(&events, revision);
            }
        }
    }

    pub(crate) fn close(&self) {
        let mut subscriptions = self.subscriptions.lock();
        subscriptions.closed = true;
        for subscription in subscriptions.active.drain(..) {
            subscription.observer.closed();
        }
    }
}

/// The entries under a prefix and the revision they are the state of.
pub(crate) fn snapshot(state: &State, prefix: &str) -> (Revision, Vec<Arc<Entry>>) {
    (state.revision, state.iter(prefix, "").cloned().collect())
}
