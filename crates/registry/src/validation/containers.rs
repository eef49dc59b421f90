//! The three lists of containers: regular ones, those that run before them, and those added to a running pod.

use std::collections::HashSet;

use corten_api::status::ErrorList;
use corten_api::{Field, Value};

use crate::validation::container::{
    validate_container, validate_image_is_trimmed, validate_init_restart_policy, validate_restart_policy,
};
use crate::validation::pod_context::{PodContext, is_sidecar};
use crate::validation::ports::validate_unique_host_ports;
use crate::validation::probe::{validate_lifecycle, validate_probes};
use crate::validation::repeats::Repeats;
use crate::validation::text::{list, member, text};
use crate::validation::tolerance;
use crate::validation::volume::Volumes;

pub(crate) fn validate_containers(
    context: &PodContext<'_>,
    volumes: &Volumes<'_>,
    at: &Field<'_>,
    errors: &mut ErrorList,
) {
    let containers = list(context.spec, "containers");
    if containers.is_empty() {
        errors.required(at, "");
        return;
    }
    let repeats = Repeats::of(containers, |item| text(item, "name"));
    for (i, container) in containers.iter().enumerate() {
        let at = at.index(i);
        validate_container(context, container, volumes, &at, errors);
        let name = text(container, "name");
        if repeats.at(i) {
            errors.duplicate(at.child("name"), &Value::from(name));
        }
        validate_lifecycle(context, container, &at, errors);
        validate_probes(container, &at, errors);
        validate_restart_policy(container, &at, errors);
    }
    validate_unique_host_ports(containers, at, errors);
}

pub(crate) fn validate_init_containers(
    context: &PodContext<'_>,
    volumes: &Volumes<'_>,
    at: &Field<'_>,
    errors: &mut ErrorList,
) {
    let (regular, containers) = (list(context.spec, "containers"), list(context.spec, "initContainers"));
    let mut seen: HashSet<&str> = regular.iter().map(|container| text(container, "name")).collect();
    for (i, container) in containers.iter().enumerate() {
        let list_at = at;
        let at = at.index(i);
        validate_container(context, container, volumes, &at, errors);
        validate_init_restart_policy(container, &at, errors);
        let name = text(container, "name");
        if seen.contains(name) {
            errors.duplicate(at.child("name"), &Value::from(name));
        } else if !name.is_empty() {
            seen.insert(name);
        }
        // They run one by one, so that each has the host's ports to itself. Upstream reports each as the first.
        validate_unique_host_ports(std::slice::from_ref(container), list_at, errors);
        if is_sidecar(container) {
            validate_lifecycle(context, container, &at, errors);
            validate_probes(container, &at, errors);
        } else {
            forbid_in_plain_init_container(context, container, &at, errors);
        }
    }
}

/// Fields that are only allowed for sidecars.
fn forbid_in_plain_init_container(
    context: &PodContext<'_>,
    container: &Value,
    at: &Field<'_>,
    errors: &mut ErrorList,
) {
    for key in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
        if member(container, key).is_some() {
            errors
                .forbidden(at.child(key), "may not be set for init containers without restartPolicy=Always");
        }
    }
    let at = at.child("resizePolicy");
    for (i, policy) in list(container, "resizePolicy").iter().enumerate() {
        let policy = text(policy, "restartPolicy");
        if policy == "RestartContainer" && !context.old(tolerance::restarting_init_containers) {
            let why = "must not be set to 'RestartContainer' for non-sidecar initContainers";
            errors.invalid(at.index(i).child("restartPolicy"), &Value::from(policy), why);
        }
    }
}

pub(crate) fn validate_ephemeral_containers(
    context: &PodContext<'_>,
    volumes: &Volumes<'_>,
    at: &Field<'_>,
    errors: &mut ErrorList,
) {
    let containers = list(context.spec, "ephemeralContainers");
    let others = ["containers", "initContainers"].into_iter().flat_map(|key| list(context.spec, key));
    let others: HashSet<&str> = others.map(|other| text(other, "name")).collect();
    let repeats = Repeats::of(containers, |container| text(container, "name"));
    for (i, container) in containers.iter().enumerate() {
        let at = at.index(i);
        validate_container(context, container, volumes, &at, errors);
        validate_image_is_trimmed(container, &at, errors);
        let name = text(container, "name");
        if others.contains(name) || repeats.at(i) {
            errors.duplicate(at.child("name"), &Value::from(name));
        }
        let target = text(container, "targetContainerName");
        if !target.is_empty() && !others.contains(target) {
            errors.not_found(at.child("targetContainerName"), &Value::from(target));
        }
        forbid_in_ephemeral_container(container, &at, errors);
    }
}

/// Fields that are forbidden in ephemeral containers.
fn forbid_in_ephemeral_container(container: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    const WHY: &str = "cannot be set for an Ephemeral Container";
    const KEYS: [&str; 9] = [
        "ports",
        "resources",
        "resizePolicy",
        "restartPolicy",
        "restartPolicyRules",
        "livenessProbe",
        "readinessProbe",
        "startupProbe",
        "lifecycle",
    ];
    for key in KEYS {
        if member(container, key).is_some_and(|value| !is_nothing(key, value)) {
            errors.forbidden(at.child(key), WHY);
        }
    }
    let at = at.child("volumeMounts");
    for (i, mount) in list(container, "volumeMounts").iter().enumerate() {
        for key in ["subPath", "subPathExpr"] {
            if !text(mount, key).is_empty() {
                errors.forbidden(at.index(i).child(key), WHY);
            }
        }
    }
}

/// Returns true if a member counts as absent. An empty probe is still a probe.
fn is_nothing(key: &str, value: &Value) -> bool {
    match value {
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => key == "resources" && map.is_empty(),
        _ => false,
    }
}
