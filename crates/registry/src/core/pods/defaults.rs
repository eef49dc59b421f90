//! Defaults of pods that templates do not have, so that stored templates stay unchanged.

use corten_api::{Map, Str, Value, value};

use crate::defaults::{
    child, copy_missing, fill_absent, host_ports, items, made, pod_spec, resource_list, resources, text_of,
};

pub(super) fn pod(object: &mut Value) {
    let Some(object) = object.as_object_mut() else { return };
    let spec = made(object, "spec");
    pod_spec(spec);
    if spec.get("terminationGracePeriodSeconds").and_then(Value::as_int).is_some_and(|seconds| seconds < 0) {
        spec.insert(Str::new_static("terminationGracePeriodSeconds"), 1);
    }
    fill_absent(spec, "enableServiceLinks", true);
    host_ports(spec);
    for list in ["containers", "initContainers"] {
        for resources in items(spec, list).filter_map(|container| child(container, "resources")) {
            copy_missing(resources, "limits", "requests");
        }
    }
    if let Some(status) = child(object, "status") {
        default_status(status);
    }
}

fn default_status(status: &mut Map) {
    addresses(status);
    for list in ["initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"] {
        for container in items(status, list) {
            resource_list(container, "allocatedResources");
            resources(container);
        }
    }
    resource_list(status, "allocatedResources");
    resources(status);
}

/// The first of several addresses is also in the single field. Where both are set and differ, the single one wins:
/// it is the one of old kubelets.
fn addresses(status: &mut Map) {
    let single = text_of(status, "podIP");
    let first = status.get("podIPs").and_then(Value::as_array).and_then(<[Value]>::first);
    let first = first.map(|address| address.str_at(&["ip"]).unwrap_or_default());
    match (single, first) {
        ("", None | Some("")) => {}
        ("", Some(first)) => {
            let first = Value::from(first);
            status.insert("podIP", first);
        }
        (single, first) if Some(single) != first => {
            let list = value!([{"ip": single}]);
            status.insert("podIPs", list);
        }
        _ => {}
    }
}
