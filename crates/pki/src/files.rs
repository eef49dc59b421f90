//! Reading and writing key material.
//!
//! A write goes to a temporary file beside the target, is synced, and is renamed over it: readers and a
//! machine that loses power see the old file or the new one. The rename itself is made durable by
//! [`sync_directory`], which callers do once after writing several files.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use corten_base::files as own;

use crate::{Error, Result};

/// The readers of a file.
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
    own::private_directory(dir).map_err(Error::file("create", dir))
}

/// The file's text, or `None` if there is no such file.
pub(crate) fn read(path: &Path, remedy: &'static str) -> Result<Option<String>> {
    opened(path)?.map(|file| text(file, path, remedy)).transpose()
}

/// Like [`read`], for a private key: a key that others can read is made private again.
pub(crate) fn read_private(path: &Path, remedy: &'static str) -> Result<Option<String>> {
    let Some(file) = opened(path)? else { return Ok(None) };
    own::narrow_file(&file).map_err(Error::file("restrict permissions of", path))?;
    text(file, path, remedy).map(Some)
}

fn opened(path: &Path) -> Result<Option<File>> {
    match File::open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::file("read", path)(error)),
    }
}

fn text(mut file: File, path: &Path, remedy: &'static str) -> Result<String> {
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(Error::file("read", path))?;
    String::from_utf8(bytes).map_err(|_| Error::broken(path, "is not a text file", remedy))
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
