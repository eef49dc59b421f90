//! Validation of ingress classes: their controller and parameters.

use corten_api::status::ErrorList;
use corten_api::{Field, Value, names};

use crate::prepare::same;
use crate::validation::text::{self, complain, domain_prefixed_path, member};

const SPEC: Field<'static> = Field::new("spec");
const CONTROLLER_MAX_LENGTH: usize = 250;

pub(super) fn create(object: &Value, errors: &mut ErrorList) {
    let spec = object.get("spec").unwrap_or(&Value::Null);
    let controller = text::text(spec, "controller");
    let at = SPEC.child("controller");
    if controller.len() > CONTROLLER_MAX_LENGTH {
        errors.too_long(at, CONTROLLER_MAX_LENGTH);
    }
    domain_prefixed_path(controller, &at, errors);
    if let Some(parameters) = member(spec, "parameters") {
        validate_parameters(parameters, &SPEC.child("parameters"), errors);
    }
}

pub(super) fn update(object: &Value, old: &Value, errors: &mut ErrorList) {
    const CONTROLLER: &[&str] = &["spec", "controller"];
    if !same(object, old, CONTROLLER) {
        let controller = object.at(CONTROLLER).unwrap_or(&Value::Null);
        errors.invalid(
            SPEC.child("controller"),
            &Value::from(controller.as_str().unwrap_or_default()),
            "field is immutable",
        );
    }
    create(object, errors);
}

fn validate_parameters(parameters: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    validate_typed_reference(parameters, at, errors);
    let (scope, namespace) = (text::text(parameters, "scope"), member(parameters, "namespace"));
    match (scope, namespace.and_then(Value::as_str)) {
        ("Namespace", None) => {
            errors.required(at.child("namespace"), "`parameters.scope` is set to 'Namespace'");
        }
        ("Namespace", Some(name)) => {
            complain(&at.child("namespace"), name, names::namespace_name(name), errors);
        }
        ("Cluster", Some(_)) => {
            errors.forbidden(at.child("namespace"), "`parameters.scope` is set to 'Cluster'");
        }
        ("Cluster", None) => {}
        (other, _) => {
            errors.not_supported(at.child("scope"), &Value::from(other), &["Cluster", "Namespace"]);
        }
    }
}

/// Group, kind and name of another object.
pub(in crate::networking) fn validate_typed_reference(
    reference: &Value,
    at: &Field<'_>,
    errors: &mut ErrorList,
) {
    if let Some(group) = member(reference, "apiGroup").and_then(Value::as_str) {
        complain(&at.child("apiGroup"), group, names::dns1123_subdomain(group), errors);
    }
    for key in ["kind", "name"] {
        text::required(text::text(reference, key), names::path_segment_name, &at.child(key), errors);
    }
}
