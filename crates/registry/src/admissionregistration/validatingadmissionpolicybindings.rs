//! Validating admission policy bindings: policies in use.

use corten_api::Value;
use corten_api::status::ErrorList;

use super::mutatingadmissionpolicybindings::{COLUMNS, default, row};
use super::policies::validate_binding;
use super::validate::{SPEC, refuse_static_name, spec, static_name_warnings};
use crate::rules::{Generation, Rules};
use crate::validation::repeats::Repeats;
use crate::validation::text::list;
use corten_api::ByContent;

pub(crate) const RULES: Rules = Rules {
    group: "admissionregistration.k8s.io",
    resource: "validatingadmissionpolicybindings",
    prefix_on_update: true,
    storage_prefix: "validatingadmissionpolicybindings",
    qualified_finalizers: false,
    generation: Generation::SPEC,
    default,
    validate_create,
    validate_update: |object, _, errors| validate_spec(spec(object), errors),
    warnings: static_name_warnings,
    unconditional_update: false,
    columns: COLUMNS,
    row,
    ..Rules::DEFAULT
};

fn validate_create(object: &Value, errors: &mut ErrorList) {
    validate_spec(spec(object), errors);
    refuse_static_name(object, errors);
}

fn validate_spec(spec: &Value, errors: &mut ErrorList) {
    validate_binding(spec, false, errors);
    validate_actions(list(spec, "validationActions"), errors);
}

/// The actions of a failed check: at least one, and none twice.
fn validate_actions(actions: &[Value], errors: &mut ErrorList) {
    let at = SPEC.child("validationActions");
    let repeats = Repeats::of(actions, ByContent);
    for (i, action) in actions.iter().enumerate() {
        if !matches!(action.as_str(), Some("Audit" | "Deny" | "Warn")) {
            errors.not_supported(at.index(i), action, &["Audit", "Deny", "Warn"]);
        }
        if repeats.at(i) {
            errors.duplicate(at.index(i), action);
        }
    }
    let has = |name: &str| actions.iter().any(|action| action.as_str() == Some(name));
    if has("Deny") && has("Warn") {
        let why = "must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)";
        errors.invalid(at, &Value::from(actions.to_vec()), why);
    }
    if actions.is_empty() {
        errors.required(at, "");
    }
}
