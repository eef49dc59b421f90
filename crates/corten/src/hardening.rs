//! Protects the secrets of a component before it does anything else: no core dumps, a umask for the owner only, and a data
//! directory that other users cannot enter.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::{Context, bail};
use corten_base::files;

/// Files without an explicit mode, of this process and of programs it starts, are for the owner only.
const UMASK: u32 = 0o077;

/// The entries of a data directory before or after the first start. The permissions of a directory with none of them, but
/// with others, are never changed.
const OURS: [&str; 12] = [
    "store",
    "pki",
    "encryption",
    "admin.kubeconfig",
    "agent",
    "kubelet",
    "runtime",
    "images",
    "network",
    "storage",
    "cni",
    "etcd",
];
/// A directory of every new ext4 file system.
const LOST_AND_FOUND: &str = "lost+found";

/// Turns off core dumps and sets the umask. Called before any thread is started.
pub(crate) fn protect_process() -> anyhow::Result<()> {
    corten_sys::limits::forbid_dumps().context("cannot turn off core dumps")?;
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(UMASK));
    Ok(())
}

/// Fails unless this process runs as root, which a node needs for namespaces, mounts and network rules. `instead` says how to
/// run the command.
pub(crate) fn require_root(instead: &str) -> anyhow::Result<()> {
    if !rustix::process::geteuid().is_root() {
        bail!("a node needs root: run {instead}");
    }
    Ok(())
}

/// Creates the data directory, or restricts an existing one to its owner.
pub(crate) fn prepare_data_directory(path: &Path) -> anyhow::Result<()> {
    if let Ok(found) = fs::metadata(path)
        && found.permissions().mode() & 0o077 != 0
        && !is_ours(path)?
    {
        bail!(
            "{} holds other files and may be read by other users; choose another directory with --data-dir",
            path.display()
        );
    }
    files::private_directory(path).with_context(|| {
        format!("cannot create {} (choose another directory with --data-dir)", path.display())
    })
}

fn is_ours(path: &Path) -> anyhow::Result<bool> {
    let entries = fs::read_dir(path).with_context(|| format!("cannot read {}", path.display()))?;
    let names: Result<Vec<OsString>, _> = entries.map(|entry| entry.map(|entry| entry.file_name())).collect();
    let mut names = names.with_context(|| format!("cannot read {}", path.display()))?;
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
    fn a_data_directory_becomes_private_and_other_directories_are_left_alone() {
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
            prepare_data_directory(&ours).unwrap();
            assert_eq!(mode(&ours), 0o700, "{}", ours.display());
        }
        let others = with("home", Some("photos"));
        assert!(
            prepare_data_directory(&others).unwrap_err().to_string().contains("choose another directory")
        );
        assert_eq!(mode(&others), 0o755);
        prepare_data_directory(&scratch.path().join("new/one")).unwrap();
        assert_eq!(mode(&scratch.path().join("new/one")), 0o700);
    }
}
