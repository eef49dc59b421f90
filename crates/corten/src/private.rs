//! What a part of a cluster does before anything else, so that its secrets stay with it: its memory is not dumped, what
//! it makes is for its owner only, and its data directory is narrowed if it was open to others.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::{Context, bail};
use corten_base::files;

/// What is made without a mode of its own, by this process or by programs that it starts, is for its owner only.
const UMASK: u32 = 0o077;

/// What a data directory may hold before the first start, or holds after it. A directory with anything else alone is
/// not ours to close.
const OURS: [&str; 10] = [
    "store",
    "pki",
    "admin.kubeconfig",
    "agent",
    "kubelet",
    "runtime",
    "images",
    "network",
    "storage",
    "cni",
];
/// Of every new file system.
const LOST_AND_FOUND: &str = "lost+found";

/// Keeps this process to itself. Called before any thread is started.
pub(crate) fn protect_process() -> anyhow::Result<()> {
    corten_sys::limits::forbid_dumps().context("turning core dumps off")?;
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(UMASK));
    Ok(())
}

/// Makes the directory that everything is kept in, or narrows the one that is there.
pub(crate) fn data_directory(path: &Path) -> anyhow::Result<()> {
    if let Ok(found) = fs::metadata(path)
        && found.permissions().mode() & 0o077 != 0
        && !is_ours(path)?
    {
        bail!(
            "{} holds other files and may be read by other users; give --data-dir a directory of its own",
            path.display()
        );
    }
    files::private_directory(path).with_context(|| format!("creating {}", path.display()))
}

fn is_ours(path: &Path) -> anyhow::Result<bool> {
    let entries = fs::read_dir(path).with_context(|| format!("reading {}", path.display()))?;
    let names: Result<Vec<OsString>, _> = entries.map(|entry| entry.map(|entry| entry.file_name())).collect();
    let mut names = names.with_context(|| format!("reading {}", path.display()))?;
    names.retain(|name| name != LOST_AND_FOUND);
    Ok(names.is_empty() || names.iter().any(|name| OURS.iter().any(|ours| name == ours)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o7777
    }

    #[test]
    fn a_data_directory_is_narrowed_and_a_directory_of_others_is_left_alone() {
        let scratch = tempfile::tempdir().unwrap();
        let with = |name: &str, inside: Option<&str>| {
            let path = scratch.path().join(name);
            fs::create_dir(&path).unwrap();
            if let Some(inside) = inside {
                fs::create_dir(path.join(inside)).unwrap();
            }
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
            path
        };
        for ours in [with("used", Some("store")), with("empty", None), with("disk", Some(LOST_AND_FOUND))] {
            data_directory(&ours).unwrap();
            assert_eq!(mode(&ours), 0o700, "{}", ours.display());
        }
        let others = with("home", Some("photos"));
        assert!(data_directory(&others).unwrap_err().to_string().contains("a directory of its own"));
        assert_eq!(mode(&others), 0o755);
        data_directory(&scratch.path().join("new/one")).unwrap();
        assert_eq!(mode(&scratch.path().join("new/one")), 0o700);
    }
}
