//! Encryption of objects at rest: the file of `--encryption-provider-config`, and the resource of a key in the store.
//!
//! Invariants: an object is sealed by the providers of its resource, whatever its key looks like; a changed file that cannot
//! be used changes nothing. Values written before are sealed again when the store opens.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::{fmt, fs, io};

use corten_encryption::{ConfigurationError, Encryption, Opened as OpenedValue, ProviderError};
use corten_store::{Opened, Sealing, SealingError};
use corten_sys::files::Entries;
use parking_lot::RwLock;

/// Maximum size of the file.
const MAX_BYTES: u64 = 3 << 20;

#[derive(Debug, thiserror::Error)]
pub enum EncryptionError {
    #[error("cannot read encryption provider configuration file {}", path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("encryption provider configuration file {} is empty", .0.display())]
    Empty(PathBuf),
    #[error("cannot use encryption provider configuration file {}", path.display())]
    Configuration {
        path: PathBuf,
        #[source]
        source: ConfigurationError,
    },
}

/// The encryption of all objects in the store.
#[derive(Default)]
pub struct EncryptionAtRest {
    current: RwLock<Arc<Encryption>>,
}

impl EncryptionAtRest {
    /// Reads an `EncryptionConfiguration`.
    pub fn load(path: &Path) -> Result<EncryptionAtRest, EncryptionError> {
        let encryption = parse(path, &read(path)?)?;
        Ok(EncryptionAtRest { current: RwLock::new(Arc::new(encryption)) })
    }

    /// Uses the file again whenever it changes; it can be replaced or written in place.
    pub async fn follow(&self, path: &Path) {
        let directory =
            path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut changes = match Entries::of(directory) {
            Ok(changes) => changes,
            Err(err) => {
                tracing::error!(%err, "cannot watch encryption configuration; changes need a restart");
                return;
            }
        };
        let mut used: Option<Vec<u8>> = None;
        loop {
            // Compared before the first change, too: one may have happened since the start.
            match read(path).map(|text| Some(text).filter(|text| used.as_ref() != Some(text))) {
                Ok(None) => {}
                Ok(Some(text)) => match parse(path, &text) {
                    Ok(encryption) => {
                        *self.current.write() = Arc::new(encryption);
                        if used.is_some() {
                            tracing::info!("reloaded encryption configuration");
                        }
                        used = Some(text);
                    }
                    Err(err) => report(&err),
                },
                Err(err) => report(&err),
            }
            if let Err(err) = changes.next().await {
                tracing::error!(%err, "cannot watch encryption configuration; changes need a restart");
                return;
            }
        }
    }

    fn current(&self) -> Arc<Encryption> {
        self.current.read().clone()
    }
}

fn report(err: &EncryptionError) {
    let err = err as &dyn std::error::Error;
    tracing::error!(err, "cannot reload encryption configuration; keeping the one in force");
}

fn read(path: &Path) -> Result<Vec<u8>, EncryptionError> {
    let failed = |source| EncryptionError::Read { path: path.into(), source };
    if fs::metadata(path).map_err(failed)?.len() > MAX_BYTES {
        let source = ConfigurationError::Size;
        return Err(EncryptionError::Configuration { path: path.into(), source });
    }
    let text = fs::read(path).map_err(failed)?;
    if text.is_empty() { Err(EncryptionError::Empty(path.into())) } else { Ok(text) }
}

fn parse(path: &Path, text: &[u8]) -> Result<Encryption, EncryptionError> {
    Encryption::parse(text).map_err(|source| EncryptionError::Configuration { path: path.into(), source })
}

impl fmt::Debug for EncryptionAtRest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EncryptionAtRest").finish_non_exhaustive()
    }
}

impl Sealing for EncryptionAtRest {
    fn seal(&self, key: &str, plain: &[u8]) -> Result<Option<Vec<u8>>, SealingError> {
        let Some((group, resource)) = resource_of(key) else { return Ok(None) };
        self.current().seal(group, resource, key.as_bytes(), plain).map_err(failure)
    }

    fn open(&self, key: &str, stored: &[u8]) -> Result<Option<Opened>, SealingError> {
        let Some((group, resource)) = resource_of(key) else { return Ok(None) };
        let opened = self.current().open(group, resource, key.as_bytes(), stored).map_err(failure)?;
        // AES-CBC authenticates nothing: one of 256 values opens with any other key of the same name.
        if opened.as_ref().is_some_and(|opened| !opened.plain.starts_with(b"{")) {
            return Err(SealingError::new(
                &"the decrypted value is no object; is the key another one of the same name?",
            ));
        }
        Ok(opened.map(|opened| Opened { plain: opened.plain, is_stale: opened.is_stale }))
    }
}

/// Values of etcd, whose keys there are authenticated data.
impl EncryptionAtRest {
    /// The sealed form of the value of a key; `None` if it is stored as it is. `context` is the key in etcd.
    pub(crate) fn seal_for_etcd(
        &self,
        key: &str,
        context: &[u8],
        plain: &[u8],
    ) -> Result<Option<Vec<u8>>, ProviderError> {
        let Some((group, resource)) = resource_of(key) else { return Ok(None) };
        self.current().seal(group, resource, context, plain)
    }

    /// True if the value of a key is sealed when it is written.
    pub(crate) fn seals(&self, key: &str) -> bool {
        resource_of(key).is_some_and(|(group, resource)| self.current().seals(group, resource))
    }

    /// The value of a sealed form; `None` if it is not sealed.
    pub(crate) fn open_from_etcd(
        &self,
        key: &str,
        context: &[u8],
        stored: &[u8],
    ) -> Result<Option<OpenedValue>, ProviderError> {
        // Without a resource there are no providers.
        let (group, resource) = resource_of(key).unwrap_or_default();
        if resource.is_empty() {
            return Encryption::default().open("", "", context, stored);
        }
        self.current().open(group, resource, context, stored)
    }
}

fn failure(error: ProviderError) -> SealingError {
    SealingError::new(&error)
}

/// Group and resource of the object at a key; `None` for records that are no objects, which upstream never encrypts.
fn resource_of(key: &str) -> Option<(&str, &str)> {
    let rest = key.strip_prefix("/registry/")?;
    let (first, after) = rest.split_once('/')?;
    let built_in = built_in();
    if let Some((second, _)) = after.split_once('/') {
        let both = &rest[..first.len() + 1 + second.len()];
        if let Some(found) = built_in.get(both) {
            return Some(*found);
        }
        if !built_in.contains_key(first) {
            return Some((first, second));
        }
    }
    built_in.get(first).copied()
}

/// Groups and resources by their prefix in the store.
fn built_in() -> &'static HashMap<&'static str, (&'static str, &'static str)> {
    static BY_PREFIX: OnceLock<HashMap<&str, (&str, &str)>> = OnceLock::new();
    BY_PREFIX.get_or_init(|| {
        let stored = corten_registry::all().iter().filter(|rules| rules.stored && rules.stored_as.is_none());
        stored.map(|rules| (rules.storage_prefix, (rules.group, rules.resource))).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_belong_to_resources() {
        for (key, expected) in [
            ("/registry/secrets/default/web", Some(("", "secrets"))),
            ("/registry/services/specs/default/web", Some(("", "services"))),
            ("/registry/services/endpoints/default/web", Some(("", "endpoints"))),
            ("/registry/minions/one", Some(("", "nodes"))),
            ("/registry/deployments/default/web", Some(("apps", "deployments"))),
            ("/registry/clusterroles/admin", Some(("rbac.authorization.k8s.io", "clusterroles"))),
            ("/registry/example.com/widgets/default/a", Some(("example.com", "widgets"))),
            ("/registry/example.com/widgets/a", Some(("example.com", "widgets"))),
            ("/registry/ranges/servicenodeports", None),
            ("/registry/masterleases/192.0.2.1", None),
            ("/registry/corten.io/migration", None),
            ("/other/secrets/default/web", None),
        ] {
            assert_eq!(resource_of(key), expected, "{key}");
        }
    }
}
