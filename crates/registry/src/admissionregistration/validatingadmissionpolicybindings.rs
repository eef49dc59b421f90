//! Validating admission policy bindings: policies put to use.

use corten_api::Value;
use corten_api::status::ErrorList;

use super::defaults::match_resources;
use super::params::param_ref;
use super::policies::validate_binding;
use super::validate::{SPEC, refuse_static_name, spec, static_name_warnings};
use crate::defaults::made;
use crate::rules::{Generation, RowContext, Rules};
use crate::table::{AGE, NAME, age, cells, name, str_at, text};
use crate::validation::repeats::Repeats;
use crate::validation::text::list;
use corten_api::ByContent;

pub(crate) const RULES: Rules = Rules {
    group: "admissionregistration.k8s.io",
    resource: "validatingadmissionpolicybindings",
    storage_prefix: "validatingadmissionpolicybindings",
    generation: Generation::SPEC,
    default,
    validate_create,
    validate_update: |object, _, errors| validate_spec(spec(object), errors),
    warnings: static_name_warnings,
    unconditional_update: false,
    columns: &[
        NAME,
        text("PolicyName", "The policy it puts to use."),
        text("ParamRef", "The parameters it is used with."),
        AGE,
    ],
    row,
    ..Rules::DEFAULT
};

fn row(object: &Value, context: &RowContext<'_>) -> Vec<Value> {
    cells![name(object), str_at(object, &["spec", "policyName"]), param_ref(object), age(object, context)]
}

fn default(object: &mut Value) {
    let Some(object) = object.as_object_mut() else { return };
    match_resources(made(object, "spec"), "matchResources");
}

fn validate_create(object: &Value, errors: &mut ErrorList) {
    validate_spec(spec(object), errors);
    refuse_static_name(object, errors);
}

fn validate_spec(spec: &Value, errors: &mut ErrorList) {
    validate_binding(spec, false, errors);
    validate_actions(list(spec, "validationActions"), errors);
}

/// What happens when a check fails: something, and nothing twice.
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
        errors.required(at, "at least one validation action is required");
    }
}
