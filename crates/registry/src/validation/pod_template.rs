//! Templates of pods, as workloads hold them.

use corten_api::status::ErrorList;
use corten_api::{Field, Value, names};

/// Everything wrong with a template. Upstream leaves the `metadata` out of the paths of labels and annotations.
pub(crate) fn validate_pod_template_spec(template: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    let metadata = template.get("metadata").unwrap_or(&Value::Null);
    if let Some(labels) = metadata.get("labels") {
        names::validate_labels(Some(labels), &String::from(at.child("labels")), errors);
    }
    if let Some(annotations) = metadata.get("annotations") {
        names::validate_annotations(Some(annotations), &String::from(at.child("annotations")), errors);
    }
}

/// What a client should know about a template that is accepted.
pub(crate) fn pod_template_warnings(_: &Value, _: Option<&Value>, _: &Field<'_>) -> Vec<String> {
    Vec::new()
}
