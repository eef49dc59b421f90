//! Mutating admission policies: changes to requests, as expressions.

use corten_api::status::ErrorList;
use corten_api::{Field, Value};
use corten_policies::Purpose;

use super::defaults::match_resources;
use super::expressions::Expressions;
use super::params::param_kind;
use super::policies::validate_policy;
use super::validate::{
    REINVOCATION_POLICIES, SPEC, refuse_static_name, spec, static_name_warnings, validate_choice,
};
use crate::defaults::{fill_absent, made};
use crate::rules::{Generation, RowContext, Rules};
use crate::table::{AGE, NAME, age, cells, count, integer, name, text};
use crate::validation::text::{list, member, text as text_of};

pub(crate) const RULES: Rules = Rules {
    group: "admissionregistration.k8s.io",
    resource: "mutatingadmissionpolicies",
    prefix_on_update: true,
    storage_prefix: "mutatingadmissionpolicies",
    qualified_finalizers: false,
    generation: Generation::SPEC,
    default,
    validate_create,
    validate_update: |object, old, errors| validate_spec(spec(object), Some(spec(old)), errors),
    warnings: static_name_warnings,
    unconditional_update: false,
    columns: &[
        NAME,
        integer(
            "Mutations",
            "Mutation indicates the number of mutations rules defined in this configuration",
        ),
        text("ParamKind", "ParamKind specifies the kind of resources used to parameterize this policy"),
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

fn validate_create(object: &Value, errors: &mut ErrorList) {
    validate_spec(spec(object), None, errors);
    refuse_static_name(object, errors);
}

fn validate_spec(spec: &Value, old: Option<&Value>, errors: &mut ErrorList) {
    let mut expressions = validate_policy(spec, old, true, errors);
    let (mutations, at) = (list(spec, "mutations"), SPEC.child("mutations"));
    if mutations.is_empty() {
        errors.required(at, "mutations must contain at least one item");
    }
    for (i, mutation) in mutations.iter().enumerate() {
        validate_mutation(mutation, &mut expressions, &at.index(i), errors);
    }
    match text_of(spec, "reinvocationPolicy") {
        "" => errors.required(SPEC.child("reinvocationPolicy"), ""),
        _ => validate_choice(spec, "reinvocationPolicy", REINVOCATION_POLICIES, &SPEC, errors),
    }
}

/// A mutation has the form of its type, and no other.
fn validate_mutation(
    mutation: &Value,
    expressions: &mut Expressions<'_>,
    at: &Field<'_>,
    errors: &mut ErrorList,
) {
    let (kind, form, other) = match text_of(mutation, "patchType") {
        "" => return errors.required(at.child("patchType"), ""),
        "JSONPatch" => ("JSONPatch", "jsonPatch", "applyConfiguration"),
        "ApplyConfiguration" => ("ApplyConfiguration", "applyConfiguration", "jsonPatch"),
        _ => {
            return validate_choice(mutation, "patchType", &["ApplyConfiguration", "JSONPatch"], at, errors);
        }
    };
    match member(mutation, form) {
        None => errors.required(at.child(form), format!("must be specified when patchType is {kind}")),
        Some(patch) => {
            let at = at.child(form);
            let (at, expression) = (at.child("expression"), text_of(patch, "expression"));
            let purpose = match kind {
                "JSONPatch" => Purpose::JsonPatch,
                _ => Purpose::ApplyConfiguration,
            };
            match expression.trim() {
                "" => errors.required(at, ""),
                _ => expressions.validate(purpose, expression, &at, errors),
            }
        }
    }
    if member(mutation, other).is_some() {
        let why = format!("must not be specified when patchType is {kind}");
        errors.invalid(at.child(other), &Value::from(format!("{{{other}}}")), why);
    }
}
