//! Resource claim templates: claims that are created for each pod.

use corten_api::status::ErrorList;
use corten_api::{Field, Value, names};

use super::claims::validate_claim;
use super::resourceclaims::default_spec;
use crate::defaults::made;
use crate::prepare::same;
use crate::rules::{RowContext, Rules};
use crate::table::{AGE, NAME, age, cells, name};
use crate::validation::internal_form;
use crate::validation::volume_claim::validate_no_other_metadata;

pub(crate) const RULES: Rules = Rules {
    group: "resource.k8s.io",
    resource: "resourceclaimtemplates",
    prefix_on_update: true,
    storage_prefix: "resourceclaimtemplates",
    default,
    validate_create,
    validate_update,
    delete_returns_object: true,
    columns: &[NAME, AGE],
    row,
    ..Rules::DEFAULT
};

fn row(object: &Value, context: &RowContext<'_>) -> Vec<Value> {
    cells![name(object), age(object, context)]
}

fn default(object: &mut Value) {
    let Some(object) = object.as_object_mut() else { return };
    default_spec(made(made(object, "spec"), "spec"));
}

const SPEC: Field<'static> = Field::new("spec");

fn validate_create(object: &Value, errors: &mut ErrorList) {
    let spec = object.get("spec").unwrap_or(&Value::Null);
    let at = SPEC.child("metadata");
    let metadata = spec.get("metadata");
    if let Some(metadata) = metadata {
        names::validate_annotations(metadata.get("annotations"), &at.child("annotations"), errors);
        names::validate_labels(metadata.get("labels"), &at.child("labels"), errors);
    }
    // Claims get names of their own.
    if let Some(metadata) = metadata {
        validate_no_other_metadata(metadata, &at, errors);
    }
    let devices = spec.at(&["spec", "devices"]).unwrap_or(&Value::Null);
    validate_claim(devices, &SPEC.child("spec").child("devices"), errors);
}

/// A template is immutable.
fn validate_update(object: &Value, old: &Value, errors: &mut ErrorList) {
    validate_create(object, errors);
    if !same(object, old, &["spec"]) {
        let shown =
            internal_form::compact("ResourceClaimTemplateSpec", object.get("spec").unwrap_or(&Value::Null));
        errors.invalid_shown(SPEC, shown, "field is immutable");
    }
}
