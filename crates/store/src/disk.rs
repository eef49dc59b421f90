//! The disk: all file operations of the embedded store go through it.
//!
//! There are two implementations: [`Kernel`], and the simulated disk of the tests (`tests/power_loss.rs`), which loses what was
//! not synced. The store relies on what POSIX guarantees and on nothing else: bytes and the size of a file are on disk once the
//! file was synced, a name that was created, replaced or removed is on disk once its directory was synced; a rename is atomic;
//! until a sync, every sector of 512 bytes and every name may have reached the disk or not, in any order.

mod kernel;

use std::{fmt, fs::TryLockError, io, path::Path};

pub use kernel::Kernel;

/// The operations on names. All files and directories are private to their owner.
pub trait Disk: fmt::Debug + Send + Sync {
    fn exists(&self, path: &Path) -> io::Result<bool>;

    /// Creates a directory and its missing parents, or restricts the existing one to its owner.
    fn create_directory(&self, dir: &Path) -> io::Result<()>;

    /// The names in a directory.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;

    fn open(&self, path: &Path, open: Open) -> io::Result<Box<dyn DiskFile>>;

    /// Creates a file of zeros, and allocates all its blocks if the file system supports that.
    fn create_zeroed(&self, path: &Path, size: u64) -> io::Result<Box<dyn DiskFile>>;

    /// Renames a file; replaces an existing one.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    fn remove(&self, path: &Path) -> io::Result<()>;

    fn sync_directory(&self, dir: &Path) -> io::Result<()>;

    /// The bytes that the store can still allocate in a directory.
    fn free_bytes(&self, dir: &Path) -> io::Result<u64>;
}

/// The file that [`Disk::open`] expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Open {
    /// It exists.
    Existing,
    /// It is created unless it exists.
    Any,
    /// It is created, or emptied if it exists.
    Empty,
}

/// The operations on an open file.
pub trait DiskFile: fmt::Debug + Send + Sync {
    fn size(&self) -> io::Result<u64>;
    fn read_exact_at(&self, bytes: &mut [u8], at: u64) -> io::Result<()>;
    /// Writes all bytes. After an error, a part of them may have been written.
    fn write_all_at(&self, bytes: &[u8], at: u64) -> io::Result<()>;
    fn set_size(&self, size: u64) -> io::Result<()>;
    /// Syncs the bytes, and the size if it has grown.
    fn sync_data(&self) -> io::Result<()>;
    fn sync_all(&self) -> io::Result<()>;
    fn try_lock(&self) -> Result<(), TryLockError>;
}

/// Creates a directory and its missing parents, and syncs each name before the next one depends on it. The innermost existing
/// name is synced too, because a process that was killed may just have created it.
pub(crate) fn create_directory(disk: &dyn Disk, dir: &Path) -> io::Result<()> {
    let mut levels: Vec<(&Path, bool)> = Vec::new();
    for level in dir.ancestors().filter(|level| !level.as_os_str().is_empty()) {
        let exists = disk.exists(level)?;
        levels.push((level, exists));
        if exists {
            break;
        }
    }
    for (level, exists) in levels.into_iter().rev() {
        if !exists || level == dir {
            disk.create_directory(level)?;
        }
        let Some(parent) = level.parent() else { continue };
        let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
        match disk.sync_directory(parent) {
            // A directory that this user cannot read is not one that it created.
            Err(error) if exists && error.kind() == io::ErrorKind::PermissionDenied => {}
            synced => synced?,
        }
    }
    Ok(())
}
