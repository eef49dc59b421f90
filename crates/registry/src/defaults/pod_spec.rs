//! Defaults of a pod's spec, in pods and in templates. Those of pods alone are with the pods.

use corten_api::pods::CONTAINER_LISTS;
use corten_api::{Map, Str, Value};

use super::{
    container, fill_absent, fill_zero, is_zero, items, made, resource_list, resources, text_of, volume,
};

/// The member `template` of a workload.
pub(crate) fn pod_template(owner: &mut Map) {
    pod_spec(made(made(owner, "template"), "spec"));
}

pub(crate) fn pod_spec(spec: &mut Map) {
    service_account(spec);
    fill_zero(spec, "dnsPolicy", "ClusterFirst");
    fill_zero(spec, "restartPolicy", "Always");
    fill_zero(spec, "schedulerName", "default-scheduler");
    fill_absent(spec, "securityContext", Value::object());
    fill_absent(spec, "terminationGracePeriodSeconds", 30);
    items(spec, "volumes").for_each(volume::volume);
    for list in CONTAINER_LISTS {
        items(spec, list).for_each(container::container);
    }
    resource_list(spec, "overhead");
    resources(spec);
}

/// `serviceAccount` is an older name of `serviceAccountName`, which wins.
fn service_account(spec: &mut Map) {
    const NAME: &str = "serviceAccountName";
    const ALIAS: &str = "serviceAccount";
    let (from, to) = match (text_of(spec, NAME), text_of(spec, ALIAS)) {
        (name, alias) if name == alias => return,
        ("", _) => (ALIAS, NAME),
        _ => (NAME, ALIAS),
    };
    let account = spec.get(from).cloned().unwrap_or_default();
    spec.insert(Str::new_static(to), account);
}

/// A workload without labels gets those of its template.
pub(crate) fn template_labels(object: &mut Map) {
    if object.get("metadata").and_then(Value::as_object).is_some_and(|metadata| !is_zero(metadata, "labels"))
    {
        return;
    }
    let labels = object.get("spec").and_then(|spec| spec.at(&["template", "metadata", "labels"]));
    if let Some(labels @ Value::Object(_)) = labels.cloned() {
        made(object, "metadata").insert("labels", labels);
    }
}

/// With the host's network, a container's ports are the host's.
pub(crate) fn host_ports(spec: &mut Map) {
    if spec.get("hostNetwork").and_then(Value::as_bool) != Some(true) {
        return;
    }
    for list in ["containers", "initContainers"] {
        for port in items(spec, list).flat_map(|container| items(container, "ports")) {
            let number = port.get("containerPort").and_then(Value::as_int).unwrap_or_default();
            if number != 0 {
                fill_zero(port, "hostPort", number);
            }
        }
    }
}
