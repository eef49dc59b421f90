//! The file of `--encryption-provider-config`: decoding, upstream's validation, and its keys.
//!
//! Never shows a secret in an error.

mod endpoint;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use corten_api::status::ErrorList;
use corten_api::time::{format_duration, go_duration};
use corten_api::{Field, Value, meta, yaml};
use corten_base::Clock;
use thiserror::Error;
use zeroize::Zeroizing;

use crate::aes::{self, Cbc, Gcm};
use crate::kms::{Kms, KmsSettings};
use crate::metrics::EnvelopeMetrics;
use crate::providers::{Encryption, Keys, Provider, ProviderError};
use crate::secretbox::{self, Secretbox};
use endpoint::Endpoint;

const VERSION: &str = "apiserver.config.k8s.io/v1";
const KIND: &str = "EncryptionConfiguration";
/// Maximum size of the file.
const MAX_BYTES: usize = 3 << 20;
const REDACTED: &str = "\"REDACTED\"";

const MORE_THAN_ONE: &str =
    "more than one provider specified in a single element, should split into different list elements";
/// A provider without any field, as upstream shows it.
const EMPTY_PROVIDER: &str = r#"{"AESGCM":null,"AESCBC":null,"Secretbox":null,"Identity":null,"KMS":null}"#;
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
    // Upstream's text.
    #[error(
        "KMSv1 is deprecated and will only receive security updates going forward. Use KMSv2 instead.  Set \
         --feature-gates=KMSv1=true to use the deprecated KMSv1 feature."
    )]
    KmsV1,
    #[error("resource {resource:?} is masked by earlier rule {rule:?}")]
    Masked { resource: String, rule: String },
    #[error("key {name:?} cannot be used: {reason}")]
    Key { name: String, reason: ProviderError },
}

/// The surroundings of a configuration.
#[derive(Default)]
pub struct ParseOptions {
    /// True if the configuration is read again when it changes, which is stricter.
    pub reload: bool,
    pub clock: Option<Clock>,
    pub metrics: Arc<EnvelopeMetrics>,
}

/// The fields of an entry of `providers`, in the order in which upstream looks for it.
const PROVIDERS: [&str; 5] = ["kms", "aesgcm", "aescbc", "secretbox", "identity"];

impl Encryption {
    /// Reads the text of an `EncryptionConfiguration`, YAML or JSON.
    pub fn parse(text: &[u8], options: &ParseOptions) -> Result<Encryption, ConfigurationError> {
        let file = decode(text)?;
        let mut errors = ErrorList::new();
        validate(&file, options.reload, &mut errors);
        if !errors.is_empty() {
            return Err(ConfigurationError::Invalid(errors.summary()));
        }
        let mut encryption = Encryption::new(Arc::clone(&options.metrics));
        for rule in file.items_at(&["resources"]) {
            let mut providers = Vec::new();
            for provider in rule.items_at(&["providers"]) {
                let provider = provider_of(provider, options)?;
                if let Provider::Kms(kms) = &provider {
                    encryption.kms.push(Arc::clone(kms));
                }
                providers.push(Arc::new(provider));
            }
            for name in rule.items_at(&["resources"]).iter().filter_map(Value::as_str) {
                let (resource, group) = split(name);
                encryption.refuse_masked(name, resource, group)?;
                let of_group = encryption.groups.entry(group.to_owned()).or_default();
                of_group.entry(resource.to_owned()).or_default().extend(providers.iter().cloned());
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
                    "kms" => decode_kms(found)?,
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

/// Checks the types of a KMS provider's fields.
fn decode_kms(provider: &Value) -> Result<(), ConfigurationError> {
    known_fields(provider, &["apiVersion", "name", "cachesize", "endpoint", "timeout"])?;
    let given = |field: &str| provider.get(field).filter(|value| !value.is_null());
    for field in ["apiVersion", "name", "endpoint", "timeout"] {
        if given(field).is_some_and(|value| value.as_str().is_none()) {
            return Err(ConfigurationError::Decode(format!("kms.{field} must be a string")));
        }
    }
    let is_int32 = |value: &Value| value.as_int().is_some_and(|number| i32::try_from(number).is_ok());
    if given("cachesize").is_some_and(|value| !is_int32(value)) {
        return Err(ConfigurationError::Decode("kms.cachesize must be an integer of 32 bits".to_owned()));
    }
    match given("timeout").and_then(Value::as_str).map(go_duration) {
        Some(Err(why)) => Err(ConfigurationError::Decode(why)),
        _ => Ok(()),
    }
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

fn validate(file: &Value, reload: bool, errors: &mut ErrorList) {
    let root = Field::new("resources");
    let mut names_of_kms = HashSet::new();
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
            let field = providers_field.index(index);
            validate_provider(provider, &field, errors);
            if has(provider, "kms") {
                validate_kms(provider, &field.child("kms"), reload, &mut names_of_kms, errors);
            }
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
        [] => return errors.invalid_shown(field, EMPTY_PROVIDER, NO_PROVIDER),
        [kind] => *kind,
        // Upstream shows the keys.
        [first, ..] => {
            errors.invalid_shown(field, REDACTED, MORE_THAN_ONE);
            *first
        }
    };
    let kind_field = field.child(kind);
    match kind {
        "identity" | "kms" => {}
        "secretbox" => validate_keys(provider, kind, &kind_field, secretbox::KEY_SIZES, errors),
        _ => validate_keys(provider, kind, &kind_field, aes::KEY_SIZES, errors),
    }
}

/// The time that a call of a plugin may take, unless it is configured.
const KMS_TIMEOUT: Duration = Duration::from_secs(3);

/// Version, name and endpoint of a KMS provider.
fn kms_texts(provider: &Value) -> [&str; 3] {
    let text = |field| provider.str_at(&["kms", field]).unwrap_or_default();
    let version = Some(text("apiVersion")).filter(|version| !version.is_empty()).unwrap_or("v1");
    [version, text("name"), text("endpoint")]
}

/// The timeout of a KMS provider, in seconds.
fn kms_timeout(provider: &Value) -> f64 {
    let given = provider.str_at(&["kms", "timeout"]).and_then(|text| go_duration(text).ok());
    given.unwrap_or(KMS_TIMEOUT.as_secs_f64())
}

fn validate_kms<'v>(
    provider: &'v Value,
    field: &Field<'_>,
    reload: bool,
    names: &mut HashSet<&'v str>,
    errors: &mut ErrorList,
) {
    let [version, name, endpoint] = kms_texts(provider);
    let (name_field, shown_name) = (field.child("name"), Value::from(name));
    if name.is_empty() {
        errors.required(name_field, "name is a mandatory field for a provider");
    }
    if version != "v1" && name.contains(':') {
        let problem = format!("invalid KMS provider name {name}, must not contain ':'");
        errors.invalid(name_field, &shown_name, problem);
    }
    if !names.insert(name) && (reload || version != "v1") {
        let problem = format!("duplicate KMS provider name {name}, names must be unique");
        errors.invalid(name_field, &shown_name, problem);
    }
    let timeout = kms_timeout(provider);
    if timeout <= 0.0 {
        let shown = format!("\"{}\"", format_duration((timeout * 1e9) as i64));
        errors.invalid_shown(field.child("timeout"), shown, "timeout should be a positive value");
    }
    if let Some(problem) = problem_of_endpoint(endpoint) {
        errors.invalid(field.child("endpoint"), &Value::from(endpoint), problem);
    }
    let size = provider.at(&["kms", "cachesize"]).filter(|size| !size.is_null());
    match (version, size) {
        ("v1", Some(size)) if size.as_int() == Some(0) => {
            let problem = "cachesize should be a positive value, or negative to disable";
            errors.invalid(field.child("cachesize"), size, problem);
        }
        ("v1", _) | (_, None) => {}
        (_, Some(size)) => {
            errors.invalid(field.child("cachesize"), size, "cachesize is not supported in v2");
        }
    }
    if !["v1", "v2"].contains(&version) {
        // Upstream names the field, not its value.
        let problem = "unsupported apiVersion apiVersion for KMS provider, only v1 and v2 are supported";
        errors.invalid(field.child("apiVersion"), &Value::from(version), problem);
    }
}

fn problem_of_endpoint(endpoint: &str) -> Option<String> {
    if endpoint.is_empty() {
        return Some("endpoint is a mandatory field for a kms".to_owned());
    }
    match Endpoint::parse(endpoint) {
        Err(why) => Some(format!("invalid endpoint for kms provider, error: {why}")),
        Ok(Endpoint { scheme, .. }) if scheme != "unix" => {
            Some(format!("unsupported scheme {scheme:?} for KMS provider, only unix is supported"))
        }
        Ok(_) => None,
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
fn provider_of(entry: &Value, options: &ParseOptions) -> Result<Provider, ConfigurationError> {
    if has(entry, "kms") {
        kms_of(entry, options).map(|kms| Provider::Kms(Arc::new(kms)))
    } else if has(entry, "aesgcm") {
        keys_of(entry, "aesgcm", Gcm::new).map(Provider::Gcm)
    } else if has(entry, "aescbc") {
        keys_of(entry, "aescbc", Cbc::new).map(Provider::Cbc)
    } else if has(entry, "secretbox") {
        keys_of(entry, "secretbox", Secretbox::new).map(Provider::Secretbox)
    } else {
        Ok(Provider::Identity)
    }
}

fn kms_of(entry: &Value, options: &ParseOptions) -> Result<Kms, ConfigurationError> {
    let [version, name, endpoint] = kms_texts(entry);
    if version == "v1" {
        return Err(ConfigurationError::KmsV1);
    }
    let socket = Endpoint::parse(endpoint).map_err(ConfigurationError::Invalid)?.socket();
    let timeout = Duration::try_from_secs_f64(kms_timeout(entry)).unwrap_or(Duration::MAX);
    let settings = KmsSettings { name: name.to_owned(), socket, timeout };
    let clock = options.clock.clone().unwrap_or_else(Clock::real);
    Ok(Kms::new(settings, clock, Arc::clone(&options.metrics)))
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
