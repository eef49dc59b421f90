//! A path within a volume, which never leads out of it.
//!
//! Containers can change what is in their volumes at any time, also between a look at a path and its use. So every
//! step is taken on a descriptor of the one before, links that lead out of the volume are refused by the kernel, and what was
//! found is mounted by its descriptor: the runtime is told of the mount, and nobody can put anything else in its place.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};

use super::mount_points;

/// Finds or makes what is at a path within a volume, and mounts it at `place`, which is where the path leads to from then on.
pub(super) fn mount(volume: &Path, sub_path: &str, place: &Path) -> Result<(), Refused> {
    let found = find(volume, sub_path)?;
    bind(&found, place).map_err(Refused::Mount)
}

/// Why a path within a volume cannot be had.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refused {
    #[error("error SubPath `{0}` must not be an absolute path")]
    Absolute(String),
    #[error("unable to provision SubPath `{0}`: must not contain '..'")]
    Backwards(String),
    #[error("making what is missing")]
    Make(#[source] io::Error),
    #[error("mounting it")]
    Mount(#[source] io::Error),
}

/// Finds or makes what is at a path within a volume.
fn find(volume: &Path, sub_path: &str) -> Result<OwnedFd, Refused> {
    let relative = Path::new(sub_path);
    if relative.is_absolute() {
        return Err(Refused::Absolute(sub_path.to_owned()));
    }
    if relative.components().any(|part| part == Component::ParentDir) {
        return Err(Refused::Backwards(sub_path.to_owned()));
    }
    let root =
        rustix::fs::openat(CWD, volume, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
    let root = root.map_err(|error| Refused::Mount(error.into()))?;
    // What is made is as open as the volume is.
    let mode = rustix::fs::fstat(&root).map_or(0o755, |stat| stat.st_mode & 0o7777);
    open_or_make(&root, relative, mode)
}

/// Opens what is there, or makes a directory, and all above it.
fn open_or_make(root: &OwnedFd, path: &Path, mode: u32) -> Result<OwnedFd, Refused> {
    match open(root, path) {
        Err(error) if error == rustix::io::Errno::NOENT => {}
        other => return other.map_err(|error| Refused::Mount(error.into())),
    }
    let name = path.file_name().ok_or_else(|| Refused::Make(io::ErrorKind::InvalidInput.into()))?;
    let parent = path.parent().unwrap_or(Path::new(""));
    let parent = if parent.as_os_str().is_empty() {
        root.try_clone().map_err(Refused::Make)?
    } else {
        open_or_make(root, parent, mode)?
    };
    let make = || -> rustix::io::Result<OwnedFd> {
        rustix::fs::mkdirat(&parent, name, Mode::from_raw_mode(mode))?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let made = rustix::fs::openat(&parent, name, flags, Mode::empty())?;
        // As asked, whatever this process lets others do by default.
        rustix::fs::fchmod(&made, Mode::from_raw_mode(mode))?;
        Ok(made)
    };
    make().map_err(|error| Refused::Make(error.into()))
}

/// Opens what is there; links are followed within the volume and nowhere else.
fn open(root: &OwnedFd, path: &Path) -> rustix::io::Result<OwnedFd> {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    rustix::fs::openat2(root, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), resolve)
}

/// Mounts what a descriptor stands for; what was mounted there before goes.
fn bind(found: &OwnedFd, place: &Path) -> io::Result<()> {
    mount_points::release(place)?;
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
    fn what_is_missing_is_made_as_open_as_the_volume() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o2775)).unwrap();
        find(folder.path(), "a/b").unwrap();
        for path in ["a", "a/b"] {
            let mode = std::fs::metadata(folder.path().join(path)).unwrap().permissions().mode();
            assert_eq!(mode & 0o7777, 0o2775, "{path}");
        }
    }
}
