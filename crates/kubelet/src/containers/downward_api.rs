//! The downward API: fields of a pod and its containers' resources, for environment variables and files.
//!
//! Pure. Errors are in upstream's words: they are shown as the reason why a container does not start.

use corten_api::quantity::Quantity;
use corten_api::status::quoted;
use corten_api::{Map, Value};

use crate::pod::{Container, Pod};
use crate::resources::listed;

/// The facts about the node that a pod's fields may refer to.
#[derive(Debug, Clone, Default)]
pub(crate) struct NodeFacts {
    pub(crate) host_ips: Vec<String>,
    pub(crate) pod_ips: Vec<String>,
    /// The node's allocatable resources, which stand for limits that are not set.
    pub(crate) allocatable: Value,
}

/// A reference that cannot be resolved; messages are upstream's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DownwardApiError {
    #[error("fieldPath {0:?} does not support subscript")]
    Subscript(String),
    #[error("unsupported fieldPath: {0}")]
    FieldPath(String),
    #[error("unsupported container resource : {0}")]
    Resource(String),
}

/// The value of a field reference.
pub(crate) fn field(pod: &Pod, path: &str, facts: &NodeFacts) -> Result<String, DownwardApiError> {
    let text = |path: &[&str]| pod.tree().str_at(path).unwrap_or_default().to_owned();
    let map =
        |key: &str| pod.tree().at(&["metadata", key]).and_then(Value::as_object).cloned().unwrap_or_default();
    if let Some((path, key)) = subscript(path) {
        let entries = match path {
            "metadata.annotations" => map("annotations"),
            "metadata.labels" => map("labels"),
            _ => return Err(DownwardApiError::Subscript(path.to_owned())),
        };
        return Ok(entries.get(key).and_then(Value::as_str).unwrap_or_default().to_owned());
    }
    Ok(match path {
        "spec.nodeName" => text(&["spec", "nodeName"]),
        "spec.serviceAccountName" => text(&["spec", "serviceAccountName"]),
        "status.hostIP" => facts.host_ips.first().cloned().unwrap_or_default(),
        "status.hostIPs" => facts.host_ips.join(","),
        "status.podIP" => facts.pod_ips.first().cloned().unwrap_or_default(),
        "status.podIPs" => facts.pod_ips.join(","),
        "metadata.annotations" => lines(&map("annotations")),
        "metadata.labels" => lines(&map("labels")),
        "metadata.name" => pod.name().to_owned(),
        "metadata.namespace" => pod.namespace().to_owned(),
        "metadata.uid" => pod.uid().to_owned(),
        _ => return Err(DownwardApiError::FieldPath(path.to_owned())),
    })
}

/// `path['key']` in its two parts.
fn subscript(path: &str) -> Option<(&str, &str)> {
    path.strip_suffix("']")?.split_once("['")
}

/// A map in the format of downward API files.
fn lines(map: &Map) -> String {
    let lines: Vec<String> = map
        .iter()
        .map(|(key, value)| format!("{key}={}", quoted(value.as_str().unwrap_or_default())))
        .collect();
    lines.join("\n")
}

/// The value of a reference to a container's resource. The node's allocatable stands for a limit that is not set.
pub(crate) fn resource(
    container: &Container,
    reference: &Value,
    facts: &NodeFacts,
) -> Result<String, DownwardApiError> {
    let path = reference.str_at(&["resource"]).unwrap_or_default();
    let unsupported = || DownwardApiError::Resource(path.to_owned());
    let (list, name) = path.split_once('.').ok_or_else(unsupported)?;
    if !matches!(list, "limits" | "requests") {
        return Err(unsupported());
    }
    let empty = Value::object();
    let resources = container.tree.get("resources").unwrap_or(&empty);
    let of_node = || Quantity::parse(facts.allocatable.str_at(&[name])?).ok();
    let found = match list {
        "limits" => listed(resources, list, name).or_else(of_node),
        _ => listed(resources, list, name).or_else(|| listed(resources, "limits", name)),
    };
    let asked = reference.str_at(&["divisor"]).and_then(|text| Quantity::parse(text).ok());
    let divisor = asked.filter(|d| !d.is_zero());
    let of = |quantity: Quantity| match name {
        "cpu" => quantity.milli_value(),
        _ => quantity.value(),
    };
    let by = divisor.map_or(if name == "cpu" { 1000 } else { 1 }, of).max(1);
    let amount = found.map_or(0, of);
    Ok((amount.unsigned_abs().div_ceil(by.unsigned_abs())).to_string())
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::*;
    use crate::pod::Source;

    fn pod() -> Pod {
        Pod::new(
            value!({
                "metadata": {"name": "p", "namespace": "n", "uid": "u", "labels": {"b": "2", "a": "1\"x"}},
                "spec": {"nodeName": "node", "containers": [{
                    "name": "c",
                    "resources": {"limits": {"cpu": "1500m"}, "requests": {"memory": "64Mi"}},
                }]},
            }),
            Source::Api,
        )
    }

    #[test]
    fn fields_of_a_pod() {
        let facts = NodeFacts { pod_ips: vec!["1.1.1.1".into(), "fd::1".into()], ..NodeFacts::default() };
        let cases = [
            ("metadata.name", "p"),
            ("metadata.labels['a']", "1\"x"),
            ("metadata.labels['none']", ""),
            ("metadata.labels", "a=\"1\\\"x\"\nb=\"2\""),
            ("spec.nodeName", "node"),
            ("status.podIP", "1.1.1.1"),
            ("status.podIPs", "1.1.1.1,fd::1"),
        ];
        for (path, expected) in cases {
            assert_eq!(field(&pod(), path, &facts).unwrap(), expected, "{path}");
        }
        assert_eq!(field(&pod(), "spec.x", &facts).unwrap_err().to_string(), "unsupported fieldPath: spec.x");
    }

    #[test]
    fn resources_of_a_container() {
        let facts = NodeFacts { allocatable: value!({"memory": "1Gi"}), ..NodeFacts::default() };
        let of = |path: &str, divisor: &str| {
            resource(&pod().containers()[0], &value!({"resource": (path), "divisor": (divisor)}), &facts)
        };
        let cases = [
            ("limits.cpu", "0", "2"),
            ("limits.cpu", "1m", "1500"),
            ("requests.cpu", "1m", "1500"),
            ("requests.memory", "1Mi", "64"),
            ("limits.memory", "0", "1073741824"),
            ("requests.ephemeral-storage", "0", "0"),
        ];
        for (path, divisor, expected) in cases {
            assert_eq!(of(path, divisor).unwrap(), expected, "{path} {divisor}");
        }
        assert_eq!(of("cpu", "0").unwrap_err().to_string(), "unsupported container resource : cpu");
    }
}
