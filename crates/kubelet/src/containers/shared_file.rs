//! Files in directories that containers may write to: logs and termination messages.
//!
//! A pod that has the directory mounted can put a link, a pipe or a device in the place of a file or of a directory
//! above it, at any time. So the directory is opened first, from the last path that only the node writes to and
//! without following links, and everything is done on its descriptor; only regular files are opened.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, RenameFlags, ResolveFlags};

/// The directory of a file.
#[derive(Debug)]
pub(crate) struct Folder(OwnedFd);

/// Opens a file whose last two directories may be written to by containers, such as `<logs>/<pod>/<container>/0.log`.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    let (folder, name) = Folder::of(path)?;
    folder.open(&name)
}

impl Folder {
    /// Opens the directory of a file. Returns the file's name beside it.
    pub(crate) fn of(path: &Path) -> io::Result<(Folder, OsString)> {
        let mut above: Vec<&OsStr> = path.components().map(|part| part.as_os_str()).collect();
        let [.., pod, container, name] = above[..] else { return Err(io::ErrorKind::InvalidInput.into()) };
        let within = Path::new(pod).join(container);
        let name = name.to_owned();
        above.truncate(above.len() - 3);
        let own: PathBuf = above.iter().collect();
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let own = rustix::fs::openat(CWD, &own, flags, Mode::empty())?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        let folder = rustix::fs::openat2(&own, &within, flags, Mode::empty(), resolve)?;
        Ok((Folder(folder), name))
    }

    /// Opens a regular file. Links are not followed, and the open never waits for a pipe.
    pub(crate) fn open(&self, name: &OsStr) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        // A device must not even be opened: the type is checked before.
        self.size(name)?;
        let file = rustix::fs::openat(&self.0, name, flags, Mode::empty())?;
        regular(&rustix::fs::fstat(&file)?)?;
        Ok(file.into())
    }

    /// The size of a regular file.
    pub(crate) fn size(&self, name: &OsStr) -> io::Result<u64> {
        let stat = rustix::fs::statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW)?;
        regular(&stat)?;
        Ok(u64::try_from(stat.st_size).unwrap_or_default())
    }

    /// Creates a file that must not exist.
    pub(crate) fn create(&self, name: &OsStr, mode: u32) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(rustix::fs::openat(&self.0, name, flags, Mode::from_raw_mode(mode))?.into())
    }

    pub(crate) fn rename(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::renameat_with(&self.0, from, &self.0, to, RenameFlags::empty())?)
    }

    /// Removes a file, or a link itself.
    pub(crate) fn remove(&self, name: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.0, name, AtFlags::empty())?)
    }

    /// The names with a prefix, sorted.
    pub(crate) fn names(&self, beginning: &OsStr) -> io::Result<Vec<OsString>> {
        let mut found = Vec::new();
        for entry in Dir::read_from(&self.0)? {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name.as_bytes().starts_with(beginning.as_bytes()) {
                found.push(name.to_owned());
            }
        }
        found.sort();
        Ok(found)
    }
}

fn regular(stat: &rustix::fs::Stat) -> io::Result<()> {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Ok(()),
        _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::fs::symlink;

    use super::*;

    /// A log, and everything that a pod with the directory can put in its place.
    #[test]
    fn only_files_of_the_folder_are_opened() {
        let node = tempfile::tempdir().unwrap();
        let root = node.path();
        for folder in ["logs/pod/c", "outside/c"] {
            std::fs::create_dir_all(root.join(folder)).unwrap();
            std::fs::write(root.join(folder).join("0.log"), folder).unwrap();
        }
        let shadow = root.join("outside/c/0.log");
        symlink(&shadow, root.join("logs/pod/c/absolute")).unwrap();
        symlink("../../../outside/c/0.log", root.join("logs/pod/c/relative")).unwrap();
        symlink(root.join("outside"), root.join("logs/linked-pod")).unwrap();
        symlink(root.join("outside/c"), root.join("logs/pod/linked")).unwrap();
        std::fs::create_dir(root.join("logs/pod/c/folder")).unwrap();
        rustix::fs::mkfifoat(CWD, root.join("logs/pod/c/pipe"), Mode::from_raw_mode(0o600)).unwrap();
        let read = |path: &str| {
            let mut text = String::new();
            open(&root.join("logs").join(path)).and_then(|mut file| file.read_to_string(&mut text))?;
            io::Result::Ok(text)
        };
        assert_eq!(read("pod/c/0.log").unwrap(), "logs/pod/c");
        for hostile in [
            "pod/c/absolute",
            "pod/c/relative",
            "linked-pod/c/0.log",
            "pod/linked/0.log",
            "pod/c/folder",
            "pod/c/pipe",
            "pod/../0.log",
        ] {
            assert!(read(hostile).is_err(), "{hostile}");
        }
        assert!(open(Path::new("0.log")).is_err());
    }
}
