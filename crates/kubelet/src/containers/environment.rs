//! The environment variables of a container.
//!
//! Pure: the objects they refer to have been read before. Later variables replace earlier ones of the same name;
//! those of services come last and replace nothing. Errors are in upstream's words.

use std::collections::BTreeMap;

use corten_api::{Str, Value};
use corten_client::Key;

use crate::containers::downward_api::{self, DownwardApiError, NodeFacts};
use crate::containers::expansion::expand;
use crate::pod::{Container, Pod};

/// A variable that has no value; messages are upstream's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum EnvironmentError {
    #[error("{kind} {name:?} not found")]
    NotFound { kind: &'static str, name: String },
    #[error("couldn't find key {key} in {kind} {object}")]
    NoKey { key: String, kind: &'static str, object: Key },
    #[error("container {0} not found")]
    NoContainer(String),
    #[error(transparent)]
    DownwardApi(#[from] DownwardApiError),
}

/// The objects that a pod's variables refer to. `None` is an object that does not exist.
#[derive(Debug, Default)]
pub(crate) struct Sources {
    pub(crate) config_maps: BTreeMap<Str, Option<BTreeMap<Str, String>>>,
    pub(crate) secrets: BTreeMap<Str, Option<BTreeMap<Str, String>>>,
    /// The services of the pod's namespace, and the API server's own.
    pub(crate) services: Vec<Value>,
}

/// A source of variables: the kind in two spellings, and the objects of it.
type Fetched<'a> = (&'static str, &'static str, &'a BTreeMap<Str, Option<BTreeMap<Str, String>>>);

pub(crate) fn environment(
    pod: &Pod,
    container: &Container,
    sources: &Sources,
    facts: &NodeFacts,
) -> Result<Vec<(String, String)>, EnvironmentError> {
    let services = service_variables(&sources.services);
    let mut own: BTreeMap<String, String> = BTreeMap::new();
    let of_config_map: Fetched<'_> = ("configmap", "ConfigMap", &sources.config_maps);
    let of_secret: Fetched<'_> = ("secret", "Secret", &sources.secrets);
    for from in container.tree.items_at(&["envFrom"]) {
        let (reference, fetched) = match (from.get("configMapRef"), from.get("secretRef")) {
            (Some(reference), _) => (reference, of_config_map),
            (None, Some(reference)) => (reference, of_secret),
            (None, None) => continue,
        };
        let prefix = from.str_at(&["prefix"]).unwrap_or_default();
        let Some(data) = find(reference, fetched)? else { continue };
        own.extend(data.iter().map(|(key, value)| (format!("{prefix}{key}"), value.clone())));
    }
    for variable in container.tree.items_at(&["env"]) {
        let name = variable.str_at(&["name"]).unwrap_or_default();
        let text = variable.str_at(&["value"]).unwrap_or_default();
        let value = if !text.is_empty() {
            let known = |name: &str| own.get(name).or_else(|| services.get(name)).map(String::as_str);
            Some(expand(text, known))
        } else if let Some(from) = variable.get("valueFrom") {
            match (from.get("fieldRef"), from.get("resourceFieldRef")) {
                (Some(field), _) => {
                    Some(downward_api::field(pod, field.str_at(&["fieldPath"]).unwrap_or_default(), facts)?)
                }
                (None, Some(resource)) => Some(of_resource(pod, container, resource, facts)?),
                (None, None) => match (from.get("configMapKeyRef"), from.get("secretKeyRef")) {
                    (Some(reference), _) => key_of(pod, reference, of_config_map)?,
                    (None, Some(reference)) => key_of(pod, reference, of_secret)?,
                    (None, None) => Some(String::new()),
                },
            }
        } else {
            Some(String::new())
        };
        if let Some(value) = value {
            own.insert(name.to_owned(), value);
        }
    }
    for (name, value) in services {
        own.entry(name).or_insert(value);
    }
    Ok(own.into_iter().collect())
}

fn of_resource(
    pod: &Pod,
    own: &Container,
    reference: &Value,
    facts: &NodeFacts,
) -> Result<String, EnvironmentError> {
    let named = reference.str_at(&["containerName"]).filter(|name| !name.is_empty());
    let container = match named {
        Some(name) => pod.container(name).ok_or_else(|| EnvironmentError::NoContainer(name.to_owned()))?,
        None => own,
    };
    Ok(downward_api::resource(container, reference, facts)?)
}

/// The data of the referenced object; `None` if it is optional and missing.
fn find<'a>(
    reference: &Value,
    (word, _, fetched): Fetched<'a>,
) -> Result<Option<&'a BTreeMap<Str, String>>, EnvironmentError> {
    let name = reference.str_at(&["name"]).unwrap_or_default();
    let optional = reference.bool_at(&["optional"]).unwrap_or(false);
    match fetched.get(name) {
        Some(Some(data)) => Ok(Some(data)),
        _ if optional => Ok(None),
        _ => Err(EnvironmentError::NotFound { kind: word, name: name.to_owned() }),
    }
}

fn key_of(pod: &Pod, reference: &Value, fetched: Fetched<'_>) -> Result<Option<String>, EnvironmentError> {
    let Some(data) = find(reference, fetched)? else { return Ok(None) };
    let key = reference.str_at(&["key"]).unwrap_or_default();
    let name = reference.str_at(&["name"]).unwrap_or_default();
    match data.get(key) {
        Some(value) => Ok(Some(value.clone())),
        None if reference.bool_at(&["optional"]).unwrap_or(false) => Ok(None),
        None => Err(EnvironmentError::NoKey {
            key: key.to_owned(),
            kind: fetched.1,
            object: Key::new(pod.namespace(), name),
        }),
    }
}

/// The variables that describe services.
fn service_variables(services: &[Value]) -> BTreeMap<String, String> {
    let mut variables = BTreeMap::new();
    for service in services {
        let address = service.str_at(&["spec", "clusterIP"]).unwrap_or_default();
        let ports = service.items_at(&["spec", "ports"]);
        let number = |port: &Value| port.int_at(&["port"]).unwrap_or(0).to_string();
        let (false, Some(first)) = (matches!(address, "" | "None"), ports.first()) else { continue };
        let capital = |name: &str| name.replace('-', "_").to_uppercase();
        let name = capital(service.str_at(&["metadata", "name"]).unwrap_or_default());
        variables.insert(format!("{name}_SERVICE_HOST"), address.to_owned());
        variables.insert(format!("{name}_SERVICE_PORT"), number(first));
        for port in ports {
            if let Some(of) = port.str_at(&["name"]).filter(|text| !text.is_empty()) {
                variables.insert(format!("{name}_SERVICE_PORT_{}", capital(of)), number(port));
            }
        }
        for (at, port) in ports.iter().enumerate() {
            let protocol = port.str_at(&["protocol"]).unwrap_or("TCP");
            let (number, lower) = (number(port), protocol.to_lowercase());
            let host = if address.contains(':') { format!("[{address}]") } else { address.to_owned() };
            let url = format!("{lower}://{host}:{number}");
            if at == 0 {
                variables.insert(format!("{name}_PORT"), url.clone());
            }
            let prefix = format!("{name}_PORT_{number}_{}", protocol.to_uppercase());
            variables.insert(format!("{prefix}_PROTO"), lower);
            variables.insert(format!("{prefix}_PORT"), number);
            variables.insert(format!("{prefix}_ADDR"), address.to_owned());
            variables.insert(prefix, url);
        }
    }
    variables
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::*;
    use crate::pod::Source;

    fn environment_of(container: Value) -> Result<Vec<String>, EnvironmentError> {
        let pod = Pod::new(
            value!({"metadata": {"name": "p", "namespace": "ns"}, "spec": {"containers": [(container)]}}),
            Source::Api,
        );
        let data = BTreeMap::from([(Str::new("k"), "v".to_owned()), (Str::new("n"), "w".to_owned())]);
        let sources = Sources {
            config_maps: BTreeMap::from([(Str::new("cm"), Some(data.clone())), (Str::new("gone"), None)]),
            secrets: BTreeMap::from([(Str::new("s"), Some(data))]),
            services: vec![],
        };
        let found = environment(&pod, &pod.containers()[0], &sources, &NodeFacts::default())?;
        Ok(found.into_iter().map(|(name, value)| format!("{name}={value}")).collect())
    }

    #[test]
    fn variables_come_from_all_sources_and_refer_to_each_other() {
        let container = value!({
            "name": "c",
            "envFrom": [{"configMapRef": {"name": "cm"}, "prefix": "P_"}, {"secretRef": {"name": "none", "optional": true}}],
            "env": [
                {"name": "A", "value": "a"},
                {"name": "B", "value": "$(A)-$(P_k)-$(NONE)"},
                {"name": "C", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                {"name": "D", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
                {"name": "E", "valueFrom": {"configMapKeyRef": {"name": "cm", "key": "none", "optional": true}}},
                {"name": "P_n", "value": "own"},
            ],
        });
        assert_eq!(
            environment_of(container).unwrap(),
            ["A=a", "B=a-v-$(NONE)", "C=p", "D=v", "P_k=v", "P_n=own"]
        );
    }

    #[test]
    fn missing_references_are_errors() {
        let of =
            |from: Value| environment_of(value!({"name": "c", "env": [{"name": "A", "valueFrom": (from)}]}));
        let error = |from: Value| of(from).unwrap_err().to_string();
        assert_eq!(
            error(value!({"configMapKeyRef": {"name": "gone", "key": "k"}})),
            "configmap \"gone\" not found"
        );
        assert_eq!(
            error(value!({"secretKeyRef": {"name": "s", "key": "x"}})),
            "couldn't find key x in Secret ns/s"
        );
    }

    #[test]
    fn services_are_told_in_two_ways() {
        let service = value!({
            "metadata": {"name": "my-db"},
            "spec": {"clusterIP": "10.0.0.1", "ports": [{"port": 5432, "name": "pg", "protocol": "TCP"}]},
        });
        let headless =
            value!({"metadata": {"name": "h"}, "spec": {"clusterIP": "None", "ports": [{"port": 1}]}});
        let found: Vec<_> = service_variables(&[service, headless]).into_iter().collect();
        let lines: Vec<String> = found.iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(
            lines,
            [
                "MY_DB_PORT=tcp://10.0.0.1:5432",
                "MY_DB_PORT_5432_TCP=tcp://10.0.0.1:5432",
                "MY_DB_PORT_5432_TCP_ADDR=10.0.0.1",
                "MY_DB_PORT_5432_TCP_PORT=5432",
                "MY_DB_PORT_5432_TCP_PROTO=tcp",
                "MY_DB_SERVICE_HOST=10.0.0.1",
                "MY_DB_SERVICE_PORT=5432",
                "MY_DB_SERVICE_PORT_PG=5432",
            ]
        );
    }
}
