//! A subPath of a volume, which never leads out of it.
//!
//! Containers can change their volumes at any time, also between a check of a path and its use. So every step is
//! taken on a descriptor of the one before, links that lead out of the volume are refused by the kernel, and the
//! result is mounted by its descriptor: the runtime gets the mount point, which no container can replace.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};

use super::mount_points;

/// Finds or creates a path within a volume, and mounts it at `place`.
pub(super) fn mount(volume: &Path, sub_path: &str, place: &Path) -> Result<(), SubPathError> {
    let found = find(volume, sub_path)?;
    bind(&found, place).map_err(SubPathError::Mount)
}

/// A subPath could not be prepared.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SubPathError {
    #[error("error SubPath `{0}` must not be an absolute path")]
    Absolute(String),
    #[error("unable to provision SubPath `{0}`: must not contain '..'")]
    Backwards(String),
    #[error("cannot create a directory of the subPath")]
    Create(#[source] io::Error),
    #[error("cannot mount the subPath")]
    Mount(#[source] io::Error),
}

/// Finds or creates a path within a volume.
fn find(volume: &Path, sub_path: &str) -> Result<OwnedFd, SubPathError> {
    let relative = Path::new(sub_path);
    if relative.is_absolute() {
        return Err(SubPathError::Absolute(sub_path.to_owned()));
    }
    if relative.components().any(|part| part == Component::ParentDir) {
        return Err(SubPathError::Backwards(sub_path.to_owned()));
    }
    let root =
        rustix::fs::openat(CWD, volume, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
    let root = root.map_err(|err| SubPathError::Mount(err.into()))?;
    // New directories have the volume's mode.
    let mode = rustix::fs::fstat(&root).map_or(0o755, |stat| stat.st_mode & 0o7777);
    open_or_create(&root, relative, mode)
}

/// Opens a path, or creates it and all directories above it.
fn open_or_create(root: &OwnedFd, path: &Path, mode: u32) -> Result<OwnedFd, SubPathError> {
    match open(root, path) {
        Err(err) if err == rustix::io::Errno::NOENT => {}
        other => return other.map_err(|err| SubPathError::Mount(err.into())),
    }
    let name = path.file_name().ok_or_else(|| SubPathError::Create(io::ErrorKind::InvalidInput.into()))?;
    let parent = path.parent().unwrap_or(Path::new(""));
    let parent = if parent.as_os_str().is_empty() {
        root.try_clone().map_err(SubPathError::Create)?
    } else {
        open_or_create(root, parent, mode)?
    };
    let make = || -> rustix::io::Result<OwnedFd> {
        rustix::fs::mkdirat(&parent, name, Mode::from_raw_mode(mode))?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let made = rustix::fs::openat(&parent, name, flags, Mode::empty())?;
        // The exact mode, whatever the umask is.
        rustix::fs::fchmod(&made, Mode::from_raw_mode(mode))?;
        Ok(made)
    };
    make().map_err(|err| SubPathError::Create(err.into()))
}

/// Opens a path; links are followed within the volume and nowhere else.
fn open(root: &OwnedFd, path: &Path) -> rustix::io::Result<OwnedFd> {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    rustix::fs::openat2(root, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), resolve)
}

/// Mounts an open file or directory, in place of an earlier mount.
fn bind(found: &OwnedFd, place: &Path) -> io::Result<()> {
    mount_points::unmount_at(place)?;
    let kind = rustix::fs::FileType::from_raw_mode(rustix::fs::fstat(found)?.st_mode);
    let parent = place.parent().unwrap_or(Path::new("/"));
    // A path of the node, as are those below: the pod's directory, which no container reaches.
    std::fs::create_dir_all(parent)?;
    match kind {
        rustix::fs::FileType::Directory => std::fs::create_dir_all(place)?, // A path of the node.
        _ => drop(File::options().create(true).append(true).open(place)?),
    }
    let source = PathBuf::from(format!("/proc/self/fd/{}", found.as_fd().as_raw_fd()));
    Ok(rustix::mount::mount_bind_recursive(&source, place)?)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    use super::*;

    fn same(found: &OwnedFd, path: &Path) -> bool {
        rustix::fs::fstat(found).unwrap().st_ino == std::fs::metadata(path).unwrap().ino()
    }

    #[test]
    fn nothing_outside_a_volume_is_reached() {
        let folder = tempfile::tempdir().unwrap();
        let (volume, outside) = (folder.path().join("volume"), folder.path().join("outside"));
        for path in [volume.join("here/deep"), outside.join("secret")] {
            std::fs::create_dir_all(path).unwrap();
        }
        symlink("here", volume.join("in")).unwrap();
        symlink(&outside, volume.join("absolute")).unwrap();
        symlink("../outside", volume.join("up")).unwrap();
        symlink("../../outside", volume.join("here/up")).unwrap();
        symlink("/proc/self/root", volume.join("magic")).unwrap();
        symlink("nowhere", volume.join("dangling")).unwrap();
        assert!(same(&find(&volume, "here").unwrap(), &volume.join("here")));
        assert!(same(&find(&volume, "in/deep").unwrap(), &volume.join("here/deep")));
        for hostile in [
            "absolute",
            "absolute/secret",
            "absolute/new",
            "up",
            "up/new",
            "here/up/secret",
            "magic/etc",
            "dangling",
            "dangling/new",
            "in/../../outside",
            "/etc",
        ] {
            assert!(find(&volume, hostile).is_err(), "{hostile}");
        }
        let left: Vec<_> =
            std::fs::read_dir(&outside).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["secret"], "nothing was made outside");
    }

    #[test]
    fn new_directories_have_the_volumes_mode() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o2775)).unwrap();
        find(folder.path(), "a/b").unwrap();
        for path in ["a", "a/b"] {
            let mode = std::fs::metadata(folder.path().join(path)).unwrap().permissions().mode();
            assert_eq!(mode & 0o7777, 0o2775, "{path}");
        }
    }
}
