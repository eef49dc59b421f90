//! Making a target equal to a source: the differences (pure), and the writes that remove them.
//!
//! Invariants: an object that is equal on both sides is not written, so that a repeated copy continues an earlier one; keys
//! that components renew every few seconds are never copied. Objects with a lease are copied with the time that it has left.
//! An object's revision in the target is not before the one in the source: a client that knows an earlier version by its
//! revision must not take the copy for it, and overwrite what it has not seen.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use corten_apiserver::{is_same_object, rewritten};
use corten_store::{Entry, Error, Expect, LeaseId, Op, Store};
use futures_util::future::ready;
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use tokio::sync::Mutex;
use tokio::task::JoinSet;

use super::marker;
use super::progress::Progress;

pub(crate) const ROOT: &str = "/registry/";
/// Records of running API servers, which they renew.
const RENEWED: [&str; 2] = ["/registry/masterleases/", "/registry/peerserverleases/"];
/// The mark of the migration, and the key by which kine shows that it works.
const OTHERS: [&str; 2] = [marker::KEY, "/registry/health"];
/// The writes in flight.
const CONCURRENT: usize = 64;
const ATTEMPTS: usize = 6;
const FIRST_BACKOFF: Duration = Duration::from_millis(200);
/// The unreadable keys that an error names.
const NAMED: usize = 10;

/// A write that makes the target equal to the source.
#[derive(Clone, Debug)]
pub(super) enum Change {
    Put(Arc<Entry>),
    Delete(Arc<Entry>),
}

impl Change {
    fn entry(&self) -> &Arc<Entry> {
        match self {
            Change::Put(entry) | Change::Delete(entry) => entry,
        }
    }

    /// True for a key with a lease, which may expire on one side before the other.
    pub(super) fn is_leased(&self) -> bool {
        self.entry().lease.is_some()
    }

    pub(super) fn key(&self) -> &str {
        &self.entry().key
    }
}

/// The objects of a store that are copied, in key order. Fails if one of them cannot be read.
pub(super) fn objects(store: &Store) -> anyhow::Result<Vec<Arc<Entry>>> {
    let mut entries = store.range(ROOT, "", 0).entries;
    entries.retain(|entry| is_copied(&entry.key));
    let unreadable: Vec<String> = entries.iter().filter_map(|entry| unreadable(entry)).collect();
    if !unreadable.is_empty() {
        let more = unreadable.len().saturating_sub(NAMED);
        let more = if more > 0 { format!("; and {more} more") } else { String::new() };
        let shown = unreadable[..unreadable.len().min(NAMED)].join("; ");
        bail!("{} values of the source cannot be read: {shown}{more}", unreadable.len());
    }
    Ok(entries)
}

/// False for the keys that are of running servers and not of the cluster.
pub(crate) fn is_copied(key: &str) -> bool {
    !OTHERS.contains(&key) && !RENEWED.iter().any(|prefix| key.starts_with(prefix))
}

/// The key and the reason, if a value cannot be read.
fn unreadable(entry: &Entry) -> Option<String> {
    match entry.unreadable() {
        Some(unreadable) => Some(format!("{}: {}", entry.key, unreadable.reason)),
        None => rewritten(&entry.key, &entry.value).err().map(|why| format!("{}: {why}", entry.key)),
    }
}

/// The keys of the target whose values a write would store in another form: an earlier command may have had another
/// configuration of encryption.
pub(super) async fn outdated(target: &Store) -> anyhow::Result<HashSet<Arc<str>>> {
    let keys = target.range(ROOT, "", 0).entries.into_iter().map(|entry| Arc::clone(&entry.key));
    let checks = keys.filter(|key| is_copied(key)).map(|key| async move {
        let is_stale = target.is_stale(&key).await.context("cannot read the target")?;
        Ok(is_stale.then_some(key))
    });
    let found = stream::iter(checks).buffer_unordered(CONCURRENT);
    found.try_filter_map(|key| ready(Ok(key))).try_collect().await
}

/// The changes that make `target` equal to `source`; both are in key order. Pure.
pub(super) fn differences(
    source: &[Arc<Entry>],
    target: &[Arc<Entry>],
    outdated: &HashSet<Arc<str>>,
) -> Vec<Change> {
    let mut changes = Vec::new();
    let (mut source, mut target) = (source.iter().peekable(), target.iter().peekable());
    loop {
        let order = match (source.peek(), target.peek()) {
            (None, None) => return changes,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(wanted), Some(found)) => wanted.key.cmp(&found.key),
        };
        let wanted = if order.is_le() { source.next() } else { None };
        let found = if order.is_ge() { target.next() } else { None };
        match (wanted, found) {
            (Some(wanted), Some(found)) if !outdated.contains(&found.key) && is_same(wanted, found) => {}
            (Some(wanted), _) => changes.push(Change::Put(Arc::clone(wanted))),
            (None, found) => changes.extend(found.cloned().map(Change::Delete)),
        }
    }
}

fn is_same(wanted: &Entry, found: &Entry) -> bool {
    found.mod_revision >= wanted.mod_revision
        && wanted.lease.is_some() == found.lease.is_some()
        && is_same_object(&wanted.key, &wanted.value, &found.value)
}

/// The writer of one target.
pub(super) struct Copy {
    source: Store,
    target: Store,
    /// The leases of the target by those of the source; `None` for one that has expired.
    leases: Mutex<HashMap<LeaseId, Option<LeaseId>>>,
}

impl Copy {
    pub(super) fn new(source: Store, target: Store) -> Arc<Copy> {
        Arc::new(Copy { source, target, leases: Mutex::default() })
    }

    /// Applies changes of distinct keys.
    pub(super) async fn apply(
        self: &Arc<Self>,
        changes: Vec<Change>,
        mut progress: Option<&mut Progress>,
    ) -> anyhow::Result<()> {
        let mut writes = JoinSet::new();
        let mut changes = changes.into_iter();
        loop {
            while writes.len() < CONCURRENT {
                let Some(change) = changes.next() else { break };
                let copy = Arc::clone(self);
                writes.spawn(async move { copy.write(&change).await });
            }
            let Some(written) = writes.join_next().await else { return Ok(()) };
            written.context("a write was cancelled")??;
            if let Some(progress) = &mut progress {
                progress.advance();
            }
        }
    }

    async fn write(&self, change: &Change) -> anyhow::Result<()> {
        let key = Arc::clone(&change.entry().key);
        let failed = || format!("cannot write {key} to the target");
        let op = match change {
            Change::Delete(_) => Op::Delete { key: Arc::clone(&key), expect: Expect::Any },
            Change::Put(entry) => {
                let value = rewritten(&key, &entry.value).map_err(anyhow::Error::msg).with_context(failed)?;
                let lease = match entry.lease {
                    Some(lease) => self.lease(lease).await?,
                    None => None,
                };
                if entry.lease.is_some() && lease.is_none() {
                    // A lease that has ended took its keys with it.
                    Op::Delete { key: Arc::clone(&key), expect: Expect::Any }
                } else {
                    Op::Put { key: Arc::clone(&key), expect: Expect::Any, value, lease }
                }
            }
        };
        let mut backoff = FIRST_BACKOFF;
        for _ in 1..ATTEMPTS {
            match self.target.commit(op.clone().into()).await {
                // A write may have been carried out, but it can be repeated.
                Err(Error::Etcd(_)) => tokio::time::sleep(backoff).await,
                outcome => return outcome.map(drop).with_context(failed),
            }
            backoff *= 2;
        }
        self.target.commit(op.into()).await.map(drop).with_context(failed)
    }

    /// A lease of the target that ends when one of the source does.
    async fn lease(&self, id: LeaseId) -> anyhow::Result<Option<LeaseId>> {
        let mut leases = self.leases.lock().await;
        if let Some(known) = leases.get(&id) {
            return Ok(*known);
        }
        let remaining = self.source.lease_remaining(id).await.context("cannot read leases of the source")?;
        let granted = match remaining.filter(|remaining| !remaining.is_zero()) {
            None => None,
            Some(remaining) => {
                Some(self.target.grant(remaining).await.context("cannot grant a lease in the target")?)
            }
        };
        leases.insert(id, granted);
        Ok(granted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(key: &str, revision: u64, data: &str, lease: Option<LeaseId>) -> Arc<Entry> {
        let value = format!(
            r#"{{"kind":"W","apiVersion":"e/v1","metadata":{{"resourceVersion":"{revision}"}},"data":"{data}"}}"#
        );
        Arc::new(Entry {
            key: key.into(),
            value: value.into_bytes().into(),
            create_revision: revision,
            mod_revision: revision,
            version: 1,
            lease,
            note: None,
        })
    }

    #[test]
    fn differences_are_what_a_copy_has_to_write() {
        let lease = Some(LeaseId(7));
        let source = [
            entry("/registry/w/changed", 5, "new", None),
            entry("/registry/w/leased", 6, "", lease),
            entry("/registry/w/missing", 7, "", None),
            entry("/registry/w/same", 8, "x", None),
        ];
        let target = [
            entry("/registry/a/extra", 1, "", None),
            entry("/registry/w/changed", 2, "old", None),
            entry("/registry/w/leased", 3, "", None),
            entry("/registry/w/same", 90, "x", None),
            entry("/registry/x", 91, "", lease),
        ];
        let shown: Vec<String> = differences(&source, &target, &HashSet::new())
            .iter()
            .map(|change| {
                let verb = if matches!(change, Change::Put(_)) { "put" } else { "delete" };
                format!("{verb} {} {}", change.key(), change.is_leased())
            })
            .collect();
        assert_eq!(
            shown,
            [
                "delete /registry/a/extra false",
                "put /registry/w/changed false",
                "put /registry/w/leased true",
                "put /registry/w/missing false",
                "delete /registry/x true",
            ]
        );
        assert!(differences(&source, &source, &HashSet::new()).is_empty());
    }

    /// A client that read the version of revision 8 must not find the copy of a later version under that revision.
    #[test]
    fn a_copy_with_an_earlier_revision_is_written_again() {
        let source = [entry("/registry/w/a", 9, "", None)];
        let keys = |revision: u64, outdated: &HashSet<Arc<str>>| {
            differences(&source, &[entry("/registry/w/a", revision, "", None)], outdated).len()
        };
        assert_eq!([8, 9, 10].map(|revision| keys(revision, &HashSet::new())), [1, 0, 0]);
        assert_eq!(keys(10, &HashSet::from(["/registry/w/a".into()])), 1, "stored in another form");
    }

    #[test]
    fn records_of_servers_are_not_copied() {
        for (key, expected) in [
            ("/registry/masterleases/192.0.2.1", false),
            ("/registry/corten.io/migration", false),
            ("/registry/corten.io/migrations/n/a", true),
            ("/registry/health", false),
            ("/registry/health.example.com/checks/n/a", true),
        ] {
            assert_eq!(is_copied(key), expected, "{key}");
        }
    }
}
