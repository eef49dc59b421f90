//! Validating admission policy bindings: policies put to use.

use corten_api::Value;

use super::defaults::match_resources;
use super::params::param_ref;
use crate::defaults::made;
use crate::rules::{Generation, RowContext, Rules};
use crate::table::{AGE, NAME, age, cells, name, str_at, text};

pub(crate) const RULES: Rules = Rules {
    group: "admissionregistration.k8s.io",
    resource: "validatingadmissionpolicybindings",
    storage_prefix: "validatingadmissionpolicybindings",
    generation: Generation::SPEC,
    default,
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
