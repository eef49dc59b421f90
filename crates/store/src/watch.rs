//! A pull-based stream of events, for readers that are too slow to be an [`Observer`].
//!
//! Invariants: delivers every event under its prefix after its starting revision, once, in order, and all events of a revision
//! together; its buffer is bounded and
//! never delays the committer: a watch that falls behind drops the buffer and reads the missed events from history. Only
//! missing events that are already compacted are an error.

use std::{
    collections::VecDeque,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::{Error, Event, Observer, Revision, Store};

/// The limit of buffered events; beyond it the reader uses history.
const BUFFER: usize = 1024;
/// Events read from history at a time.
const PAGE: usize = 256;

pub struct Watch {
    store: Store,
    prefix: Arc<str>,
    tail: Arc<Tail>,
    /// `next` has returned all events up to this revision.
    delivered: Revision,
}

impl Watch {
    pub(crate) fn start(store: &Store, prefix: &str, after: Revision) -> Watch {
        let tail = Arc::new(Tail::default());
        let observer: Arc<dyn Observer> = Arc::clone(&tail) as Arc<dyn Observer>;
        store.subscribe(prefix, observer, |state| tail.buffer.lock().from = state.revision);
        Watch { store: store.clone(), prefix: prefix.into(), tail, delivered: after }
    }

    /// The next events, at least one. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Result<Vec<Arc<Event>>, Error> {
        loop {
            let woken = self.tail.changed.notified();
            let step = self.tail.buffer.lock().step(self.delivered);
            match step {
                Step::Events(events) => {
                    self.delivered = events.last().map_or(self.delivered, |event| event.revision);
                    return Ok(events);
                }
                Step::Wait => woken.await,
                Step::Closed => return Err(Error::Closed),
                Step::Missed { up_to } => {
                    let prefix = Arc::clone(&self.prefix);
                    let after = self.delivered;
                    let events = self.store.events_since(&prefix, after, up_to, PAGE).await?;
                    self.delivered = match events.last() {
                        Some(last) if events.len() >= PAGE => last.revision,
                        _ => up_to,
                    };
                    if !events.is_empty() {
                        return Ok(events);
                    }
                }
            }
        }
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Watch");
        shown.field("prefix", &self.prefix).field("delivered", &self.delivered);
        shown.finish_non_exhaustive()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.tail.finished.store(true, Ordering::Release);
    }
}

#[derive(Default)]
struct Tail {
    buffer: Mutex<Buffer>,
    changed: Notify,
    finished: AtomicBool,
}

#[derive(Default)]
struct Buffer {
    /// The buffer holds every event after this revision.
    from: Revision,
    events: VecDeque<Arc<Event>>,
    closed: bool,
}

enum Step {
    Events(Vec<Arc<Event>>),
    /// Events after the delivered ones, up to this revision, are only in the history.
    Missed {
        up_to: Revision,
    },
    Wait,
    Closed,
}

impl Buffer {
    fn step(&mut self, delivered: Revision) -> Step {
        if delivered < self.from {
            // History is read through the store; a closed store has none.
            return if self.closed { Step::Closed } else { Step::Missed { up_to: self.from } };
        }
        if !self.events.is_empty() {
            return Step::Events(self.events.drain(..).collect());
        }
        if self.closed { Step::Closed } else { Step::Wait }
    }
}

impl Observer for Tail {
    fn apply(&self, events: &[Arc<Event>], revision: Revision) {
        let mut buffer = self.buffer.lock();
        if buffer.events.len() + events.len() > BUFFER {
            buffer.events = VecDeque::new();
            buffer.from = revision;
        } else {
            buffer.events.extend(events.iter().cloned());
        }
        drop(buffer);
        self.changed.notify_one();
    }

    fn finished(&self) -> bool {
        self.finished.load(Ordering::Acquire)
    }

    fn closed(&self) {
        self.buffer.lock().closed = true;
        self.changed.notify_one();
    }
}
