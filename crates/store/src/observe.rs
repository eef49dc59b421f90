//! The observers of commits.
//!
//! Invariants: an observer registered at revision r gets every event after r under its prefix, once, in order, and none before;
//! publishing and registering exclude each other, while plain reads only wait for the update of the map, not for observers.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};

use crate::{Entry, Event, Observer, Revision, state::State};

#[derive(Default)]
pub(crate) struct Observers {
    subscriptions: Mutex<Subscriptions>,
}

#[derive(Default)]
struct Subscriptions {
    closed: bool,
    /// By prefix: there may be thousands, and a write concerns only those whose prefix its key begins with.
    active: HashMap<Box<str>, Vec<Arc<dyn Observer>>>,
    /// The lengths of all prefixes, each once.
    lengths: Vec<usize>,
}

impl Subscriptions {
    fn add(&mut self, prefix: &str, observer: Arc<dyn Observer>) {
        // New observers are rare: all that have finished are dropped here, whether their keys are written or not.
        self.active.retain(|_, observers| {
            observers.retain(|observer| !observer.finished());
            !observers.is_empty()
        });
        self.active.entry(prefix.into()).or_default().push(observer);
        self.lengths = self.active.keys().map(|prefix| prefix.len()).collect();
        self.lengths.sort_unstable();
        self.lengths.dedup();
    }

    /// The prefixes of subscriptions that a key begins with.
    fn prefixes_of<'k>(&self, key: &'k str) -> impl Iterator<Item = &'k str> {
        let prefixes = self.lengths.iter().filter_map(move |length| key.get(..*length));
        prefixes.filter(|prefix| self.active.contains_key(*prefix))
    }
}

impl Observers {
    /// Registers an observer; `snapshot` gets the state that its events continue from.
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
            subscriptions.add(prefix, observer);
        }
        snapshot(&state.read())
    }

    /// Makes events visible to readers, then notifies the observers.
    pub(crate) fn publish<'e>(
        &self,
        state: &RwLock<State>,
        events: impl DoubleEndedIterator<Item = &'e Arc<Event>> + Clone,
    ) {
        let Some(last) = events.clone().next_back() else { return };
        let revision = last.revision;
        let mut subscriptions = self.subscriptions.lock();
        {
            let mut state = state.write();
            for event in events.clone() {
                state.apply(event);
            }
        }
        let mut concerned: Vec<(&str, Vec<Arc<Event>>)> = Vec::new();
        for event in events {
            for prefix in subscriptions.prefixes_of(&event.key) {
                match concerned.iter_mut().find(|(known, _)| *known == prefix) {
                    Some((_, events)) => events.push(event.clone()),
                    None => concerned.push((prefix, vec![event.clone()])),
                }
            }
        }
        for (prefix, events) in &concerned {
            let Some(observers) = subscriptions.active.get_mut(*prefix) else { continue };
            observers.retain(|observer| !observer.finished());
            observers.iter().for_each(|observer| observer.apply(events, revision));
        }
    }

    pub(crate) fn close(&self) {
        let mut subscriptions = self.subscriptions.lock();
        subscriptions.closed = true;
        let observers = subscriptions.active.drain().flat_map(|(_, observers)| observers);
        observers.for_each(|observer| observer.closed());
    }
}

/// The entries under a prefix and their revision.
pub(crate) fn snapshot(state: &State, prefix: &str) -> (Revision, Vec<Arc<Entry>>) {
    (state.revision, state.iter(prefix, "").cloned().collect())
}
