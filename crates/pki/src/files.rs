//! Reading and writing key material.
//!
//! A write goes to a temporary file beside the target, is synced, and is renamed over it: readers and a
//! machine that loses power see the old file or the new one. The rename itself is made durable by
//! [`sync_directory`], which callers do once after writing several files.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use crate::{Error, Result};

/// Who may read a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Mode 0600: keys and kubeconfigs.
    Owner,
    /// Mode 0644: certificates and public keys.
    Everyone,
}

impl Access {
    fn mode(self) -> u32 {
        match self {
            Access::Owner => 0o600,
            Access::Everyone => 0o644,
        }
    }
}

/// Makes `dir` and its parents if missing; `dir` itself becomes accessible to its owner only.
pub(crate) fn private_directory(dir: &Path) -> Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(Error::file("create", dir))?;
    let mode = fs::metadata(dir).map_err(Error::file("read", dir))?.permissions().mode();
    if mode & 0o077 != 0 {
        fs::set_permissions(dir, fs::Permissions::from_mode(0o700))
            .map_err(Error::file("restrict permissions of", dir))?;
    }
    Ok(())
}

/// The file's text, or `None` if there is no such file.
pub(crate) fn read(path: &Path, remedy: &'static str) -> Result<Option<String>> {
    match fs::read(path) {
        Ok(bytes) => match String::from_utf8(bytes) {
            Ok(text) => Ok(Some(text)),
            Err(_) => Err(Error::broken(path, "is not a text file", remedy)),
        },
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::file("read", path)(error)),
    }
}

/// Like [`read`], for a private key: a key that others can read is made private again.
pub(crate) fn read_private(path: &Path, remedy: &'static str) -> Result<Option<String>> {
    let text = read(path, remedy)?;
    if text.is_some() {
        let mode = fs::metadata(path).map_err(Error::file("read", path))?.permissions().mode();
        if mode & 0o077 != 0 {
            fs::set_permissions(path, fs::Permissions::from_mode(0o600))
                .map_err(Error::file("restrict permissions of", path))?;
        }
    }
    Ok(text)
}

/// Replaces `path` with `text` in one step.
pub(crate) fn write(path: &Path, text: &str, access: Access) -> Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    let temporary = path.with_file_name(name);
    let outcome = write_and_rename(&temporary, path, text, access);
    if outcome.is_err() {
        // The first error is the one worth reporting; a leftover is overwritten by the next attempt.
        let _ = fs::remove_file(&temporary);
    }
    outcome
}

fn write_and_rename(temporary: &Path, path: &Path, text: &str, access: Access) -> Result<()> {
    if let Err(error) = fs::remove_file(temporary)
        && error.kind() != ErrorKind::NotFound
    {
        return Err(Error::file("remove", temporary)(error));
    }
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(access.mode())
        .open(temporary)
        .map_err(Error::file("create", temporary))?;
    file.write_all(text.as_bytes()).map_err(Error::file("write", temporary))?;
    file.sync_all().map_err(Error::file("write", temporary))?;
    fs::rename(temporary, path).map_err(Error::file("write", path))
}

/// Makes the renames done in `dir` survive a loss of power.
pub(crate) fn sync_directory(dir: &Path) -> Result<()> {
    File::open(dir).and_then(|file| file.sync_all()).map_err(Error::file("sync", dir))
}
