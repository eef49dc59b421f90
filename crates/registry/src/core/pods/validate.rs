//! Validation of new pods and of updates. Each endpoint changes its own
//! part; status and resizing are in files of their own.

mod container_status;
mod resize;
mod status;
mod update;

use corten_api::status::ErrorList;
use corten_api::{Field, Value, names};

use crate::validation::container::validate_image_is_trimmed;
use crate::validation::diff;
use crate::validation::fields::part;
use crate::validation::internal_form;
use crate::validation::number::{given, non_negative};
use crate::validation::pod_annotations::{
    MIRROR, annotation, validate_annotations_update, validate_pod_annotations, validate_profiles_match,
};
use crate::validation::pod_context::{PodContext, WHOLE_POD};
use crate::validation::pod_spec::validate_pod_spec;
use crate::validation::pod_warnings::pod_warnings;
use crate::validation::text::{list, member, text};

pub(super) use update::validate_update;

const METADATA: Field<'static> = Field::new("metadata");
const SPEC: Field<'static> = Field::new("spec");

pub(super) fn validate_create(pod: &Value, errors: &mut ErrorList) {
    validate_metadata_and_spec(pod, None, errors);
    let spec = part(pod, "spec");
    if !list(spec, "ephemeralContainers").is_empty() {
        errors.forbidden(SPEC.child("ephemeralContainers"), "cannot be set on create");
    }
    if !text(spec, "nodeName").is_empty() && !list(spec, "schedulingGates").is_empty() {
        let why = "cannot be set until all schedulingGates have been cleared";
        errors.forbidden(SPEC.child("nodeName"), why);
    }
    validate_profiles_match(part(pod, "metadata"), spec, &SPEC, errors);
}

pub(super) fn validate_subresource(sub: &str, pod: &Value, old: &Value, errors: &mut ErrorList) {
    match sub {
        "status" => status::validate_status(pod, old, errors),
        "ephemeralcontainers" => validate_ephemeral_containers(pod, old, errors),
        "resize" => resize::validate_resize(pod, old, errors),
        _ => {}
    }
}

/// Warnings about a new pod. Updates are frequent, and mostly from controllers: they get none.
pub(super) fn warnings(pod: &Value, old: Option<&Value>) -> Vec<String> {
    if old.is_some() {
        return Vec::new();
    }
    let complaints = names::dns1123_label(text(part(pod, "metadata"), "name"));
    let name = (!complaints.is_empty()).then(|| {
        let complaints = complaints.join(" ");
        format!(
            "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is recommended: [{complaints}]"
        )
    });
    let others = pod_warnings(part(pod, "metadata"), part(pod, "spec"), false, &Field::ROOT);
    name.into_iter().chain(others).collect()
}

/// Rules of pods that templates do not have come last.
fn validate_metadata_and_spec(pod: &Value, old: Option<&Value>, errors: &mut ErrorList) {
    let (metadata, spec) = (part(pod, "metadata"), part(pod, "spec"));
    let old_metadata = old.map(|old| part(old, "metadata"));
    validate_pod_annotations(metadata, old_metadata, spec, &METADATA.child("annotations"), errors);
    let old_spec = old.map(|old| part(old, "spec"));
    validate_pod_spec(&PodContext { spec, pod_metadata: Some(metadata), old_spec }, &SPEC, errors);
    if text(spec, "serviceAccountName").is_empty() {
        forbid_tokens(spec, errors);
    }
    if let Some(seconds) = given(spec, "terminationGracePeriodSeconds") {
        non_negative(seconds, &SPEC.child("terminationGracePeriodSeconds"), errors);
    }
    for key in ["containers", "initContainers"] {
        let at = SPEC.child(key);
        for (i, container) in list(spec, key).iter().enumerate() {
            validate_image_is_trimmed(container, &at.index(i), errors);
        }
    }
}

/// Pods without a service account must not mount its tokens.
fn forbid_tokens(spec: &Value, errors: &mut ErrorList) {
    let at = SPEC.child("volumes");
    for (i, volume) in list(spec, "volumes").iter().enumerate() {
        for (j, source) in volume.items_at(&["projected", "sources"]).iter().enumerate() {
            if member(source, "serviceAccountToken").is_some() {
                let (volume_at, why) =
                    (at.index(i), "must not be specified when serviceAccountName is not set");
                let projected_at = volume_at.child("projected");
                let sources_at = projected_at.child("sources");
                errors.forbidden(sources_at.index(j).child("serviceAccountToken"), why);
            }
        }
    }
}

/// Annotations as an update may leave them.
fn validate_annotations(pod: &Value, old: &Value, errors: &mut ErrorList) {
    let (metadata, old_metadata, at) =
        (part(pod, "metadata"), part(old, "metadata"), METADATA.child("annotations"));
    validate_annotations_update(metadata, old_metadata, &at, errors);
    validate_pod_annotations(metadata, Some(old_metadata), part(pod, "spec"), &at, errors);
}

/// Returns true for mirror pods, which represent static pods of a node.
fn is_mirror(pod: &Value) -> bool {
    annotation(part(pod, "metadata"), MIRROR).is_some()
}

/// Replaces all errors so far by this one.
fn only_forbidden(errors: &mut ErrorList, why: &str) {
    errors.0.clear();
    errors.forbidden(WHOLE_POD, why);
}

/// Containers may be added to a running pod; existing ones are immutable.
fn validate_ephemeral_containers(pod: &Value, old: &Value, errors: &mut ErrorList) {
    validate_metadata_and_spec(pod, Some(old), errors);
    validate_annotations(pod, old, errors);
    if is_mirror(old) {
        return only_forbidden(errors, "static pods do not support ephemeral containers");
    }
    let at = SPEC.child("ephemeralContainers");
    let of = |pod| list(part(pod, "spec"), "ephemeralContainers");
    for container in of(old) {
        let name = text(container, "name");
        let shown = corten_api::status::quoted(name);
        match of(pod).iter().rfind(|new| text(new, "name") == name) {
            None => {
                errors.forbidden(at, format!("existing ephemeral containers {shown} may not be removed\n"))
            }
            Some(new) if new != container && !internal_form::same("EphemeralContainer", container, new) => {
                let form = |container| internal_form::pretty("EphemeralContainer", container);
                let diff = diff::unified(&form(container), &form(new));
                let why = format!("existing ephemeral containers {shown} may not be changed\n{diff}");
                errors.forbidden(at, why);
            }
            Some(_) => {}
        }
    }
}
