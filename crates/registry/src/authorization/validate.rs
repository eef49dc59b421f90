//! Validation of access reviews.

use corten_api::schema::lookup;
use corten_api::status::ErrorList;
use corten_api::{Field, Value, go, json, names};

use crate::validation::fields::part;
use crate::validation::internal_form;
use crate::validation::text::{complain, list, member, text};

/// The member of requests that are not for a resource.
const NON_RESOURCE: &str = "NonResourceAttributes";

/// A review of one access: of a resource or of a path.
pub(crate) fn validate_access(review: &Value, errors: &mut ErrorList) {
    validate_attributes(part(review, "spec"), errors);
    validate_resource_attributes(part(review, "spec"), errors);
    validate_no_metadata(review, errors);
}

/// The same with a user.
pub(crate) fn validate_subject_access(review: &Value, errors: &mut ErrorList) {
    validate_spec_with_subject(part(review, "spec"), errors);
    validate_no_metadata(review, errors);
}

/// The same in a namespace.
pub(crate) fn validate_local_subject_access(review: &Value, errors: &mut ErrorList) {
    let spec = part(review, "spec");
    validate_spec_with_subject(spec, errors);
    if has_metadata(review, true) {
        errors.invalid_shown("metadata", shown_metadata(review), "must be empty except for namespace");
    }
    if let Some(attributes) = member(spec, "resourceAttributes") {
        let namespace = text(attributes, "namespace");
        if namespace != text(part(review, "metadata"), "namespace") {
            let field = "spec.resourceAttributes.namespace";
            errors.invalid(field, &Value::from(namespace), "must match metadata.namespace");
        }
    }
    if let Some(attributes) = member(spec, "nonResourceAttributes") {
        let why = "disallowed on this kind of request";
        errors.invalid_shown(
            "spec.nonResourceAttributes",
            internal_form::compact(NON_RESOURCE, attributes),
            why,
        );
    }
}

fn validate_spec_with_subject(spec: &Value, errors: &mut ErrorList) {
    validate_attributes(spec, errors);
    if text(spec, "user").is_empty() && list(spec, "groups").is_empty() {
        errors.invalid("spec.user", &Value::from(""), "at least one of user or group must be specified");
    }
    validate_resource_attributes(spec, errors);
}

fn validate_attributes(spec: &Value, errors: &mut ErrorList) {
    let other = part(spec, "nonResourceAttributes");
    if member(spec, "resourceAttributes").is_some() != other.is_null() {
        let why = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
        errors.invalid_shown("spec", internal_form::compact(NON_RESOURCE, other), why);
    }
}

fn validate_resource_attributes(spec: &Value, errors: &mut ErrorList) {
    let Some(attributes) = member(spec, "resourceAttributes") else { return };
    let spec_at = Field::new("spec");
    let at = spec_at.child("resourceAttributes");
    validate_selector(attributes, "fieldSelector", &at, validate_field_requirement, errors);
    validate_selector(attributes, "labelSelector", &at, validate_label_requirement, errors);
}

/// A selector is raw or in requirements.
fn validate_selector(
    attributes: &Value,
    key: &str,
    at: &Field<'_>,
    requirement: fn(&Value, &Field<'_>, &mut ErrorList),
    errors: &mut ErrorList,
) {
    let Some(selector) = member(attributes, key) else { return };
    let at = at.child(key);
    let (raw, requirements) = (text(selector, "rawSelector"), list(selector, "requirements"));
    if !raw.is_empty() && !requirements.is_empty() {
        let why = "may not specified at the same time as requirements";
        errors.invalid(at.child("rawSelector"), &Value::from(raw), why);
    }
    if raw.is_empty() && requirements.is_empty() {
        let why = format!("when {at} is specified, requirements or rawSelector is required");
        errors.required(at.child("requirements"), why);
    }
    for (i, each) in requirements.iter().enumerate() {
        requirement(each, &at.child("requirements").index(i), errors);
    }
}

fn validate_field_requirement(requirement: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    if text(requirement, "key").is_empty() {
        errors.required(at.child("key"), "must be specified");
    }
    validate_values(requirement, at, errors);
}

fn validate_label_requirement(requirement: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    validate_values(requirement, at, errors);
    let key = text(requirement, "key");
    complain(&at.child("key"), key, names::qualified_name(key), errors);
    for (i, value) in list(requirement, "values").iter().enumerate() {
        let value = value.as_str().unwrap_or_default();
        complain(&at.child("values").index(i), value, names::label_value(value), errors);
    }
}

/// Unknown operators are left to newer authorizers.
fn validate_values(requirement: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    let none = list(requirement, "values").is_empty();
    match text(requirement, "operator") {
        "In" | "NotIn" if none => {
            errors.required(at.child("values"), "must be specified when `operator` is 'In' or 'NotIn'");
        }
        "Exists" | "DoesNotExist" if !none => {
            let why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            errors.forbidden(at.child("values"), why);
        }
        _ => {}
    }
}

fn validate_no_metadata(review: &Value, errors: &mut ErrorList) {
    if has_metadata(review, false) {
        errors.invalid_shown("metadata", shown_metadata(review), "must be empty");
    }
}

/// Returns true if there is any metadata but managed fields and, optionally, a namespace.
fn has_metadata(review: &Value, namespaced: bool) -> bool {
    let expected = |key: &str| key == "managedFields" || (namespaced && key == "namespace");
    let Some(metadata) = part(review, "metadata").as_object() else { return false };
    metadata.iter().any(|(key, value)| !value.is_null() && !expected(key))
}

fn shown_metadata(review: &Value) -> String {
    let metadata = part(review, "metadata");
    match lookup("meta/v1", "ObjectMeta") {
        Some(schema) => go::json_of(metadata, &schema),
        None => json::write_to_string(metadata),
    }
}
