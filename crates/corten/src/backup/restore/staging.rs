//! A new store and the key files, built from an archive beside the old ones.

use std::collections::HashMap;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use corten_apiserver::rewritten;
use corten_backup::archive::{Archive, Entry, FileName, Record};
use corten_base::files;
use corten_store::{Expect, LeaseId, NewValue, Op, Options, Store};
use jiff::Timestamp;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::super::copy::PKI;
use super::super::replace::{STORE, sync};
use super::Verified;
use crate::datastore::{REGISTRY, load_encryption};

/// The revisions that are skipped after those of the backup: more than a cluster writes between a backup and its restore.
const SKIPPED_REVISIONS: u64 = 1_000_000_000;
/// The writes in flight, and the records that wait.
const CONCURRENT: usize = 64;
const WAITING: usize = 16;

/// Builds store and key files in a directory, and returns the store.
pub(super) async fn stage(
    archive: Verified,
    directory: &Path,
    encryption: Option<&Path>,
) -> anyhow::Result<Store> {
    let header = archive.checked.header.clone();
    let store = open(directory, encryption).await?;
    let first = header.revision.checked_add(SKIPPED_REVISIONS).context("its revision is impossible")?;
    store.raise(first).await.context("cannot write the new store")?;
    let (sender, mut records) = mpsc::channel(WAITING);
    let reader = tokio::task::spawn_blocking(move || read(&archive, &sender));
    let age = Timestamp::now().duration_since(header.created());
    let age = Duration::try_from(age).unwrap_or_default();
    let mut staging = Staging { store: store.clone(), age, leases: HashMap::new(), writes: JoinSet::new() };
    let pki = directory.join(PKI);
    files::private_directory(&pki).context("cannot create a directory for keys")?;
    while let Some(record) = records.recv().await {
        match record {
            Record::File { name, content } => write_file(&pki, &name, &content)?,
            Record::Lease { id, remaining_ms } => staging.lease(id, remaining_ms).await?,
            Record::Entry(entry) => staging.write(entry).await?,
        }
    }
    reader.await.context("the reader panicked")??;
    staging.wait_for_writes(0).await?;
    sync(&pki).context("cannot write keys")?;
    Ok(store)
}

async fn open(directory: &Path, encryption: Option<&Path>) -> anyhow::Result<Store> {
    let encryption = load_encryption(encryption).await?;
    let options = Options { sealing: Arc::new(encryption), ..Options::default() };
    Store::open(&directory.join(STORE), options).context("cannot open the new store")
}

/// Reads the archive again, which is verified again.
fn read(archive: &Verified, to: &mpsc::Sender<Record>) -> anyhow::Result<()> {
    let file = BufReader::with_capacity(256 << 10, File::open(&archive.path)?);
    let mut records = Archive::open(file, archive.passphrase.as_ref(), archive.max_size)?;
    while let Some(record) = records.next_record()? {
        // The receiver ends first only with an error of its own.
        if to.blocking_send(record).is_err() {
            break;
        }
    }
    Ok(())
}

fn write_file(directory: &Path, name: &FileName, content: &[u8]) -> anyhow::Result<()> {
    let path = directory.join(name.as_str());
    let write = || {
        files::write_private(&path, content)?;
        File::open(&path)?.sync_all()
    };
    write().with_context(|| format!("cannot write {}", path.display()))
}

struct Staging {
    store: Store,
    /// The age of the backup.
    age: Duration,
    /// The new leases by the backup's; `None` for one that has expired.
    leases: HashMap<u64, Option<LeaseId>>,
    writes: JoinSet<anyhow::Result<()>>,
}

impl Staging {
    async fn lease(&mut self, id: u64, remaining_ms: u64) -> anyhow::Result<()> {
        let remaining = Duration::from_millis(remaining_ms).saturating_sub(self.age);
        let lease = match remaining.is_zero() {
            true => None,
            false => Some(self.store.grant(remaining).await.context("cannot grant a lease")?),
        };
        self.leases.insert(id, lease);
        Ok(())
    }

    async fn write(&mut self, entry: Entry) -> anyhow::Result<()> {
        let Entry { key, value, lease } = entry;
        let lease = match lease {
            0 => None,
            id => match self.leases.get(&id).with_context(|| format!("{key} has an unknown lease"))? {
                None => return Ok(()),
                lease => *lease,
            },
        };
        let value = match key.starts_with(REGISTRY) {
            true => rewritten(&key, &value).map_err(|why| anyhow::anyhow!("{key}: {why}"))?,
            false => NewValue::from(value),
        };
        self.wait_for_writes(CONCURRENT - 1).await?;
        let store = self.store.clone();
        self.writes.spawn(async move {
            let op = Op::Put { key: key.into(), expect: Expect::Absent, value, lease };
            store.commit(op.into()).await.map(drop).context("cannot write the new store")
        });
        Ok(())
    }

    /// Waits until at most this many writes are in flight.
    async fn wait_for_writes(&mut self, most: usize) -> anyhow::Result<()> {
        while self.writes.len() > most {
            let Some(written) = self.writes.join_next().await else { break };
            written.context("a write was cancelled")??;
        }
        Ok(())
    }
}

/// Compacts the new store, closes it, and opens it once more to see that it is whole.
pub(super) async fn finish(
    store: Store,
    directory: &Path,
    encryption: Option<&Path>,
    entries: u64,
) -> anyhow::Result<()> {
    store.compact(store.revision()).await.context("cannot compact the new store")?;
    let count = store.range("", "", 0).entries.len() as u64;
    ensure!(count <= entries, "the new store has {count} entries, the backup {entries}");
    close(store).await?;
    let again = open(directory, encryption).await?;
    let found = again.range("", "", 0).entries.len() as u64;
    close(again).await?;
    ensure!(found <= count, "the new store has {found} of {count} entries");
    Ok(())
}

async fn close(store: Store) -> anyhow::Result<()> {
    tokio::task::spawn_blocking(|| store.close()).await.context("cannot close the new store")
}
