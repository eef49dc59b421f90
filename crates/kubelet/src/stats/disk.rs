//! The usage of file systems and directories.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags, Stat};

/// The time that the size of a directory is cached, because walking it takes long.
const REMEMBER: Duration = Duration::from_secs(60);

/// A file system, or a part of one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FsStats {
    pub(crate) at: Timestamp,
    pub(crate) available: u64,
    pub(crate) capacity: u64,
    pub(crate) used: u64,
    pub(crate) inodes_free: u64,
    pub(crate) inodes: u64,
    pub(crate) inodes_used: u64,
}

impl FsStats {
    /// The same file system with the usage of a part.
    pub(crate) fn with_used(&self, used: Measured) -> FsStats {
        FsStats { used: used.bytes, inodes_used: used.inodes, ..self.clone() }
    }
}

/// The size of a directory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Measured {
    pub(crate) bytes: u64,
    pub(crate) inodes: u64,
}

impl Measured {
    pub(crate) fn and(self, other: Measured) -> Measured {
        Measured { bytes: self.bytes + other.bytes, inodes: self.inodes + other.inodes }
    }
}

/// The file system that a path is on.
pub(crate) fn file_system(path: &Path, now: Timestamp) -> Option<FsStats> {
    let stat = rustix::fs::statvfs(path).ok()?;
    let bytes = |blocks: u64| blocks.saturating_mul(stat.f_frsize);
    Some(FsStats {
        at: now,
        available: bytes(stat.f_bavail),
        capacity: bytes(stat.f_blocks),
        used: bytes(stat.f_blocks.saturating_sub(stat.f_bfree)),
        inodes_free: stat.f_ffree,
        inodes: stat.f_files,
        inodes_used: stat.f_files.saturating_sub(stat.f_ffree),
    })
}

/// The size of a directory in blocks and inodes. Links are not followed and other mounts not entered, whatever
/// containers put there meanwhile.
pub(crate) fn measure(folder: &Path) -> Measured {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let Ok(root) = rustix::fs::openat(CWD, folder, flags, Mode::empty()) else { return Measured::default() };
    let Ok(own) = rustix::fs::fstat(&root) else { return Measured::default() };
    let mut found = taken(&own);
    let mut folders = vec![PathBuf::from(".")];
    while let Some(path) = folders.pop() {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
        let Ok(folder) = rustix::fs::openat2(&root, &path, flags, Mode::empty(), resolve) else { continue };
        let entries = Dir::read_from(&folder).into_iter().flatten().flatten();
        for entry in entries {
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let Ok(stat) = rustix::fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            if stat.st_dev != own.st_dev {
                continue;
            }
            // A file with several names is counted once for each: that is rare, and tracking all inodes is expensive.
            found = found.and(taken(&stat));
            if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
                folders.push(path.join(OsStr::from_bytes(name.to_bytes())));
            }
        }
    }
    found
}

fn taken(stat: &Stat) -> Measured {
    Measured { bytes: u64::try_from(stat.st_blocks).unwrap_or_default() * 512, inodes: 1 }
}

/// The cached sizes of directories.
#[derive(Debug, Default)]
pub(super) struct Folders(HashMap<PathBuf, (Timestamp, Measured)>);

impl Folders {
    pub(super) fn known(&self, folder: &Path, now: Timestamp) -> Option<Measured> {
        let (at, measured) = self.0.get(folder)?;
        (now.duration_since(*at) < REMEMBER.try_into().unwrap_or_default()).then_some(*measured)
    }

    pub(super) fn forget(&mut self) {
        self.0.clear();
    }

    pub(super) fn learn(&mut self, folder: PathBuf, now: Timestamp, measured: Measured) {
        let fresh = |at: &Timestamp| now.duration_since(*at) < REMEMBER.try_into().unwrap_or_default();
        self.0.retain(|_, (at, _)| fresh(at));
        self.0.insert(folder, (now, measured));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_measured_with_all_below_it() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("a")).unwrap();
        std::fs::write(folder.path().join("a/b"), vec![1; 100_000]).unwrap();
        std::os::unix::fs::symlink("/", folder.path().join("c")).unwrap();
        let found = measure(folder.path());
        assert_eq!(found.inodes, 4);
        assert!((100_000..200_000).contains(&found.bytes), "{found:?}");
        assert_eq!(measure(&folder.path().join("none")), Measured::default());
    }

    #[test]
    fn sizes_are_cached() {
        let at = |seconds| Timestamp::from_second(seconds).unwrap();
        let mut folders = Folders::default();
        let measured = Measured { bytes: 1, inodes: 1 };
        folders.learn("/a".into(), at(0), measured);
        assert_eq!(folders.known(Path::new("/a"), at(59)), Some(measured));
        assert_eq!(folders.known(Path::new("/a"), at(60)), None);
        assert_eq!(folders.known(Path::new("/b"), at(0)), None);
    }
}
