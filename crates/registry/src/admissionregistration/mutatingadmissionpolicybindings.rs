//! Mutating admission policy bindings: policies in use.

use corten_api::Value;
use corten_api::status::ErrorList;

use super::defaults::match_resources;
use super::params::param_ref;
use super::policies::validate_binding;
use super::validate::{refuse_static_name, spec, static_name_warnings};
use crate::defaults::made;
use crate::rules::{Column, Generation, RowContext, Rules};
use crate::table::{AGE, NAME, age, cells, name, str_at, text};

pub(crate) const RULES: Rules = Rules {
    group: "admissionregistration.k8s.io",
    resource: "mutatingadmissionpolicybindings",
    prefix_on_update: true,
    storage_prefix: "mutatingadmissionpolicybindings",
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

/// The columns of both kinds of policy bindings.
pub(super) const COLUMNS: &[Column] = &[
    NAME,
    text("PolicyName", "PolicyName indicates the policy definition which the policy binding binded to"),
    text("ParamRef", "ParamRef indicates the param resource which sets the configuration param"),
    AGE,
];

/// The row of both kinds of policy bindings.
pub(super) fn row(object: &Value, context: &RowContext<'_>) -> Vec<Value> {
    cells![name(object), str_at(object, &["spec", "policyName"]), param_ref(object), age(object, context)]
}

/// The defaults of both kinds of policy bindings.
pub(super) fn default(object: &mut Value) {
    let Some(object) = object.as_object_mut() else { return };
    match_resources(made(object, "spec"), "matchResources");
}

fn validate_create(object: &Value, errors: &mut ErrorList) {
    validate_spec(spec(object), errors);
    refuse_static_name(object, errors);
}

fn validate_spec(spec: &Value, errors: &mut ErrorList) {
    validate_binding(spec, true, errors);
}
