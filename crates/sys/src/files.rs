//! Waits, with inotify, for a file to be written to or replaced, or for a change in a directory.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;
use tokio::io::unix::AsyncFd;

/// A change of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    Written,
    /// Another file is at its path now.
    Replaced,
}

/// The changes of one file.
pub struct Writes {
    events: AsyncFd<OwnedFd>,
    name: Vec<u8>,
}

impl Writes {
    pub fn of(path: &Path) -> io::Result<Writes> {
        let directory = path.parent().unwrap_or(Path::new("/"));
        let name = path.file_name().unwrap_or_default().as_encoded_bytes().to_vec();
        let events = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        let wanted = WatchFlags::MODIFY | WatchFlags::CREATE | WatchFlags::MOVED_TO | WatchFlags::ATTRIB;
        inotify::add_watch(&events, directory, wanted)?;
        // SAFETY: the descriptor is open, and owned by what is registered, so that it stays the same.
        let events = unsafe { AsyncFd::register(events) }.map_err(io::Error::from)?;
        Ok(Writes { events, name })
    }

    /// The next change of the file.
    pub async fn next(&mut self) -> io::Result<Change> {
        loop {
            let mut ready = self.events.readable().await?;
            match take(self.events.get_ref(), &self.name) {
                Ok(Some(change)) => return Ok(change),
                Ok(None) => {}
                Err(Errno::AGAIN) => ready.clear_ready(),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// The changes of a directory.
pub struct Entries(AsyncFd<OwnedFd>);

impl Entries {
    pub fn of(directory: &Path) -> io::Result<Entries> {
        let events = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        let wanted = WatchFlags::CREATE
            | WatchFlags::CLOSE_WRITE
            | WatchFlags::ATTRIB
            | WatchFlags::MOVE
            | WatchFlags::DELETE
            | WatchFlags::DELETE_SELF
            | WatchFlags::MOVE_SELF;
        inotify::add_watch(&events, directory, wanted)?;
        // SAFETY: the descriptor is open, and owned by what is registered, so that it stays the same.
        let events = unsafe { AsyncFd::register(events) }.map_err(io::Error::from)?;
        Ok(Entries(events))
    }

    /// Waits for a change of an entry whose name does not begin with a dot, or of the directory itself.
    pub async fn next(&mut self) -> io::Result<()> {
        loop {
            let mut ready = self.0.readable().await?;
            match concerns_entries(self.0.get_ref()) {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(Errno::AGAIN) => ready.clear_ready(),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Reads the pending events; returns true if one is about more than hidden files.
fn concerns_entries(events: &OwnedFd) -> Result<bool, Errno> {
    let mut room = [MaybeUninit::uninit(); 4096];
    let mut reader = Reader::new(events, &mut room);
    let mut found = false;
    loop {
        let event = reader.next()?;
        found |= event.file_name().is_none_or(|about| !about.to_bytes().starts_with(b"."));
        if reader.is_buffer_empty() {
            return Ok(found);
        }
    }
}

/// Reads the pending events; `None` if they are about other files.
fn take(events: &OwnedFd, name: &[u8]) -> Result<Option<Change>, Errno> {
    let mut room = [MaybeUninit::uninit(); 4096];
    let mut reader = Reader::new(events, &mut room);
    let mut found = None;
    loop {
        let event = reader.next()?;
        let flags = event.events();
        let is_it = event.file_name().is_none_or(|about| about.to_bytes() == name);
        if is_it && flags.intersects(ReadFlags::CREATE | ReadFlags::MOVED_TO) {
            found = Some(Change::Replaced);
        } else if is_it {
            found = found.or(Some(Change::Written));
        }
        if reader.is_buffer_empty() {
            return Ok(found);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[tokio::test]
    async fn entries_come_and_go() {
        let directory = tempfile::tempdir().unwrap();
        let mut entries = Entries::of(directory.path()).unwrap();
        std::fs::write(directory.path().join(".hidden"), b"x").unwrap();
        std::fs::write(directory.path().join("seen"), b"x").unwrap();
        entries.next().await.unwrap();
        std::fs::remove_file(directory.path().join("seen")).unwrap();
        entries.next().await.unwrap();
    }

    #[tokio::test]
    async fn changes_are_reported() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("0.log");
        let mut file = std::fs::File::create(&path).unwrap();
        let mut writes = Writes::of(&path).unwrap();
        file.write_all(b"a").unwrap();
        assert_eq!(writes.next().await.unwrap(), Change::Written);
        std::fs::write(directory.path().join("other"), b"x").unwrap();
        std::fs::rename(&path, directory.path().join("0.log.old")).unwrap();
        std::fs::File::create(&path).unwrap();
        assert_eq!(writes.next().await.unwrap(), Change::Replaced);
    }
}
