//! Mutating admission policies: changes to requests, as expressions.

use corten_api::Value;

use super::defaults::match_resources;
use super::params::param_kind;
use crate::defaults::{fill_absent, made};
use crate::rules::{Generation, RowContext, Rules};
use crate::table::{AGE, NAME, age, cells, count, integer, name, text};

pub(crate) const RULES: Rules = Rules {
    group: "admissionregistration.k8s.io",
    resource: "mutatingadmissionpolicies",
    storage_prefix: "mutatingadmissionpolicies",
    generation: Generation::SPEC,
    default,
    unconditional_update: false,
    columns: &[
        NAME,
        integer("Mutations", "How many mutations it makes."),
        text("ParamKind", "Kind of its parameters."),
        AGE,
    ],
    row,
    ..Rules::DEFAULT
};

fn row(object: &Value, context: &RowContext<'_>) -> Vec<Value> {
    cells![name(object), count(object, &["spec", "mutations"]), param_kind(object), age(object, context)]
}

fn default(object: &mut Value) {
    let Some(object) = object.as_object_mut() else { return };
    let spec = made(object, "spec");
    fill_absent(spec, "failurePolicy", "Fail");
    match_resources(spec, "matchConstraints");
}
