//! Mutating admission policies: changes to requests, as expressions.

use corten_api::Value;

use super::params::param_kind;
use crate::rules::{Generation, RowContext, Rules};
use crate::table::{AGE, NAME, age, cells, count, integer, name, text};

pub(crate) const RULES: Rules = Rules {
    group: "admissionregistration.k8s.io",
    resource: "mutatingadmissionpolicies",
    storage_prefix: "mutatingadmissionpolicies",
    generation: Generation::SPEC,
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
