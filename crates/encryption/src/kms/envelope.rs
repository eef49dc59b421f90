//! The stored form of a value: upstream's `EncryptedObject`, and its limits.

use std::collections::BTreeMap;

use corten_api::names;
use corten_grpc::protobuf::messages;

use crate::providers::ProviderError;

/// The limits in bytes: of a key's id, of an encrypted data key, and of all annotations.
const MAX_KEY_ID: usize = 1 << 10;
const MAX_SOURCE: usize = 1 << 10;
const MAX_ANNOTATIONS: usize = 32 << 10;

/// The data key of a value is the decrypted key itself.
pub(super) const AES_GCM_KEY: i32 = 0;
/// The data keys of values are expanded from the decrypted seed.
pub(super) const HKDF_SEED: i32 = 1;

messages! {
    pub(super) EncryptedObject {
        1 encrypted_data: Vec<u8>,
        2 key_id: String,
        3 encrypted_dek_source: Vec<u8>,
        4 annotations: BTreeMap<String, Vec<u8>>,
        5 encrypted_dek_source_type: i32,
    }
}

/// A data key, or a seed of data keys, as the plugin encrypted it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DekSource {
    /// The id of the plugin's key.
    pub key_id: String,
    pub ciphertext: Vec<u8>,
    pub annotations: BTreeMap<String, Vec<u8>>,
    pub(super) kind: i32,
}

impl DekSource {
    /// A seed.
    pub fn seed(key_id: String, ciphertext: Vec<u8>, annotations: BTreeMap<String, Vec<u8>>) -> DekSource {
        DekSource { key_id, ciphertext, annotations, kind: HKDF_SEED }
    }

    /// Checks upstream's limits.
    pub fn validate(&self) -> Result<(), ProviderError> {
        let invalid = |reason: String| Err(ProviderError::InvalidEnvelope(reason));
        if ![AES_GCM_KEY, HKDF_SEED].contains(&self.kind) {
            return invalid(format!("unknown encryptedDEKSourceType: {}", self.kind));
        }
        let size = self.ciphertext.len();
        let problem = match size {
            0 => Some("encrypted DEK source is empty".to_owned()),
            _ if size > MAX_SOURCE => Some(format!(
                "encrypted DEK source is {size} bytes, which exceeds the max size of {MAX_SOURCE}"
            )),
            _ => None,
        };
        if let Some(problem) = problem {
            return invalid(format!("failed to validate encrypted DEK source: {problem}"));
        }
        if let Err((_, problem)) = validate_key_id(&self.key_id) {
            return invalid(format!("failed to validate key id: {problem}"));
        }
        match problem_of_annotations(&self.annotations) {
            Some(problem) => invalid(format!("failed to validate annotations: {problem}")),
            None => Ok(()),
        }
    }
}

/// Checks the id of a plugin's key; the error's code in metrics, and its text.
pub fn validate_key_id(id: &str) -> Result<(), (&'static str, String)> {
    match id.len() {
        0 => Err(("empty", "keyID is empty".to_owned())),
        size if size > MAX_KEY_ID => {
            Err(("too_long", format!("keyID is {size} bytes, which exceeds the max size of {MAX_KEY_ID}")))
        }
        _ => Ok(()),
    }
}

fn problem_of_annotations(annotations: &BTreeMap<String, Vec<u8>>) -> Option<String> {
    // Names have at most the size of all annotations, so that checking and showing them is bounded.
    let size: usize = annotations.iter().map(|(name, value)| name.len() + value.len()).sum();
    if size > MAX_ANNOTATIONS {
        return Some(format!(
            "total size of annotations is {size}, which exceeds the max size of {MAX_ANNOTATIONS}"
        ));
    }
    let bad = annotations.keys().find_map(|name| problem_of_name(name).map(|problem| (name, problem)));
    bad.map(|(name, problem)| format!("annotations: Invalid value: {name:?}: {problem}"))
}

/// The reason why a text is no fully qualified domain name.
fn problem_of_name(name: &str) -> Option<String> {
    let name = name.strip_suffix('.').unwrap_or(name);
    if let Some(problem) = names::dns1123_subdomain(name).into_iter().next() {
        return Some(problem);
    }
    if !name.contains('.') {
        return Some("should be a domain with at least two segments separated by dots".to_owned());
    }
    name.split('.').find_map(|segment| names::dns1123_label(segment).into_iter().next())
}

impl EncryptedObject {
    pub(super) fn new(encrypted_data: Vec<u8>, source: &DekSource) -> EncryptedObject {
        EncryptedObject {
            encrypted_data,
            key_id: source.key_id.clone(),
            encrypted_dek_source: source.ciphertext.clone(),
            annotations: source.annotations.clone(),
            encrypted_dek_source_type: source.kind,
        }
    }

    /// The sealed value, and its data key.
    pub(super) fn validated(self) -> Result<(Vec<u8>, DekSource), ProviderError> {
        let source = DekSource {
            key_id: self.key_id,
            ciphertext: self.encrypted_dek_source,
            annotations: self.annotations,
            kind: self.encrypted_dek_source_type,
        };
        if self.encrypted_data.is_empty() {
            return Err(ProviderError::InvalidEnvelope("encrypted data is empty".to_owned()));
        }
        source.validate()?;
        Ok((self.encrypted_data, source))
    }
}
