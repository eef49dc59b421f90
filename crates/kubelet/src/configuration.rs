//! The kubelet's configuration: a `KubeletConfiguration`, its flags, and upstream's defaults for what neither sets.
//!
//! A tree that is read by field path. The table of fields with their types and defaults is `fields`. Pure.

pub mod fields;
mod read;
mod unsupported;
mod validate;

use std::time::Duration;

use corten_api::{Value, json, meta, value, yaml};

use fields::{FIELDS, Field, Shape};

const API_VERSION: &str = "kubelet.config.k8s.io/v1beta1";
const KIND: &str = "KubeletConfiguration";

/// A configuration that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigurationError {
    #[error("{0}")]
    Unreadable(String),
    #[error(
        "no kind \"{kind}\" is registered for version \"{api_version}\"; a kubelet takes a {KIND} of {API_VERSION}"
    )]
    NotAConfiguration { kind: String, api_version: String },
    #[error("{path}: {complaint}")]
    Field { path: String, complaint: String },
    #[error("{}", .0.join(", "))]
    Invalid(Vec<String>),
}

/// A kubelet's configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct Configuration(Value);

impl Default for Configuration {
    fn default() -> Configuration {
        let mut configuration = Configuration(value!({}));
        configuration.complete();
        configuration
    }
}

impl Configuration {
    /// Parses a file. Unknown fields are left out and returned as messages.
    pub fn read(text: &[u8]) -> Result<(Configuration, Vec<String>), ConfigurationError> {
        let mut duplicates = Vec::new();
        let tree = yaml::to_value(text, &mut duplicates)
            .map_err(|err| ConfigurationError::Unreadable(err.to_string()))?;
        let (kind, api_version) = (meta::kind(&tree), meta::api_version(&tree));
        if (kind, api_version) != (KIND, API_VERSION) {
            let (kind, api_version) = (kind.to_owned(), api_version.to_owned());
            return Err(ConfigurationError::NotAConfiguration { kind, api_version });
        }
        let (known, unknown) = read::known_fields(&tree)?;
        let mut said: Vec<String> = duplicates.iter().map(ToString::to_string).collect();
        said.extend(unknown.iter().map(|path| format!("unknown field {path:?}")));
        Ok((Configuration(known), said))
    }

    /// Sets the fields of another configuration over those of this one.
    pub fn overlay(&mut self, other: &Configuration) {
        for field in FIELDS {
            if let Some(value) = other.at(field.path) {
                self.put(field.path, value.clone());
            }
        }
    }

    /// Sets a field from its flag.
    pub fn set_flag(&mut self, field: &Field, text: &str) -> Result<(), ConfigurationError> {
        let value = read::flag(field.shape, text).map_err(|err| ConfigurationError::Field {
            path: format!("--{}", field.flag),
            complaint: err.to_string(),
        })?;
        self.put(field.path, value);
        Ok(())
    }

    /// Sets the taints of the node when it is registered.
    pub fn set_taints(&mut self, taints: Vec<Value>) {
        self.put("registerWithTaints", taints.into());
    }

    /// Sets the headers of requests for manifests.
    pub fn set_manifest_headers(&mut self, headers: &[(String, String)]) {
        for (name, value) in headers {
            let mut values = self.0.items_at(&["staticPodURLHeader", name]).to_vec();
            values.push(value.as_str().into());
            self.0.set(&["staticPodURLHeader", name], values);
        }
    }

    /// Sets the defaults of fields that are not set.
    pub fn complete(&mut self) {
        if self.duration("nodeStatusReportFrequency").is_none()
            && let Some(update) =
                self.at("nodeStatusUpdateFrequency").filter(|value| !is_zero(value)).cloned()
        {
            self.put("nodeStatusReportFrequency", update);
        }
        if self.at("serializeImagePulls").is_none() {
            let parallel = self.int("maxParallelImagePulls") > 1;
            self.put("serializeImagePulls", Value::Bool(!parallel));
        }
        for field in FIELDS.iter().filter(|field| !field.default.is_empty()) {
            let absent = self
                .at(field.path)
                .is_none_or(|value| value.is_null() || field.zero_is_absent && is_zero(value));
            if absent && let Ok(default) = json::parse(field.default.as_bytes()) {
                self.put(field.path, default);
            }
        }
    }

    /// Checks the configuration: errors of upstream's validation in its words, and fields that this kubelet cannot
    /// carry out.
    pub fn validate(&self) -> Result<(), ConfigurationError> {
        let mut complaints = validate::complaints(self);
        if complaints.is_empty() {
            complaints = unsupported::refusals(self);
        }
        if complaints.is_empty() { Ok(()) } else { Err(ConfigurationError::Invalid(complaints)) }
    }

    /// The fields that are set and have no effect here.
    pub fn without_effect(&self) -> Vec<&'static str> {
        unsupported::without_effect(self)
    }

    /// The `KubeletConfiguration` that `/configz` serves.
    pub fn tree(&self) -> Value {
        let mut tree = self.0.clone();
        tree.set(&["kind"], KIND);
        tree.set(&["apiVersion"], API_VERSION);
        tree
    }

    fn at(&self, path: &str) -> Option<&Value> {
        let steps: Vec<&str> = path.split('.').collect();
        self.0.at(&steps)
    }

    fn put(&mut self, path: &str, value: Value) {
        let steps: Vec<&str> = path.split('.').collect();
        self.0.set(&steps, value);
    }

    /// The value of a field; false if it is not set.
    pub fn bool(&self, path: &str) -> bool {
        self.at(path).and_then(Value::as_bool).unwrap_or(false)
    }

    /// The value of a field; 0 if it is not set.
    pub fn int(&self, path: &str) -> i64 {
        self.at(path).and_then(Value::as_int).unwrap_or(0)
    }

    /// The text of a field; empty if it is not set.
    pub fn text(&self, path: &str) -> &str {
        self.at(path).and_then(Value::as_str).unwrap_or_default()
    }

    /// The duration of a field; `None` if it is not set or zero.
    pub fn duration(&self, path: &str) -> Option<Duration> {
        let seconds = read::go_seconds(self.text(path)).ok().filter(|seconds| *seconds > 0.0)?;
        Duration::try_from_secs_f64(seconds).ok()
    }

    /// The texts of a list; empty if it is not set.
    pub fn texts(&self, path: &str) -> Vec<String> {
        let items = self.at(path).and_then(Value::as_array).unwrap_or_default();
        items.iter().filter_map(Value::as_str).map(str::to_owned).collect()
    }

    /// The entries of a map; empty if it is not set.
    pub fn map(&self, path: &str) -> Vec<(String, String)> {
        let entries = self.at(path).and_then(Value::as_object).into_iter().flat_map(corten_api::Map::iter);
        entries.filter_map(|(key, value)| Some((key.to_string(), value.as_str()?.to_owned()))).collect()
    }

    /// The items of a list; empty if it is not set.
    pub fn items(&self, path: &str) -> &[Value] {
        self.at(path).and_then(Value::as_array).unwrap_or_default()
    }

    /// The headers of requests for manifests.
    pub fn manifest_headers(&self) -> Vec<(String, String)> {
        let entries = self.at("staticPodURLHeader").and_then(Value::as_object);
        let entries = entries.into_iter().flat_map(corten_api::Map::iter);
        let pairs = entries.flat_map(|(name, values)| {
            let values = values.as_array().unwrap_or_default().iter().filter_map(Value::as_str);
            values.map(|value| (name.to_string(), value.to_owned())).collect::<Vec<_>>()
        });
        pairs.collect()
    }
}

/// The field that a flag sets.
pub fn field_of_flag(flag: &str) -> Option<&'static Field> {
    FIELDS.iter().find(|field| !flag.is_empty() && field.flag == flag)
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Int(value) => *value == 0,
        Value::Float(value) => *value == 0.0,
        Value::String(text) | Value::Raw(text) => text.is_empty() || matches!(text.as_str(), "0s" | "0"),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
    }
}

/// Returns true if a value has the type of its field.
fn fits(shape: Shape, value: &Value) -> bool {
    match (shape, value) {
        (_, Value::Null) | (Shape::Other, _) => true,
        (Shape::Bool, Value::Bool(_)) | (Shape::Int, Value::Int(_)) | (Shape::Text, Value::String(_)) => true,
        (Shape::Float, Value::Float(_) | Value::Int(_)) => true,
        (Shape::Duration, Value::String(text)) => read::go_seconds(text).is_ok(),
        (Shape::Texts, Value::Array(items)) => items.iter().all(|item| item.as_str().is_some()),
        (Shape::Map(_), Value::Object(map)) => map.iter().all(|(_, value)| value.as_str().is_some()),
        (Shape::Bools, Value::Object(map)) => map.iter().all(|(_, value)| value.as_bool().is_some()),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<(Configuration, Vec<String>), ConfigurationError> {
        let head = format!("kind: {KIND}\napiVersion: {API_VERSION}\n");
        Configuration::read(format!("{head}{text}").as_bytes())
    }

    fn whole(text: &str) -> Configuration {
        let mut configuration = read(text).unwrap().0;
        configuration.complete();
        configuration
    }

    #[test]
    fn defaults_fill_unset_fields() {
        let given = whole(
            "port: 0\nhealthzPort: 0\nclusterDNS: [10.96.0.10]\nauthentication: {anonymous: {enabled: true}}",
        );
        assert_eq!((given.int("port"), given.int("healthzPort")), (10250, 0));
        assert_eq!(given.texts("clusterDNS"), ["10.96.0.10"]);
        assert!(
            given.bool("authentication.anonymous.enabled") && given.bool("authentication.webhook.enabled")
        );
        assert_eq!(given.duration("fileCheckFrequency"), Some(Duration::from_secs(20)));
        assert_eq!(given.validate(), Ok(()));
        let slow = whole("nodeStatusUpdateFrequency: 1m");
        assert_eq!(slow.text("nodeStatusReportFrequency"), "1m");
        assert!(!whole("maxParallelImagePulls: 3").bool("serializeImagePulls"));
    }

    #[test]
    fn unknown_fields_are_reported() {
        let (_, unknown) =
            read("prot: 1\nauthentication: {x509: {clientCA: a}}\nlogging: {verbosity: 2}").unwrap();
        assert_eq!(unknown, ["unknown field \"authentication.x509.clientCA\"", "unknown field \"prot\""]);
        let wrong = read("port: many").unwrap_err();
        assert_eq!(wrong.to_string(), "port: \"many\" is no number");
        assert!(read("syncFrequency: soon").is_err());
        let other = Configuration::read(b"kind: Pod\napiVersion: v1").unwrap_err();
        assert!(other.to_string().starts_with("no kind \"Pod\" is registered for version \"v1\""));
    }

    #[test]
    fn flags_override_files() {
        let mut given = read("port: 1\nevictionHard: {memory.available: 1Gi}").unwrap().0;
        let mut set = |flag: &str, text: &str| given.set_flag(field_of_flag(flag).unwrap(), text);
        set("port", "2").unwrap();
        set("eviction-hard", "memory.available<5%,nodefs.available<10%").unwrap();
        set("cluster-dns", "10.0.0.10,10.0.0.11").unwrap();
        set("feature-gates", "A=true,B=false").unwrap();
        assert_eq!(set("port", "x").unwrap_err().to_string(), "--port: \"x\" is no number");
        assert_eq!(given.int("port"), 2);
        assert_eq!(given.map("evictionHard").len(), 2);
        assert_eq!(given.texts("clusterDNS").len(), 2);
        assert!(given.bool("featureGates.A"));
    }

    #[test]
    fn every_default_fits_its_field() {
        for field in FIELDS.iter().filter(|field| !field.default.is_empty()) {
            let value = json::parse(field.default.as_bytes()).unwrap();
            assert!(fits(field.shape, &value), "{}", field.path);
        }
    }
}
