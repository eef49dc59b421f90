//! The providers of each resource, and the choice between them and between their keys.
//!
//! The first key of the first provider seals; the prefix of a stored value says which one opens it. As upstream, a provider
//! that fails to open a value does not end the search: the same prefix may belong to a later provider with another key.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use thiserror::Error;

use crate::aes::{Cbc, Gcm};
use crate::kms::{Kms, Undecrypted};
use crate::metrics::{EnvelopeMetrics, Transformation};
use crate::secretbox::Secretbox;

/// The prefix of every encrypted value.
const ENCRYPTED: &[u8] = b"k8s:enc:";

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ProviderError {
    #[error("no matching prefix found")]
    NoProvider,
    #[error("no matching key was found for the provided {0} transformer")]
    NoKey(&'static str),
    #[error("identity transformer tried to read encrypted data")]
    Encrypted,
    #[error("the stored data was shorter than the required size")]
    Short,
    #[error("the stored data is not a multiple of the block size")]
    Blocks,
    #[error("invalid padding on input")]
    Padding,
    #[error("message authentication failed")]
    Authentication,
    #[error("cannot encrypt value")]
    Encrypt,
    #[error("cannot read random bytes")]
    Random,
    #[error("invalid key")]
    Key,
    /// The KMS plugin has not encrypted a data key yet.
    #[error("got unexpected nil transformer")]
    NoDataKey,
    #[error("{0}")]
    Expired(String),
    #[error("invalid seed length {0} used for key generation")]
    Seed(usize),
    #[error("crypto/aes: invalid key size {0}")]
    KeySize(usize),
    #[error("proto: cannot parse invalid wire-format data")]
    Envelope,
    #[error("{0}")]
    InvalidEnvelope(String),
    /// The value can be opened once its data key is decrypted.
    #[error("failed to decrypt DEK, error: {0}")]
    Undecrypted(Box<Undecrypted>),
}

/// A value as it was before it was sealed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opened {
    pub plain: Vec<u8>,
    /// True if another provider or key would seal it now, so that it should be written again.
    pub is_stale: bool,
}

/// The providers of all resources.
#[derive(Default)]
pub struct Encryption {
    /// By group and resource; `*` stands for all resources of a group, or for all groups.
    pub(crate) groups: HashMap<String, HashMap<String, Vec<Arc<Provider>>>>,
    /// The KMS providers, in the order of the configuration.
    pub(crate) kms: Vec<Arc<Kms>>,
    metrics: Arc<EnvelopeMetrics>,
}

pub(crate) enum Provider {
    Identity,
    Gcm(Keys<Gcm>),
    Cbc(Keys<Cbc>),
    Secretbox(Keys<Secretbox>),
    Kms(Arc<Kms>),
}

/// Named keys, the sealing one first.
pub(crate) struct Keys<K>(pub(crate) Vec<(String, K)>);

impl Encryption {
    pub(crate) fn new(metrics: Arc<EnvelopeMetrics>) -> Encryption {
        Encryption { metrics, ..Encryption::default() }
    }

    /// The KMS providers, in the order of the configuration.
    pub fn kms(&self) -> &[Arc<Kms>] {
        &self.kms
    }

    /// True if values of a resource are encrypted when they are written.
    pub fn seals(&self, group: &str, resource: &str) -> bool {
        self.providers(group, resource).first().is_some_and(|first| !first.is_identity())
    }

    /// True if values of some resource are or were encrypted.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Encrypts a value; `context` is its key in the store. `None` if values of the resource are stored as they are.
    pub fn seal(
        &self,
        group: &str,
        resource: &str,
        context: &[u8],
        plain: &[u8],
    ) -> Result<Option<Vec<u8>>, ProviderError> {
        let Some(provider) = self.providers(group, resource).first() else { return Ok(None) };
        let start = Instant::now();
        let sealed = if provider.is_identity() { Ok(None) } else { provider.seal(context, plain).map(Some) };
        let (to, prefix) = (Transformation::ToStorage, provider.prefix());
        self.metrics.count_transformation(
            (group, resource),
            to,
            prefix,
            start.elapsed(),
            sealed.as_ref().err(),
        );
        sealed
    }

    /// Decrypts a stored value. `None` if it is not encrypted and would not be now.
    pub fn open(
        &self,
        group: &str,
        resource: &str,
        context: &[u8],
        stored: &[u8],
    ) -> Result<Option<Opened>, ProviderError> {
        let providers = self.providers(group, resource);
        if providers.is_empty() {
            return if stored.starts_with(ENCRYPTED) { Err(ProviderError::Encrypted) } else { Ok(None) };
        }
        let start = Instant::now();
        let count = |prefix: &[u8], error: Option<&ProviderError>| {
            let (from, took) = (Transformation::FromStorage, start.elapsed());
            self.metrics.count_transformation((group, resource), from, prefix, took, error);
        };
        let mut failed = None;
        for (index, provider) in providers.iter().enumerate() {
            let Some(opened) = provider.open(context, stored) else { continue };
            count(provider.prefix_when_read(), opened.as_ref().err());
            match opened {
                Ok(opened) if index == 0 && provider.is_identity() => {
                    debug_assert!(!opened.is_stale, "identity has no keys");
                    return Ok(None);
                }
                Ok(opened) => {
                    return Ok(Some(Opened { is_stale: opened.is_stale || index > 0, ..opened }));
                }
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        Err(failed.unwrap_or_else(|| {
            count(b"unknown", Some(&ProviderError::NoProvider));
            ProviderError::NoProvider
        }))
    }

    /// The data key that a stored value needs, if it is not decrypted.
    pub fn undecrypted(&self, group: &str, resource: &str, stored: &[u8]) -> Option<Undecrypted> {
        self.providers(group, resource).iter().find_map(|provider| match &**provider {
            Provider::Kms(kms) => kms.undecrypted(stored.strip_prefix(kms.prefix())?),
            _ => None,
        })
    }

    fn providers(&self, group: &str, resource: &str) -> &[Arc<Provider>] {
        let find = |group: &str, resource: &str| self.groups.get(group)?.get(resource);
        let found = find(group, resource).or_else(|| find(group, "*")).or_else(|| find("*", "*"));
        found.map_or(&[], Vec::as_slice)
    }
}

impl Provider {
    fn is_identity(&self) -> bool {
        matches!(self, Provider::Identity)
    }

    /// The prefix as metrics of reads have it.
    fn prefix_when_read(&self) -> &[u8] {
        if self.is_identity() { b"identity" } else { self.prefix() }
    }

    fn prefix(&self) -> &[u8] {
        match self {
            Provider::Kms(kms) => kms.prefix(),
            Provider::Identity => b"",
            Provider::Gcm(_) => b"k8s:enc:aesgcm:v1:",
            Provider::Cbc(_) => b"k8s:enc:aescbc:v1:",
            Provider::Secretbox(_) => b"k8s:enc:secretbox:v1:",
        }
    }

    fn seal(&self, context: &[u8], plain: &[u8]) -> Result<Vec<u8>, ProviderError> {
        let mut out = Vec::with_capacity(plain.len() + 128);
        out.extend_from_slice(self.prefix());
        match self {
            Provider::Identity => out.extend_from_slice(plain),
            Provider::Gcm(keys) => keys.first(&mut out, "AES")?.seal(plain, context, &mut out)?,
            Provider::Cbc(keys) => keys.first(&mut out, "AES")?.seal(plain, &mut out)?,
            Provider::Secretbox(keys) => keys.first(&mut out, "Secretbox")?.seal(plain, &mut out)?,
            Provider::Kms(kms) => kms.seal(plain, context, &mut out)?,
        }
        Ok(out)
    }

    /// `None` if the value has another provider's prefix.
    fn open(&self, context: &[u8], stored: &[u8]) -> Option<Result<Opened, ProviderError>> {
        let sealed = stored.strip_prefix(self.prefix())?;
        match self {
            // A provider further down may be the one that encrypted it.
            Provider::Identity if stored.starts_with(ENCRYPTED) => None,
            Provider::Identity => Some(Ok(Opened { plain: sealed.to_vec(), is_stale: false })),
            Provider::Gcm(keys) => Some(keys.open(sealed, "AES", |key, sealed| key.open(sealed, context))),
            Provider::Cbc(keys) => Some(keys.open(sealed, "AES", Cbc::open)),
            Provider::Secretbox(keys) => Some(keys.open(sealed, "Secretbox", Secretbox::open)),
            Provider::Kms(kms) => Some(kms.open(sealed, context)),
        }
    }
}

impl<K> Keys<K> {
    /// The sealing key, after its name was written.
    fn first(&self, out: &mut Vec<u8>, provider: &'static str) -> Result<&K, ProviderError> {
        let (name, key) = self.0.first().ok_or(ProviderError::NoKey(provider))?;
        out.extend_from_slice(name.as_bytes());
        out.push(b':');
        Ok(key)
    }

    fn open(
        &self,
        sealed: &[u8],
        provider: &'static str,
        open: impl Fn(&K, &[u8]) -> Result<Vec<u8>, ProviderError>,
    ) -> Result<Opened, ProviderError> {
        let mut failed = None;
        for (index, (name, key)) in self.0.iter().enumerate() {
            let Some(sealed) = sealed.strip_prefix(name.as_bytes()).and_then(|rest| rest.strip_prefix(b":"))
            else {
                continue;
            };
            match open(key, sealed) {
                Ok(plain) => return Ok(Opened { plain, is_stale: index > 0 }),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        Err(failed.unwrap_or(ProviderError::NoKey(provider)))
    }
}

#[cfg(test)]
mod tests;
