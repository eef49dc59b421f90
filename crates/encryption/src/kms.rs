//! KMS v2: values that are sealed with a data key, which only the plugin of the provider can decrypt.
//!
//! ```text
//! seal: current data key ─► EncryptedObject: sealed value, encrypted data key, id of the plugin's key
//! open: EncryptedObject ─► decrypted data keys ─► value          (a data key that is not there: ProviderError::Undecrypted)
//! ```
//!
//! Formats, limits and texts are upstream's. Nothing here talks to the plugin: its owner replaces the current data key
//! ([`Kms::rotate`]), extends its term ([`Kms::extend`]) and adds the decrypted keys that values need ([`Kms::add`]).
//!
//! Invariants: without a current data key nothing is sealed and nothing is opened; after its term nothing is sealed; a data
//! key is in no error and no log; the number of decrypted keys in memory is limited.

mod envelope;
mod keys;
pub mod protocol;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use corten_base::Clock;
use corten_grpc::protobuf::Message;
use jiff::{Timestamp, Unit};
use parking_lot::{Mutex, RwLock};
use zeroize::Zeroizing;

use crate::metrics::{EnvelopeMetrics, Transformation};
use crate::providers::{Opened, ProviderError};
use envelope::EncryptedObject;
pub use envelope::{DekSource, validate_key_id};
use keys::{DataKey, DecryptedKeys};

/// The size of a seed of data keys.
pub const SEED_BYTES: usize = crate::extended_nonce::SIZE;

/// The settings of a provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KmsSettings {
    pub name: String,
    /// The socket of the plugin. One that begins with a zero byte is abstract.
    pub socket: PathBuf,
    /// The time that a call of the plugin may take.
    pub timeout: Duration,
}

/// A provider.
pub struct Kms {
    settings: KmsSettings,
    prefix: Vec<u8>,
    clock: Clock,
    metrics: Arc<EnvelopeMetrics>,
    current: RwLock<Option<Current>>,
    keys: Mutex<DecryptedKeys>,
}

/// The data key that seals.
#[derive(Clone)]
struct Current {
    source: Arc<DekSource>,
    digest: SourceDigest,
    key: Arc<DataKey>,
    expires: Timestamp,
}

/// Identifies an encrypted data key.
pub type SourceDigest = [u8; 32];

/// An encrypted data key that is needed to open a value.
#[derive(Clone)]
pub struct Undecrypted {
    pub kms: Arc<Kms>,
    pub source: Arc<DekSource>,
    pub digest: SourceDigest,
    /// The reason why it is not there.
    reason: Arc<str>,
}

impl fmt::Display for Undecrypted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl fmt::Debug for Undecrypted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Undecrypted").field(&self.reason).finish()
    }
}

impl PartialEq for Undecrypted {
    fn eq(&self, other: &Undecrypted) -> bool {
        self.digest == other.digest
    }
}

impl Eq for Undecrypted {}

impl fmt::Debug for Kms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kms").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl Kms {
    pub(crate) fn new(settings: KmsSettings, clock: Clock, metrics: Arc<EnvelopeMetrics>) -> Kms {
        Kms {
            prefix: format!("k8s:enc:kms:v2:{}:", settings.name).into_bytes(),
            settings,
            clock,
            metrics,
            current: RwLock::default(),
            keys: Mutex::default(),
        }
    }

    pub fn name(&self) -> &str {
        &self.settings.name
    }

    pub fn socket(&self) -> &Path {
        &self.settings.socket
    }

    pub fn timeout(&self) -> Duration {
        self.settings.timeout
    }

    pub(crate) fn prefix(&self) -> &[u8] {
        &self.prefix
    }

    /// The id of the plugin's key that the current data key is encrypted with, and the end of its term.
    pub fn current(&self) -> Option<(String, Timestamp)> {
        self.current.read().as_ref().map(|current| (current.source.key_id.clone(), current.expires))
    }

    /// Seals values until a time with the same data key.
    pub fn extend(&self, expires: Timestamp) {
        if let Some(current) = &mut *self.current.write() {
            current.expires = expires;
        }
    }

    /// Seals values until a time with the data keys of a new seed. `source` is the seed as the plugin encrypted it.
    pub fn rotate(&self, source: DekSource, seed: &[u8], expires: Timestamp) -> Result<(), ProviderError> {
        source.validate()?;
        let key = Arc::new(DataKey::new(source.kind, seed)?);
        let digest = digest_of(&source);
        self.add_key(digest, Arc::clone(&key));
        *self.current.write() = Some(Current { source: Arc::new(source), digest, key, expires });
        Ok(())
    }

    /// Adds a data key that the plugin has decrypted.
    pub fn add(&self, undecrypted: &Undecrypted, plain: &[u8]) -> Result<(), ProviderError> {
        let key = DataKey::new(undecrypted.source.kind, plain)?;
        self.add_key(undecrypted.digest, Arc::new(key));
        Ok(())
    }

    /// Records the reason why a data key could not be decrypted. True if it is another one than before.
    pub fn fail(&self, undecrypted: &Undecrypted, reason: &str) -> bool {
        self.keys.lock().fail(undecrypted.digest, reason.into())
    }

    fn add_key(&self, digest: SourceDigest, key: Arc<DataKey>) {
        let mut keys = self.keys.lock();
        keys.add(digest, key, self.clock.now());
        self.metrics.set_cache_size(self.name(), keys.len());
    }

    fn state(&self) -> Result<Current, ProviderError> {
        self.current.read().clone().ok_or(ProviderError::NoDataKey)
    }

    pub(crate) fn seal(&self, plain: &[u8], context: &[u8], out: &mut Vec<u8>) -> Result<(), ProviderError> {
        let Current { source, digest, key, expires } = self.state()?;
        let now = self.clock.now();
        if now > expires {
            return Err(ProviderError::Expired(format!(
                "encryptedDEKSource with keyID hash \"{}\" expired at {} (current time is {})",
                hash(&source.key_id),
                whole_seconds(expires),
                whole_seconds(now)
            )));
        }
        // It is kept for as long as it is used.
        self.add_key(digest, Arc::clone(&key));
        let mut sealed = Vec::with_capacity(plain.len() + 64);
        key.seal(plain, context, &mut sealed)?;
        self.metrics.count_key_id(Transformation::ToStorage, self.name(), &source.key_id, now);
        EncryptedObject::new(sealed, &source).put_fields(out);
        Ok(())
    }

    pub(crate) fn open(self: &Arc<Self>, stored: &[u8], context: &[u8]) -> Result<Opened, ProviderError> {
        let object = EncryptedObject::decode(stored).ok_or(ProviderError::Envelope)?;
        let (sealed, source) = object.validated()?;
        let current = self.state()?;
        let key = match self.key(&source) {
            Ok(key) => key,
            Err((digest, reason)) => {
                self.metrics.count_cache_miss();
                let undecrypted = self.needs(source, digest, reason);
                return Err(ProviderError::Undecrypted(Box::new(undecrypted)));
            }
        };
        self.metrics.count_key_id(Transformation::FromStorage, self.name(), &source.key_id, self.clock.now());
        let plain = key.open(&sealed, context)?;
        let is_stale = source.key_id != current.source.key_id || source.kind != current.source.kind;
        Ok(Opened { plain, is_stale })
    }
}

impl Kms {
    /// The data key of a stored value, if it is not decrypted.
    pub(crate) fn undecrypted(self: &Arc<Self>, stored: &[u8]) -> Option<Undecrypted> {
        let (_, source) = EncryptedObject::decode(stored)?.validated().ok()?;
        let (digest, reason) = self.key(&source).err()?;
        Some(self.needs(source, digest, reason))
    }

    /// A decrypted data key, or its digest and the reason why it is not there.
    fn key(&self, source: &DekSource) -> Result<Arc<DataKey>, (SourceDigest, Arc<str>)> {
        let digest = digest_of(source);
        self.keys.lock().get(&digest).map_err(|reason| (digest, reason))
    }

    fn needs(self: &Arc<Self>, source: DekSource, digest: SourceDigest, reason: Arc<str>) -> Undecrypted {
        Undecrypted { kms: Arc::clone(self), source: Arc::new(source), digest, reason }
    }
}

/// A new seed of data keys.
pub fn new_seed() -> Result<Zeroizing<Vec<u8>>, ProviderError> {
    let mut seed = Zeroizing::new(vec![0; SEED_BYTES]);
    getrandom::fill(&mut seed).map_err(|_| ProviderError::Random)?;
    Ok(seed)
}

/// The hash of a key's id, as errors and metrics have it; empty if there is no id.
pub fn hash(text: &str) -> String {
    if text.is_empty() {
        return String::new();
    }
    let digest = digest(&SHA256, text.as_bytes());
    digest.as_ref().iter().fold("sha256:".to_owned(), |text, byte| format!("{text}{byte:02x}"))
}

fn digest_of(source: &DekSource) -> SourceDigest {
    let mut digested = [0; 32];
    let encoded = EncryptedObject::new(Vec::new(), source).encode();
    digested.copy_from_slice(digest(&SHA256, &encoded).as_ref());
    digested
}

/// A time as errors show it.
pub fn whole_seconds(time: Timestamp) -> String {
    time.round(Unit::Second).unwrap_or(time).to_string()
}

#[cfg(test)]
mod tests;
