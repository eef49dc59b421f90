//! Kubeconfigs that commands read, and the place of the administrator's.
//!
//! The server records in its data directory where it wrote the administrator's kubeconfig, so that other commands find it by
//! the data directory alone. The record is a path, never the credentials themselves.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::Context;
use corten_base::files;
use corten_pki::{Credentials, parse_kubeconfig};

/// The administrator's kubeconfig, in the data directory.
const ADMIN: &str = "admin.kubeconfig";
/// The path of the administrator's kubeconfig, if it is elsewhere.
const ADMIN_PATH: &str = "admin.kubeconfig.path";

/// The flags of commands that act on the server of this machine as its administrator.
#[derive(clap::Args)]
pub(crate) struct AdminFlags {
    /// Data directory of the server on this machine.
    #[arg(long, default_value = "/var/lib/corten", global = true)]
    pub(crate) data_dir: PathBuf,
    /// Kubeconfig of the administrator [default: the one that the server of the data directory wrote].
    #[arg(long, global = true)]
    kubeconfig: Option<PathBuf>,
}

impl AdminFlags {
    /// Reads the administrator's kubeconfig.
    pub(crate) fn credentials(&self) -> anyhow::Result<Credentials> {
        read(&self.kubeconfig.clone().unwrap_or_else(|| admin_path(&self.data_dir)))
    }
}

/// Reads the kubeconfig that `--kubeconfig` names, or its default.
pub(crate) fn read(path: &Path) -> anyhow::Result<Credentials> {
    let shown = path.display();
    let text = fs::read_to_string(path)
        .with_context(|| format!("cannot read kubeconfig {shown} (name another with --kubeconfig)"))?;
    parse_kubeconfig(&text)
        .with_context(|| format!("cannot use kubeconfig {shown} (name another with --kubeconfig)"))
}

/// Returns the path for the administrator's kubeconfig and records it: `elsewhere`, or the default in the data directory.
pub(crate) fn record_admin_path(data_dir: &Path, elsewhere: Option<&Path>) -> anyhow::Result<PathBuf> {
    let record = data_dir.join(ADMIN_PATH);
    let Some(path) = elsewhere else {
        match fs::remove_file(&record) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("cannot remove {}", record.display()));
            }
            _ => return Ok(data_dir.join(ADMIN)),
        }
    };
    let path = std::path::absolute(path).context("cannot resolve --write-kubeconfig")?;
    let text = path.as_os_str().as_encoded_bytes();
    files::write_private(&record, text).with_context(|| format!("cannot write {}", record.display()))?;
    Ok(path)
}

/// The path of the administrator's kubeconfig of a server on this machine.
pub(crate) fn admin_path(data_dir: &Path) -> PathBuf {
    match fs::read_to_string(data_dir.join(ADMIN_PATH)) {
        Ok(path) => PathBuf::from(path),
        Err(_) => data_dir.join(ADMIN),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_administrators_kubeconfig_is_found_by_the_data_directory() {
        let directory = tempfile::tempdir().unwrap();
        let data_dir = directory.path();
        assert_eq!(admin_path(data_dir), data_dir.join(ADMIN));
        let elsewhere = data_dir.join("else where/config");
        assert_eq!(record_admin_path(data_dir, Some(&elsewhere)).unwrap(), elsewhere);
        assert_eq!(admin_path(data_dir), elsewhere);
        let mode = fs::metadata(data_dir.join(ADMIN_PATH)).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o600);
        assert_eq!(record_admin_path(data_dir, None).unwrap(), data_dir.join(ADMIN));
        assert_eq!(admin_path(data_dir), data_dir.join(ADMIN), "the record is removed");
    }

    #[test]
    fn a_missing_or_broken_kubeconfig_is_explained() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("config");
        let said = format!("{:#}", read(&path).unwrap_err());
        assert!(said.contains("--kubeconfig") && said.contains("No such file"), "{said}");
        fs::write(&path, "kind: Pod").unwrap();
        let said = format!("{:#}", read(&path).unwrap_err());
        assert!(said.starts_with("cannot use kubeconfig"), "{said}");
    }
}
