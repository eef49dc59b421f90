//! The file of the next log, prepared beside the commits.
//!
//! A sync is short only if it has nothing to write but what was committed: no new size, no new blocks, and no
//! zeros. Blocks are there, and zeros on disk, before a file becomes a log. Other syncs do not wait for that as
//! long as it is another file.
//!
//! Nothing depends on it: without one, a log grows as it is written to. A spare file is named as unfinished, so
//! that one which was left behind goes at the next open.

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

/// How much is on its way to the disk at a time: little enough that a commit does not wait for it long.
const STEP: u64 = 256 << 10;
/// A disk has room for a spare file if it has room for this many.
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
    /// It could not be made; it is not tried again until that may have changed.
    Failed,
}

impl Spare {
    /// Of as many bytes, in whole pages.
    pub(super) fn new(path: PathBuf, bytes: u64) -> Spare {
        Spare { path, bytes: bytes.next_multiple_of(PAGE), state: State::Absent }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Has one prepared, if there is none.
    pub(super) fn want(&mut self) {
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

    /// Whether one is prepared.
    pub(super) fn is_ready(&mut self) -> bool {
        if matches!(&self.state, State::Underway(thread) if thread.is_finished()) {
            self.settle();
        }
        matches!(self.state, State::Ready(_))
    }

    /// The one that is prepared. Whoever takes it takes it from its path, too.
    pub(super) fn take(&mut self) -> Option<File> {
        if !self.is_ready() {
            return None;
        }
        match std::mem::replace(&mut self.state, State::Absent) {
            State::Ready(file) => Some(file),
            _ => None,
        }
    }

    /// Whatever was in its way may be gone.
    pub(super) fn try_again(&mut self) {
        if matches!(self.state, State::Failed) {
            self.state = State::Absent;
        }
    }

    /// Gives the room back to those who need it more.
    pub(super) fn discard(&mut self) {
        self.settle();
        if let State::Ready(_) = std::mem::replace(&mut self.state, State::Failed)
            && let Err(error) = fs::remove_file(&self.path)
        {
            tracing::warn!(%error, "cannot remove a spare log");
        }
    }

    /// Waits for the one that is under way.
    fn settle(&mut self) {
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
    tracing::debug!(error = error as &dyn StdError, "no log is prepared");
    State::Failed
}

/// A file of zeros that is on disk; none is left behind if that fails.
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

/// Past the page cache if the file system can: zeros are not worth a copy, nor memory.
fn fill(file: &File, path: &Path, bytes: u64) -> io::Result<()> {
    // All blocks at once, where that is possible.
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
    fn one_is_prepared_and_taken_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("spare.tmp");
        let mut spare = Spare::new(path.clone(), (1 << 20) + PAGE);
        assert!(!spare.is_ready() && spare.take().is_none());
        spare.want();
        spare.want();
        while !spare.is_ready() {
            thread::yield_now();
        }
        let file = spare.take().unwrap();
        assert_eq!(file.metadata().unwrap().len(), (1 << 20) + PAGE);
        assert!(fs::read(&path).unwrap().iter().all(|byte| *byte == 0));
        assert!(spare.take().is_none(), "it is gone");
        spare.want();
        drop(spare);
        assert!(!path.exists(), "what nobody took is not left behind");
    }

    #[test]
    fn one_that_cannot_be_is_not_tried_for_ever() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("no such directory").join("spare.tmp");
        let mut spare = Spare::new(path.clone(), PAGE);
        spare.want();
        spare.settle();
        assert!(matches!(spare.state, State::Failed));
        spare.want();
        assert!(matches!(spare.state, State::Failed));
        fs::create_dir(path.parent().unwrap()).unwrap();
        spare.try_again();
        spare.want();
        spare.settle();
        assert!(spare.is_ready());
        spare.discard();
        assert!(!path.exists() && !spare.is_ready());
    }
}
