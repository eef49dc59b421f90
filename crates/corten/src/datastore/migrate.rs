//! `corten datastore migrate`: copies a cluster from one datastore to another.
//!
//! ```text
//! raise the target's revision above the source's ─► mark the target ─► copy the differences ─► [follow the source]
//!   ─► settle: the source is unchanged and equal ─► check with both opened anew ─► raise once more ─► compact ─► remove the mark
//! ```
//!
//! Invariants: the source is only read; the target is marked until it is complete and checked; every revision that a client of
//! the source can know is compacted in the target, so that such a client gets 410 and lists again, never other data; the
//! revision of each object is not before the one that it has in the source.

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use clap::Parser;
use corten_apiserver::StorageMediaType;
use corten_store::{Entry, Event, Store};

use super::copy::{self, Change, Copy, ROOT};
use super::marker;
use super::progress::Progress;
use super::side::{Role, Side};
use crate::etcd_client::TlsFiles;
use crate::server::log_to_stderr;
use crate::stop_signals::StopSignals;

/// The attempts to find the source unchanged after the last copy.
const SETTLE_ATTEMPTS: usize = 5;
/// etcd's revision grows by one with a write, some thousand times in a second.
const MAX_RAISE: u64 = 20_000_000;
/// A raise that takes more than a few seconds.
const TOLD: u64 = 50_000;
/// Longer than the interval in which nodes and API servers renew their leases.
const RENEWAL: Duration = Duration::from_secs(12);
/// Objects and records that running components renew.
const LEASES: [&str; 2] = ["/registry/leases/", "/registry/masterleases/"];
/// The interval of the reports of `--follow`.
const REPORT_EVERY: Duration = Duration::from_secs(10);
/// The differences that an error names.
const NAMED: usize = 5;

#[derive(Parser)]
pub(super) struct Args {
    /// Datastore to copy from: the data directory of a stopped server, or URLs of etcd servers.
    #[arg(long, value_name = "DIR|URLS")]
    from: String,
    /// Datastore to copy to: the data directory of a stopped server, or URLs of etcd servers.
    #[arg(long, value_name = "DIR|URLS")]
    to: String,
    /// Keep copying changes of the source until SIGINT or SIGTERM, which follows the end of the last writer.
    #[arg(long)]
    follow: bool,
    /// Replace what the target has; without it, only an empty target is written.
    #[arg(long)]
    overwrite: bool,
    /// Prefix of all keys in the source, if that is etcd.
    #[arg(long, default_value = "/registry")]
    from_prefix: String,
    /// Certificate authorities of the source's servers, a PEM file.
    #[arg(long, value_name = "FILE")]
    from_cafile: Option<PathBuf>,
    /// Client certificate for the source, a PEM file.
    #[arg(long, value_name = "FILE", requires = "from_keyfile")]
    from_certfile: Option<PathBuf>,
    /// Key of the client certificate for the source, a PEM file.
    #[arg(long, value_name = "FILE", requires = "from_certfile")]
    from_keyfile: Option<PathBuf>,
    /// EncryptionConfiguration with which the source is read.
    #[arg(long, value_name = "FILE")]
    from_encryption_provider_config: Option<PathBuf>,
    /// Prefix of all keys in the target, if that is etcd.
    #[arg(long, default_value = "/registry")]
    to_prefix: String,
    /// Certificate authorities of the target's servers, a PEM file.
    #[arg(long, value_name = "FILE")]
    to_cafile: Option<PathBuf>,
    /// Client certificate for the target, a PEM file.
    #[arg(long, value_name = "FILE", requires = "to_keyfile")]
    to_certfile: Option<PathBuf>,
    /// Key of the client certificate for the target, a PEM file.
    #[arg(long, value_name = "FILE", requires = "to_certfile")]
    to_keyfile: Option<PathBuf>,
    /// EncryptionConfiguration with which the target is written.
    #[arg(long, value_name = "FILE")]
    to_encryption_provider_config: Option<PathBuf>,
    /// Format of built-in kinds in a target that is etcd: application/vnd.kubernetes.protobuf or application/json.
    #[arg(long, default_value = "application/vnd.kubernetes.protobuf", value_parser = StorageMediaType::parse)]
    to_storage_media_type: StorageMediaType,
}

impl Args {
    fn source(&self) -> Side<'_> {
        Side {
            flag: "--from",
            place: self.from.as_str().into(),
            prefix: &self.from_prefix,
            tls: TlsFiles {
                authorities: ("--from-cafile", self.from_cafile.as_deref()),
                certificate: ("--from-certfile", self.from_certfile.as_deref()),
                key: ("--from-keyfile", self.from_keyfile.as_deref()),
            },
            encryption: self.from_encryption_provider_config.as_deref(),
            media_type: StorageMediaType::default(),
        }
    }

    fn target(&self) -> Side<'_> {
        Side {
            flag: "--to",
            place: self.to.as_str().into(),
            prefix: &self.to_prefix,
            tls: TlsFiles {
                authorities: ("--to-cafile", self.to_cafile.as_deref()),
                certificate: ("--to-certfile", self.to_certfile.as_deref()),
                key: ("--to-keyfile", self.to_keyfile.as_deref()),
            },
            encryption: self.to_encryption_provider_config.as_deref(),
            media_type: self.to_storage_media_type,
        }
    }
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    log_to_stderr();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.context("cannot start the async runtime")?.block_on(migrate(args))
}

async fn migrate(args: &Args) -> anyhow::Result<()> {
    let started = Instant::now();
    let (from, to) = (args.source(), args.target());
    ensure!(!from.overlaps(&to), "--from and --to are the same datastore, or one is part of the other");
    ensure!(
        !args.follow || from.is_etcd(),
        "--follow needs a source that is etcd: a data directory is used by one process"
    );
    let source = from.open(Role::Source).await?;
    if let Some(of) = marker::source(&source) {
        bail!("--from is the target of a migration from {of} that has not ended");
    }
    let target = to.open(Role::Target).await?;
    check_target(&target, &from.name(), ("--overwrite", args.overwrite))?;
    tell_others(&source);
    raise(&target, &to, source.revision()).await?;
    marker::set(&target, &from.name()).await?;
    let settled = copy_all(source, &target, &from, &to, args.follow).await?;
    let (count, target) = check(&settled, target, &to).await?;
    let target = finish(target, &to, settled.revision).await?;
    close(settled.store).await?;
    eprintln!(
        "{count} objects are equal; resourceVersions continue after {} ({:.1} s)",
        target.revision(),
        started.elapsed().as_secs_f64()
    );
    close(target).await
}

/// A target that is equal to its source, and still marked.
pub(crate) struct Filled {
    target: Store,
    revision: u64,
}

/// Makes etcd equal to a store that nothing writes, and checks it. `source` names the store, whose clients know no later
/// revision than `revision`. The target stays marked until [`Filled::finish`].
pub(crate) async fn fill(
    store: Store,
    source: &str,
    revision: u64,
    to: &Side<'_>,
    overwrite: bool,
) -> anyhow::Result<Filled> {
    let target = to.open(Role::Target).await?;
    check_target(&target, source, ("--force", overwrite))?;
    marker::set(&target, source).await?;
    raise(&target, to, revision).await?;
    let objects =
        copy::objects(&store)?.into_iter().map(|entry| known_until(entry, revision)).collect::<Vec<_>>();
    let outdated = copy::outdated(&target).await?;
    copy_differences(&store, &target, &objects, &outdated, "copying").await?;
    let (_, target) = check(&Settled { store: store.clone(), objects, revision }, target, to).await?;
    close(store).await?;
    Ok(Filled { target, revision })
}

/// An entry of a store whose clients know no later revision than this one.
fn known_until(entry: Arc<Entry>, revision: u64) -> Arc<Entry> {
    if entry.mod_revision <= revision {
        return entry;
    }
    Arc::new(Entry { mod_revision: revision, ..Entry::clone(&entry) })
}

impl Filled {
    pub(crate) async fn finish(self, to: &Side<'_>) -> anyhow::Result<()> {
        close(finish(self.target, to, self.revision).await?).await
    }
}

/// Refuses a target with keys, unless they are to be replaced or are of this migration.
fn check_target(target: &Store, source: &str, (flag, overwrite): (&str, bool)) -> anyhow::Result<()> {
    match marker::source(target) {
        Some(earlier) if earlier == source => {
            eprintln!("continuing the copy of {source}");
            return Ok(());
        }
        Some(earlier) if !overwrite => {
            bail!("the target has a part of {earlier}; use {flag} to replace it")
        }
        _ => {}
    }
    let present = target.range(ROOT, "", 0).entries;
    let count = present.iter().filter(|entry| copy::is_copied(&entry.key)).count();
    ensure!(count == 0 || overwrite, "the target has {count} keys; use {flag} to replace them");
    Ok(())
}

/// Tells of keys that are no cluster's: clients of the etcd API of an embedded store may have written them.
fn tell_others(source: &Store) {
    let others = source.range("", "", 0).entries.into_iter().filter(|entry| !entry.key.starts_with(ROOT));
    let others: Vec<_> = others.collect();
    if let Some(first) = others.first() {
        eprintln!("{} keys that are not below {ROOT} are not copied, such as {}", others.len(), first.key);
    }
}

/// The state of a source that has no writers.
struct Settled {
    store: Store,
    objects: Vec<Arc<Entry>>,
    revision: u64,
}

/// Copies until the source is found unchanged.
async fn copy_all(
    source: Store,
    target: &Store,
    from: &Side<'_>,
    to: &Side<'_>,
    follow: bool,
) -> anyhow::Result<Settled> {
    let mut objects = copy::objects(&source)?;
    let mut revision = source.revision();
    let outdated = copy::outdated(target).await?;
    copy_differences(&source, target, &objects, &outdated, "copying").await?;
    if follow {
        follow_source(&source, target, revision).await?;
    }
    if !from.is_etcd() {
        // The directory is locked: nothing else writes to it.
        return Ok(Settled { store: source, objects, revision });
    }
    drop(source);
    for _ in 0..SETTLE_ATTEMPTS {
        let store = from.open(Role::Source).await?;
        objects = copy::objects(&store)?;
        revision = store.revision();
        raise(target, to, revision).await?;
        copy_differences(&store, target, &objects, &HashSet::new(), "settling").await?;
        let again = from.open(Role::Source).await?;
        let at = again.revision();
        if is_unchanged(&objects, &copy::objects(&again)?) && is_quiet(&again, at).await? {
            revision = revision.max(again.revision());
            return Ok(Settled { store: again, objects, revision });
        }
        if !follow {
            bail!(
                "the source changed meanwhile: stop its API servers, or use --follow; then run this command again"
            );
        }
    }
    bail!("the source still changes: stop its API servers, then run this command again")
}

/// True if no key changed but those that expire by themselves.
fn is_unchanged(before: &[Arc<Entry>], now: &[Arc<Entry>]) -> bool {
    let versions = |entries: &[Arc<Entry>]| -> Vec<(Arc<str>, u64)> {
        let lasting = entries.iter().filter(|entry| entry.lease.is_none());
        lasting.map(|entry| (Arc::clone(&entry.key), entry.mod_revision)).collect()
    };
    versions(before) == versions(now)
}

/// True if nothing is written to a source after a revision while running components would renew a lease. A source without
/// leases has no components.
async fn is_quiet(source: &Store, after: u64) -> anyhow::Result<bool> {
    if LEASES.iter().all(|prefix| source.range(prefix, "", 1).entries.is_empty()) {
        return Ok(true);
    }
    let mut watch = source.watch(ROOT, after).context("cannot watch the source")?;
    let is_expiry =
        |event: &Event| event.current.is_none() && event.previous.as_ref().is_some_and(|p| p.lease.is_some());
    let written = async {
        loop {
            let events = watch.next().await.context("cannot watch the source")?;
            if !events.iter().all(|event| is_expiry(event)) {
                return Ok(());
            }
        }
    };
    match tokio::time::timeout(RENEWAL, written).await {
        Ok(written) => written.map(|()| false),
        Err(_) => Ok(true),
    }
}

async fn copy_differences(
    source: &Store,
    target: &Store,
    objects: &[Arc<Entry>],
    outdated: &HashSet<Arc<str>>,
    what: &'static str,
) -> anyhow::Result<()> {
    let mut present = target.range(ROOT, "", 0).entries;
    present.retain(|entry| copy::is_copied(&entry.key));
    let changes = copy::differences(objects, &present, outdated);
    let mut progress = Progress::new(what, changes.len());
    Copy::new(source.clone(), target.clone()).apply(changes, Some(&mut progress)).await?;
    progress.finish();
    Ok(())
}

/// Copies changes as they happen, until a signal.
async fn follow_source(source: &Store, target: &Store, after: u64) -> anyhow::Result<()> {
    let mut stop = Box::pin(StopSignals::install()?.wait());
    let mut watch = source.watch(ROOT, after).context("cannot watch the source")?;
    let copy = Copy::new(source.clone(), target.clone());
    eprintln!("following the source; stop its API servers, then press Ctrl-C");
    let (mut copied, mut reported) = (0_u64, Instant::now());
    loop {
        let events = tokio::select! {
            events = watch.next() => events.context("cannot watch the source")?,
            () = &mut stop => return Ok(()),
        };
        let changes = latest(&events);
        copied += changes.len() as u64;
        copy.apply(changes, None).await?;
        if reported.elapsed() >= REPORT_EVERY {
            reported = Instant::now();
            let at = events.last().map_or(after, |event| event.revision);
            eprintln!("following: {copied} changes copied, up to revision {at} of the source");
        }
    }
}

/// The last state of each key that events change. Pure.
fn latest(events: &[Arc<Event>]) -> Vec<Change> {
    let mut changes = BTreeMap::new();
    for event in events.iter().filter(|event| copy::is_copied(&event.key)) {
        let change = match (&event.current, &event.previous) {
            (Some(entry), _) => Some(Change::Put(Arc::clone(entry))),
            (None, previous) => previous.clone().map(Change::Delete),
        };
        changes.extend(change.map(|change| (Arc::clone(&event.key), change)));
    }
    changes.into_values().collect()
}

/// Compares all objects with those of the target, which is opened anew. Returns their number and the open target.
async fn check(settled: &Settled, target: Store, to: &Side<'_>) -> anyhow::Result<(usize, Store)> {
    let (target, stored) = if to.is_etcd() {
        let stored = to.open(Role::Source).await?;
        (target, stored)
    } else {
        close(target).await?;
        let target = to.open(Role::Target).await?;
        (target.clone(), target)
    };
    let mut stored = stored.range(ROOT, "", 0).entries;
    stored.retain(|entry| copy::is_copied(&entry.key));
    let different: Vec<String> = copy::differences(&settled.objects, &stored, &HashSet::new())
        .iter()
        .filter(|change| !change.is_leased())
        .map(|change| change.key().to_owned())
        .collect();
    if !different.is_empty() {
        let shown = different[..different.len().min(NAMED)].join(", ");
        bail!("{} objects differ in the target, such as {shown}; run this command again", different.len());
    }
    Ok((settled.objects.len(), target))
}

/// Makes all further writes of the target have later revisions than this one.
async fn raise(target: &Store, to: &Side<'_>, revision: u64) -> anyhow::Result<()> {
    let behind = revision.saturating_sub(target.revision());
    if to.is_etcd() && behind > MAX_RAISE {
        bail!(
            "etcd would need {behind} writes to get beyond the source's revision {revision}; stop the target, raise its \
             revision with `etcdutl snapshot restore --bump-revision {behind} --mark-compacted`, and run this command again"
        );
    }
    if to.is_etcd() && behind > TOLD {
        eprintln!("raising the target's revision by {behind}, with a write for each");
    }
    if behind > 0 {
        target.raise(revision).await.context("cannot raise the target's revision")?;
    }
    Ok(())
}

/// Compacts every revision that a client of the source can know, and removes the mark.
async fn finish(target: Store, to: &Side<'_>, revision: u64) -> anyhow::Result<Store> {
    raise(&target, to, revision).await?;
    let source = marker::source(&target).unwrap_or_default();
    marker::set(&target, &source).await?;
    target.compact(target.revision()).await.context("cannot compact the target")?;
    marker::clear(&target).await?;
    Ok(target)
}

async fn close(store: Store) -> anyhow::Result<()> {
    tokio::task::spawn_blocking(|| store.close()).await.context("cannot close the store")
}
