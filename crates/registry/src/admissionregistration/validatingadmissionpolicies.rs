//! Validating admission policies: checks of requests, as expressions.

mod validate;

use corten_api::Value;

use super::defaults::match_resources;
use super::params::param_kind;
use super::validate::static_name_warnings;
use crate::defaults::{fill_absent, made};
use crate::prepare::{
    drop_status, keep_status, resets_spec_and_metadata_or_status, status_keeps_spec_and_metadata,
};
use crate::rules::{Generation, RowContext, Rules};
use crate::table::{AGE, NAME, age, cells, count, integer, name, text};

pub(crate) const RULES: Rules = Rules {
    group: "admissionregistration.k8s.io",
    resource: "validatingadmissionpolicies",
    prefix_on_update: true,
    storage_prefix: "validatingadmissionpolicies",
    qualified_finalizers: false,
    generation: Generation::SPEC,
    default,
    prepare_create: drop_status,
    prepare_update: keep_status,
    prepare_subresource: status_keeps_spec_and_metadata,
    reset_fields: resets_spec_and_metadata_or_status,
    validate_create: validate::create,
    validate_update: validate::update,
    validate_subresource: validate::subresource,
    warnings: static_name_warnings,
    unconditional_update: false,
    columns: &[
        NAME,
        integer(
            "Validations",
            "Validations indicates the number of validation rules defined in this configuration",
        ),
        text("ParamKind", "ParamKind specifies the kind of resources used to parameterize this policy"),
        AGE,
    ],
    row,
    ..Rules::DEFAULT
};

fn row(object: &Value, context: &RowContext<'_>) -> Vec<Value> {
    cells![name(object), count(object, &["spec", "validations"]), param_kind(object), age(object, context)]
}

fn default(object: &mut Value) {
    let Some(object) = object.as_object_mut() else { return };
    let spec = made(object, "spec");
    fill_absent(spec, "failurePolicy", "Fail");
    match_resources(spec, "matchConstraints");
}
