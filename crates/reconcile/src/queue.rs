//! The work queue: each key is queued at most once, is processed by one worker at a time, and backs off after failures.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::time::Duration;

use corten_base::{Backoff, Clock};
use corten_client::Key;
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::metrics::Figures;

pub struct Queue {
    clock: Clock,
    retry: Backoff,
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Default)]
struct State {
    ready: VecDeque<Key>,
    /// The times at which keys were queued, and at which their processing began.
    queued: HashMap<Key, Timestamp>,
    processing: HashMap<Key, Timestamp>,
    /// Keys added while they are processed.
    dirty: HashSet<Key>,
    failures: HashMap<Key, u32>,
    /// Delayed keys, earliest first; the number makes equal times distinct.
    later: BTreeMap<(Timestamp, u64), Key>,
    due: HashMap<Key, (Timestamp, u64)>,
    number: u64,
    figures: Figures,
}

impl State {
    fn add(&mut self, key: Key, now: Timestamp) {
        if self.processing.contains_key(&key) {
            if self.dirty.insert(key) {
                self.figures.adds += 1;
            }
        } else if !self.queued.contains_key(&key) {
            self.figures.adds += 1;
            self.queued.insert(key.clone(), now);
            self.ready.push_back(key);
        }
    }

    fn add_at(&mut self, key: Key, at: Timestamp) {
        if let Some(due) = self.due.get(&key) {
            if due.0 <= at {
                return;
            }
            self.later.remove(due);
        }
        self.number += 1;
        let due = (at, self.number);
        self.later.insert(due, key.clone());
        self.due.insert(key, due);
    }

    /// Queues the keys that are due. Returns the time of the next one if none is left.
    fn wake(&mut self, now: Timestamp) -> Option<Timestamp> {
        while let Some(entry) = self.later.first_entry() {
            if entry.key().0 > now {
                return Some(entry.key().0);
            }
            let key = entry.remove();
            self.due.remove(&key);
            self.add(key, now);
        }
        None
    }
}

impl Queue {
    /// The default backoff after failures.
    pub const RETRY: Backoff =
        Backoff { first: Duration::from_millis(5), longest: Duration::from_secs(1000) };

    pub fn new(clock: Clock) -> Queue {
        Queue::retrying(clock, Queue::RETRY)
    }

    pub fn retrying(clock: Clock, retry: Backoff) -> Queue {
        Queue { clock, retry, state: Mutex::default(), changed: Notify::new() }
    }

    pub fn add(&self, key: Key) {
        let now = self.clock.now();
        self.state.lock().add(key, now);
        self.changed.notify_one();
    }

    pub fn add_after(&self, key: Key, delay: Duration) {
        let delay = SignedDuration::try_from(delay).unwrap_or(SignedDuration::MAX);
        let at = self.clock.now().checked_add(delay).unwrap_or(Timestamp::MAX);
        self.state.lock().add_at(key, at);
        self.changed.notify_one();
    }

    /// Waits for the next key. The caller owns it until `done`.
    pub async fn next(&self) -> Key {
        loop {
            let next = {
                let mut state = self.state.lock();
                let next = state.wake(self.clock.now());
                if let Some(key) = state.ready.pop_front() {
                    let now = self.clock.now();
                    let since = state.queued.remove(&key).unwrap_or(now);
                    state.figures.waited.observe(now.duration_since(since));
                    state.processing.insert(key.clone(), now);
                    let more = !state.ready.is_empty();
                    drop(state);
                    if more {
                        self.changed.notify_one();
                    }
                    return key;
                }
                next
            };
            let changed = self.changed.notified();
            match next {
                Some(at) => {
                    tokio::select! {
                        () = changed => {}
                        () = self.clock.sleep_until(at) => {}
                    }
                }
                None => changed.await,
            }
        }
    }

    /// Ends the processing of a key. After a failure it is queued again with backoff.
    pub fn done(&self, key: &Key, failed: bool, requeue_after: Option<Duration>) {
        let delay = {
            let mut state = self.state.lock();
            let now = self.clock.now();
            let since = state.processing.remove(key).unwrap_or(now);
            state.figures.worked.observe(now.duration_since(since));
            if state.dirty.remove(key) {
                state.figures.adds -= 1;
                state.add(key.clone(), now);
            }
            if failed {
                state.figures.retries += 1;
                let failures = state.failures.entry(key.clone()).or_default();
                *failures = failures.saturating_add(1);
                Some(self.retry.delay(*failures))
            } else {
                state.failures.remove(key);
                requeue_after
            }
        };
        match delay {
            Some(delay) => self.add_after(key.clone(), delay),
            None => self.changed.notify_one(),
        }
    }

    /// True if no key is queued or processed.
    pub fn is_idle(&self) -> bool {
        let mut state = self.state.lock();
        state.wake(self.clock.now());
        state.ready.is_empty() && state.processing.is_empty()
    }

    /// The metrics so far.
    pub(crate) fn figures(&self) -> Figures {
        let state = self.state.lock();
        Figures { depth: state.ready.len(), ..state.figures.clone() }
    }

    /// The number of queued keys.
    pub fn depth(&self) -> usize {
        self.state.lock().ready.len()
    }
}

#[cfg(test)]
mod tests;
