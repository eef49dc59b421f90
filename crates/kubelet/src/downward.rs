//! What a pod may learn of itself: its fields and its containers' resources, for variables and files.
//!
//! Pure. Errors are in upstream's words: they become a container's reason not to start.

use corten_api::quantity::Quantity;
use corten_api::status::quoted;
use corten_api::{Map, Value};

use crate::pod::{Container, Pod};
use crate::resources::listed;

/// What only the node knows of a pod.
#[derive(Debug, Clone, Default)]
pub(crate) struct Place {
    pub(crate) host_ips: Vec<String>,
    pub(crate) pod_ips: Vec<String>,
    /// What a container that names no limit may use.
    pub(crate) allocatable: Value,
}

/// The value of a field reference.
pub(crate) fn field(pod: &Pod, path: &str, place: &Place) -> Result<String, String> {
    let text = |path: &[&str]| pod.tree().str_at(path).unwrap_or_default().to_owned();
    let map =
        |key: &str| pod.tree().at(&["metadata", key]).and_then(Value::as_object).cloned().unwrap_or_default();
    if let Some((path, key)) = subscript(path) {
        let entries = match path {
            "metadata.annotations" => map("annotations"),
            "metadata.labels" => map("labels"),
            _ => return Err(format!("fieldPath {path:?} does not support subscript")),
        };
        return Ok(entries.get(key).and_then(Value::as_str).unwrap_or_default().to_owned());
    }
    Ok(match path {
        "spec.nodeName" => text(&["spec", "nodeName"]),
        "spec.serviceAccountName" => text(&["spec", "serviceAccountName"]),
        "status.hostIP" => place.host_ips.first().cloned().unwrap_or_default(),
        "status.hostIPs" => place.host_ips.join(","),
        "status.podIP" => place.pod_ips.first().cloned().unwrap_or_default(),
        "status.podIPs" => place.pod_ips.join(","),
        "metadata.annotations" => lines(&map("annotations")),
        "metadata.labels" => lines(&map("labels")),
        "metadata.name" => pod.name().to_owned(),
        "metadata.namespace" => pod.namespace().to_owned(),
        "metadata.uid" => pod.uid().to_owned(),
        _ => return Err(format!("unsupported fieldPath: {path}")),
    })
}

/// `path['key']` in its two parts.
fn subscript(path: &str) -> Option<(&str, &str)> {
    path.strip_suffix("']")?.split_once("['")
}

/// A map as a file shows it.
fn lines(map: &Map) -> String {
    let lines: Vec<String> = map
        .iter()
        .map(|(key, value)| format!("{key}={}", quoted(value.as_str().unwrap_or_default())))
        .collect();
    lines.join("\n")
}

/// The value of a reference to a container's resource. What has no limit may use what the node has.
pub(crate) fn resource(container: &Container, reference: &Value, place: &Place) -> Result<String, String> {
    let path = reference.str_at(&["resource"]).unwrap_or_default();
    let unsupported = || format!("unsupported container resource : {path}");
    let (list, name) = path.split_once('.').ok_or_else(unsupported)?;
    if !matches!(list, "limits" | "requests") {
        return Err(unsupported());
    }
    let empty = Value::object();
    let resources = container.tree.get("resources").unwrap_or(&empty);
    let of_node = || Quantity::parse(place.allocatable.str_at(&[name])?).ok();
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
        let place = Place { pod_ips: vec!["1.1.1.1".into(), "fd::1".into()], ..Place::default() };
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
            assert_eq!(field(&pod(), path, &place).unwrap(), expected, "{path}");
        }
        assert_eq!(field(&pod(), "spec.x", &place).unwrap_err(), "unsupported fieldPath: spec.x");
    }

    #[test]
    fn resources_of_a_container() {
        let place = Place { allocatable: value!({"memory": "1Gi"}), ..Place::default() };
        let of = |path: &str, divisor: &str| {
            resource(&pod().containers()[0], &value!({"resource": (path), "divisor": (divisor)}), &place)
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
        assert_eq!(of("cpu", "0").unwrap_err(), "unsupported container resource : cpu");
    }
}
