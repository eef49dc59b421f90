//! Objects whose stored value cannot be read: sealed with a key that the server does not have, or damaged.
//!
//! Invariants: a read that such an object belongs to fails with upstream's error, so that no client takes it for deleted;
//! watches end at it. A value that can be read later, after another key was configured, is served again.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use corten_api::Status;
use corten_api::status::{Cause, Details};
use corten_store::Entry;

use super::Cache;
use crate::object::Object;

/// The causes that an error lists, as upstream.
const MAX_CAUSES: usize = 100;

/// The unreadable objects by key.
pub(super) type UnreadableObjects = BTreeMap<Arc<str>, Arc<Entry>>;

/// The reason why the value of an entry cannot be read; empty if it can.
fn reason(entry: &Entry) -> &str {
    entry.unreadable().map_or("", |unreadable| unreadable.reason.as_str())
}

/// The error of one object, as upstream's storage shows it.
fn storage_error(entry: &Entry, key: &str) -> String {
    let reason = reason(entry);
    format!(
        "StorageError: corrupt object, Code: 7, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: {reason}"
    )
}

impl Cache {
    /// The current object of a name. An error if it exists but cannot be read.
    pub(crate) fn find(&self, namespace: &str, name: &str) -> Result<Option<Arc<Object>>, Status> {
        if let Some(object) = self.get(namespace, name) {
            return Ok(Some(object));
        }
        match self.unreadable(&self.form.key(namespace, name)) {
            // Upstream names the key without its prefix here.
            Some(entry) => {
                let key = entry.key.strip_prefix("/registry").unwrap_or(&entry.key);
                Err(Status::internal(storage_error(&entry, key)))
            }
            None => Ok(self.get(namespace, name)),
        }
    }

    /// Like [`Cache::find`], for a change of the object, whose error is a shorter one.
    pub(crate) fn find_to_change(&self, namespace: &str, name: &str) -> Result<Option<Arc<Object>>, Status> {
        if let Some(object) = self.get(namespace, name) {
            return Ok(Some(object));
        }
        match self.unreadable(&self.form.key(namespace, name)) {
            Some(entry) => Err(Status::internal(reason(&entry))),
            None => Ok(self.get(namespace, name)),
        }
    }

    /// Fails if an object cannot be read. Upstream's cache is never ready then, for lists of any revision and watches.
    pub(crate) fn check_complete(&self) -> Result<(), Status> {
        self.check_readable(&self.form.prefix).map_err(|error| {
            let why = format!("storage is (re)initializing: failed to list <unspecified>: {error}");
            Status::too_many_requests(why, 2)
        })
    }

    /// The entry of a key, if it exists and cannot be read.
    pub(crate) fn unreadable(&self, key: &str) -> Option<Arc<Entry>> {
        let known = self.inner.read().unreadable.get(key).cloned()?;
        self.read_again(vec![known]).pop()
    }

    /// Fails if an object whose key begins with `scope` cannot be read.
    pub(crate) fn check_readable(&self, scope: &str) -> Result<(), Status> {
        let known: Vec<Arc<Entry>> = {
            let inner = self.inner.read();
            let from = (Bound::Included(scope), Bound::Unbounded);
            let found = inner.unreadable.range::<str, _>(from).take_while(|(key, _)| key.starts_with(scope));
            found.map(|(_, entry)| entry.clone()).collect()
        };
        let failed = self.read_again(known);
        if failed.is_empty() { Ok(()) } else { Err(self.read_error(&failed)) }
    }

    /// Fails if the value of one of these entries cannot be read.
    pub(super) fn check_entries<'e>(
        &self,
        entries: impl Iterator<Item = &'e Arc<Entry>>,
    ) -> Result<(), Status> {
        let is_unreadable =
            |entry: &&Arc<Entry>| entry.unreadable().is_some() && self.object(entry).is_none();
        let entries: Vec<_> = entries.filter(is_unreadable).take(MAX_CAUSES).cloned().collect();
        if entries.is_empty() { Ok(()) } else { Err(self.read_error(&entries)) }
    }

    /// Tries unreadable objects once more, until as many have failed as an error lists, and returns those. Nothing is locked
    /// while values are opened.
    fn read_again(&self, entries: Vec<Arc<Entry>>) -> Vec<Arc<Entry>> {
        let (mut readable, mut failed) = (Vec::new(), Vec::new());
        for entry in entries {
            match self.object(&entry) {
                Some(object) => readable.push(object),
                None => failed.push(entry),
            }
            if failed.len() == MAX_CAUSES {
                break;
            }
        }
        if !readable.is_empty() {
            let mut inner = self.inner.write();
            for object in readable {
                let known = inner.unreadable.get(&object.key).map(|entry| entry.mod_revision);
                // Another thread has shown it, or it has changed since.
                if known != Some(object.revision) {
                    continue;
                }
                inner.unreadable.remove(&object.key);
                inner.foreign += usize::from(object.is_foreign);
                inner.objects.insert(object.key.clone(), object);
            }
        }
        failed
    }

    /// The error of a read of several objects.
    fn read_error(&self, entries: &[Arc<Entry>]) -> Status {
        let resource = match self.form.group.as_str() {
            "" => self.form.resource.to_string(),
            group => format!("{}.{group}", self.form.resource),
        };
        let first = entries.first().map(|entry| storage_error(entry, &entry.key)).unwrap_or_default();
        let mut message = format!("failed to read one or more {resource} from the storage: {first}");
        if entries.len() > 1 {
            message.push_str(&format!(" (and {} more)", entries.len() - 1));
        }
        let mut causes: Vec<Cause> = entries
            .iter()
            .map(|entry| Cause {
                reason: "UnexpectedServerResponse".to_owned(),
                message: storage_error(entry, &entry.key),
                field: entry.key.to_string(),
            })
            .collect();
        if entries.len() == MAX_CAUSES {
            let message = "too many errors, the list is truncated".to_owned();
            causes.push(Cause { reason: "FieldValueTooMany".to_owned(), message, field: String::new() });
        }
        let mut status = Status::internal("");
        status.reason = "StorageReadError".into();
        status.message = message;
        status.details = Details {
            group: self.form.group.to_string(),
            kind: self.form.resource.to_string(),
            name: "list".to_owned(),
            causes,
            ..Details::default()
        };
        status
    }
}
