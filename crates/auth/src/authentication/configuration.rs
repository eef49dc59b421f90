//! The `AuthenticationConfiguration` file; only its settings of anonymous requests are supported.

use corten_api::{Value, meta, yaml};

/// The requests that are allowed without credentials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Anonymous {
    Denied,
    Allowed,
    /// Only requests for exactly these paths.
    Paths(Vec<String>),
}

impl Anonymous {
    pub fn allows(&self, path: &str) -> bool {
        match self {
            Anonymous::Denied => false,
            Anonymous::Allowed => true,
            Anonymous::Paths(paths) => paths.iter().any(|allowed| allowed == path),
        }
    }
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigurationError {
    #[error("not YAML")]
    Syntax(#[source] yaml::YamlError),
    #[error("it is {api_version} {kind}; it must be apiserver.config.k8s.io/v1 AuthenticationConfiguration")]
    Kind { api_version: String, kind: String },
    #[error("{0}: unknown or duplicate field")]
    Field(String),
    #[error("{field}: must be {expected}")]
    Type { field: &'static str, expected: &'static str },
    #[error("jwt: JWT authenticators are not available yet; leave this field out")]
    Jwt,
    #[error("anonymous.conditions: enabled should be set to true when conditions are defined")]
    ConditionsWithoutEnabled,
}

const VERSIONS: [&str; 3] =
    ["apiserver.config.k8s.io/v1", "apiserver.config.k8s.io/v1beta1", "apiserver.config.k8s.io/v1alpha1"];

/// Parses the file; `None` if it does not configure anonymous requests.
pub fn configuration(text: &str) -> Result<Option<Anonymous>, ConfigurationError> {
    let mut duplicates = Vec::new();
    let file = yaml::to_value(text.as_bytes(), &mut duplicates).map_err(ConfigurationError::Syntax)?;
    if let Some(twice) = duplicates.first() {
        return Err(ConfigurationError::Field(twice.key.clone()));
    }
    let (api_version, kind) = (meta::api_version(&file), meta::kind(&file));
    if kind != "AuthenticationConfiguration" || !VERSIONS.contains(&api_version) {
        let (api_version, kind) = (api_version.to_owned(), kind.to_owned());
        return Err(ConfigurationError::Kind { api_version, kind });
    }
    known_fields(&file, "", &["apiVersion", "kind", "jwt", "anonymous"])?;
    if !file.items_at(&["jwt"]).is_empty() {
        return Err(ConfigurationError::Jwt);
    }
    match file.get("anonymous") {
        None | Some(Value::Null) => Ok(None),
        Some(section @ Value::Object(_)) => anonymous(section).map(Some),
        Some(_) => Err(ConfigurationError::Type { field: "anonymous", expected: "an object" }),
    }
}

fn anonymous(section: &Value) -> Result<Anonymous, ConfigurationError> {
    known_fields(section, "anonymous.", &["enabled", "conditions"])?;
    let enabled = match section.get("enabled") {
        None | Some(Value::Null) => false,
        Some(Value::Bool(enabled)) => *enabled,
        Some(_) => {
            return Err(ConfigurationError::Type { field: "anonymous.enabled", expected: "true or false" });
        }
    };
    let mut paths = Vec::new();
    for condition in section.items_at(&["conditions"]) {
        known_fields(condition, "anonymous.conditions.", &["path"])?;
        let path = condition.str_at(&["path"]);
        let wrong = ConfigurationError::Type { field: "anonymous.conditions.path", expected: "a path" };
        paths.push(path.ok_or(wrong)?.to_owned());
    }
    match (enabled, paths.is_empty()) {
        (true, true) => Ok(Anonymous::Allowed),
        (true, false) => Ok(Anonymous::Paths(paths)),
        (false, true) => Ok(Anonymous::Denied),
        (false, false) => Err(ConfigurationError::ConditionsWithoutEnabled),
    }
}

fn known_fields(object: &Value, prefix: &str, known: &[&str]) -> Result<(), ConfigurationError> {
    let mut keys = object.as_object().into_iter().flat_map(|map| map.keys());
    match keys.find(|key| !known.contains(&key.as_str())) {
        Some(unknown) => Err(ConfigurationError::Field(format!("{prefix}{unknown}"))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
