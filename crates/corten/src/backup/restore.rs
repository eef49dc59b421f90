//! `corten backup restore`: a cluster out of an archive, on this machine or a new one.
//!
//! ```text
//! fetch ─► verify the whole archive ─► stage: a new store and the key files ─► embedded: replace ─► done
//!                                                                          └► etcd: mark, copy, check ─► replace keys ─► unmark
//! ```
//!
//! Invariants: nothing of the old cluster is touched before the new one is complete on disk; a crash leaves one or the other.
//! All objects get revisions beyond those that any client of the old cluster can know, and everything before is compacted, so
//! that clients list again.

mod staging;

use std::fs::{self, File};
use std::io::{BufReader, ErrorKind};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use corten_backup::archive::{Checked, verify};
use corten_backup::place::{Place, is_bucket};
use corten_backup::{Name, Passphrase};

use super::place::{self, BucketFlags};
use super::replace::{self, PARTS, STORE};
use super::{ServerFlags, job, lock};
use crate::server::{DatastoreFlags, log_to_stderr};
use crate::{datastore, hardening};

/// The directory of an archive from a bucket, in the data directory.
const FETCHED: &str = "backup-fetched";

#[derive(clap::Args)]
pub(super) struct Args {
    /// Backup to restore: a name as `corten backup list` prints it, latest, or the path of a file.
    backup: String,
    /// Place of the backups: a directory, or s3://BUCKET/PREFIX [default: DATA_DIR/backups].
    #[arg(long, value_name = "DIR|URL")]
    from: Option<String>,
    /// Name that the backups of which the latest is restored begin with.
    #[arg(long, default_value = "corten")]
    name: String,
    /// Replace the cluster of the data directory or of etcd.
    #[arg(long)]
    force: bool,
    /// File whose first line is the passphrase of the backup; - is stdin.
    #[arg(long, value_name = "FILE")]
    passphrase_file: Option<PathBuf>,
    /// Largest size of the backup's contents in bytes.
    #[arg(long, default_value_t = 16 << 30, value_name = "BYTES")]
    max_size: u64,
    /// EncryptionConfiguration with which values are written.
    #[arg(long, value_name = "FILE")]
    encryption_provider_config: Option<PathBuf>,
    #[command(flatten)]
    datastore: DatastoreFlags,
    #[command(flatten)]
    bucket: BucketFlags,
    #[command(flatten)]
    server: ServerFlags,
}

/// An archive on this machine that was read to its end.
struct Verified {
    path: PathBuf,
    passphrase: Option<Passphrase>,
    max_size: u64,
    checked: Checked,
}

pub(super) async fn restore(args: &Args) -> anyhow::Result<()> {
    log_to_stderr();
    let data_dir = args.server.data_dir()?;
    hardening::prepare_data_directory(&data_dir)?;
    if replace::is_pending(&data_dir) {
        bail!(
            "an earlier restore has not ended: start the server, which completes it, or stop the one that runs"
        );
    }
    let _alone = lock::exclusive(&data_dir)?;
    check_free(&data_dir, args)?;
    let fetched = data_dir.join(FETCHED);
    let restored = restore_fetched(args, &data_dir, &fetched).await;
    if let Err(error) = replace::discard(&data_dir).and_then(|()| remove_if_there(&fetched)) {
        eprintln!("warning: cannot remove temporary files in {}: {error}", data_dir.display());
    }
    restored
}

async fn restore_fetched(args: &Args, data_dir: &Path, fetched: &Path) -> anyhow::Result<()> {
    let (shown, path) = find(args, data_dir, fetched).await?;
    let passphrase = args.passphrase_file.as_deref().map(job::read_passphrase).transpose()?;
    let verified = check(path, passphrase, args.max_size).await.with_context(|| format!("backup {shown}"))?;
    let staged = replace::begin(data_dir)?;
    let entries = verified.checked.entries;
    let Checked { header, .. } = verified.checked.clone();
    eprintln!(
        "backup {shown} of {} is complete: {entries} objects at revision {}",
        header.created(),
        header.revision
    );
    let encryption = args.encryption_provider_config.as_deref();
    let store =
        staging::stage(verified, &staged, encryption).await.with_context(|| format!("backup {shown}"))?;
    match args.datastore.side(encryption)? {
        None => {
            staging::finish(store, &staged, encryption, entries).await?;
            replace::decide(data_dir)?;
        }
        Some(etcd) => {
            let source = format!("backup {shown}");
            let filled = datastore::fill(store, &source, header.revision, &etcd, args.force).await?;
            // Of the new parts only the keys go into the data directory.
            fs::remove_dir_all(staged.join(STORE)).context("cannot remove the staged store")?;
            replace::decide(data_dir)?;
            filled.finish(&etcd).await?;
        }
    }
    println!("restored {entries} objects to {}; start the server with its flags", data_dir.display());
    Ok(())
}

/// Refuses a data directory with a cluster, unless that is to be replaced, and one that another program uses.
fn check_free(data_dir: &Path, args: &Args) -> anyhow::Result<()> {
    let is_etcd = args.datastore.is_etcd()?;
    for part in PARTS.iter().filter(|part| !(is_etcd && **part == STORE)) {
        let is_there = fs::read_dir(data_dir.join(part)).is_ok_and(|mut entries| entries.next().is_some());
        ensure!(
            !is_there || args.force,
            "{} has a cluster already ({part}); use --force to replace it",
            data_dir.display()
        );
    }
    let lock = data_dir.join(STORE).join("lock");
    match File::options().write(true).open(&lock) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error).with_context(|| format!("cannot open {}", lock.display())),
        Ok(file) => file
            .try_lock()
            .map_err(anyhow::Error::from)
            .with_context(|| format!("another command uses the store in {}", data_dir.display())),
    }
}

/// The file of the backup, and its name for messages.
async fn find(args: &Args, data_dir: &Path, fetched: &Path) -> anyhow::Result<(String, PathBuf)> {
    let given = args.backup.as_str();
    let name = Name::parse(given);
    if name.is_none() && given != "latest" {
        let path = PathBuf::from(given);
        ensure!(path.is_file(), "{given} is neither a backup nor a file; `corten backup list` shows backups");
        return Ok((given.to_owned(), path));
    }
    let location = place::location(args.from.as_deref(), data_dir)?;
    let credentials = is_bucket(&location).then(|| args.bucket.credentials()).transpose()?;
    let place = args.bucket.open(&location, credentials)?;
    let name = match name {
        Some(name) => name,
        None => latest(&place, &args.name).await.with_context(|| format!("cannot list {location}"))?,
    };
    corten_base::files::private_directory(fetched).context("cannot create a directory for the backup")?;
    let file = place.fetch(&name, &fetched.join("backup")).await;
    Ok((name.to_string(), file.with_context(|| format!("cannot fetch {name} from {location}"))?))
}

async fn latest(place: &Place, set: &str) -> anyhow::Result<Name> {
    let stored = place.list().await?;
    let of_set = stored.into_iter().map(|stored| stored.name).filter(|name| name.set() == set);
    of_set.max().with_context(|| format!("there is no backup whose name begins with {set} (--name)"))
}

/// Reads the whole archive, in bounded memory, before anything is made of it.
async fn check(path: PathBuf, passphrase: Option<Passphrase>, max_size: u64) -> anyhow::Result<Verified> {
    let check = move || {
        let file = File::open(&path).with_context(|| format!("cannot open {}", path.display()))?;
        let checked = verify(BufReader::with_capacity(256 << 10, file), passphrase.as_ref(), max_size)?;
        Ok(Verified { path, passphrase, max_size, checked })
    };
    tokio::task::spawn_blocking(check).await.context("the check panicked")?
}

fn remove_if_there(directory: &Path) -> std::io::Result<()> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}
