//! Histories of concurrent requests to several servers, and the checks that they must pass.
//!
//! Each key is a register: absent, or with a value that no other write has. Every write is conditional: a create expects
//! the key to be absent, an update or a delete expects the value that its client read. A history says when each request
//! was sent and answered. It is good if
//! - for each key there is an order of its requests that explains every response and respects that a request which was
//!   answered came before one that was sent later ([`linear`]),
//! - revisions, lists and watches agree with each other and with the acknowledged writes ([`revisions`]).
//!
//! A write without a response, or with one that leaves its outcome open, may have been carried out at any later time, or
//! never.

mod linear;
mod revisions;

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The state of a key: its value, if it exists.
pub type State = Option<String>;

/// The effect of a request on its key, with the response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Reads the state.
    Read(State),
    /// Replaces one state with another, or fails because the state is another.
    Write {
        /// The expected state.
        from: State,
        /// The new state.
        to: State,
        /// The response of the server.
        outcome: Outcome,
    },
}

/// The outcome of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It was acknowledged.
    Done,
    /// It was refused, because the state was not the expected one.
    Refused,
    /// The client does not know.
    Unknown,
}

/// A request about one key.
#[derive(Debug, Clone)]
pub struct Operation {
    /// The key.
    pub key: String,
    /// The action, with the server's response.
    pub action: Action,
    /// The revision that an acknowledged write was given.
    pub revision: Option<u64>,
    /// The time when it was sent.
    pub sent: Duration,
    /// The time when it was answered.
    pub answered: Duration,
}

/// A consistent list of all keys.
#[derive(Debug, Clone)]
pub struct List {
    /// Its revision.
    pub revision: u64,
    /// The revision and the value of each key.
    pub items: BTreeMap<String, (u64, String)>,
    /// The time when it was requested.
    pub sent: Duration,
}

/// The events of one watch of all keys, resumed as often as needed: revision, key and state.
#[derive(Debug, Clone, Default)]
pub struct Events {
    /// The revision that it began after.
    pub after: u64,
    /// The events, in the order in which they came.
    pub events: Vec<(u64, String, State)>,
}

/// Everything that clients saw.
#[derive(Debug)]
pub struct History {
    start: Instant,
    seen: Mutex<Seen>,
}

/// The records of a history.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// Requests about single keys.
    pub operations: Vec<Operation>,
    /// Consistent lists.
    pub lists: Vec<List>,
    /// Watches.
    pub watches: Vec<Events>,
}

impl Default for History {
    fn default() -> History {
        History { start: Instant::now(), seen: Mutex::default() }
    }
}

impl History {
    /// The time since the beginning.
    pub fn now(&self) -> Duration {
        self.start.elapsed()
    }

    /// Adds records.
    pub fn record(&self, add: impl FnOnce(&mut Seen)) {
        add(&mut self.seen.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// The records so far.
    pub fn seen(&self) -> Seen {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Seen {
    /// Checks everything. The error says what cannot be explained.
    pub fn check(&self) -> Result<(), String> {
        let mut keys: BTreeMap<&str, Vec<&Operation>> = BTreeMap::new();
        for operation in &self.operations {
            keys.entry(&operation.key).or_default().push(operation);
        }
        for (key, operations) in keys {
            linear::check(&operations).map_err(|error| format!("{key}: {error}"))?;
        }
        revisions::check(self)
    }

    /// The number of acknowledged writes.
    pub fn acknowledged(&self) -> usize {
        let done = |action: &Action| matches!(action, Action::Write { outcome: Outcome::Done, .. });
        self.operations.iter().filter(|operation| done(&operation.action)).count()
    }
}
