//! The copy of a running cluster: all live entries of one revision, their leases, and the files of keys and certificates.
//!
//! Entries are immutable and shared with the store, so that taking the copy costs a pointer for each and holds up no write.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufWriter, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use corten_backup::Passphrase;
use corten_backup::archive::{FileName, Writer, Written};
use corten_base::files;
use corten_store::{Entry, LeaseId};
use jiff::Timestamp;

use super::job::Cluster;
use crate::datastore;

const MAX_FILE: u64 = 256 << 10;
/// The directory of keys and certificates in the data directory.
pub(super) const PKI: &str = "pki";

pub(super) struct Copy {
    pub(super) revision: u64,
    entries: Vec<Arc<Entry>>,
    /// The time that leases have left.
    leases: BTreeMap<LeaseId, Duration>,
    pki: PathBuf,
}

impl Copy {
    pub(super) async fn take(cluster: &Cluster) -> anyhow::Result<Copy> {
        let store = &cluster.store;
        store.catch_up().await.context("the datastore does not answer")?;
        let range = store.range("", "", 0);
        let mut entries = range.entries;
        entries.retain(|entry| datastore::is_copied(&entry.key));
        let mut leases = BTreeMap::new();
        for id in entries.iter().filter_map(|entry| entry.lease) {
            if leases.contains_key(&id) {
                continue;
            }
            let remaining = store.lease_remaining(id).await.context("cannot read leases of the datastore")?;
            leases.insert(id, remaining.unwrap_or_default());
        }
        Ok(Copy { revision: range.revision, entries, leases, pki: cluster.data_dir.join(PKI) })
    }

    /// Writes the archive to a new file. Blocks.
    pub(super) fn write(
        &self,
        path: &Path,
        created: Timestamp,
        passphrase: Option<&Passphrase>,
    ) -> anyhow::Result<Written> {
        let failed = || format!("cannot write {}", path.display());
        let file = files::create_private(path).with_context(failed)?;
        let to = BufWriter::with_capacity(256 << 10, file);
        let mut writer = Writer::new(to, created, self.revision, passphrase).with_context(failed)?;
        for (name, content) in key_files(&self.pki)? {
            writer.file(name, content).with_context(failed)?;
        }
        for (id, remaining) in self.leases.iter().filter(|(_, remaining)| !remaining.is_zero()) {
            let remaining = u64::try_from(remaining.as_millis()).unwrap_or(u64::MAX);
            writer.lease(id.0, remaining).with_context(failed)?;
        }
        for entry in &self.entries {
            if let Some(unreadable) = entry.unreadable() {
                bail!("{} cannot be read: {}", entry.key, unreadable.reason);
            }
            let has_expired =
                entry.lease.is_some_and(|id| self.leases.get(&id).is_none_or(Duration::is_zero));
            if !has_expired {
                let lease = entry.lease.map_or(0, |id| id.0);
                writer.entry(&entry.key, &entry.value, lease).with_context(|| entry.key.to_string())?;
            }
        }
        let (_, written) = writer.finish().with_context(failed)?;
        Ok(written)
    }
}

/// The files of keys and certificates of a cluster.
fn key_files(directory: &Path) -> anyhow::Result<Vec<(FileName, Vec<u8>)>> {
    let failed = || format!("cannot read {}", directory.display());
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).with_context(failed)? {
        let entry = entry.with_context(failed)?;
        let name = entry.file_name().to_str().and_then(FileName::new);
        let Some(name) = name.filter(|_| entry.path().is_file()) else { continue };
        let mut content = Vec::new();
        let file = File::open(entry.path()).with_context(failed)?;
        file.take(MAX_FILE + 1).read_to_end(&mut content).with_context(failed)?;
        found.push((name, content));
    }
    found.sort_unstable_by(|a, b| a.0.cmp(&b.0));
    Ok(found)
}
