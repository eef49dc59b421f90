//! A disk in memory that records every change, so that a test can reopen it as a crash at any moment would leave it.
//!
//! Kinds of syncs can be ignored, and operations made to fail, so that tests can be shown to notice.

pub(crate) mod model;

use std::{
    collections::BTreeMap,
    fmt,
    fs::TryLockError,
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use corten_store::disk::{Disk, DiskFile, Open};
use parking_lot::Mutex;

use model::{Inode, Model, Step};

/// The directory that exists on every simulated disk.
pub(crate) const ROOT: &str = "/disk";

/// An operation that is about to be carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Open,
    Read,
    Write,
    Resize,
    Rename,
    Remove,
    SyncFile,
    SyncDirectory,
}

/// The failures of a disk: those operations of a kind that `is` selects, after the first `after` of them.
pub(crate) struct Fault {
    pub(crate) is: fn(Operation) -> bool,
    pub(crate) after: usize,
    /// The number of operations that fail.
    pub(crate) count: usize,
    pub(crate) errno: i32,
}

#[derive(Clone)]
pub(crate) struct SimulatedDisk(Arc<Mutex<State>>);

struct State {
    model: Model,
    steps: Vec<Step>,
    /// The number of syncs of each kind.
    syncs: BTreeMap<String, usize>,
    /// The kind of syncs that do nothing.
    ignored: Option<String>,
    fault: Option<Fault>,
    has_failed: bool,
    capacity: u64,
}

impl fmt::Debug for SimulatedDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SimulatedDisk")
    }
}

impl SimulatedDisk {
    /// A disk on which syncs of one kind do nothing.
    pub(crate) fn of(model: Model, ignored: Option<String>) -> SimulatedDisk {
        SimulatedDisk(Arc::new(Mutex::new(State {
            model,
            steps: Vec::new(),
            syncs: BTreeMap::new(),
            ignored,
            fault: None,
            has_failed: false,
            capacity: u64::MAX,
        })))
    }

    pub(crate) fn fail(&self, fault: Option<Fault>) {
        self.0.lock().fault = fault;
    }

    /// True if a fault has failed an operation.
    pub(crate) fn has_failed(&self) -> bool {
        self.0.lock().has_failed
    }

    pub(crate) fn set_capacity(&self, capacity: u64) {
        self.0.lock().capacity = capacity;
    }

    pub(crate) fn used(&self) -> u64 {
        self.0.lock().model.used()
    }

    pub(crate) fn model(&self) -> Model {
        self.0.lock().model.clone()
    }

    /// The number of steps so far.
    pub(crate) fn position(&self) -> usize {
        self.0.lock().steps.len()
    }

    pub(crate) fn steps(&self) -> Vec<Step> {
        self.0.lock().steps.clone()
    }

    pub(crate) fn syncs(&self) -> BTreeMap<String, usize> {
        self.0.lock().syncs.clone()
    }
}

impl State {
    fn step(&mut self, step: Step) {
        self.model.apply(&step);
        self.steps.push(step);
    }

    /// Fails the operation if that is due.
    fn begin(&mut self, operation: Operation) -> io::Result<()> {
        let Some(fault) = self.fault.as_mut().filter(|fault| (fault.is)(operation)) else { return Ok(()) };
        if fault.after > 0 {
            fault.after -= 1;
            return Ok(());
        }
        if fault.count == 0 {
            return Ok(());
        }
        fault.count -= 1;
        self.has_failed = true;
        Err(io::Error::from_raw_os_error(fault.errno))
    }

    fn sync(&mut self, kind: String, step: Step) {
        let is_ignored = self.ignored.as_ref() == Some(&kind);
        *self.syncs.entry(kind).or_default() += 1;
        if !is_ignored {
            self.step(step);
        }
    }

    /// Writes what fits and fails if that is not all.
    fn write(&mut self, inode: Inode, at: usize, bytes: &[u8]) -> io::Result<()> {
        let failed = self.begin(Operation::Write);
        let grown = (at + bytes.len()).saturating_sub(self.model.bytes(inode).len());
        let missing = (self.model.used() + grown as u64).saturating_sub(self.capacity);
        let missing = usize::try_from(missing).unwrap_or(usize::MAX);
        let fits = match &failed {
            // A write that fails has written a part.
            Err(_) => bytes.len() / 2,
            Ok(()) => bytes.len().saturating_sub(missing.min(grown)),
        };
        if fits > 0 {
            self.step(Step::Write { inode, at, bytes: bytes[..fits].into() });
        }
        failed?;
        if fits < bytes.len() { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    fn absent(&self, path: &Path) -> io::Result<()> {
        if self.model.exists(path) { Ok(()) } else { Err(io::ErrorKind::NotFound.into()) }
    }
}

impl Disk for SimulatedDisk {
    fn exists(&self, path: &Path) -> io::Result<bool> {
        Ok(self.0.lock().model.exists(path))
    }

    fn create_directory(&self, dir: &Path) -> io::Result<()> {
        let mut state = self.0.lock();
        let missing: Vec<PathBuf> =
            dir.ancestors().take_while(|dir| !state.model.exists(dir)).map(Path::to_owned).collect();
        missing.into_iter().rev().for_each(|dir| state.step(Step::Directory(dir)));
        Ok(())
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let mut state = self.0.lock();
        state.begin(Operation::Read)?;
        state.absent(dir)?;
        Ok(state.model.list(dir))
    }

    fn open(&self, path: &Path, open: Open) -> io::Result<Box<dyn DiskFile>> {
        let mut state = self.0.lock();
        state.begin(Operation::Open)?;
        if !state.model.exists(path) && open != Open::Existing {
            state.step(Step::Create(path.to_owned()));
        }
        let inode = state.model.find(path).ok_or(io::ErrorKind::NotFound)?;
        if open == Open::Empty && !state.model.bytes(inode).is_empty() {
            state.step(Step::Resize { inode, size: 0 });
        }
        Ok(Box::new(SimulatedFile { disk: self.clone(), inode }))
    }

    fn create_zeroed(&self, path: &Path, size: u64) -> io::Result<Box<dyn DiskFile>> {
        let file = self.open(path, Open::Empty)?;
        file.write_all_at(&vec![0; size as usize], 0)?;
        Ok(file)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.0.lock();
        state.begin(Operation::Rename)?;
        state.absent(from)?;
        state.step(Step::Rename { from: from.to_owned(), to: to.to_owned() });
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.0.lock();
        state.begin(Operation::Remove)?;
        state.absent(path)?;
        state.step(Step::Remove(path.to_owned()));
        Ok(())
    }

    fn sync_directory(&self, dir: &Path) -> io::Result<()> {
        let mut state = self.0.lock();
        state.begin(Operation::SyncDirectory)?;
        let kind = format!("directory ({})", state.model.change(dir));
        state.sync(kind, Step::SyncDirectory(dir.to_owned()));
        Ok(())
    }

    fn free_bytes(&self, _: &Path) -> io::Result<u64> {
        let state = self.0.lock();
        Ok(state.capacity.saturating_sub(state.model.used()))
    }
}

#[derive(Debug)]
struct SimulatedFile {
    disk: SimulatedDisk,
    inode: Inode,
}

impl SimulatedFile {
    fn sync(&self, how: &str) -> io::Result<()> {
        let mut state = self.disk.0.lock();
        if let Err(error) = state.begin(Operation::SyncFile) {
            state.step(Step::FailedSync(self.inode));
            return Err(error);
        }
        let kind = format!("{} ({how})", state.model.kind(self.inode));
        state.sync(kind, Step::SyncFile(self.inode));
        Ok(())
    }
}

impl DiskFile for SimulatedFile {
    fn size(&self) -> io::Result<u64> {
        Ok(self.disk.0.lock().model.bytes(self.inode).len() as u64)
    }

    fn read_exact_at(&self, bytes: &mut [u8], at: u64) -> io::Result<()> {
        let mut state = self.disk.0.lock();
        state.begin(Operation::Read)?;
        let at = usize::try_from(at).unwrap_or(usize::MAX);
        let part = state.model.bytes(self.inode).get(at..at.saturating_add(bytes.len()));
        bytes.copy_from_slice(part.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn write_all_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        self.disk.0.lock().write(self.inode, at as usize, bytes)
    }

    fn set_size(&self, size: u64) -> io::Result<()> {
        let mut state = self.disk.0.lock();
        state.begin(Operation::Resize)?;
        state.step(Step::Resize { inode: self.inode, size: size as usize });
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        self.sync("data")
    }

    fn sync_all(&self) -> io::Result<()> {
        self.sync("all")
    }

    fn try_lock(&self) -> Result<(), TryLockError> {
        Ok(())
    }
}
