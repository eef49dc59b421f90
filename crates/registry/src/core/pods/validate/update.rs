//! Mutable fields of a running pod: images, the deadline, more tolerations, fewer scheduling gates; and
//! while it is gated, the selection of nodes.

use std::collections::{HashMap, HashSet};

use corten_api::status::ErrorList;
use corten_api::{Field, Map, Value};

use super::{SPEC, validate_annotations, validate_metadata_and_spec};
use crate::prepare::{copy, same};
use crate::rules::NameRule;
use crate::validation::container::validate_image_is_trimmed;
use crate::validation::diff;
use crate::validation::fields::part;
use crate::validation::internal_form;
use crate::validation::number::{given, in_range};
use crate::validation::text::{list, text, validate_generate_name};
use crate::validation::toleration::validate_tolerations;

const DEADLINE: &str = "activeDeadlineSeconds";
const MOST_SECONDS: i64 = i32::MAX as i64;
const MUTABLE: &str = "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

pub(crate) fn validate_update(pod: &Value, old: &Value, errors: &mut ErrorList) {
    validate_generate_name(pod, NameRule::DnsSubdomain, errors);
    validate_metadata_and_spec(pod, Some(old), errors);
    validate_annotations(pod, old, errors);
    let (spec, old_spec) = (part(pod, "spec"), part(old, "spec"));
    for key in ["containers", "initContainers"] {
        let (new, old, at) = (list(spec, key), list(old_spec, key), SPEC.child(key));
        if new.len() != old.len() {
            errors.forbidden(at, "pod updates may not add or remove containers");
            return;
        }
        validate_images(new, &at, errors);
    }
    if validate_deadline(spec, old_spec, &SPEC.child(DEADLINE), errors).is_err() {
        return;
    }
    validate_tolerations_update(spec, old_spec, &SPEC.child("tolerations"), errors);
    validate_gates_update(spec, old_spec, &SPEC.child("schedulingGates"), errors);
    if spec == old_spec {
        return;
    }
    let masked = masked(spec, old_spec, errors);
    if masked != *old_spec && !internal_form::same("PodSpec", old_spec, &masked) {
        let form = |spec| internal_form::pretty("PodSpec", spec);
        let diff = diff::unified(&form(old_spec), &form(&masked));
        errors.forbidden(SPEC, format!("pod updates may not change fields other than {MUTABLE}\n{diff}"));
    }
}

fn validate_images(containers: &[Value], at: &Field<'_>, errors: &mut ErrorList) {
    for (i, container) in containers.iter().enumerate() {
        if text(container, "image").is_empty() {
            errors.required(at.index(i).child("image"), "");
        }
        validate_image_is_trimmed(container, &at.index(i), errors);
    }
}

/// A deadline after which upstream reports no further error.
struct Stop;

/// A deadline may be set, and decreased.
fn validate_deadline(
    spec: &Value,
    old_spec: &Value,
    at: &Field<'_>,
    errors: &mut ErrorList,
) -> Result<(), Stop> {
    match (given(spec, DEADLINE), given(old_spec, DEADLINE)) {
        (Some(new), _) if !(0..=MOST_SECONDS).contains(&new) => {
            in_range(new, 0, MOST_SECONDS, at, errors);
            return Err(Stop);
        }
        (Some(new), Some(old)) if old < new => {
            errors.invalid(at, &Value::from(new), "must be less than or equal to previous value");
            return Err(Stop);
        }
        (None, Some(_)) => {
            errors.invalid(at, &Value::Null, "must not update from a positive integer to nil value");
        }
        _ => {}
    }
    Ok(())
}

fn validate_tolerations_update(spec: &Value, old_spec: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    let (new, old) = (list(spec, "tolerations"), list(old_spec, "tolerations"));
    let parts = |toleration| ["key", "operator", "value", "effect"].map(|key| text(toleration, key));
    let kept: HashSet<[&str; 4]> = new.iter().map(parts).collect();
    if old.iter().any(|old| !kept.contains(&parts(old))) {
        errors.forbidden(at, "existing toleration can not be modified except its tolerationSeconds");
        return;
    }
    validate_tolerations(new, at, errors);
}

fn validate_gates_update(spec: &Value, old_spec: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    let (new, old) = (list(spec, "schedulingGates"), list(old_spec, "schedulingGates"));
    let old: HashSet<&str> = old.iter().map(|gate| text(gate, "name")).collect();
    // Of a new gate that occurs several times only the last is reported.
    let last: HashMap<&str, usize> =
        new.iter().enumerate().map(|(i, gate)| (text(gate, "name"), i)).collect();
    for (i, gate) in new.iter().enumerate() {
        let name = text(gate, "name");
        if !old.contains(name) && last.get(name) == Some(&i) {
            let why = format!("only deletion is allowed, but found new scheduling gate '{name}'");
            errors.forbidden(at.index(i).child("name"), why);
        }
    }
}

/// The new spec with all mutable fields restored. Violations of partly mutable fields
/// are reported here.
fn masked(spec: &Value, old_spec: &Value, errors: &mut ErrorList) -> Value {
    let mut masked = spec.clone();
    for key in ["containers", "initContainers"] {
        let containers = masked.get_mut(key).and_then(Value::as_array_mut).into_iter().flatten();
        for (container, old) in containers.zip(list(old_spec, key)) {
            copy(container, old, &["image"]);
        }
    }
    for key in [DEADLINE, "schedulingGates", "tolerations"] {
        copy(&mut masked, old_spec, &[key]);
    }
    let grace = "terminationGracePeriodSeconds";
    if given(old_spec, grace).is_some_and(|old| old < 0) && given(spec, grace) == Some(1) {
        copy(&mut masked, old_spec, &[grace]);
    }
    if !list(old_spec, "schedulingGates").is_empty() {
        mask_nodes(&mut masked, old_spec, errors);
    }
    masked
}

/// A gated pod's node selection may become narrower.
fn mask_nodes(masked: &mut Value, old_spec: &Value, errors: &mut ErrorList) {
    const NODE_AFFINITY: &[&str] = &["affinity", "nodeAffinity"];
    if !same(masked, old_spec, &["nodeSelector"]) {
        let (new, old) = (masked.get("nodeSelector"), old_spec.get("nodeSelector"));
        validate_node_selector_update(new, old, &SPEC.child("nodeSelector"), errors);
        copy(masked, old_spec, &["nodeSelector"]);
    }
    let (new, old) = (masked.at(NODE_AFFINITY), old_spec.at(NODE_AFFINITY));
    if new == old {
        return;
    }
    let affinity_at = SPEC.child("affinity");
    validate_node_affinity_update(new, old, &affinity_at.child("nodeAffinity"), errors);
    copy(masked, old_spec, NODE_AFFINITY);
    let left = masked.get("affinity").and_then(Value::as_object).is_some_and(Map::is_empty);
    if left && old_spec.get("affinity").is_none() {
        masked.remove(&["affinity"]);
    }
}

fn validate_node_selector_update(
    new: Option<&Value>,
    old: Option<&Value>,
    at: &Field<'_>,
    errors: &mut ErrorList,
) {
    let mut labels = old.and_then(Value::as_object).into_iter().flat_map(Map::iter);
    if labels.any(|(key, value)| new.and_then(|new| new.get(key)) != Some(value)) {
        let why = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
        errors.invalid(at, new.unwrap_or(&Value::Null), why);
    }
}

fn validate_node_affinity_update(
    new: Option<&Value>,
    old: Option<&Value>,
    at: &Field<'_>,
    errors: &mut ErrorList,
) {
    const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
    let terms = |affinity: Option<&Value>| match affinity.and_then(|affinity| affinity.get(REQUIRED)) {
        Some(selector) => list(selector, "nodeSelectorTerms").to_vec(),
        None => Vec::new(),
    };
    let (new, old) = (terms(new), terms(old));
    let at = at.child(REQUIRED);
    let at = at.child("nodeSelectorTerms");
    if !old.is_empty() && old.len() != new.len() {
        let why = "no additions/deletions to non-empty NodeSelectorTerms list are allowed";
        errors.invalid_shown(at, internal_form::compact_list("NodeSelectorTerm", &new), why);
        return;
    }
    for (i, (new, old)) in new.iter().zip(&old).enumerate() {
        if !only_adds(new, old) {
            let why = "only additions are allowed (no mutations or deletions)";
            errors.invalid_shown(at.index(i), internal_form::compact("NodeSelectorTerm", new), why);
        }
    }
}

/// Returns true if a term has all its previous requirements, and maybe more. One that selected nothing still does.
fn only_adds(new: &Value, old: &Value) -> bool {
    let keys = ["matchExpressions", "matchFields"];
    if keys.into_iter().all(|key| list(old, key).is_empty()) {
        return keys.into_iter().all(|key| list(new, key).is_empty());
    }
    keys.into_iter().all(|key| list(new, key).starts_with(list(old, key)))
}
