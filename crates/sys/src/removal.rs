//! Removes directories that containers wrote to.
//!
//! A container can nest directories more deeply than any path, stack or descriptor table allows, and another container
//! may replace directories with links meanwhile. So no link is followed, no other mount is entered, and the number of
//! open descriptors is bounded: directories that are too deep are first moved up.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags, RenameFlags, ResolveFlags};
use rustix::io::Errno;

/// Maximum number of open directories.
const DEEPEST: usize = 32;
const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// Attempts to empty a directory that is still written to.
const ROUNDS: usize = 16;

/// Removes a directory with its content. A missing path is no error; a link or a file is removed itself.
pub fn remove_tree(path: &Path) -> io::Result<()> {
    let root = match rustix::fs::openat(CWD, path, FOLDER, Mode::empty()) {
        Ok(root) => root,
        Err(Errno::NOENT) => return Ok(()),
        // A path of the node: only what is below it is written by containers.
        Err(Errno::NOTDIR | Errno::LOOP) => return std::fs::remove_file(path),
        Err(error) => return Err(error.into()),
    };
    for _ in 0..ROUNDS {
        // One round per so many levels: each finds the directories that the one before moved up.
        while empty(&root)? {}
        match rustix::fs::unlinkat(CWD, path, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => return Ok(()),
            Err(Errno::NOTEMPTY | Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(Errno::NOTEMPTY.into())
}

/// A directory that is being emptied.
struct Level {
    folder: OwnedFd,
    entries: Dir,
    /// Its name in the directory above.
    name: CString,
}

impl Level {
    fn of(folder: OwnedFd, name: CString) -> rustix::io::Result<Level> {
        let entries = Dir::read_from(&folder)?;
        Ok(Level { folder, entries, name })
    }
}

/// Empties a directory; returns true if a deep directory was moved up into it on the way.
fn empty(root: &OwnedFd) -> io::Result<bool> {
    let mut moved = 0_u64;
    let mut levels = vec![Level::of(root.try_clone()?, CString::default())?];
    loop {
        let depth = levels.len();
        let Some(level) = levels.last_mut() else { return Ok(moved > 0) };
        let Some(entry) = level.entries.next() else {
            let done = levels.pop();
            if let (Some(done), Some(above)) = (done, levels.last()) {
                remove(&above.folder, &done.name, AtFlags::REMOVEDIR)?;
            }
            continue;
        };
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        match open(&level.folder, name) {
            Ok(folder) if depth < DEEPEST => levels.push(Level::of(folder, name.to_owned())?),
            Ok(_) => {
                moved += 1;
                move_up(&level.folder, name, root, moved)?;
            }
            Err(Errno::NOTDIR | Errno::LOOP) => remove(&level.folder, name, AtFlags::empty())?,
            Err(Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Opens a directory in another one, in the same mount and only if it is not a link.
fn open(folder: &OwnedFd, name: &CStr) -> rustix::io::Result<OwnedFd> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    rustix::fs::openat2(folder, name, FOLDER, Mode::empty(), resolve)
}

/// Removes one entry. An entry that is missing or was replaced meanwhile is left to the next round.
fn remove(folder: &OwnedFd, name: &CStr, flags: AtFlags) -> rustix::io::Result<()> {
    match rustix::fs::unlinkat(folder, name, flags) {
        Err(Errno::NOENT | Errno::NOTEMPTY | Errno::EXIST | Errno::NOTDIR | Errno::ISDIR) => Ok(()),
        other => other,
    }
}

/// Moves a directory up to the root, under an unused name.
fn move_up(folder: &OwnedFd, name: &CStr, root: &OwnedFd, number: u64) -> io::Result<()> {
    let process = std::process::id();
    for attempt in 0..ROUNDS {
        let place = CString::new(format!(".removed-{process}-{number}-{attempt}"))?;
        match rustix::fs::renameat_with(folder, name, root, &place, RenameFlags::NOREPLACE) {
            Err(Errno::EXIST) => {}
            Ok(()) | Err(Errno::NOENT) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
    Err(Errno::EXIST.into())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_are_removed_and_not_followed() {
        let all = tempfile::tempdir().unwrap();
        let (tree, outside) = (all.path().join("tree"), all.path().join("outside"));
        std::fs::create_dir_all(tree.join("a/b")).unwrap();
        std::fs::create_dir(&outside).unwrap();
        std::fs::write(outside.join("file"), "").unwrap();
        symlink(&outside, tree.join("a/b/link")).unwrap();
        symlink("..", tree.join("a/up")).unwrap();
        remove_tree(&tree).unwrap();
        assert!(!tree.exists() && outside.join("file").exists());
        remove_tree(&tree).unwrap();
        symlink(&outside, &tree).unwrap();
        remove_tree(&tree).unwrap();
        assert!(tree.symlink_metadata().is_err() && outside.join("file").exists());
    }

    /// Deeper than a stack, a path and the descriptors of a process allow.
    #[test]
    fn depth_costs_neither_stack_nor_descriptors() {
        // In memory, where that is quick.
        let all = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let tree = all.path().join("tree");
        std::fs::create_dir(&tree).unwrap();
        let mut at = rustix::fs::openat(CWD, &tree, FOLDER, Mode::empty()).unwrap();
        for _ in 0..20_000 {
            rustix::fs::mkdirat(&at, "d", Mode::from_raw_mode(0o700)).unwrap();
            at = rustix::fs::openat(&at, "d", FOLDER, Mode::empty()).unwrap();
        }
        let removed = std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().stack_size(64 << 10);
            thread.spawn_scoped(scope, || remove_tree(&tree)).unwrap().join().unwrap()
        });
        removed.unwrap();
        assert!(!tree.exists());
    }

    /// A mount inside a tree stops the removal.
    #[test]
    fn other_mounts_are_not_entered() {
        let all = tempfile::tempdir().unwrap();
        let (place, outside) = (all.path().join("tree/place"), all.path().join("outside"));
        for folder in [&place, &outside] {
            std::fs::create_dir_all(folder).unwrap();
        }
        std::fs::write(outside.join("file"), "").unwrap();
        rustix::mount::mount_bind(&outside, &place).unwrap();
        let removed = remove_tree(&all.path().join("tree"));
        rustix::mount::unmount(&place, rustix::mount::UnmountFlags::DETACH).unwrap();
        assert!(removed.is_err());
        assert!(outside.join("file").exists());
        remove_tree(&all.path().join("tree")).unwrap();
    }
}
