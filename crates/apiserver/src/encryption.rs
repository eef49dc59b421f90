//! Encryption of objects at rest: the file of `--encryption-provider-config`, the KMS plugins that it names, and the resource of
//! a key in the store.
//!
//! Invariants: an object is sealed by the providers of its resource, whatever its key looks like; a changed file that cannot
//! be used, or whose plugins are not healthy, changes nothing. Values written before are sealed again when the store opens.

mod plugin;
mod plugins;
mod reload;

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use corten_base::Clock;
use corten_encryption::kms::Undecrypted;
use corten_encryption::{
    ConfigurationError, Encryption, EnvelopeMetrics, Opened as OpenedValue, ParseOptions, ProviderError,
};
use corten_serving::metrics::Exposition;
use corten_store::{Opened, Sealing, SealingError};
use futures_util::future::join_all;
use parking_lot::RwLock;
use tokio::runtime::Handle;
use tokio::sync::watch;

use crate::server_id;
use plugins::Plugins;

/// The time for which a server waits for its plugins when it opens an embedded store, which it cannot read without them.
const START_PATIENCE: Duration = Duration::from_secs(60);
const START_RETRY: Duration = Duration::from_secs(3);
/// The delay of a blocking reader beyond the plugin's timeout, while other data keys are requested.
const BLOCKING_MARGIN: Duration = Duration::from_secs(10);

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
    #[error(
        "KMS plugins are not healthy: {0}; check that they run and that this process may use their sockets"
    )]
    Unhealthy(String),
}

/// The encryption of all objects in the store.
#[derive(Default)]
pub struct EncryptionAtRest {
    current: RwLock<Arc<Configured>>,
    metrics: Arc<EnvelopeMetrics>,
    /// The file, and true if it is read again when it changes; `None` without one.
    file: Option<(PathBuf, bool)>,
    clock: Option<Clock>,
    /// Where requests to plugins run.
    runtime: Option<Handle>,
    /// The hash of the configuration in force.
    in_force: watch::Sender<String>,
}

/// One configuration.
#[derive(Default)]
struct Configured {
    encryption: Encryption,
    plugins: Plugins,
    /// The hash of the file.
    hash: String,
}

impl EncryptionAtRest {
    /// Reads an `EncryptionConfiguration`. With `reload`, [`EncryptionAtRest::follow`] will read it again.
    pub fn load(path: &Path, reload: bool, clock: Clock) -> Result<EncryptionAtRest, EncryptionError> {
        let mut encryption = EncryptionAtRest {
            file: Some((path.to_owned(), reload)),
            clock: Some(clock),
            runtime: Handle::try_current().ok(),
            ..EncryptionAtRest::default()
        };
        let configured = encryption.configure(path, &reload::read(path)?)?;
        encryption.metrics.set_configuration(configured.hash.clone());
        encryption.in_force.send_replace(configured.hash.clone());
        encryption.current = RwLock::new(Arc::new(configured));
        Ok(encryption)
    }

    fn clock(&self) -> Clock {
        self.clock.clone().unwrap_or_else(Clock::real)
    }

    fn configure(&self, path: &Path, text: &[u8]) -> Result<Configured, EncryptionError> {
        let reload = self.reloads();
        let options = ParseOptions { reload, clock: self.clock.clone(), metrics: Arc::clone(&self.metrics) };
        let encryption = Encryption::parse(text, &options)
            .map_err(|source| EncryptionError::Configuration { path: path.into(), source })?;
        let plugins = Plugins::of(&encryption, &self.metrics, &self.clock());
        Ok(Configured { encryption, plugins, hash: server_id::sha256(text) })
    }

    /// Checks the KMS plugins, and from then on for as long as the configuration is in force. Plugins may become healthy later.
    pub async fn start(&self) {
        self.current().plugins.start().await;
    }

    /// Waits until all KMS plugins are healthy.
    pub async fn await_plugins(&self) -> Result<(), EncryptionError> {
        let (clock, current) = (self.clock(), self.current());
        let mut last = String::new();
        let healthy = async {
            loop {
                match current.plugins.check().await {
                    Ok(()) => return,
                    Err(problem) => last = problem,
                }
                clock.sleep(START_RETRY).await;
            }
        };
        match clock.timeout(START_PATIENCE, healthy).await {
            Some(()) => Ok(()),
            None => Err(EncryptionError::Unhealthy(last)),
        }
    }

    /// The hash of the configuration in force, as it changes; empty without one.
    pub fn in_force(&self) -> watch::Receiver<String> {
        self.in_force.subscribe()
    }

    /// True if the file is read again when it changes.
    pub(crate) fn reloads(&self) -> bool {
        self.file.as_ref().is_some_and(|(_, reload)| *reload)
    }

    /// True if the health endpoints check the plugins.
    pub(crate) fn has_check(&self) -> bool {
        self.reloads() || !self.current().plugins.is_empty()
    }

    /// Checks the plugins of the configuration in force.
    pub(crate) async fn check(&self) -> Result<(), String> {
        let current = self.current();
        current.plugins.check().await
    }

    pub(crate) fn render_metrics(&self, out: &mut Exposition) {
        if self.file.is_some() {
            self.metrics.render(out, &server_id::hash());
        }
    }

    fn current(&self) -> Arc<Configured> {
        self.current.read().clone()
    }

    /// Requests a data key. Returns a future that ends with the attempt.
    fn request(
        &self,
        current: &Configured,
        undecrypted: &Undecrypted,
    ) -> Option<impl Future<Output = ()> + Send + use<>> {
        let mut attempt = current.plugins.request(self.runtime.as_ref()?, undecrypted)?;
        Some(async move {
            // An error means that the attempt has ended.
            let _ = attempt.wait_for(|ended| *ended).await;
        })
    }

    /// Opens a value on a thread that may block.
    fn open_blocking(
        &self,
        group: &str,
        resource: &str,
        key: &[u8],
        stored: &[u8],
    ) -> Result<Option<OpenedValue>, ProviderError> {
        let current = self.current();
        let opened = current.encryption.open(group, resource, key, stored);
        let Err(ProviderError::Undecrypted(undecrypted)) = &opened else { return opened };
        let (Some(attempt), Some(runtime)) = (self.request(&current, undecrypted), &self.runtime) else {
            return opened;
        };
        let (ended, wait) = std::sync::mpsc::sync_channel(1);
        runtime.spawn(async move {
            attempt.await;
            // The reader may have given up.
            let _ = ended.send(());
        });
        // After the time, the value cannot be opened, and the error says why.
        let _ = wait.recv_timeout(undecrypted.kms.timeout().saturating_add(BLOCKING_MARGIN));
        current.encryption.open(group, resource, key, stored)
    }
}

impl fmt::Debug for EncryptionAtRest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EncryptionAtRest").finish_non_exhaustive()
    }
}

impl Sealing for EncryptionAtRest {
    fn seal(&self, key: &str, plain: &[u8]) -> Result<Option<Vec<u8>>, SealingError> {
        let Some((group, resource)) = resource_of(key) else { return Ok(None) };
        self.current()
            .encryption
            .seal(group, resource, key.as_bytes(), plain)
            .map_err(|error| SealingError::new(&error))
    }

    fn open(&self, key: &str, stored: &[u8]) -> Result<Option<Opened>, SealingError> {
        let Some((group, resource)) = resource_of(key) else { return Ok(None) };
        let opened = self
            .open_blocking(group, resource, key.as_bytes(), stored)
            .map_err(|error| SealingError::new(&error))?;
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
        self.current().encryption.seal(group, resource, context, plain)
    }

    /// True if the value of a key is sealed when it is written.
    pub(crate) fn seals(&self, key: &str) -> bool {
        resource_of(key).is_some_and(|(group, resource)| self.current().encryption.seals(group, resource))
    }

    /// The value of a sealed form; `None` if it is not sealed. A data key that is not decrypted is requested, for a later
    /// attempt.
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
        let current = self.current();
        let opened = current.encryption.open(group, resource, context, stored);
        if let Err(ProviderError::Undecrypted(undecrypted)) = &opened {
            // The attempt goes on without this future.
            drop(self.request(&current, undecrypted));
        }
        opened
    }

    /// Requests the data keys of values that will be opened. Returns a future that ends when all attempts have ended; `None`
    /// if all data keys are there.
    pub(crate) fn prepare<'v>(
        &self,
        values: impl Iterator<Item = (String, &'v [u8])>,
    ) -> Option<Pin<Box<dyn Future<Output = ()> + Send>>> {
        let current = self.current();
        if current.plugins.is_empty() {
            return None;
        }
        let mut attempts = Vec::new();
        for (key, stored) in values {
            let Some((group, resource)) = resource_of(&key) else { continue };
            if let Some(undecrypted) = current.encryption.undecrypted(group, resource, stored) {
                attempts.extend(self.request(&current, &undecrypted));
            }
        }
        if attempts.is_empty() {
            return None;
        }
        Some(Box::pin(async move {
            join_all(attempts).await;
        }))
    }
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
