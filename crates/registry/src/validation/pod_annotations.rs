//! Annotations of pods.

use std::cell::LazyCell;
use std::collections::HashSet;

use corten_api::status::ErrorList;
use corten_api::{Field, Map, Str, Value, json};

use crate::validation::path::local_descending;
use crate::validation::pod_context::{containers, visit_containers};
use crate::validation::security_profile::{validate_apparmor_matches, validate_seccomp_matches};
use crate::validation::text::{member, text};
use crate::validation::toleration::validate_tolerations;

pub(crate) use corten_api::pods::MIRROR_ANNOTATION as MIRROR;

pub(crate) const APPARMOR_PREFIX: &str = "container.apparmor.security.beta.kubernetes.io/";
pub(crate) const SECCOMP_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
pub(crate) const SECCOMP_PREFIX: &str = "container.seccomp.security.alpha.kubernetes.io/";
pub(crate) const SECCOMP_FIELD: &str = "seccompProfile";
pub(crate) const APPARMOR_FIELD: &str = "appArmorProfile";
const TOLERATIONS: &str = "scheduler.alpha.kubernetes.io/tolerations";
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// The annotations of some metadata.
pub(crate) fn annotations(metadata: &Value) -> impl Iterator<Item = (&Str, &str)> {
    let map = metadata.get("annotations").and_then(Value::as_object);
    map.into_iter().flat_map(Map::iter).map(|(key, value)| (key, value.as_str().unwrap_or_default()))
}

pub(crate) fn annotation<'v>(metadata: &'v Value, key: &str) -> Option<&'v str> {
    metadata.get("annotations")?.get(key)?.as_str()
}

/// Annotations are valid, and agree with the spec.
pub(crate) fn validate_pod_annotations(
    metadata: &Value,
    old_metadata: Option<&Value>,
    spec: &Value,
    at: &Field<'_>,
    errors: &mut ErrorList,
) {
    if metadata.get("annotations").is_none() {
        return;
    }
    if let Some(value) = annotation(metadata, MIRROR).filter(|_| text(spec, "nodeName").is_empty()) {
        let why = "must set spec.nodeName if mirror pod annotation is set";
        errors.invalid(at.key(MIRROR), &Value::from(value), why);
    }
    validate_annotated_tolerations(metadata, at, errors);
    let bad_cost =
        |metadata: &Value| annotation(metadata, DELETION_COST).filter(|cost| !is_cost(cost)).is_some();
    if bad_cost(metadata) && !old_metadata.is_some_and(bad_cost) {
        let value = Value::from(annotation(metadata, DELETION_COST).unwrap_or_default());
        errors.invalid(at.key(DELETION_COST), &value, "must be a 32bit integer");
    }
    validate_annotated_profiles(metadata, spec, at, errors);
}

/// A number without a plus sign or leading zeros.
fn is_cost(cost: &str) -> bool {
    let plain = cost == "0" || cost.starts_with('-') || cost.starts_with(|c: char| ('1'..='9').contains(&c));
    plain && cost.parse::<i32>().is_ok()
}

fn validate_annotated_tolerations(metadata: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    let Some(listed) = annotation(metadata, TOLERATIONS).filter(|listed| !listed.is_empty()) else { return };
    match json::parse(listed.as_bytes()) {
        Ok(Value::Array(tolerations)) => validate_tolerations(&tolerations, &at.child(TOLERATIONS), errors),
        Ok(Value::Null) => {}
        Ok(_) => errors.invalid(at, &Value::from(TOLERATIONS), "must be a list of tolerations"),
        Err(why) => errors.invalid(at, &Value::from(TOLERATIONS), why.to_string()),
    }
}

fn validate_annotated_profiles(metadata: &Value, spec: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    if let Some(profile) = annotation(metadata, SECCOMP_POD) {
        validate_annotated_seccomp(profile, &at.child(SECCOMP_POD), errors);
    }
    for (key, profile) in annotations(metadata).filter(|(key, _)| key.starts_with(SECCOMP_PREFIX)) {
        validate_annotated_seccomp(profile, &at.child(key), errors);
    }
    let known = LazyCell::new(|| {
        containers(spec).map(|container| text(container, "name")).collect::<HashSet<&str>>()
    });
    for (key, profile) in annotations(metadata) {
        let Some(name) = key.strip_prefix(APPARMOR_PREFIX) else { continue };
        if !known.contains(name) {
            errors.invalid(at.key(key), &Value::from(name), "container not found");
        }
        let known =
            matches!(profile, "" | "runtime/default" | "unconfined") || profile.starts_with("localhost/");
        if !known {
            let why = format!("invalid AppArmor profile name: {}", corten_api::status::quoted(profile));
            errors.invalid(at.key(key), &Value::from(profile), why);
        }
    }
}

fn validate_annotated_seccomp(profile: &str, at: &Field<'_>, errors: &mut ErrorList) {
    match profile.strip_prefix("localhost/") {
        Some(path) => local_descending(path, at, errors),
        None if matches!(profile, "runtime/default" | "docker/default" | "unconfined") => {}
        None => errors.invalid(at, &Value::from(profile), "must be a valid seccomp profile"),
    }
}

/// Where a profile is both a field and an annotation, they must be equal.
pub(crate) fn validate_profiles_match(
    metadata: &Value,
    spec: &Value,
    at: &Field<'_>,
    errors: &mut ErrorList,
) {
    let is_old =
        |key: &Str| key == SECCOMP_POD || key.starts_with(SECCOMP_PREFIX) || key.starts_with(APPARMOR_PREFIX);
    if !annotations(metadata).any(|(key, _)| is_old(key)) {
        return;
    }
    if let (Some(annotation), Some(field)) = (annotation(metadata, SECCOMP_POD), profile(spec, SECCOMP_FIELD))
    {
        let at = at.child("securityContext");
        validate_seccomp_matches(annotation, field, &at.child(SECCOMP_FIELD), errors);
    }
    visit_containers(spec, at, errors, &mut |container, at, errors| {
        let of_container = container_annotation(metadata, SECCOMP_PREFIX, container);
        let (Some(annotation), Some(field)) = (of_container, profile(container, SECCOMP_FIELD)) else {
            return;
        };
        let at = at.child("securityContext");
        validate_seccomp_matches(annotation, field, &at.child(SECCOMP_FIELD), errors);
    });
    if member(spec, "os").is_some_and(|os| text(os, "name") == "windows") {
        return;
    }
    visit_containers(spec, at, errors, &mut |container, at, errors| {
        let of_container = container_annotation(metadata, APPARMOR_PREFIX, container);
        let own = profile(container, APPARMOR_FIELD).or_else(|| profile(spec, APPARMOR_FIELD));
        let (Some(annotation), Some(field)) = (of_container, own) else { return };
        let at = at.child("securityContext");
        validate_apparmor_matches(annotation, field, &at.child(APPARMOR_FIELD), errors);
    });
}

/// A profile in the security context of a pod or container.
pub(crate) fn profile<'v>(owner: &'v Value, key: &str) -> Option<&'v Value> {
    owner.at(&["securityContext", key]).filter(|profile| !profile.is_null())
}

/// The annotation that is about a container, by its prefix.
pub(crate) fn container_annotation<'v>(
    metadata: &'v Value,
    prefix: &str,
    container: &Value,
) -> Option<&'v str> {
    let key = format!("{prefix}{}", text(container, "name"));
    metadata.get("annotations")?.get(&key).map(|value| value.as_str().unwrap_or_default())
}

/// Some annotations are immutable.
pub(crate) fn validate_annotations_update(
    metadata: &Value,
    old_metadata: &Value,
    at: &Field<'_>,
    errors: &mut ErrorList,
) {
    let kind = |key: &str| match key {
        MIRROR => Some("mirror pod annotation"),
        _ if key.starts_with(APPARMOR_PREFIX) => Some("AppArmor annotations"),
        _ => None,
    };
    for (key, old) in annotations(old_metadata) {
        if let Some(kind) = kind(key).filter(|_| annotation(metadata, key) != Some(old)) {
            errors.forbidden(at.key(key), format!("may not remove or update {kind}"));
        }
    }
    for (key, _) in annotations(metadata) {
        if let Some(kind) = kind(key).filter(|_| annotation(old_metadata, key).is_none()) {
            errors.forbidden(at.key(key), format!("may not add {kind}"));
        }
    }
}
