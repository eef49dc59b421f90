//! The key material that all servers of a cluster have in common. Each server issues its own leaf certificates.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use crate::files::{self, Access};
use crate::{Error, Result};

/// The files in the directory of key material, keys before their certificates. `etcd/` is there if the servers run etcd.
const FILES: [&str; 8] = [
    "ca.key",
    "ca.crt",
    "front-proxy-ca.key",
    "front-proxy-ca.crt",
    "sa.key",
    "sa.pub",
    "etcd/ca.key",
    "etcd/ca.crt",
];
const NOT_A_FILE: &str = "remove it";

/// The files that further servers need, by name.
pub fn shared_files(dir: &Path) -> Result<Vec<(&'static str, String)>> {
    let mut found = Vec::new();
    for name in FILES {
        if let Some(text) = files::read(&dir.join(name), NOT_A_FILE)? {
            found.push((name, text));
        }
    }
    Ok(found)
}

/// Makes the directory of a further server. It appears whole or not at all; an existing one is an error. Other names than those
/// of [`shared_files`] are ignored.
pub fn install_shared_files(dir: &Path, shared: &[(String, String)]) -> Result<()> {
    if dir.exists() {
        return Err(Error::broken(dir, "exists", "choose another data directory"));
    }
    let temporary = dir.with_extension("joining");
    match fs::remove_dir_all(&temporary) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err(Error::file("remove", &temporary)(error));
        }
        _ => {}
    }
    files::private_directory(&temporary)?;
    for (name, text) in shared.iter().filter(|(name, _)| FILES.contains(&name.as_str())) {
        let path = temporary.join(name);
        if let Some(parent) = path.parent() {
            files::private_directory(parent)?;
        }
        let access = if name.ends_with(".key") { Access::Owner } else { Access::Everyone };
        files::write(&path, text, access)?;
        if let Some(parent) = path.parent() {
            files::sync_directory(parent)?;
        }
    }
    fs::rename(&temporary, dir).map_err(Error::file("write", dir))?;
    files::sync_directory(dir.parent().unwrap_or(Path::new(".")))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::time::SystemTime;

    use super::*;
    use crate::{Sans, ServerPki};

    #[test]
    fn a_further_server_has_the_clusters_keys_and_its_own_certificates() {
        let directory = tempfile::tempdir().unwrap();
        let (first, second) = (directory.path().join("first"), directory.path().join("second"));
        let now = SystemTime::now();
        let one = ServerPki::load_or_create(&first, &Sans::default(), now).unwrap();
        let shared = shared_files(&first).unwrap();
        let names: Vec<&str> = shared.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, &FILES[..6], "no key of a leaf certificate");
        let mut sent: Vec<(String, String)> =
            shared.into_iter().map(|(name, text)| (name.to_owned(), text)).collect();
        sent.push(("../escaped".to_owned(), "x".to_owned()));
        install_shared_files(&second, &sent).unwrap();
        assert!(!directory.path().join("escaped").exists());
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
        assert_eq!((mode(&second), mode(&second.join("ca.key"))), (0o700, 0o600));
        let two = ServerPki::load_or_create(&second, &Sans::default(), now).unwrap();
        assert_eq!((&one.ca_pem, &one.service_account_key_pem), (&two.ca_pem, &two.service_account_key_pem));
        assert_eq!(one.front_proxy_authority.pem(), two.front_proxy_authority.pem());
        assert_ne!(one.admin_key_pem, two.admin_key_pem);
        assert!(install_shared_files(&second, &sent).is_err(), "an existing directory is never replaced");
    }
}
