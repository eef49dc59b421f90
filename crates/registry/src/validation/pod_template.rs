//! Templates of pods, as workloads hold them.

use corten_api::status::ErrorList;
use corten_api::{Field, Value, names};

use crate::validation::label_selector::validate_labels;
use crate::validation::pod_annotations::{validate_pod_annotations, validate_profiles_match};
use crate::validation::pod_context::PodContext;
use crate::validation::pod_spec::validate_pod_spec;
use crate::validation::pod_warnings::pod_warnings;
use crate::validation::text::list;

/// All errors of a new template. Upstream leaves `metadata` out of the paths of labels and annotations.
pub(crate) fn validate_pod_template_spec(template: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    validate(template, None, at, errors);
}

/// All errors of a template that replaces another, which may keep values that would be refused today.
pub(crate) fn validate_pod_template_spec_update(
    template: &Value,
    old: &Value,
    at: &Field<'_>,
    errors: &mut ErrorList,
) {
    validate(template, Some(old), at, errors);
}

fn validate(template: &Value, old: Option<&Value>, at: &Field<'_>, errors: &mut ErrorList) {
    let metadata = template.get("metadata").unwrap_or(&Value::Null);
    let spec = template.get("spec").unwrap_or(&Value::Null);
    let old_metadata = old.map(|old| old.get("metadata").unwrap_or(&Value::Null));
    let (annotations_at, spec_at) = (at.child("annotations"), at.child("spec"));
    validate_labels(metadata.get("labels"), &at.child("labels"), errors);
    if let Some(annotations) = metadata.get("annotations") {
        names::validate_annotations(Some(annotations), &annotations_at, errors);
    }
    validate_pod_annotations(metadata, old_metadata, spec, &annotations_at, errors);
    let old_spec = old.and_then(|old| old.get("spec"));
    validate_pod_spec(&PodContext { spec, pod_metadata: None, old_spec }, &spec_at, errors);
    validate_profiles_match(metadata, spec, &spec_at, errors);
    if !list(spec, "ephemeralContainers").is_empty() {
        let why = "ephemeral containers not allowed in pod template";
        errors.forbidden(spec_at.child("ephemeralContainers"), why);
    }
}

/// Warnings about an accepted template. The previous one does not matter.
pub(crate) fn pod_template_warnings(template: &Value, _: Option<&Value>, at: &Field<'_>) -> Vec<String> {
    let part = |key: &str| template.get(key).unwrap_or(&Value::Null);
    pod_warnings(part("metadata"), part("spec"), true, at)
}
