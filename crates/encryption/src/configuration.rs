//! The file of `--encryption-provider-config`: decoding, upstream's validation, and its keys.
//!
//! Never shows a secret in an error.

use std::collections::HashSet;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use corten_api::status::ErrorList;
use corten_api::{Field, Value, meta, yaml};
use thiserror::Error;
use zeroize::Zeroizing;

use crate::aes::{self, Cbc, Gcm};
use crate::providers::{Encryption, Keys, Provider, ProviderError};
use crate::secretbox::{self, Secretbox};

const VERSION: &str = "apiserver.config.k8s.io/v1";
const KIND: &str = "EncryptionConfiguration";
/// Maximum size of the file.
const MAX_BYTES: usize = 3 << 20;
const REDACTED: &str = "\"REDACTED\"";

const MORE_THAN_ONE: &str =
    "more than one provider specified in a single element, should split into different list elements";
const NO_PROVIDER: &str =
    "provider does not contain any of the expected providers: KMS, AESGCM, AESCBC, Secretbox, Identity";

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ConfigurationError {
    #[error("encryption configuration is larger than 3 MiB")]
    Size,
    #[error("cannot decode encryption configuration: {0}")]
    Decode(String),
    #[error("{0}")]
    Invalid(String),
    #[error("resource {resource:?} is masked by earlier rule {rule:?}")]
    Masked { resource: String, rule: String },
    #[error("key {name:?} cannot be used: {reason}")]
    Key { name: String, reason: ProviderError },
}

/// The fields of an entry of `providers`, in the order in which upstream looks for it.
const PROVIDERS: [&str; 5] = ["kms", "aesgcm", "aescbc", "secretbox", "identity"];

impl Encryption {
    /// Reads the text of an `EncryptionConfiguration`, YAML or JSON.
    pub fn parse(text: &[u8]) -> Result<Encryption, ConfigurationError> {
        let file = decode(text)?;
        let mut errors = ErrorList::new();
        validate(&file, &mut errors);
        if !errors.is_empty() {
            return Err(ConfigurationError::Invalid(errors.summary()));
        }
        let mut encryption = Encryption::default();
        for rule in file.items_at(&["resources"]) {
            for name in rule.items_at(&["resources"]).iter().filter_map(Value::as_str) {
                let (resource, group) = split(name);
                encryption.refuse_masked(name, resource, group)?;
                let of_group = encryption.groups.entry(group.to_owned()).or_default();
                let providers = of_group.entry(resource.to_owned()).or_default();
                for provider in rule.items_at(&["providers"]) {
                    providers.push(provider_of(provider)?);
                }
            }
        }
        Ok(encryption)
    }

    fn refuse_masked(&self, name: &str, resource: &str, group: &str) -> Result<(), ConfigurationError> {
        for any_group in [group, "*"] {
            if self.groups.get(any_group).is_some_and(|resources| resources.contains_key("*")) {
                let resource = shown(resource, group, name);
                return Err(ConfigurationError::Masked { resource, rule: format!("*.{any_group}") });
            }
        }
        Ok(())
    }
}

/// A resource as upstream shows it.
fn shown(resource: &str, group: &str, name: &str) -> String {
    if resource == "*" { format!("*.{group}") } else { name.to_owned() }
}

fn decode(text: &[u8]) -> Result<Value, ConfigurationError> {
    if text.len() > MAX_BYTES {
        return Err(ConfigurationError::Size);
    }
    let mut duplicates = Vec::new();
    let value = yaml::to_value(text, &mut duplicates)
        .map_err(|error| ConfigurationError::Decode(without_values(&error)))?;
    if let Some(error) = yaml::strict_error(&duplicates) {
        return Err(ConfigurationError::Decode(error));
    }
    if meta::api_version(&value) != VERSION || meta::kind(&value) != KIND {
        return Err(ConfigurationError::Decode(format!("expected an {KIND} of {VERSION}")));
    }
    known_fields(&value, &["apiVersion", "kind", "resources"])?;
    for rule in list(&value, "resources")? {
        known_fields(rule, &["resources", "providers"])?;
        if list(rule, "resources")?.iter().any(|name| name.as_str().is_none()) {
            return Err(ConfigurationError::Decode("resources must be strings".to_owned()));
        }
        for provider in list(rule, "providers")? {
            known_fields(provider, &PROVIDERS)?;
            for kind in PROVIDERS {
                let Some(found) = provider.get(kind).filter(|found| !found.is_null()) else { continue };
                match kind {
                    "identity" => known_fields(found, &[])?,
                    "kms" => {
                        known_fields(found, &["apiVersion", "name", "cachesize", "endpoint", "timeout"])?
                    }
                    _ => {
                        known_fields(found, &["keys"])?;
                        for key in list(found, "keys")? {
                            known_fields(key, &["name", "secret"])?;
                        }
                    }
                }
            }
        }
    }
    Ok(value)
}

/// The text of an error without the value that it is about, which may be a key.
fn without_values(error: &yaml::YamlError) -> String {
    match error {
        yaml::YamlError::Syntax { line, .. } => format!("yaml: line {line}: syntax error"),
        yaml::YamlError::Content(_) | yaml::YamlError::NullKey | yaml::YamlError::NotJson(_) => {
            "yaml: unsupported content".to_owned()
        }
    }
}

fn known_fields(value: &Value, known: &[&str]) -> Result<(), ConfigurationError> {
    let fields =
        value.as_object().ok_or_else(|| ConfigurationError::Decode("expected an object".to_owned()))?;
    match fields.keys().find(|name| !known.contains(&name.as_str())) {
        Some(name) => {
            Err(ConfigurationError::Decode(format!("strict decoding error: unknown field \"{name}\"")))
        }
        None => Ok(()),
    }
}

fn list<'v>(value: &'v Value, field: &str) -> Result<&'v [Value], ConfigurationError> {
    match value.get(field) {
        None | Some(Value::Null) => Ok(&[]),
        Some(found) => {
            found.as_array().ok_or_else(|| ConfigurationError::Decode(format!("{field} must be a list")))
        }
    }
}

fn validate(file: &Value, errors: &mut ErrorList) {
    let root = Field::new("resources");
    let rules = file.items_at(&["resources"]);
    if rules.is_empty() {
        errors.required(root, format!("at least one {root} is required"));
    }
    for (index, rule) in rules.iter().enumerate() {
        let rule_field = root.index(index);
        let resources_field = rule_field.child("resources");
        let names: Vec<&str> = rule.items_at(&["resources"]).iter().filter_map(Value::as_str).collect();
        if names.is_empty() {
            errors.required(resources_field, format!("at least one {resources_field} is required"));
        }
        validate_overlap(rule, &names, &resources_field, errors);
        for (index, name) in names.iter().enumerate() {
            if let Some(problem) = problem_of_name(name) {
                errors.invalid(resources_field.index(index), &Value::from(*name), problem);
            }
        }
        let providers_field = rule_field.child("providers");
        let providers = rule.items_at(&["providers"]);
        if providers.is_empty() {
            errors.required(providers_field, format!("at least one {providers_field} is required"));
        }
        for (index, provider) in providers.iter().enumerate() {
            validate_provider(provider, &providers_field.index(index), errors);
        }
    }
}

fn validate_overlap(rule: &Value, names: &[&str], field: &Field<'_>, errors: &mut ErrorList) {
    let mut distinct = HashSet::new();
    let has_duplicate = names.iter().any(|name| !distinct.insert(split(name)));
    let mut groups: HashSet<&str> = HashSet::new();
    let mut with_wildcard: HashSet<&str> = HashSet::new();
    for (resource, group) in &distinct {
        if *resource == "*" {
            with_wildcard.insert(group);
        } else {
            groups.insert(group);
        }
    }
    let everything = distinct.contains(&("*", "*")) && distinct.len() > 1;
    let listed = || rule.get("resources").cloned().unwrap_or_default();
    if has_duplicate {
        errors.invalid(field, &listed(), "the same resource cannot be specified multiple times");
    }
    if everything || groups.intersection(&with_wildcard).next().is_some() {
        let problem = "using overlapping resources such as 'secrets' and '*.' in the same resource list is not \
                       allowed as they will be masked";
        errors.invalid(field, &listed(), problem);
    }
}

fn problem_of_name(name: &str) -> Option<&'static str> {
    let (resource, group) = split(name);
    if name.chars().any(char::is_uppercase) {
        return Some("resource name should not contain capital letters");
    }
    match name {
        "*" => {
            return Some(
                "use '*.' to encrypt all the resources from core API group or *.* to encrypt all resources",
            );
        }
        "apiserveripinfo" | "serviceipallocations" | "servicenodeportallocations" => {
            return Some("resources which do not have REST API/s cannot be encrypted");
        }
        _ => {}
    }
    match group {
        "events.k8s.io" => Some(
            "'*.events.k8s.io' objects are stored using the 'events' API group in etcd. Use 'events' instead in the \
             config file",
        ),
        "extensions" => Some("'extensions' group has been removed and cannot be used for encryption"),
        "*" if resource != "*" => Some("encrypting the same resource across groups is not supported"),
        _ => None,
    }
}

/// Resource and group of `secrets`, `deployments.apps` or `*.*`.
fn split(name: &str) -> (&str, &str) {
    name.split_once('.').unwrap_or((name, ""))
}

fn validate_provider(provider: &Value, field: &Field<'_>, errors: &mut ErrorList) {
    let found: Vec<&str> = PROVIDERS.into_iter().filter(|kind| has(provider, kind)).collect();
    let kind = match found.as_slice() {
        [] => return errors.invalid_shown(field, "{}", NO_PROVIDER),
        [kind] => *kind,
        _ => return errors.invalid_shown(field, REDACTED, MORE_THAN_ONE),
    };
    let kind_field = field.child(kind);
    match kind {
        "identity" => {}
        "kms" => errors.forbidden(kind_field, "KMS providers are not supported"),
        "secretbox" => validate_keys(provider, kind, &kind_field, secretbox::KEY_SIZES, errors),
        _ => validate_keys(provider, kind, &kind_field, aes::KEY_SIZES, errors),
    }
}

fn has(provider: &Value, kind: &str) -> bool {
    provider.get(kind).is_some_and(|found| !found.is_null())
}

fn validate_keys(provider: &Value, kind: &str, field: &Field<'_>, sizes: &[usize], errors: &mut ErrorList) {
    let field = field.child("keys");
    let keys = provider.items_at(&[kind, "keys"]);
    if keys.is_empty() {
        errors.required(field, "at least one keys is required");
    }
    for (index, key) in keys.iter().enumerate() {
        let field = field.index(index);
        if key.str_at(&["name"]).unwrap_or_default().is_empty() {
            errors.required(field.child("name"), "name is a mandatory field for a key");
        }
        let secret_field = field.child("secret");
        match secret(key) {
            None => errors.required(secret_field, "secret is a mandatory field for a key"),
            Some(Err(_)) => errors.invalid_shown(secret_field, REDACTED, "secrets must be base64 encoded"),
            Some(Ok(bytes)) if !sizes.contains(&bytes.len()) => {
                let sizes: Vec<String> = sizes.iter().map(ToString::to_string).collect();
                let problem = format!(
                    "secret is not of the expected length, got {}, expected one of [{}]",
                    bytes.len(),
                    sizes.join(" ")
                );
                errors.invalid_shown(secret_field, REDACTED, problem);
            }
            Some(Ok(_)) => {}
        }
    }
}

/// The bytes of a key; `None` if it has none.
fn secret(key: &Value) -> Option<Result<Zeroizing<Vec<u8>>, base64::DecodeError>> {
    let text = key.str_at(&["secret"]).filter(|text| !text.is_empty())?;
    Some(STANDARD.decode(text).map(Zeroizing::new))
}

/// The provider of a valid entry.
fn provider_of(entry: &Value) -> Result<Provider, ConfigurationError> {
    if has(entry, "aesgcm") {
        keys_of(entry, "aesgcm", Gcm::new).map(Provider::Gcm)
    } else if has(entry, "aescbc") {
        keys_of(entry, "aescbc", Cbc::new).map(Provider::Cbc)
    } else if has(entry, "secretbox") {
        keys_of(entry, "secretbox", Secretbox::new).map(Provider::Secretbox)
    } else {
        Ok(Provider::Identity)
    }
}

fn keys_of<K>(
    entry: &Value,
    kind: &str,
    new: impl Fn(&[u8]) -> Result<K, ProviderError>,
) -> Result<Keys<K>, ConfigurationError> {
    let mut keys = Vec::new();
    for key in entry.items_at(&[kind, "keys"]) {
        let name = key.str_at(&["name"]).unwrap_or_default().to_owned();
        let bytes = secret(key).and_then(Result::ok).unwrap_or_default();
        match new(&bytes) {
            Ok(key) => keys.push((name, key)),
            Err(reason) => return Err(ConfigurationError::Key { name, reason }),
        }
    }
    Ok(Keys(keys))
}

#[cfg(test)]
mod tests;
