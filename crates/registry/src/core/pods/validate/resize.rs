//! Resizing: cpu and memory of containers, and of the pod as a whole.

use corten_api::status::ErrorList;
use corten_api::{Field, Map, Value};

use super::super::qos;
use super::{SPEC, is_mirror, only_forbidden, validate_metadata_and_spec};
use crate::prepare::copy;
use crate::validation::fields::part;
use crate::validation::internal_form;
use crate::validation::pod_context::is_sidecar;
use crate::validation::text::{list, member, text};

const RESIZABLE: [&str; 2] = ["cpu", "memory"];
const LISTS: [&str; 2] = ["containers", "initContainers"];

pub(super) fn validate_resize(pod: &Value, old: &Value, errors: &mut ErrorList) {
    validate_metadata_and_spec(pod, Some(old), errors);
    let (spec, old_spec) = (part(pod, "spec"), part(old, "spec"));
    if is_mirror(old) {
        return only_forbidden(errors, "static pods cannot be resized");
    }
    if old_spec.get("os").is_some_and(|os| text(os, "name") == "windows") {
        return only_forbidden(errors, "windows pods cannot be resized");
    }
    let class = Some(text(part(old, "status"), "qosClass")).filter(|class| !class.is_empty());
    if class.unwrap_or_else(|| qos::class(old).name()) != qos::class(pod).name() {
        let shown = Value::from(text(part(pod, "status"), "qosClass"));
        errors.invalid(SPEC, &shown, "Pod QOS Class may not change as a result of resizing");
    }
    if !node_can_resize(old) {
        errors.forbidden(SPEC, "Pod running on node without support for resize");
    }
    let mut masked = spec.clone();
    if has_resources(spec) || has_resources(old_spec) {
        validate_pod_resources(&mut masked, old_spec, errors);
    }
    let before = errors.0.len();
    validate_same_containers(spec, old_spec, errors);
    if errors.0.len() > before {
        return;
    }
    for key in ["initContainers", "containers"] {
        validate_nothing_removed(list(spec, key), list(old_spec, key), &SPEC.child(key), errors);
    }
    mask_containers(&mut masked, old_spec, errors);
    if !same_volumes(spec, old_spec) {
        let why = "volumes are immutable on resize when InPlacePodVerticalScalingMemoryBackedVolumes feature gate is disabled";
        errors.forbidden(SPEC.child("volumes"), why);
    }
    if errors.is_empty() && masked != *old_spec && !internal_form::same("PodSpec", old_spec, &masked) {
        errors.forbidden(SPEC, "only cpu and memory resources are mutable");
    }
}

fn same_volumes(spec: &Value, old_spec: &Value) -> bool {
    list(spec, "volumes") == list(old_spec, "volumes")
}

/// A node that supports resizing reports the allocated resources of running containers.
fn node_can_resize(pod: &Value) -> bool {
    let statuses = list(part(pod, "status"), "containerStatuses");
    let running =
        statuses.iter().find(|s| s.get("state").is_some_and(|state| member(state, "running").is_some()));
    running.is_none_or(|status| member(status, "resources").is_some())
}

fn entries<'v>(resources: Option<&'v Value>, key: &str) -> Option<&'v Map> {
    resources?.get(key)?.as_object()
}

fn has_resources(spec: &Value) -> bool {
    let resources = spec.get("resources");
    ["requests", "limits"].into_iter().any(|key| entries(resources, key).is_some_and(|list| !list.is_empty()))
}

/// Returns true if an entry is removed.
fn is_removed(new: Option<&Value>, old: Option<&Value>, key: &str) -> bool {
    let new = entries(new, key);
    let mut names = entries(old, key).into_iter().flat_map(Map::keys);
    names.any(|name| new.is_none_or(|new| !new.contains_key(name)))
}

/// Validates the pod's own resources; afterwards they are the previous ones, but for immutable parts.
fn validate_pod_resources(masked: &mut Value, old_spec: &Value, errors: &mut ErrorList) {
    let (new, old) = (member(masked, "resources"), member(old_spec, "resources"));
    let at = SPEC.child("resources");
    if old.is_some() && new.is_none() {
        errors.forbidden(at, "pod-level resources cannot be removed");
        return;
    }
    for key in ["requests", "limits"] {
        if is_removed(new, old, key) {
            errors.forbidden(at.child(key), format!("pod-level resource {key} cannot be removed"));
        }
    }
    mask_resources(masked, old_spec);
    if old.is_none() && !has_resources(masked) && masked.items_at(&["resources", "claims"]).is_empty() {
        masked.remove(&["resources"]);
    }
    let form = |spec: &Value| member(spec, "resources").cloned().unwrap_or_default();
    let (masked, old) = (form(masked), form(old_spec));
    if masked != old && !internal_form::same("ResourceRequirements", &masked, &old) {
        errors.forbidden(SPEC, "only cpu and memory resources are mutable at pod-level");
    }
}

/// Restores cpu and memory of the member `resources`.
fn mask_resources(owner: &mut Value, old: &Value) {
    for key in ["requests", "limits"] {
        for name in RESIZABLE {
            let path = ["resources", key, name];
            match old.at(&path) {
                Some(amount) => owner.set(&path, amount.clone()),
                None => _ = owner.remove(&path),
            }
        }
    }
}

fn validate_same_containers(spec: &Value, old_spec: &Value, errors: &mut ErrorList) {
    for key in LISTS {
        let (new, old, at) = (list(spec, key), list(old_spec, key), SPEC.child(key));
        if new.len() != old.len() {
            errors.forbidden(at, format!("{key} may not be added or removed on resize"));
            continue;
        }
        for (i, (new, old)) in new.iter().zip(old).enumerate() {
            if text(new, "name") != text(old, "name") {
                let why = format!("{key} may not be renamed or reordered on resize");
                errors.forbidden(at.index(i).child("name"), why);
            }
        }
    }
}

fn validate_nothing_removed(new: &[Value], old: &[Value], at: &Field<'_>, errors: &mut ErrorList) {
    for (i, (new, old)) in new.iter().zip(old).enumerate() {
        let at = at.index(i);
        let at = at.child("resources");
        for key in ["requests", "limits"] {
            if is_removed(new.get("resources"), old.get("resources"), key) {
                errors.forbidden(at.child(key), format!("resource {key} cannot be removed"));
            }
        }
    }
}

/// Restores cpu and memory of all containers; other changes are errors.
fn mask_containers(masked: &mut Value, old_spec: &Value, errors: &mut ErrorList) {
    for key in LISTS {
        let containers = masked.get_mut(key).and_then(Value::as_array_mut).into_iter().flatten();
        for (i, (container, old)) in containers.zip(list(old_spec, key)).enumerate() {
            let changed = *container != *old;
            mask_resources(container, old);
            let init_at = SPEC.child("initContainers");
            if *container != *old && !internal_form::same("Container", container, old) {
                if key == "containers" {
                    errors.forbidden(SPEC, "only cpu and memory resources are mutable");
                } else {
                    let why = "only cpu and memory resources for init or sidecar containers are mutable";
                    errors.forbidden(init_at.index(i), why);
                }
            }
            if key == "initContainers" && changed && !is_sidecar(container) {
                forbid_restarting(container, &init_at.index(i), errors);
            }
        }
    }
    // An empty list equals none.
    for key in LISTS {
        if list(masked, key).is_empty() {
            copy(masked, old_spec, &[key]);
        }
    }
}

fn forbid_restarting(container: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    for policy in list(container, "resizePolicy") {
        if text(policy, "restartPolicy") == "RestartContainer" {
            let why =
                "non-sidecar init containers with a resize policy of RestartContainer cannot be resized";
            errors.forbidden(at, why);
        }
    }
}
