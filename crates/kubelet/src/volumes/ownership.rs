//! Volumes that the pod's `fsGroup` owns: all files in them, and those created later.
//!
//! Containers may run in the volume meanwhile, and replace files by links at any moment. So nothing is ever done to a
//! path: a file is opened from the volume's root in one step in which the kernel follows no link and enters no other
//! mount, and it is changed by its descriptor. A file that was replaced meanwhile is skipped.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use corten_api::Value;
use rustix::fs::{AtFlags, CWD, Dir, FileType, Gid, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;

use crate::pod::Pod;

const READ_WRITE: u32 = 0o660;
const READ_ONLY: u32 = 0o440;
const SEARCH: u32 = 0o110;
const SET_GROUP: u32 = 0o2000;
const ALL_BITS: u32 = 0o7777;

/// The `fsGroup` of a pod's volumes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ownership {
    group: u32,
    /// Change nothing if the volume's root has the right owner and mode (`OnRootMismatch`).
    on_root_mismatch: bool,
}

impl Ownership {
    pub(super) fn of(pod: &Pod) -> Option<Ownership> {
        let security: &Value = pod.tree().at(&["spec", "securityContext"])?;
        let group = security.int_at(&["fsGroup"]).and_then(|group| u32::try_from(group).ok())?;
        let on_root_mismatch = security.str_at(&["fsGroupChangePolicy"]) == Some("OnRootMismatch");
        Some(Ownership { group, on_root_mismatch })
    }

    /// Makes the group own a volume, for writing or only for reading.
    pub(super) fn set(self, volume: &Path, read_only: bool) -> io::Result<()> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let root = rustix::fs::openat(CWD, volume, flags, Mode::empty())?;
        if self.on_root_mismatch && self.holds(&rustix::fs::fstat(&root)?, read_only) {
            return Ok(());
        }
        self.set_all(&root, read_only, &mut |_| ())
    }

    fn holds(self, root: &Stat, read_only: bool) -> bool {
        let needed = SET_GROUP | SEARCH | if read_only { READ_ONLY } else { READ_WRITE };
        let is_folder = FileType::from_raw_mode(root.st_mode) == FileType::Directory;
        is_folder && root.st_gid == self.group && root.st_mode & needed == needed
    }

    /// Sets everything, a directory after its contents: so a root with the right owner shows that the work was
    /// finished. `about` is called with every path before it is opened, for tests.
    fn set_all(self, root: &OwnedFd, read_only: bool, about: &mut dyn FnMut(&Path)) -> io::Result<()> {
        let mut path = PathBuf::from(".");
        // The directories that are still to be entered, for every directory from the root to the present one.
        let mut pending: Vec<Vec<OsString>> = Vec::new();
        if let Some(folder) = open(root, &path, OFlags::RDONLY | OFlags::DIRECTORY)? {
            pending.push(self.give_files(&folder, &path, read_only, about)?);
        }
        while let Some(folders) = pending.last_mut() {
            if let Some(name) = folders.pop() {
                path.push(name);
                about(&path);
                let folder = open(root, &path, OFlags::RDONLY | OFlags::DIRECTORY)?;
                let inside = folder.map(|folder| self.give_files(&folder, &path, read_only, about));
                pending.push(inside.transpose()?.unwrap_or_default());
            } else {
                pending.pop();
                if !pending.is_empty() {
                    about(&path);
                    if let Some(folder) = open(root, &path, OFlags::PATH | OFlags::NOFOLLOW)? {
                        self.set_one(&folder, read_only)?;
                    }
                    path.pop();
                }
            }
        }
        self.set_one(root, read_only)
    }

    /// Sets the files in a directory. Returns the directories in it.
    fn give_files(
        self,
        folder: &OwnedFd,
        path: &Path,
        read_only: bool,
        about: &mut dyn FnMut(&Path),
    ) -> io::Result<Vec<OsString>> {
        let mut folders = Vec::new();
        for entry in Dir::read_from(folder)? {
            let entry = entry?;
            let name = std::ffi::OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            about(&path.join(name));
            let Some(found) = open(folder, Path::new(name), OFlags::PATH | OFlags::NOFOLLOW)? else {
                continue;
            };
            if kind(&rustix::fs::fstat(&found)?) == FileType::Directory {
                folders.push(name.to_owned());
            } else {
                self.set_one(&found, read_only)?;
            }
        }
        Ok(folders)
    }

    /// Sets the owner and mode of an open file. Links have an owner, but no mode.
    fn set_one(self, found: &OwnedFd, read_only: bool) -> io::Result<()> {
        // A change of owner removes `setuid`; upstream restores it.
        let before = rustix::fs::fstat(found)?;
        let group = Some(Gid::from_raw(self.group));
        rustix::fs::chownat(found, "", None, group, AtFlags::EMPTY_PATH)?;
        let mut mode = before.st_mode & ALL_BITS | if read_only { READ_ONLY } else { READ_WRITE };
        match kind(&before) {
            FileType::Symlink => return Ok(()),
            FileType::Directory => mode |= SEARCH | SET_GROUP,
            _ => {}
        }
        Ok(rustix::fs::chmod(path_of(found.as_fd()), Mode::from_raw_mode(mode))?)
    }
}

fn kind(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

/// The path of a descriptor, which is not resolved again: not even a device is opened.
fn path_of(descriptor: BorrowedFd<'_>) -> String {
    format!("/proc/self/fd/{}", descriptor.as_raw_fd())
}

/// Opens a file below a directory, in the same mount and without following links; `None` if there is none.
fn open(folder: &OwnedFd, path: &Path, flags: OFlags) -> io::Result<Option<OwnedFd>> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    match rustix::fs::openat2(folder, path, flags | OFlags::CLOEXEC, Mode::empty(), resolve) {
        Ok(found) => Ok(Some(found)),
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::XDEV) => Ok(None),
        Err(err) => Err(err.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
    use std::sync::atomic::{AtomicBool, Ordering};

    use rustix::fs::RenameFlags;

    use super::*;

    const ALWAYS: Ownership = Ownership { group: 4711, on_root_mismatch: false };

    fn owner_and_mode(path: &Path) -> (u32, u32) {
        let metadata = std::fs::symlink_metadata(path).unwrap();
        (metadata.gid(), metadata.mode() & ALL_BITS)
    }

    fn set_mode(path: &Path, mode: u32) {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    /// A volume with `folder/file` and `link`, which leads to a directory of the node with a file of the same name.
    fn hostile() -> (tempfile::TempDir, PathBuf, PathBuf) {
        let all = tempfile::tempdir().unwrap();
        let (volume, outside) = (all.path().join("volume"), all.path().join("outside"));
        for folder in [volume.join("folder"), outside.clone()] {
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join("file"), "").unwrap();
            set_mode(&folder.join("file"), 0o600);
        }
        set_mode(&outside, 0o700);
        symlink(&outside, volume.join("link")).unwrap();
        (all, volume, outside)
    }

    fn exchange(a: &Path, b: &Path) {
        rustix::fs::renameat_with(CWD, a, CWD, b, RenameFlags::EXCHANGE).unwrap();
    }

    #[track_caller]
    fn is_untouched(outside: &Path) {
        let own = rustix::process::getegid().as_raw();
        assert_eq!(owner_and_mode(outside), (own, 0o700));
        assert_eq!(owner_and_mode(&outside.join("file")), (own, 0o600));
    }

    #[test]
    fn a_root_with_the_right_owner_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        let mismatch = Ownership { on_root_mismatch: true, ..ALWAYS };
        mismatch.set(folder.path(), false).unwrap();
        assert_eq!(owner_and_mode(&file), (4711, 0o664));
        let (group, mode) = owner_and_mode(folder.path());
        assert_eq!((group, mode & 0o2070), (4711, 0o2070));
        set_mode(&file, 0o600);
        mismatch.set(folder.path(), false).unwrap();
        assert_eq!(owner_and_mode(&file), (4711, 0o600));
        ALWAYS.set(folder.path(), true).unwrap();
        assert_eq!(owner_and_mode(&file), (4711, 0o640));
    }

    #[test]
    fn all_files_get_the_group() {
        let (_all, volume, outside) = hostile();
        set_mode(&volume.join("folder/file"), 0o4700);
        std::fs::create_dir(volume.join("folder/deeper")).unwrap();
        rustix::fs::mkfifoat(CWD, volume.join("folder/deeper/pipe"), Mode::from_raw_mode(0o600)).unwrap();
        ALWAYS.set(&volume, false).unwrap();
        assert_eq!(owner_and_mode(&volume.join("folder/file")), (4711, 0o4760));
        assert_eq!(owner_and_mode(&volume.join("folder/deeper")).0, 4711);
        assert_eq!(owner_and_mode(&volume.join("folder/deeper")).1 & 0o2770, 0o2770);
        assert_eq!(owner_and_mode(&volume.join("folder/deeper/pipe")), (4711, 0o660));
        assert_eq!(owner_and_mode(&volume.join("link")).0, 4711, "the link itself is given");
        is_untouched(&outside);
    }

    /// Every file is replaced by a link right before it is opened: the link is not followed.
    #[test]
    fn links_at_the_worst_moment_are_not_followed() {
        for moment in ["./folder", "./folder/file"] {
            for time in 1..=3 {
                let (_all, volume, outside) = hostile();
                let flags = OFlags::PATH | OFlags::CLOEXEC;
                let root = rustix::fs::openat(CWD, &volume, flags, Mode::empty()).unwrap();
                let mut seen = 0;
                ALWAYS
                    .set_all(&root, false, &mut |path| {
                        seen += usize::from(path == Path::new(moment));
                        if seen == time {
                            exchange(&volume.join("folder"), &volume.join("link"));
                            seen += 10;
                        }
                    })
                    .unwrap();
                is_untouched(&outside);
            }
        }
    }

    /// The same with a container that replaces files all the time.
    #[test]
    fn a_race_with_links_is_harmless() {
        let (_all, volume, outside) = hostile();
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    exchange(&volume.join("folder"), &volume.join("link"));
                }
            });
            for _ in 0..2000 {
                ALWAYS.set(&volume, false).unwrap();
            }
            is_over.store(true, Ordering::Relaxed);
        });
        is_untouched(&outside);
    }

    /// Other mounts within a volume are not the volume's.
    #[test]
    fn other_mounts_are_not_entered() {
        let (_all, volume, outside) = hostile();
        let place = volume.join("folder/mounted");
        std::fs::create_dir(&place).unwrap();
        rustix::mount::mount_bind(&outside, &place).unwrap();
        let given = ALWAYS.set(&volume, false);
        rustix::mount::unmount(&place, rustix::mount::UnmountFlags::DETACH).unwrap();
        given.unwrap();
        is_untouched(&outside);
    }

    /// Neither the stack nor descriptors grow with the depth; paths that no system call accepts are refused.
    #[test]
    fn deep_directories_are_handled() {
        // On a tmpfs, where that is quick.
        let volume = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let deep = |depth: usize| {
            let mut at: OwnedFd = std::fs::File::open(volume.path()).unwrap().into();
            for _ in 0..depth {
                let made = rustix::fs::mkdirat(&at, "d", Mode::from_raw_mode(0o700));
                assert!(matches!(made, Ok(()) | Err(Errno::EXIST)));
                at = rustix::fs::openat(&at, "d", OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap();
            }
            rustix::fs::fstat(&at).map(|stat| (stat.st_gid, at)).unwrap()
        };
        let (_, bottom) = deep(1000);
        ALWAYS.set(volume.path(), false).unwrap();
        assert_eq!(rustix::fs::fstat(&bottom).unwrap().st_gid, 4711);
        deep(2100);
        let err = ALWAYS.set(volume.path(), false).unwrap_err();
        assert_eq!(err.raw_os_error(), Some(Errno::NAMETOOLONG.raw_os_error()));
    }
}
