//! Configurations of webhooks and policies whose stored value cannot be read: sealed with a key that the server does not have,
//! or damaged.
//!
//! Invariant: while there is one, every request that it may concern is refused, as by an upstream server, which is never ready
//! then: what it would refuse is unknown.

use std::collections::BTreeMap;
use std::sync::Arc;

use corten_api::Status;
use corten_store::{Entry, Store};

#[derive(Default)]
pub(super) struct Unreadable(BTreeMap<Arc<str>, Arc<Entry>>);

impl Unreadable {
    /// Notes the new entry of a key; true if it cannot be read.
    pub(super) fn note(&mut self, key: &str, entry: Option<&Arc<Entry>>) -> bool {
        match entry.filter(|entry| entry.unreadable().is_some()) {
            Some(entry) => {
                self.0.insert(entry.key.clone(), entry.clone());
                true
            }
            None => {
                self.0.remove(key);
                false
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The entries that can be read now, after another key was configured, and are to be noted again.
    pub(super) fn read_again(&self, store: &Store) -> Vec<Arc<Entry>> {
        self.0.values().filter_map(|entry| store.read_again(entry)).collect()
    }

    pub(super) fn check(&self) -> Result<(), Status> {
        let Some((key, entry)) = self.0.first_key_value() else { return Ok(()) };
        let reason = entry.unreadable().map_or("", |unreadable| unreadable.reason.as_str());
        Err(Status::internal(format!("not yet ready to handle request: cannot read {key}: {reason}")))
    }
}
