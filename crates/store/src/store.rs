//! The handle to an open store, whatever its engine.
//!
//! Invariants: reads of the current state are from memory, and see every write that was acknowledged before; when `close`
//! returns, or the last handle is dropped, all accepted writes are durable and the engine has ended.

use std::{
    fmt,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use corten_serving::metrics::Histogram;
use tokio::sync::watch::Receiver;

use crate::{
    Committed, Entry, Error, EtcdOptions, Event, Keys, LeaseId, LeaseState, Observer, Options, Outcome,
    Program, Range, Revision, Translation, Txn, Watch,
    embedded::Embedded,
    etcd::Etcd,
    live::Live,
    model::MAX_BYTES,
    observe,
    queue::Request,
    state::{self, State},
};

/// The time between looks at the files that are to be replaced.
const SEAL_AGAIN: Duration = Duration::from_millis(50);
const LONGEST_LEASE: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// An open store. Clones are the same store.
#[derive(Clone)]
pub struct Store {
    handle: Arc<Handle>,
}

struct Handle {
    live: Arc<Live>,
    engine: Engine,
}

enum Engine {
    Embedded(Embedded),
    Etcd(Arc<Etcd>),
}

impl Store {
    /// Opens the embedded store in `dir`, and creates both if they do not exist. Blocks while loading.
    pub fn open(dir: &Path, options: Options) -> Result<Store, Error> {
        let embedded = Embedded::open(dir, options)?;
        let live = Arc::clone(&embedded.shared.live);
        Ok(Store { handle: Arc::new(Handle { live, engine: Engine::Embedded(embedded) }) })
    }

    /// Connects to etcd and loads all keys below its prefix. Keeps trying until etcd responds.
    pub async fn connect(options: EtcdOptions, translation: Arc<dyn Translation>) -> Result<Store, Error> {
        let etcd = Etcd::connect(options, translation).await?;
        let live = Arc::clone(&etcd.live);
        Ok(Store { handle: Arc::new(Handle { live, engine: Engine::Etcd(etcd) }) })
    }

    /// The revision of the last published write.
    pub fn revision(&self) -> Revision {
        self.live().revision()
    }

    /// The compacted revision: reads and watches start at it or later.
    pub fn compacted(&self) -> Revision {
        self.live().compacted()
    }

    /// The published revision, as it changes.
    pub fn progress(&self) -> Receiver<Revision> {
        self.live().progress.subscribe()
    }

    /// Waits until reads from memory show every write that any process got acknowledged before this call. An embedded store
    /// always does.
    pub async fn catch_up(&self) -> Result<(), Error> {
        match &self.handle.engine {
            Engine::Embedded(_) => Ok(()),
            Engine::Etcd(etcd) => etcd.catch_up().await,
        }
    }

    /// The current entry of a key, from memory. Sees every write acknowledged before the call.
    pub fn get(&self, key: &str) -> Option<Arc<Entry>> {
        self.live().state.read().get(key).cloned()
    }

    /// The current entries under `prefix` whose key is not before `from`, in key order, at most
    /// `limit` (0 for all).
    pub fn range(&self, prefix: &str, from: &str, limit: usize) -> Range {
        self.live().state.read().range(prefix, from, limit)
    }

    /// Like [`Store::range`], as of an earlier revision.
    pub async fn range_at(
        &self,
        prefix: &str,
        from: &str,
        limit: usize,
        revision: Revision,
    ) -> Result<Range, Error> {
        match &self.handle.engine {
            Engine::Embedded(embedded) => {
                let (prefix, from) = (prefix.to_owned(), from.to_owned());
                embedded.blocking(move |shared| shared.range_at(&prefix, &from, limit, revision)).await
            }
            Engine::Etcd(etcd) => etcd.range_at(prefix, from, limit, revision).await,
        }
    }

    /// The current entries of a range of keys, at most `limit` (0 for all).
    pub fn scan(&self, keys: &Keys, limit: usize) -> Range {
        let state = self.live().state.read();
        state::page(state.scan(keys), limit, state.revision)
    }

    /// Like [`Store::scan`], as of an earlier revision.
    pub async fn scan_at(&self, keys: &Keys, limit: usize, revision: Revision) -> Result<Range, Error> {
        let all = self.range_at(keys.prefix(), &keys.start, 0, revision).await?;
        let entries = all.entries.iter().filter(|entry| keys.contains(&entry.key));
        Ok(state::page(entries, limit, revision))
    }

    /// Runs a program on an embedded store. Resolves once its writes are on disk and visible to every reader and observer;
    /// one that does not write is decided against the published state.
    pub async fn run(&self, program: Program) -> Result<Outcome, Error> {
        let shared = &self.embedded()?.shared;
        if program.is_read_only() {
            return shared.read(program);
        }
        if program.bytes() > MAX_BYTES {
            return Err(Error::Invalid("a transaction is larger than 64 MiB"));
        }
        shared.queue.submit(|reply| Request::Program(program, reply)).await
    }

    /// Commits a transaction. Resolves once it is durable and visible to every reader and observer.
    /// Dropping the future does not cancel the transaction.
    pub async fn commit(&self, txn: Txn) -> Result<Committed, Error> {
        match &self.handle.engine {
            Engine::Embedded(embedded) => {
                embedded.shared.queue.submit(|reply| Request::Txn(txn, reply)).await
            }
            Engine::Etcd(etcd) => etcd.commit(txn).await,
        }
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
        match &self.handle.engine {
            Engine::Embedded(embedded) => {
                let prefix = prefix.to_owned();
                embedded.blocking(move |shared| shared.events_since(&prefix, after, up_to, limit)).await
            }
            Engine::Etcd(etcd) => etcd.events_since(prefix, after, up_to, limit).await,
        }
    }

    /// A stream of the events under `prefix` after a revision.
    pub fn watch(&self, prefix: &str, after: Revision) -> Result<Watch, Error> {
        self.live().check_not_compacted(after)?;
        self.live().check_not_future(after)?;
        Ok(Watch::start(self, prefix, after))
    }

    /// Compacts the history before `revision`. Resolves once that is durable; the space is freed gradually afterwards. A
    /// revision that is already compacted is not an error.
    pub async fn compact(&self, revision: Revision) -> Result<(), Error> {
        match &self.handle.engine {
            Engine::Embedded(embedded) => {
                embedded.shared.queue.submit(|reply| Request::Compact(revision, reply)).await
            }
            Engine::Etcd(etcd) => etcd.compact(revision).await,
        }
    }

    /// Makes all further writes have later revisions than this one. etcd needs a write for each revision that it skips.
    pub async fn raise(&self, revision: Revision) -> Result<(), Error> {
        match &self.handle.engine {
            Engine::Embedded(embedded) => {
                embedded.shared.queue.submit(|reply| Request::Raise(revision, reply)).await
            }
            Engine::Etcd(etcd) => etcd.raise(revision).await,
        }
    }

    /// True if a write of the same value would store it in another form: sealed with another key, or in another version. An
    /// embedded store writes such values again when it opens.
    pub async fn is_stale(&self, key: &str) -> Result<bool, Error> {
        match &self.handle.engine {
            Engine::Embedded(_) => Ok(false),
            Engine::Etcd(etcd) => etcd.is_stale(key).await,
        }
    }

    /// The entry with its value, if it was [`crate::Unreadable`] and can be read now.
    pub fn read_again(&self, entry: &Entry) -> Option<Arc<Entry>> {
        match &self.handle.engine {
            Engine::Embedded(_) => None,
            Engine::Etcd(etcd) => etcd.read_again(entry),
        }
    }

    /// Grants a lease: unless kept alive, it expires after `ttl`, and its keys are deleted. etcd counts whole seconds, and
    /// no fewer than its election timeout.
    pub async fn grant(&self, ttl: Duration) -> Result<LeaseId, Error> {
        let ttl = ttl.min(LONGEST_LEASE);
        match &self.handle.engine {
            Engine::Embedded(embedded) => {
                embedded.shared.queue.submit(|reply| Request::Grant(None, ttl, reply)).await
            }
            Engine::Etcd(etcd) => etcd.grant(ttl).await,
        }
    }

    /// Grants a lease of an embedded store with an id that the caller chose.
    pub async fn grant_with_id(&self, id: LeaseId, ttl: Duration) -> Result<(), Error> {
        let ttl = ttl.min(LONGEST_LEASE);
        let queue = &self.embedded()?.shared.queue;
        queue.submit(|reply| Request::Grant(Some(id), ttl, reply)).await.map(|_| ())
    }

    /// A lease of an embedded store, and its keys.
    pub fn lease(&self, id: LeaseId) -> Option<LeaseState> {
        self.embedded().ok()?.shared.leases.lock().state(id, Instant::now())
    }

    /// The time until a lease expires; `None` if there is no such lease.
    pub async fn lease_remaining(&self, id: LeaseId) -> Result<Option<Duration>, Error> {
        match &self.handle.engine {
            Engine::Embedded(_) => Ok(self.lease(id).map(|lease| lease.remaining)),
            Engine::Etcd(etcd) => etcd.remaining(id).await,
        }
    }

    /// All leases of an embedded store, those that end first at the beginning.
    pub fn leases(&self) -> Vec<LeaseId> {
        let Ok(embedded) = self.embedded() else { return Vec::new() };
        let mut terms: Vec<_> = embedded.shared.leases.lock().terms().collect();
        terms.sort_unstable_by_key(|(id, term)| (term.deadline, *id));
        terms.into_iter().map(|(id, _)| id).collect()
    }

    /// Replaces the logs of an embedded store by a snapshot, which frees the space of what was compacted. Resolves when that
    /// has begun.
    pub async fn shrink(&self) -> Result<(), Error> {
        self.embedded()?.shared.queue.submit(Request::Shrink).await
    }

    /// Seals all values of an embedded store again, without its history, so that nothing on disk is sealed as before. Resolves
    /// when that is so. The caller has committed a write since the sealing changed. Values of etcd are sealed again when they
    /// are written.
    pub async fn seal_again(&self) -> Result<(), Error> {
        let Ok(embedded) = self.embedded() else { return Ok(()) };
        let generations = &embedded.shared.generations;
        let after = self.revision();
        loop {
            let (oldest, newest) = generations.bases()?;
            if oldest >= after {
                return Ok(());
            }
            if newest < after {
                self.shrink().await?;
            }
            self.compact(newest.max(after)).await?;
            tokio::time::sleep(SEAL_AGAIN).await;
        }
    }

    /// The time that commits of an embedded store took on disk.
    pub fn commit_durations(&self) -> Option<&Histogram> {
        self.embedded().ok().map(|embedded| &embedded.shared.commits)
    }

    /// The bytes of the files of an embedded store.
    pub fn disk_bytes(&self) -> u64 {
        self.embedded().map_or(0, |embedded| embedded.shared.generations.bytes())
    }

    /// Restarts the lease's time to live.
    pub async fn keep_alive(&self, id: LeaseId) -> Result<(), Error> {
        match &self.handle.engine {
            Engine::Embedded(embedded) => {
                embedded.shared.queue.submit(|reply| Request::KeepAlive(id, reply)).await
            }
            Engine::Etcd(etcd) => etcd.keep_alive(id).await,
        }
    }

    /// Revokes a lease now and deletes its keys.
    pub async fn revoke(&self, id: LeaseId) -> Result<(), Error> {
        match &self.handle.engine {
            Engine::Embedded(embedded) => {
                embedded.shared.queue.submit(|reply| Request::Revoke(id, reply)).await
            }
            Engine::Etcd(etcd) => etcd.revoke(id).await,
        }
    }

    /// True if all further writes fail: the store was closed, or its committer has ended.
    pub fn is_closed(&self) -> bool {
        match &self.handle.engine {
            Engine::Embedded(embedded) => embedded.shared.queue.is_closed(),
            Engine::Etcd(etcd) => etcd.is_closed(),
        }
    }

    /// True if other processes may write to the datastore.
    pub fn is_shared(&self) -> bool {
        matches!(self.handle.engine, Engine::Etcd(_))
    }

    /// True if the store answers: an embedded one is open, etcd has a quorum.
    pub async fn is_healthy(&self) -> bool {
        match &self.handle.engine {
            Engine::Embedded(embedded) => !self.is_closed() && embedded.shared.failure().is_none(),
            Engine::Etcd(etcd) => etcd.is_healthy().await,
        }
    }

    /// Waits until the disk of an embedded store fails in a way that only another open can overcome.
    pub async fn failed(&self) -> Error {
        if let Ok(embedded) = self.embedded() {
            let mut failure = embedded.shared.failure.subscribe();
            if let Ok(failure) = failure.wait_for(Option::is_some).await
                && let Some(error) = &*failure
            {
                return error.clone();
            }
        }
        std::future::pending().await
    }

    /// From now on an embedded store commits only in [`Store::flush`], until it is closed: so that a test decides which
    /// requests are committed together.
    pub fn hold(&self) {
        if let Engine::Embedded(embedded) = &self.handle.engine {
            embedded.shared.queue.hold();
        }
    }

    /// Commits the requests that wait after [`Store::hold`] and blocks until their responses are sent.
    pub fn flush(&self) {
        if let Engine::Embedded(embedded) = &self.handle.engine {
            embedded.shared.queue.flush();
        }
    }

    /// True if no task waits for an embedded store.
    pub fn is_quiet(&self) -> bool {
        match &self.handle.engine {
            Engine::Embedded(embedded) => embedded.shared.queue.is_quiet(),
            Engine::Etcd(_) => true,
        }
    }

    /// Commits all accepted requests and ends the engine; blocks until then. Other clones of the
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
        self.live().observers.subscribe(&self.live().state, prefix, observer, snapshot)
    }

    /// The embedded engine, for what only it can do: the API of a store on etcd is etcd's own.
    pub(crate) fn embedded(&self) -> Result<&Embedded, Error> {
        match &self.handle.engine {
            Engine::Embedded(embedded) => Ok(embedded),
            Engine::Etcd(_) => Err(Error::Invalid("only an embedded store serves etcd's API")),
        }
    }

    fn live(&self) -> &Live {
        &self.handle.live
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("revision", &self.revision()).finish_non_exhaustive()
    }
}

impl Handle {
    fn shut_down(&self) {
        match &self.engine {
            Engine::Embedded(embedded) => embedded.shut_down(),
            Engine::Etcd(etcd) => etcd.shut_down(),
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shut_down();
    }
}
