//! Data keys that the plugin has decrypted, by the digest of their encrypted form.

use std::collections::HashMap;
use std::sync::Arc;

use jiff::Timestamp;

use super::SourceDigest;
use super::envelope::{AES_GCM_KEY, HKDF_SEED};
use crate::aes::{self, Gcm};
use crate::extended_nonce::Seed;
use crate::providers::ProviderError;

/// The number of keys in memory; the one that was added the longest ago makes room. Every start of a server and every change of the plugin's key makes one.
const MAX_KEYS: usize = 10_000;
const MAX_FAILURES: usize = 1_000;
/// The reason before the plugin was asked.
const NOT_ASKED: &str = "the KMS plugin has not decrypted it yet";

pub(super) enum DataKey {
    /// Opens values that were sealed without a seed. Upstream stopped to write them with 1.29.
    Whole(Gcm),
    Seed(Seed),
}

impl DataKey {
    pub(super) fn new(kind: i32, plain: &[u8]) -> Result<DataKey, ProviderError> {
        match kind {
            HKDF_SEED => Seed::new(plain).map(DataKey::Seed),
            AES_GCM_KEY if aes::KEY_SIZES.contains(&plain.len()) => Gcm::new(plain).map(DataKey::Whole),
            _ => Err(ProviderError::KeySize(plain.len())),
        }
    }

    pub(super) fn seal(&self, plain: &[u8], context: &[u8], out: &mut Vec<u8>) -> Result<(), ProviderError> {
        match self {
            DataKey::Seed(seed) => seed.seal(plain, context, out),
            DataKey::Whole(key) => key.seal(plain, context, out),
        }
    }

    pub(super) fn open(&self, sealed: &[u8], context: &[u8]) -> Result<Vec<u8>, ProviderError> {
        match self {
            DataKey::Seed(seed) => seed.open(sealed, context),
            DataKey::Whole(key) => key.open(sealed, context),
        }
    }
}

#[derive(Default)]
pub(super) struct DecryptedKeys {
    keys: HashMap<SourceDigest, (Arc<DataKey>, Timestamp)>,
    failures: HashMap<SourceDigest, Arc<str>>,
}

impl DecryptedKeys {
    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    /// A key, or the reason why it is not there.
    pub(super) fn get(&self, digest: &SourceDigest) -> Result<Arc<DataKey>, Arc<str>> {
        match self.keys.get(digest) {
            Some((key, _)) => Ok(Arc::clone(key)),
            None => Err(self.failures.get(digest).cloned().unwrap_or_else(|| NOT_ASKED.into())),
        }
    }

    pub(super) fn add(&mut self, digest: SourceDigest, key: Arc<DataKey>, now: Timestamp) {
        self.failures.remove(&digest);
        if let Some((_, used)) = self.keys.get_mut(&digest) {
            *used = now;
            return;
        }
        if self.keys.len() >= MAX_KEYS {
            let oldest = self.keys.iter().min_by_key(|(_, (_, used))| *used).map(|(digest, _)| *digest);
            oldest.map(|digest| self.keys.remove(&digest));
        }
        self.keys.insert(digest, (key, now));
    }

    pub(super) fn fail(&mut self, digest: SourceDigest, reason: Arc<str>) -> bool {
        if self.failures.len() >= MAX_FAILURES && !self.failures.contains_key(&digest) {
            self.failures.clear();
        }
        let known = self.failures.get(&digest).is_some_and(|known| *known == reason);
        self.failures.insert(digest, reason);
        !known
    }
}
