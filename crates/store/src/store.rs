//! The handle to an open store.
//!
//! A store is a directory: the files `log-…` and `snapshot-…` contain all data, `witness` the last acknowledged revision, and
//! `lock` is locked by the process that has it open.
//!
//! Invariants: one process has a directory open at a time; when `close` returns, or the last handle is dropped, all accepted
//! writes are on disk, the threads have ended and the directory is unlocked. Only the owner may read its files: a store
//! contains every Secret of a cluster.

use std::{
    fmt,
    fs::{File, OpenOptions, TryLockError},
    io,
    path::Path,
    sync::{Arc, atomic::Ordering},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use corten_base::files;
use parking_lot::Mutex;
use tokio::sync::watch::Receiver;

use crate::{
    Committed, Entry, Error, Event, Keys, LeaseId, LeaseState, Observer, Options, Outcome, Program, Range,
    Revision, Txn, Watch,
    commit::Committer,
    housekeeping::Housekeeper,
    log::{
        Engine, Generations,
        load::{self, Tolerance},
    },
    model::MAX_BYTES,
    observe,
    queue::{Queue, Request},
    shared::Shared,
    state::{self, State},
    witness::{Marks, Witness},
};

/// The database file of the first versions.
const DATABASE: &str = "store.db";
const LOCK: &str = "lock";
const WITNESS: &str = "witness";

/// Enough for observers; most of it is never touched.
const STACK_BYTES: usize = 512 << 10;
const LONGEST_LEASE: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// An open store. Clones are the same store.
#[derive(Clone)]
pub struct Store {
    handle: Arc<Handle>,
}

struct Handle {
    shared: Arc<Shared>,
    threads: Mutex<Threads>,
}

#[derive(Default)]
struct Threads {
    committer: Option<JoinHandle<()>>,
    keeper: Option<JoinHandle<()>>,
}

impl Store {
    /// Opens the embedded store in `dir`, and creates both if they do not exist. Blocks while loading.
    pub fn open(dir: &Path, options: Options) -> Result<Store, Error> {
        files::private_directory(dir).map_err(Error::file(dir))?;
        let lock = lock(&dir.join(LOCK))?;
        let database = dir.join(DATABASE);
        if database.exists() {
            return Err(Error::Format { path: database });
        }
        let mut tolerance = Tolerance::new(options.accept_loss);
        let (witness, marks) = open_witness(&dir.join(WITNESS), &mut tolerance)?;
        let generations = Arc::new(Generations::open(dir, options.sealing, &mut tolerance)?);
        let first = options.first_revision;
        let loaded = load::load(&generations, marks.unwrap_or_default(), first, &mut tolerance)?;
        generations.prune(loaded.compacted)?;
        if marks.is_none() && loaded.state.revision > 0 {
            tracing::warn!("witness file missing; cannot check for lost acknowledged writes");
        }
        let assigned = loaded.assigned;
        let acknowledged = loaded.state.revision;
        witness
            .write(Marks { acknowledged, assigned })
            .and_then(|()| witness.sync())
            .and_then(|()| File::open(dir)?.sync_all())
            .map_err(Error::file(dir))?;
        let engine = Engine::new(Arc::clone(&generations), acknowledged, options.snapshot_bytes)?;
        let shared = Arc::new(Shared::new(loaded, generations, Queue::new(options.worker_threads)));
        let committer =
            Committer::new(Arc::clone(&shared), engine, witness, assigned, options.snapshot_bytes, lock);
        let housekeeper = Housekeeper::new(Arc::clone(&shared), options.history);
        let handle = Handle { shared, threads: Mutex::default() };
        let committer = spawn("store-committer", move || committer.run());
        handle.threads.lock().committer = Some(committer.map_err(Error::file(dir))?);
        let keeper = spawn("store-keeper", move || housekeeper.run());
        handle.threads.lock().keeper = Some(keeper.map_err(Error::file(dir))?);
        Ok(Store { handle: Arc::new(handle) })
    }

    /// The revision of the last published write.
    pub fn revision(&self) -> Revision {
        self.shared().revision()
    }

    /// The compacted revision: reads and watches start at it or later.
    pub fn compacted(&self) -> Revision {
        self.shared().compacted.load(Ordering::Acquire)
    }

    /// The published revision, as it changes.
    pub fn progress(&self) -> Receiver<Revision> {
        self.shared().progress.subscribe()
    }

    /// The current entry of a key, from memory. Sees every write acknowledged before the call.
    pub fn get(&self, key: &str) -> Option<Arc<Entry>> {
        self.shared().state.read().get(key).cloned()
    }

    /// The current entries under `prefix` whose key is not before `from`, in key order, at most
    /// `limit` (0 for all).
    pub fn range(&self, prefix: &str, from: &str, limit: usize) -> Range {
        self.shared().state.read().range(prefix, from, limit)
    }

    /// Like [`Store::range`], as of an earlier revision.
    pub async fn range_at(
        &self,
        prefix: &str,
        from: &str,
        limit: usize,
        revision: Revision,
    ) -> Result<Range, Error> {
        let (prefix, from) = (prefix.to_owned(), from.to_owned());
        self.blocking(move |shared| shared.range_at(&prefix, &from, limit, revision)).await
    }

    /// The current entries of a range of keys, at most `limit` (0 for all).
    pub fn scan(&self, keys: &Keys, limit: usize) -> Range {
        let state = self.shared().state.read();
        state::page(state.scan(keys), limit, state.revision)
    }

    /// Like [`Store::scan`], as of an earlier revision.
    pub async fn scan_at(&self, keys: &Keys, limit: usize, revision: Revision) -> Result<Range, Error> {
        let keys = keys.clone();
        self.blocking(move |shared| {
            let all = shared.range_at(keys.prefix(), &keys.start, 0, revision)?;
            let entries = all.entries.iter().filter(|entry| keys.contains(&entry.key));
            Ok(state::page(entries, limit, revision))
        })
        .await
    }

    /// Runs a program. Resolves once its writes are on disk and visible to every reader and observer; one that does not
    /// write is decided against the published state.
    pub async fn run(&self, program: Program) -> Result<Outcome, Error> {
        if program.is_read_only() {
            return self.shared().read(program);
        }
        if program.bytes() > MAX_BYTES {
            return Err(Error::Invalid("a transaction is larger than 64 MiB"));
        }
        self.shared().queue.submit(|reply| Request::Program(program, reply)).await
    }

    /// Commits a transaction. Resolves once it is on disk and visible to every reader and observer.
    /// Dropping the future does not cancel the transaction.
    pub async fn commit(&self, txn: Txn) -> Result<Committed, Error> {
        self.shared().queue.submit(|reply| Request::Txn(txn, reply)).await
    }

    /// Atomically returns the current entries under `prefix` with the store's revision, and from then on calls `observer` with
    /// every later change under it.
    pub fn observe(&self, prefix: &str, observer: Arc<dyn Observer>) -> (Revision, Vec<Arc<Entry>>) {
        self.subscribe(prefix, observer, |state| observe::snapshot(state, prefix))
    }

    /// The events under `prefix` after one revision up to and including another (or the current
    /// revision, if that is lower): the first `limit` of them (0 for all), and the others of the last one's revision.
    pub async fn events_since(
        &self,
        prefix: &str,
        after: Revision,
        up_to: Revision,
        limit: usize,
    ) -> Result<Vec<Arc<Event>>, Error> {
        let prefix = prefix.to_owned();
        self.blocking(move |shared| shared.events_since(&prefix, after, up_to, limit)).await
    }

    /// A stream of the events under `prefix` after a revision.
    pub fn watch(&self, prefix: &str, after: Revision) -> Result<Watch, Error> {
        self.shared().check_not_compacted(after)?;
        self.shared().check_not_future(after)?;
        Ok(Watch::start(self, prefix, after))
    }

    /// Compacts the history before `revision`. Resolves once that is on disk; the space is freed gradually afterwards. A
    /// revision that is already compacted is not an error.
    pub async fn compact(&self, revision: Revision) -> Result<(), Error> {
        self.shared().queue.submit(|reply| Request::Compact(revision, reply)).await
    }

    /// Grants a lease: unless kept alive, it expires after `ttl`, and its keys are deleted.
    pub async fn grant(&self, ttl: Duration) -> Result<LeaseId, Error> {
        let ttl = ttl.min(LONGEST_LEASE);
        self.shared().queue.submit(|reply| Request::Grant(None, ttl, reply)).await
    }

    /// Grants a lease with an id that the caller chose.
    pub async fn grant_with_id(&self, id: LeaseId, ttl: Duration) -> Result<(), Error> {
        let ttl = ttl.min(LONGEST_LEASE);
        self.shared().queue.submit(|reply| Request::Grant(Some(id), ttl, reply)).await.map(|_| ())
    }

    /// A lease and its keys.
    pub fn lease(&self, id: LeaseId) -> Option<LeaseState> {
        self.shared().leases.lock().state(id, Instant::now())
    }

    /// All leases, those that end first at the beginning.
    pub fn leases(&self) -> Vec<LeaseId> {
        let mut terms: Vec<_> = self.shared().leases.lock().terms().collect();
        terms.sort_unstable_by_key(|(id, term)| (term.deadline, *id));
        terms.into_iter().map(|(id, _)| id).collect()
    }

    /// The bytes of the store's files.
    pub fn disk_bytes(&self) -> u64 {
        self.shared().generations.bytes()
    }

    /// Restarts the lease's time to live.
    pub async fn keep_alive(&self, id: LeaseId) -> Result<(), Error> {
        self.shared().queue.submit(|reply| Request::KeepAlive(id, reply)).await
    }

    /// Revokes a lease now and deletes its keys.
    pub async fn revoke(&self, id: LeaseId) -> Result<(), Error> {
        self.shared().queue.submit(|reply| Request::Revoke(id, reply)).await
    }

    /// True if all further writes fail: the store was closed, or its committer has ended.
    pub fn is_closed(&self) -> bool {
        self.shared().queue.is_closed()
    }

    /// From now on commits only in [`Store::flush`], until the store is closed: so that a test decides which requests are
    /// committed together.
    pub fn hold(&self) {
        self.shared().queue.hold();
    }

    /// Commits the waiting requests and blocks until their responses are sent.
    pub fn flush(&self) {
        self.shared().queue.flush();
    }

    /// True if no task waits for the store.
    pub fn is_quiet(&self) -> bool {
        self.shared().queue.is_quiet()
    }

    /// Commits all accepted requests, stops the threads and unlocks the directory; blocks until then. Other clones of the
    /// handle get [`Error::Closed`] from now on; reads from memory still work.
    pub fn close(self) {
        self.handle.shut_down();
    }

    pub(crate) fn subscribe<T>(
        &self,
        prefix: &str,
        observer: Arc<dyn Observer>,
        snapshot: impl FnOnce(&State) -> T,
    ) -> T {
        self.shared().observers.subscribe(&self.shared().state, prefix, observer, snapshot)
    }

    fn shared(&self) -> &Arc<Shared> {
        &self.handle.shared
    }

    /// Runs a read of the disk on a thread that may block.
    async fn blocking<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Shared) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let _asking = self.shared().queue.count_waiting();
        let shared = Arc::clone(self.shared());
        tokio::task::spawn_blocking(move || read(&shared)).await.unwrap_or(Err(Error::Closed))
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("revision", &self.revision()).finish_non_exhaustive()
    }
}

impl Handle {
    fn shut_down(&self) {
        // The housekeeper may be waiting for the committer, so it is stopped first.
        self.shared.queue.release();
        self.shared.housekeeping.close();
        let threads = std::mem::take(&mut *self.threads.lock());
        if let Some(thread) = threads.keeper {
            join(thread);
        }
        self.shared.queue.close();
        if let Some(thread) = threads.committer {
            join(thread);
        }
    }
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    thread::Builder::new().name(name.into()).stack_size(STACK_BYTES).spawn(run)
}

/// Waits for a thread, unless it is this one: an observer may drop the last handle.
fn join(thread: JoinHandle<()>) {
    if thread.thread().id() != thread::current().id() && thread.join().is_err() {
        tracing::error!("store thread panicked");
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shut_down();
    }
}

fn lock(path: &Path) -> Result<File, Error> {
    let file = files::open_private(OpenOptions::new().create(true).truncate(false).write(true), path);
    let file = file.map_err(Error::file(path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(Error::Locked { path: path.into() }),
        Err(TryLockError::Error(error)) => Err(Error::file(path)(error)),
    }
}

/// Opens the witness file. A missing one is only warned about; an unreadable one is damage.
fn open_witness(path: &Path, tolerance: &mut Tolerance) -> Result<(Witness, Option<Marks>), Error> {
    let (witness, marks) = Witness::open(path)?;
    match marks {
        Ok(marks) => Ok((witness, marks)),
        Err(damage) => {
            tolerance.accept_or_fail(damage)?;
            Ok((witness, None))
        }
    }
}
