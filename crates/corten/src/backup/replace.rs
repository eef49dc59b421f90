//! Replacing the parts of a data directory that a backup has, all or none.
//!
//! ```text
//! restore.unfinished/ ─ rename: the decision ─► restore.ready/ ─ each part: old one aside, new one in place ─► removed
//! ```
//!
//! Invariants: before the decision nothing of the old cluster is touched; after it, every step can be repeated, so that the next
//! process that uses the directory completes what a crash interrupted. Only a process that has the directory alone calls this.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context;
use corten_base::files;

use super::copy::PKI;

const UNFINISHED: &str = "restore.unfinished";
const READY: &str = "restore.ready";
/// The store's directory in the data directory.
pub(super) const STORE: &str = "store";
/// The parts that are replaced.
pub(super) const PARTS: [&str; 2] = [STORE, PKI];

/// An empty private directory for the new parts.
pub(super) fn begin(data_dir: &Path) -> anyhow::Result<PathBuf> {
    let staging = data_dir.join(UNFINISHED);
    let begin = || {
        remove(&staging)?;
        files::private_directory(&staging)
    };
    begin().with_context(|| format!("cannot create {}", staging.display()))?;
    Ok(staging)
}

/// Removes what an attempt without a decision left.
pub(super) fn discard(data_dir: &Path) -> io::Result<()> {
    remove(&data_dir.join(UNFINISHED))
}

/// True if parts wait to be put in place.
pub(super) fn is_pending(data_dir: &Path) -> bool {
    data_dir.join(READY).exists()
}

/// Decides for the new parts, whose contents are on disk, and puts them in place.
pub(super) fn decide(data_dir: &Path) -> anyhow::Result<()> {
    let decide = || {
        sync(&data_dir.join(UNFINISHED))?;
        fs::rename(data_dir.join(UNFINISHED), data_dir.join(READY))?;
        sync(data_dir)
    };
    decide().context("cannot put the backup in place; nothing was changed")?;
    complete(data_dir)
}

/// Puts the new parts in place, as far as they are not.
pub(super) fn complete(data_dir: &Path) -> anyhow::Result<()> {
    let ready = data_dir.join(READY);
    let complete = || {
        for part in PARTS {
            let (new, current, old) =
                (ready.join(part), data_dir.join(part), ready.join(format!("old-{part}")));
            if !new.exists() {
                continue;
            }
            if current.exists() {
                // One that a crash left is of the same cluster as the current one.
                remove(&old)?;
                fs::rename(&current, &old)?;
            }
            fs::rename(&new, &current)?;
            sync(data_dir)?;
        }
        remove(&ready)?;
        sync(data_dir)
    };
    complete().with_context(|| {
        format!(
            "cannot put the backup in place; the next command or server that uses {} continues",
            data_dir.display()
        )
    })
}

fn remove(directory: &Path) -> io::Result<()> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

pub(super) fn sync(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(at: &Path, name: &str, content: &str) {
        fs::create_dir_all(at.join(name)).unwrap();
        fs::write(at.join(name).join("content"), content).unwrap();
    }

    fn contents(data_dir: &Path) -> Vec<String> {
        let read = |part: &str| fs::read_to_string(data_dir.join(part).join("content")).unwrap_or_default();
        PARTS.into_iter().map(read).collect()
    }

    /// The states in which a crash can leave the directory after the decision, each made by hand.
    #[test]
    fn a_crash_leaves_the_old_cluster_or_the_new_one() {
        for crash in 0..6 {
            let scratch = tempfile::tempdir().unwrap();
            let data_dir = scratch.path();
            PARTS.iter().for_each(|name| part(data_dir, name, "old"));
            let staging = begin(data_dir).unwrap();
            PARTS.iter().for_each(|name| part(&staging, name, "new"));
            assert!(!is_pending(data_dir), "there is no decision");
            assert_eq!(contents(data_dir), ["old", "old"]);
            let ready = data_dir.join(READY);
            let moves = [
                (staging, ready.clone()),
                (data_dir.join(STORE), ready.join("old-store")),
                (ready.join(STORE), data_dir.join(STORE)),
                (data_dir.join(PKI), ready.join("old-pki")),
                (ready.join(PKI), data_dir.join(PKI)),
            ];
            for (from, to) in &moves[..crash] {
                fs::rename(from, to).unwrap();
            }
            let expected = if crash == 0 { "old" } else { "new" };
            if is_pending(data_dir) {
                complete(data_dir).unwrap();
            }
            assert_eq!(contents(data_dir), [expected, expected], "after {crash} moves");
            discard(data_dir).unwrap();
            assert!(!ready.exists() && !data_dir.join(UNFINISHED).exists());
        }
    }

    #[test]
    fn a_part_that_a_backup_does_not_have_stays() {
        let scratch = tempfile::tempdir().unwrap();
        part(scratch.path(), STORE, "old");
        part(&begin(scratch.path()).unwrap(), PKI, "new");
        decide(scratch.path()).unwrap();
        assert_eq!(contents(scratch.path()), ["old", "new"]);
    }
}
