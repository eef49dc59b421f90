//! Encryption of stored objects, as an `EncryptionConfiguration` asks for it.
//!
//! ```text
//! EncryptionConfiguration ─► Encryption: resource ─► providers ─► keys
//! object ─► seal: first key of the first provider ─► k8s:enc:aesgcm:v1:key1:… ─► store
//! store  ─► open: the provider and key that the prefix names ─► object
//! ```
//!
//! A KMS provider's data keys are decrypted by a plugin, which the owner of an [`Encryption`] calls: a value whose data key is
//! not there yet is an error that names it ([`ProviderError::Undecrypted`]).
//!
//! Prefixes, formats and authenticated data are upstream's, so that a store can be handed over in either direction.
//!
//! Invariants: a value is sealed by the first provider of its resource or not at all: an error never falls back to plain
//! text. A value whose prefix says that it is encrypted is never returned as it is. Keys are in no error and no log, and are
//! erased when they are dropped. Nothing here does I/O.

mod aes;
mod configuration;
mod extended_nonce;
pub mod kms;
mod metrics;
mod providers;
mod secretbox;

pub use configuration::{ConfigurationError, ParseOptions};
pub use metrics::EnvelopeMetrics;
pub use providers::{Encryption, Opened, ProviderError};
