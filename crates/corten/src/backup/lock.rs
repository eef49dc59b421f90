//! The lock of a data directory: servers share it, a restore has it alone.
//!
//! The lock is on the directory itself, so that it needs no file and ends with the process.

use std::fs::{File, TryLockError};
use std::path::Path;

use anyhow::{Context, bail};

use super::replace;

/// Marks a data directory as used by this process, until the result is dropped. A restore that was interrupted after its decision
/// is completed first.
pub(crate) fn enter(data_dir: &Path) -> anyhow::Result<File> {
    if replace::is_pending(data_dir) {
        let _alone = exclusive(data_dir)?;
        tracing::info!(data_dir = %data_dir.display(), "completing an interrupted restore");
        replace::complete(data_dir)?;
    }
    let directory = open(data_dir)?;
    match directory.try_lock_shared() {
        Ok(()) => Ok(directory),
        Err(TryLockError::WouldBlock) => bail!("{} is being restored", data_dir.display()),
        Err(TryLockError::Error(error)) => Err(error).context("cannot lock the data directory"),
    }
}

/// Takes a data directory that no other process uses.
pub(super) fn exclusive(data_dir: &Path) -> anyhow::Result<File> {
    let directory = open(data_dir)?;
    match directory.try_lock() {
        Ok(()) => Ok(directory),
        Err(TryLockError::WouldBlock) => {
            bail!("a server or another command uses {}; stop it first", data_dir.display())
        }
        Err(TryLockError::Error(error)) => Err(error).context("cannot lock the data directory"),
    }
}

fn open(data_dir: &Path) -> anyhow::Result<File> {
    File::open(data_dir).with_context(|| format!("cannot open {}", data_dir.display()))
}
