//! Nodes. A new one may have a status: kubelets register that way. Configuration through the API is no longer
//! supported.

mod validate;

use std::collections::BTreeSet;

use corten_api::{Map, Str, Value};

use crate::defaults::{child, copy_missing, is_absent, made, resource_list};
use crate::prepare::{copy, resets_spec_or_status};
use crate::rules::{Request, RowContext, Rules, Selectable};
use crate::table::{AGE, NAME, NONE, UNKNOWN, age, cells, condition, name, str_at, str_or, text};

pub(crate) const RULES: Rules = Rules {
    group: "",
    resource: "nodes",
    prefix_on_update: true,
    storage_prefix: "minions",
    default,
    prepare_create: |node, _| drop_configuration(node),
    prepare_update,
    prepare_subresource,
    reset_fields: resets_spec_or_status,
    validate_create: validate::create,
    validate_update: validate::update,
    validate_subresource: |_, node, old, errors| validate::status(node, old, errors),
    warnings: |node, _| validate::warnings(node),
    selectable: &[Selectable {
        label: "spec.unschedulable",
        value: |o| Str::from(o.bool_at(&["spec", "unschedulable"]).unwrap_or(false).to_string()),
    }],
    columns: &[
        NAME,
        text("Status", "The status of the node"),
        text("Roles", "The roles of the node"),
        AGE,
        text("Version", "Version of the kubelet.").of("core/v1.NodeSystemInfo", "kubeletVersion"),
        text("Internal-IP", "The first address inside the cluster's network.")
            .of("core/v1.NodeStatus", "addresses")
            .wide(),
        text("External-IP", "The first address outside of it.").of("core/v1.NodeStatus", "addresses").wide(),
        text("OS-Image", "The operating system, as it names itself.")
            .of("core/v1.NodeSystemInfo", "osImage")
            .wide(),
        text("Kernel-Version", "The kernel, and the architecture.")
            .of("core/v1.NodeSystemInfo", "kernelVersion")
            .wide(),
        text("Container-Runtime", "The container runtime and its version.")
            .of("core/v1.NodeSystemInfo", "containerRuntimeVersion")
            .wide(),
    ],
    row,
    ..Rules::DEFAULT
};

fn row(object: &Value, context: &RowContext<'_>) -> Vec<Value> {
    let info = |key: &str| str_or(object, &["status", "nodeInfo", key], UNKNOWN);
    let kernel = match str_at(object, &["status", "nodeInfo", "architecture"]) {
        "" => info("kernelVersion").to_owned(),
        architecture => format!("{} ({architecture})", info("kernelVersion")),
    };
    cells![
        name(object),
        status(object),
        roles(object),
        age(object, context),
        str_at(object, &["status", "nodeInfo", "kubeletVersion"]),
        address(object, "InternalIP"),
        address(object, "ExternalIP"),
        info("osImage"),
        kernel,
        info("containerRuntimeVersion"),
    ]
}

fn prepare_update(node: &mut Value, old: &Value, _: &Request<'_>) {
    copy(node, old, &["status"]);
    drop_configuration(node);
}

fn prepare_subresource(sub: &str, node: &mut Value, old: &Value, _: &Request<'_>) {
    if sub == "status" {
        copy(node, old, &["spec"]);
        drop_configuration(node);
    }
}

/// Removes fields without an effect: the configuration, and a policy that is not in use yet.
fn drop_configuration(node: &mut Value) {
    node.remove(&["spec", "configSource"]);
    node.remove(&["spec", "podPreemptionPolicy"]);
    node.remove(&["status", "config"]);
}

fn default(object: &mut Value) {
    let Some(object) = object.as_object_mut() else { return };
    pod_ranges(made(object, "spec"));
    let Some(status) = child(object, "status") else { return };
    if is_absent(status, "allocatable") {
        copy_missing(status, "capacity", "allocatable");
    }
    resource_list(status, "capacity");
    resource_list(status, "allocatable");
}

/// The first of several ranges is also in the single field; where both are set and differ, the single one wins.
fn pod_ranges(spec: &mut Map) {
    let said = |range: &&Value| range.as_str().is_some_and(|range| !range.is_empty());
    let first = spec.get("podCIDRs").and_then(Value::as_array).and_then(<[Value]>::first);
    match (spec.get("podCIDR").filter(said), first) {
        (None, Some(first)) if said(&first) => {
            let first = first.clone();
            spec.insert("podCIDR", first);
        }
        (Some(single), first) if Some(single) != first => {
            let single = single.clone();
            spec.insert("podCIDRs", vec![single]);
        }
        _ => {}
    }
}

fn status(object: &Value) -> String {
    let ready = match condition(object, "Ready") {
        None => "Unknown",
        Some(ready) if ready.str_at(&["status"]) == Some("True") => "Ready",
        Some(_) => "NotReady",
    };
    match object.bool_at(&["spec", "unschedulable"]) {
        Some(true) => format!("{ready},SchedulingDisabled"),
        _ => ready.to_owned(),
    }
}

/// Roles come from labels: `node-role.kubernetes.io/<role>`, and the older `kubernetes.io/role=<role>`.
fn roles(object: &Value) -> String {
    let labels = object.at(&["metadata", "labels"]).and_then(Value::as_object).map(Map::iter);
    let mut roles = BTreeSet::new();
    for (key, value) in labels.into_iter().flatten() {
        let role = match key.strip_prefix("node-role.kubernetes.io/") {
            Some(role) => role,
            None if key == "kubernetes.io/role" => value.as_str().unwrap_or_default(),
            None => continue,
        };
        roles.insert(role);
    }
    let roles: Vec<&str> = roles.into_iter().filter(|role| !role.is_empty()).collect();
    if roles.is_empty() { NONE.to_owned() } else { roles.join(",") }
}

fn address<'v>(object: &'v Value, kind: &str) -> &'v str {
    let addresses = object.items_at(&["status", "addresses"]);
    addresses.iter().find(|a| a.str_at(&["type"]) == Some(kind)).map_or(NONE, |a| str_at(a, &["address"]))
}
