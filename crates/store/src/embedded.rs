//! The embedded engine of a store: a directory, the threads that write to it, and reads of its history.
//!
//! A store is a directory: the files `log-…` and `snapshot-…` contain all data, `witness` the last acknowledged revision, and
//! `lock` is locked by the process that has it open.
//!
//! Invariants: one process has a directory open at a time; when `shut_down` returns all accepted writes are on disk, the
//! threads have ended and the directory is unlocked. Only the owner may read its files: a store contains every Secret of a
//! cluster.

use std::{
    fs::TryLockError,
    io,
    path::Path,
    sync::Arc,
    thread::{self, JoinHandle},
};

use parking_lot::Mutex;

use crate::{
    Error, Keep, Options,
    commit::Committer,
    disk::{self, Disk, DiskFile, Open},
    housekeeping::Housekeeper,
    log::{
        Engine, Generations,
        load::{self, Tolerance},
    },
    queue::Queue,
    shared::Shared,
    witness::{Marks, Witness},
};

/// The database file of the first versions.
const DATABASE: &str = "store.db";
const LOCK: &str = "lock";
const WITNESS: &str = "witness";

/// Enough for observers; most of it is never touched.
const STACK_BYTES: usize = 512 << 10;

pub(crate) struct Embedded {
    pub(crate) shared: Arc<Shared>,
    pub(crate) keep: Option<Keep>,
    threads: Mutex<Threads>,
}

#[derive(Default)]
struct Threads {
    committer: Option<JoinHandle<()>>,
    keeper: Option<JoinHandle<()>>,
}

impl Embedded {
    /// Opens the store in `dir`, and creates both if they do not exist. Blocks while loading.
    pub(crate) fn open(dir: &Path, options: Options) -> Result<Embedded, Error> {
        let disk = Arc::clone(&options.disk);
        let witness = dir.join(WITNESS);
        let is_new = !disk.exists(&witness).map_err(Error::file(&witness))?;
        // The names of the directories were synced before it got a witness file.
        let created = if is_new { disk::create_directory(&*disk, dir) } else { disk.create_directory(dir) };
        created.map_err(Error::file(dir))?;
        let lock = lock(&*disk, &dir.join(LOCK))?;
        let database = dir.join(DATABASE);
        if disk.exists(&database).map_err(Error::file(&database))? {
            return Err(Error::Format { path: database });
        }
        let mut tolerance = Tolerance::new(options.accept_loss);
        let marks = tolerance.take(Witness::read(&*disk, &witness)?.map_err(Error::from))?.flatten();
        let generations =
            Arc::new(Generations::open(Arc::clone(&disk), dir, options.sealing, &mut tolerance)?);
        let first = options.first_revision;
        // Names that a process left behind may be in memory only; the files that they replace are removed below.
        disk.sync_directory(dir).map_err(Error::sync(dir))?;
        let loaded = load::load(&generations, marks.unwrap_or_default(), first, &mut tolerance)?;
        if options.keep.is_none() {
            generations.prune(loaded.compacted)?;
        }
        if marks.is_none() && loaded.state.revision > first {
            tracing::warn!("witness file missing; cannot check for lost acknowledged writes");
        }
        let assigned = loaded.assigned;
        let acknowledged = loaded.state.revision;
        let witness = Witness::create(&*disk, &witness, Marks { acknowledged, assigned })?;
        if is_new {
            disk.sync_directory(dir).map_err(Error::sync(dir))?;
        }
        let has_times = options.keep.is_some();
        let engine = Engine::new(Arc::clone(&generations), acknowledged, options.snapshot_bytes, has_times)?;
        let shared = Arc::new(Shared::new(loaded, generations, Queue::new(options.worker_threads)));
        let committer =
            Committer::new(Arc::clone(&shared), engine, witness, assigned, options.snapshot_bytes, lock);
        let housekeeper =
            Housekeeper::new(Arc::clone(&shared), options.history, options.keep, options.snapshot_bytes);
        let embedded = Embedded { shared, keep: options.keep, threads: Mutex::default() };
        let committer = spawn("store-committer", move || committer.run());
        embedded.threads.lock().committer = Some(committer.map_err(Error::file(dir))?);
        let keeper = spawn("store-keeper", move || housekeeper.run());
        embedded.threads.lock().keeper = Some(keeper.map_err(Error::file(dir))?);
        Ok(embedded)
    }

    /// Runs a read of the disk on a thread that may block.
    pub(crate) async fn blocking<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Shared) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let _asking = self.shared.queue.count_waiting();
        let shared = Arc::clone(&self.shared);
        tokio::task::spawn_blocking(move || read(&shared)).await.unwrap_or(Err(Error::Closed))
    }

    pub(crate) fn shut_down(&self) {
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

fn lock(disk: &dyn Disk, path: &Path) -> Result<Box<dyn DiskFile>, Error> {
    let file = disk.open(path, Open::Any).map_err(Error::file(path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(Error::Locked { path: path.into() }),
        Err(TryLockError::Error(error)) => Err(Error::file(path)(error)),
    }
}
