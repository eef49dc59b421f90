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
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::{Path, PathBuf},
    thread::{self, JoinHandle},
};

use corten_base::files;
use rustix::fs::{FallocateFlags, OFlags};

use super::file::PAGE;

/// The size of one write of zeros: small enough that a commit does not wait for it long.
const STEP: u64 = 256 << 10;
/// The free space that a spare file needs, as a multiple of its size.
const ROOM: u64 = 8;
const STACK_BYTES: usize = 256 << 10;

pub(super) struct Spare {
    path: PathBuf,
    bytes: u64,
    state: State,
}

enum State {
    Absent,
    Underway(JoinHandle<io::Result<File>>),
    Ready(File),
    /// It could not be created; retried when the reason may be gone.
    Failed,
}

impl Spare {
    /// A spare file of this size, rounded to whole pages.
    pub(super) fn new(path: PathBuf, bytes: u64) -> Spare {
        Spare { path, bytes: bytes.next_multiple_of(PAGE), state: State::Absent }
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
        let (path, bytes) = (self.path.clone(), self.bytes);
        let thread = thread::Builder::new().name("store-spare".into()).stack_size(STACK_BYTES);
        self.state = match thread.spawn(move || prepare(&path, bytes)) {
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
    pub(super) fn take(&mut self) -> Option<File> {
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

    /// Removes the spare file, to free its space.
    pub(super) fn discard(&mut self) {
        self.wait_until_prepared();
        if let State::Ready(_) = std::mem::replace(&mut self.state, State::Failed)
            && let Err(error) = fs::remove_file(&self.path)
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
fn prepare(path: &Path, bytes: u64) -> io::Result<File> {
    let file =
        files::open_private(OpenOptions::new().read(true).write(true).create(true).truncate(true), path)?;
    let filled = has_room(&file, bytes).and_then(|()| fill(&file, path, bytes));
    if let Err(error) = filled {
        drop(file);
        fs::remove_file(path)?;
        return Err(error);
    }
    Ok(file)
}

fn has_room(file: &File, bytes: u64) -> io::Result<()> {
    let disk = rustix::fs::fstatvfs(file)?;
    match disk.f_bavail.saturating_mul(disk.f_frsize) / ROOM >= bytes {
        true => Ok(()),
        false => Err(io::ErrorKind::StorageFull.into()),
    }
}

/// Writes zeros, with direct I/O if the file system supports it, to save a copy and memory.
fn fill(file: &File, path: &Path, bytes: u64) -> io::Result<()> {
    // Allocates all blocks at once, if the file system supports it.
    let _ = rustix::fs::fallocate(file, FallocateFlags::empty(), 0, bytes);
    let direct = OpenOptions::new().write(true).custom_flags(OFlags::DIRECT.bits().cast_signed()).open(path);
    if !direct.is_ok_and(|direct| write_zeros(&direct, bytes).is_ok()) {
        write_zeros(file, bytes)?;
    }
    file.sync_all()
}

fn write_zeros(file: &File, bytes: u64) -> io::Result<()> {
    let room = vec![0; (STEP + PAGE) as usize];
    let zeros = &room[room.as_ptr().align_offset(PAGE as usize)..][..STEP as usize];
    let mut at = 0;
    while at < bytes {
        let step = STEP.min(bytes - at);
        file.write_all_at(&zeros[..step as usize], at)?;
        at += step;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_prepared_and_taken_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("spare.tmp");
        let mut spare = Spare::new(path.clone(), (1 << 20) + PAGE);
        assert!(!spare.is_ready() && spare.take().is_none());
        spare.start();
        spare.start();
        while !spare.is_ready() {
            thread::yield_now();
        }
        let file = spare.take().unwrap();
        assert_eq!(file.metadata().unwrap().len(), (1 << 20) + PAGE);
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
        let mut spare = Spare::new(path.clone(), PAGE);
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
