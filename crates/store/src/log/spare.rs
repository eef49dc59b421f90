//! The spare file: the next log file, prepared concurrently with commits.
//!
//! A sync is short only if it writes nothing but the commit: no new file size, no new blocks, and no zeros. Blocks are
//! allocated, and zeros are on disk, before a file becomes a log. Syncs of the current log do not wait for that, because it
//! is another file.
//!
//! It is optional: without a spare file, a log grows as it is written. A spare file has a temporary name, so that the next
//! open removes one that was left behind.

use std::{
    error::Error as StdError,
    io,
    path::{Path, PathBuf},
    sync::Arc,
    thread::{self, JoinHandle},
};

use super::file::PAGE;
use crate::disk::{Disk, DiskFile};

/// The free space that a spare file needs, as a multiple of its size.
const ROOM: u64 = 8;
const STACK_BYTES: usize = 256 << 10;

pub(super) struct Spare {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    bytes: u64,
    state: State,
}

enum State {
    Absent,
    Underway(JoinHandle<io::Result<Box<dyn DiskFile>>>),
    Ready(Box<dyn DiskFile>),
    /// It could not be created; retried when the reason may be gone.
    Failed,
}

impl Spare {
    /// A spare file of this size, rounded to whole pages.
    pub(super) fn new(disk: Arc<dyn Disk>, path: PathBuf, bytes: u64) -> Spare {
        Spare { disk, path, bytes: bytes.next_multiple_of(PAGE), state: State::Absent }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Starts to prepare a file, if there is none.
    pub(super) fn start(&mut self) {
        if !matches!(self.state, State::Absent) {
            return;
        }
        let (disk, path, bytes) = (Arc::clone(&self.disk), self.path.clone(), self.bytes);
        let thread = thread::Builder::new().name("store-spare".into()).stack_size(STACK_BYTES);
        self.state = match thread.spawn(move || prepare(&*disk, &path, bytes)) {
            Ok(thread) => State::Underway(thread),
            Err(error) => failed(&error),
        };
    }

    /// True if a file is prepared.
    pub(super) fn is_ready(&mut self) -> bool {
        if matches!(&self.state, State::Underway(thread) if thread.is_finished()) {
            self.wait_until_prepared();
        }
        matches!(self.state, State::Ready(_))
    }

    /// Takes the prepared file. The caller renames it.
    pub(super) fn take(&mut self) -> Option<Box<dyn DiskFile>> {
        if !self.is_ready() {
            return None;
        }
        match std::mem::replace(&mut self.state, State::Absent) {
            State::Ready(file) => Some(file),
            _ => None,
        }
    }

    /// Allows another attempt after a failure.
    pub(super) fn allow_retry(&mut self) {
        if matches!(self.state, State::Failed) {
            self.state = State::Absent;
        }
    }

    /// Removes the spare file, to free its space. It is not prepared again before a retry is allowed.
    pub(super) fn discard(&mut self) {
        self.wait_until_prepared();
        if let State::Ready(_) = std::mem::replace(&mut self.state, State::Failed)
            && let Err(error) = self.disk.remove(&self.path)
        {
            tracing::warn!(err = %error, "cannot remove spare log file");
        }
    }

    /// Waits until the preparation has ended.
    fn wait_until_prepared(&mut self) {
        let State::Underway(_) = self.state else { return };
        let State::Underway(thread) = std::mem::replace(&mut self.state, State::Failed) else { return };
        self.state = match thread.join() {
            Ok(Ok(file)) => State::Ready(file),
            Ok(Err(error)) => failed(&error),
            Err(_) => State::Failed,
        };
    }
}

impl Drop for Spare {
    fn drop(&mut self) {
        self.discard();
    }
}

fn failed(error: &io::Error) -> State {
    tracing::debug!(err = error as &dyn StdError, "cannot prepare next log file; retrying");
    State::Failed
}

/// Creates a file of zeros on disk; removes it after a failure.
fn prepare(disk: &dyn Disk, path: &Path, bytes: u64) -> io::Result<Box<dyn DiskFile>> {
    if path.parent().is_some_and(|dir| disk.free_bytes(dir).is_ok_and(|free| free / ROOM < bytes)) {
        return Err(io::ErrorKind::StorageFull.into());
    }
    let filled = disk.create_zeroed(path, bytes).and_then(|file| file.sync_all().map(|()| file));
    if filled.is_err() {
        disk.remove(path)?;
    }
    filled
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::disk::Kernel;

    #[test]
    fn a_file_is_prepared_and_taken_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("spare.tmp");
        let mut spare = Spare::new(Arc::new(Kernel), path.clone(), (1 << 20) + PAGE);
        assert!(!spare.is_ready() && spare.take().is_none());
        spare.start();
        spare.start();
        while !spare.is_ready() {
            thread::yield_now();
        }
        let file = spare.take().unwrap();
        assert_eq!(file.size().unwrap(), (1 << 20) + PAGE);
        assert!(fs::read(&path).unwrap().iter().all(|byte| *byte == 0));
        assert!(spare.take().is_none(), "it is gone");
        spare.start();
        drop(spare);
        assert!(!path.exists(), "a file that was not taken is removed");
    }

    #[test]
    fn a_failed_preparation_is_not_retried_by_itself() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("no such directory").join("spare.tmp");
        let mut spare = Spare::new(Arc::new(Kernel), path.clone(), PAGE);
        spare.start();
        spare.wait_until_prepared();
        assert!(matches!(spare.state, State::Failed));
        spare.start();
        assert!(matches!(spare.state, State::Failed));
        fs::create_dir(path.parent().unwrap()).unwrap();
        spare.allow_retry();
        spare.start();
        spare.wait_until_prepared();
        assert!(spare.is_ready());
        spare.discard();
        assert!(!path.exists() && !spare.is_ready());
    }
}
