//! Snapshots in etcd's file format: the method Snapshot, whose file `etcdutl snapshot restore` turns into a data directory of
//! etcd.
//!
//! A snapshot is the database file of etcd (`bolt`) with the current keys and leases, and a SHA-256 of it. Earlier revisions
//! are not in it: they count as compacted. It is encoded while it is sent; in memory there is one page at a time, and the
//! entries, which the store shares.

mod bolt;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use corten_etcd_api::{KeyValue, SnapshotResponse};
use corten_grpc::protobuf::{Message, messages};
use corten_grpc::{Sender, Status};
use corten_store::{End, Entry, Keys, LeaseId, LeaseState};
use sha2::{Digest, Sha256};
use tokio::task::spawn_blocking;

use crate::convert::key_value;
use crate::identity::VERSION;
use crate::service::Etcd;
use bolt::{Database, Items};

/// The time that an ended lease has left.
const LAST: Duration = Duration::from_secs(1);
/// The size of a message.
const BLOB: usize = 32 << 10;

messages! {
    Lease { 1 id: i64, 2 ttl: i64, 3 remaining_ttl: i64 }
}

impl Etcd {
    pub(crate) async fn snapshot(&self, sender: Sender<SnapshotResponse>) -> Result<(), Status> {
        let keys = Keys { start: "".into(), end: End::Unbounded };
        let range = self.store.scan(&keys, 0);
        let leases = self.store.leases();
        let leases = leases.into_iter().filter_map(|id| Some((id, self.store.lease(id)?))).collect();
        // The layout needs the size of every entry.
        let database = spawn_blocking(move || database(range.entries, leases, range.revision)).await;
        let database = database.map_err(|_| Status::internal("etcdserver: cannot lay out the snapshot"))?;
        let mut remaining = database.bytes() + Sha256::output_size() as u64;
        let (mut digest, mut blob) = (Sha256::new(), Vec::new());
        for part in database.parts() {
            digest.update(&part);
            blob.extend_from_slice(&part);
            while blob.len() >= BLOB {
                let rest = blob.split_off(BLOB);
                self.send_part(&sender, std::mem::replace(&mut blob, rest), &mut remaining).await?;
            }
        }
        self.send_part(&sender, blob, &mut remaining).await?;
        self.send_part(&sender, digest.finalize().to_vec(), &mut remaining).await
    }

    async fn send_part(
        &self,
        sender: &Sender<SnapshotResponse>,
        blob: Vec<u8>,
        remaining: &mut u64,
    ) -> Result<(), Status> {
        if blob.is_empty() {
            return Ok(());
        }
        *remaining -= blob.len() as u64;
        let response = SnapshotResponse {
            header: Some(self.header()),
            remaining_bytes: *remaining,
            blob: blob.into(),
            version: VERSION.to_owned(),
        };
        sender.send(&response).await
    }
}

/// The database of a state. A lease that ended after its keys were read is in it nevertheless, about to end: etcd would keep
/// keys of an unknown lease for ever.
fn database(entries: Vec<Arc<Entry>>, mut leases: HashMap<LeaseId, LeaseState>, revision: u64) -> Database {
    for id in entries.iter().filter_map(|entry| entry.lease) {
        let ended = || LeaseState { ttl: LAST, remaining: LAST, keys: Vec::new() };
        leases.entry(id).or_insert_with(ended);
    }
    let compacted = Bytes::copy_from_slice(&revision_key(revision, 0));
    let meta = [("finishedCompactRev", compacted.clone()), ("scheduledCompactRev", compacted)];
    let meta = meta.map(|(name, value)| (Bytes::from_static(name.as_bytes()), value));
    Database::new(vec![
        ("key", Box::new(Versions::new(entries)) as Box<dyn Items>),
        ("lease", Box::new(lease_items(leases))),
        ("meta", Box::new(meta.to_vec())),
    ])
}

/// The items of the bucket `key`: the live entries in the order of their revisions.
struct Versions {
    entries: Vec<Arc<Entry>>,
    /// The number of each entry among those of its revision.
    subs: Vec<u32>,
}

impl Versions {
    fn new(mut entries: Vec<Arc<Entry>>) -> Versions {
        entries.sort_by_key(|entry| entry.mod_revision);
        let mut subs = Vec::with_capacity(entries.len());
        for (index, entry) in entries.iter().enumerate() {
            let is_next = index > 0 && entries[index - 1].mod_revision == entry.mod_revision;
            let sub = if is_next { subs.last().map_or(0, |last: &u32| last + 1) } else { 0 };
            subs.push(sub);
        }
        Versions { entries, subs }
    }
}

impl Items for Versions {
    fn count(&self) -> usize {
        self.entries.len()
    }

    fn key(&self, index: usize) -> Bytes {
        Bytes::copy_from_slice(&revision_key(self.entries[index].mod_revision, self.subs[index].into()))
    }

    fn value(&self, index: usize) -> Bytes {
        let kv: KeyValue = key_value(&self.entries[index]);
        kv.encode().into()
    }
}

fn lease_items(leases: HashMap<LeaseId, LeaseState>) -> Vec<(Bytes, Bytes)> {
    let seconds = |duration: Duration| i64::try_from(duration.as_secs()).unwrap_or(i64::MAX);
    let item = |(id, lease): (LeaseId, LeaseState)| {
        let id = id.0 as i64;
        // An hour's lease must not begin anew, nor one that has less than a second left last for ever.
        let remaining_ttl = seconds(lease.remaining).max(1);
        let value = Lease { id, ttl: seconds(lease.ttl), remaining_ttl };
        (Bytes::copy_from_slice(&id.to_be_bytes()), value.encode().into())
    };
    let mut items: Vec<(Bytes, Bytes)> = leases.into_iter().map(item).collect();
    items.sort_unstable();
    items
}

/// A revision as etcd's database has it in keys and values.
fn revision_key(main: u64, sub: u64) -> [u8; 17] {
    let mut key = [b'_'; 17];
    key[..8].copy_from_slice(&main.to_be_bytes());
    key[9..].copy_from_slice(&sub.to_be_bytes());
    key
}
