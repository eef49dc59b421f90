//! Files and directories with exact modes, whatever the umask is.
//!
//! Files of a node or a cluster are private: modes 0600 and 0700. Files that containers see have the given mode.
//!
//! *Invariants:* a private file has its mode from the call that creates it, so that other users can never open it. An existing
//! file that other users can open is restricted. Modes are changed through the open descriptor, never by path. No symbolic
//! link is followed to a file; a private directory may be one, because administrators relocate data that way.

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use rustix::fs::OFlags;

const PRIVATE_DIRECTORY: u32 = 0o700;
const PRIVATE_FILE: u32 = 0o600;
const GROUP_DIRECTORY: u32 = 0o750;
const PERMISSIONS: u32 = 0o7777;

/// Creates a directory and its missing parents, for the owner only, or restricts the existing one.
pub fn private_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(PRIVATE_DIRECTORY).create(path)?;
    restrict(&open_directory(path, OFlags::empty())?, PRIVATE_DIRECTORY)
}

/// Like [`private_directory`], but the owner's group may list it: for logs, which other tools collect.
pub fn group_directory(path: &Path) -> io::Result<()> {
    directories(path, GROUP_DIRECTORY)?;
    restrict(&open_directory(path, OFlags::empty())?, GROUP_DIRECTORY)
}

/// Creates a directory, or uses the existing one, and sets its mode; missing parents are private.
pub fn directory(path: &Path, mode: u32) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        DirBuilder::new().recursive(true).mode(PRIVATE_DIRECTORY).create(parent)?;
    }
    match DirBuilder::new().mode(mode & PRIVATE_DIRECTORY).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    set_mode(&open_directory(path, OFlags::NOFOLLOW)?, mode)
}

/// Creates a directory and its missing parents, all with this mode; existing ones are not changed.
pub fn directories(path: &Path, mode: u32) -> io::Result<()> {
    if path.is_dir() || path.as_os_str().is_empty() {
        return Ok(());
    }
    if let Some(parent) = path.parent() {
        directories(parent, mode)?;
    }
    directory(path, mode)
}

fn open_directory(path: &Path, more: OFlags) -> io::Result<File> {
    let flags = (OFlags::DIRECTORY | more).bits().cast_signed();
    OpenOptions::new().read(true).custom_flags(flags).open(path)
}

/// Opens a file with `options`. A new or an existing file is readable and writable by its owner only.
pub fn open_private(options: &OpenOptions, path: &Path) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW.bits().cast_signed();
    let file = options.clone().mode(PRIVATE_FILE).custom_flags(flags).open(path)?;
    narrow_file(&file)?;
    Ok(file)
}

/// A new or emptied file to write to, for its owner only.
pub fn create_private(path: &Path) -> io::Result<File> {
    open_private(OpenOptions::new().write(true).create(true).truncate(true), path)
}

/// Replaces the contents of a file, for its owner only.
pub fn write_private(path: &Path, bytes: impl AsRef<[u8]>) -> io::Result<()> {
    create_private(path)?.write_all(bytes.as_ref())
}

/// Replaces a file, for its owner only, in one step that survives a loss of power: readers see the old contents or the new.
pub fn replace_private(path: &Path, bytes: impl AsRef<[u8]>) -> io::Result<()> {
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(".tmp");
    let temporary = path.with_file_name(name);
    let mut file = create_private(&temporary)?;
    file.write_all(bytes.as_ref())?;
    file.sync_all()?;
    std::fs::rename(&temporary, path)?;
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    open_directory(directory.unwrap_or(Path::new(".")), OFlags::empty())?.sync_all()
}

/// Replaces the contents of a file, and then sets its mode. It stays the same inode, so that containers that have it
/// mounted see the new contents.
pub fn write(path: &Path, mode: u32, bytes: impl AsRef<[u8]>) -> io::Result<()> {
    let flags = OFlags::NOFOLLOW.bits().cast_signed();
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(mode & PRIVATE_FILE).custom_flags(flags);
    let mut file = options.open(path)?;
    file.write_all(bytes.as_ref())?;
    set_mode(&file, mode)
}

/// Creates an empty file with this mode; an existing file or link is an error.
pub fn create_new(path: &Path, mode: u32) -> io::Result<()> {
    let made = OpenOptions::new().write(true).create_new(true).mode(mode & PRIVATE_FILE).open(path)?;
    set_mode(&made, mode)
}

/// Restricts an open file to its owner.
pub fn narrow_file(file: &File) -> io::Result<()> {
    restrict(file, PRIVATE_FILE)
}

/// Removes the permissions that `mode` does not have; adds none.
fn restrict(file: &File, mode: u32) -> io::Result<()> {
    let found = file.metadata()?.permissions().mode() & PERMISSIONS;
    set_mode(file, found & mode)
}

fn set_mode(file: &File, mode: u32) -> io::Result<()> {
    let found = file.metadata()?.permissions().mode() & PERMISSIONS;
    if found == mode { Ok(()) } else { file.set_permissions(Permissions::from_mode(mode)) }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().permissions().mode() & PERMISSIONS
    }

    #[test]
    fn private_files_and_new_parents_are_created_private() {
        let scratch = tempfile::tempdir().unwrap();
        let (above, inner) = (scratch.path().join("a"), scratch.path().join("a/b"));
        private_directory(&inner).unwrap();
        write_private(&inner.join("key"), "secret").unwrap();
        assert_eq!((mode(&above), mode(&inner), mode(&inner.join("key"))), (0o700, 0o700, 0o600));
        assert_eq!(fs::read_to_string(inner.join("key")).unwrap(), "secret");
        group_directory(&scratch.path().join("logs")).unwrap();
        assert_eq!(mode(&scratch.path().join("logs")), 0o750);
    }

    #[test]
    fn a_file_is_replaced_in_one_step_and_private() {
        let scratch = tempfile::tempdir().unwrap();
        let file = scratch.path().join("record.json");
        for text in ["first", "second"] {
            replace_private(&file, text).unwrap();
            assert_eq!((mode(&file), fs::read_to_string(&file).unwrap().as_str()), (0o600, text));
        }
        assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 1, "nothing is left over");
    }

    #[test]
    fn files_open_to_other_users_are_restricted() {
        let scratch = tempfile::tempdir().unwrap();
        let (inner, file) = (scratch.path().join("a"), scratch.path().join("a/key"));
        fs::create_dir(&inner).unwrap();
        fs::write(&file, "old").unwrap();
        for (path, wide) in [(&inner, 0o2777), (&file, 0o666)] {
            fs::set_permissions(path, Permissions::from_mode(wide)).unwrap();
        }
        private_directory(&inner).unwrap();
        open_private(OpenOptions::new().read(true), &file).unwrap();
        assert_eq!((mode(&inner), mode(&file)), (0o700, 0o600));
        fs::set_permissions(&inner, Permissions::from_mode(0o500)).unwrap();
        private_directory(&inner).unwrap();
        assert_eq!(mode(&inner), 0o500, "nothing is widened");
    }

    #[test]
    fn a_link_is_followed_to_a_private_directory_only() {
        let scratch = tempfile::tempdir().unwrap();
        let at = |name: &str| scratch.path().join(name);
        fs::create_dir(at("elsewhere")).unwrap();
        symlink("elsewhere", at("data")).unwrap();
        assert!(directory(&at("data"), 0o777).is_err());
        private_directory(&at("data")).unwrap();
        assert_eq!(mode(&at("elsewhere")), 0o700);
        fs::write(at("victim"), "kept").unwrap();
        symlink("victim", at("key")).unwrap();
        assert!(write_private(&at("key"), "secret").is_err());
        assert!(write(&at("key"), 0o644, "secret").is_err());
        assert_eq!(fs::read_to_string(at("victim")).unwrap(), "kept");
    }

    #[test]
    fn files_of_containers_have_the_given_mode() {
        let scratch = tempfile::tempdir().unwrap();
        let (volume, file) = (scratch.path().join("pod/volume"), scratch.path().join("pod/hosts"));
        for wanted in [0o2777, 0o755] {
            directory(&volume, wanted).unwrap();
            assert_eq!((mode(&volume), mode(&scratch.path().join("pod"))), (wanted, 0o700));
        }
        directories(&volume.join("a/b"), 0o755).unwrap();
        assert_eq!((mode(&volume.join("a")), mode(&volume.join("a/b"))), (0o755, 0o755));
        for (wanted, text) in [(0o644, "long text"), (0o666, "text")] {
            write(&file, wanted, text).unwrap();
            assert_eq!((mode(&file), fs::read_to_string(&file).unwrap().as_str()), (wanted, text));
        }
    }
}
