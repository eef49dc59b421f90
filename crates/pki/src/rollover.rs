//! The replacement of the cluster's CA, in three steps, each of which is one file that appears or disappears.
//!
//! | file | what |
//! |---|---|
//! | `ca-next.crt` `.key` | the next CA: trusted, but it signs nothing yet |
//! | `ca-cross.crt` | the next CA's key, signed by the CA before it: for clients that trust only that one |
//! | `ca-previous.crt` | the CA before: still trusted; its key is gone |
//! | `ca-retired.crt` | earlier CAs, which are not trusted any more |
//!
//! ```text
//! settled ─begin─► trusted: both trusted, the old one signs
//!         ─switch─► replaced: both trusted, the new one signs
//!         ─finish─► settled: the new one alone
//! ```
//!
//! Invariants: a step that was interrupted is as if it had not begun, or is completed by the next load; at no moment a key
//! is readable by others; the old key is gone once the new one signs.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::time::SystemTime;

use crate::authority::{self, cross_sign, generate_key, parse_key};
use crate::files::{self, Access};
use crate::{Authority, Error, Result};

pub(crate) const NEXT: &str = "ca-next";
const NEXT_CRT: &str = "ca-next.crt";
const NEXT_KEY: &str = "ca-next.key";
pub(crate) const CROSS: &str = "ca-cross.crt";
pub(crate) const PREVIOUS: &str = "ca-previous.crt";
pub(crate) const RETIRED: &str = "ca-retired.crt";
const AGAIN: &str = "run `corten certificate rotate-ca` again";

/// The step that the replacement has reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RolloverStage {
    /// There is one CA.
    Settled,
    /// The next CA is trusted.
    Trusted,
    /// The next CA signs; the previous one is trusted.
    Replaced,
}

impl RolloverStage {
    /// The stage of a directory.
    pub fn of(dir: &Path) -> Result<RolloverStage> {
        recover(dir)?;
        let exists = |name: &str| dir.join(name).exists();
        Ok(match () {
            () if exists(NEXT_CRT) => RolloverStage::Trusted,
            () if exists(PREVIOUS) => RolloverStage::Replaced,
            () => RolloverStage::Settled,
        })
    }
}

/// Completes a switch that was interrupted between the key and its certificate.
pub(crate) fn recover(dir: &Path) -> Result<()> {
    if dir.join(NEXT_CRT).exists() && !dir.join(NEXT_KEY).exists() {
        rename(dir, NEXT_CRT, "ca.crt")?;
        files::sync_directory(dir)?;
    }
    Ok(())
}

/// Creates the next CA. Nothing changes if it exists.
pub fn begin_rollover(dir: &Path, now: SystemTime) -> Result<()> {
    expect(dir, RolloverStage::Settled)?;
    let authority = Authority::load_or_create(dir, "ca", authority::CLUSTER, now)?;
    let key_path = dir.join(NEXT_KEY);
    let key = match files::read_private(&key_path, AGAIN)? {
        Some(pem) => parse_key(&key_path, &pem, AGAIN)?,
        None => {
            let key = generate_key()?;
            files::write(&key_path, &key.serialize_pem(), Access::Owner)?;
            key
        }
    };
    let seconds = now.duration_since(SystemTime::UNIX_EPOCH).map_err(|_| Error::Clock)?.as_secs();
    // Another name, so that chains of both can be told apart.
    let name = format!("{}@{seconds}", authority::CLUSTER);
    files::write(&dir.join(CROSS), &cross_sign(&name, &key, &authority, now)?, Access::Everyone)?;
    files::sync_directory(dir)?;
    files::write(&dir.join(NEXT_CRT), &authority::self_sign(&name, &key, now)?, Access::Everyone)?;
    files::sync_directory(dir)
}

/// Makes the next CA the one that signs.
pub fn switch_authority(dir: &Path) -> Result<()> {
    expect(dir, RolloverStage::Trusted)?;
    let current = files::read(&dir.join("ca.crt"), AGAIN)?.unwrap_or_default();
    files::write(&dir.join(PREVIOUS), &current, Access::Everyone)?;
    files::sync_directory(dir)?;
    rename(dir, NEXT_KEY, "ca.key")?;
    files::sync_directory(dir)?;
    recover(dir)
}

/// Trusts only the new CA.
pub fn finish_rollover(dir: &Path) -> Result<()> {
    expect(dir, RolloverStage::Replaced)?;
    let previous = files::read(&dir.join(PREVIOUS), AGAIN)?.unwrap_or_default();
    let mut retired = files::read(&dir.join(RETIRED), AGAIN)?.unwrap_or_default();
    if !retired.contains(previous.trim()) {
        retired.push_str(&previous);
        files::write(&dir.join(RETIRED), &retired, Access::Everyone)?;
    }
    remove(dir, CROSS)?;
    files::sync_directory(dir)?;
    remove(dir, PREVIOUS)?;
    files::sync_directory(dir)
}

fn expect(dir: &Path, stage: RolloverStage) -> Result<()> {
    let found = RolloverStage::of(dir)?;
    if found == stage {
        return Ok(());
    }
    Err(Error::broken(dir, format!("is at stage {found:?} of a CA's replacement, not {stage:?}"), AGAIN))
}

/// Renames a file, unless another process did.
fn rename(dir: &Path, from: &str, to: &str) -> Result<()> {
    match fs::rename(dir.join(from), dir.join(to)) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(Error::file("write", &dir.join(to))(error)),
        _ => Ok(()),
    }
}

fn remove(dir: &Path, name: &str) -> Result<()> {
    match fs::remove_file(dir.join(name)) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(Error::file("remove", &dir.join(name))(error))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
