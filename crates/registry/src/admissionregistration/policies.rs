//! Validation that both kinds of admission policies and their bindings share.

use corten_api::status::ErrorList;
use corten_api::{Field, Value, names};

use super::expressions::{Conditions, Expressions};
use super::validate::{
    FAILURE_POLICIES, SPEC, validate_choice, validate_match_conditions, validate_match_resources,
};
use crate::prepare::same;
use crate::validation::expression::is_identifier;
use crate::validation::label_selector::{LabelSelectorOptions, validate_label_selector};
use crate::validation::text::{complain, list, member, text};

/// The shared part of a policy's spec. Mutating policies never match deletions.
/// Returns the policy's expressions, to which the variables are known.
pub(super) fn validate_policy<'o>(
    spec: &Value,
    old: Option<&'o Value>,
    mutating: bool,
    errors: &mut ErrorList,
) -> Expressions<'o> {
    validate_choice(spec, "failurePolicy", FAILURE_POLICIES, &SPEC, errors);
    if let Some(kind) = member(spec, "paramKind") {
        validate_param_kind(kind, &SPEC.child("paramKind"), errors);
    }
    let at = SPEC.child("matchConstraints");
    match member(spec, "matchConstraints") {
        None => errors.required(at, ""),
        Some(constraints) => {
            validate_match_resources(constraints, &at, errors);
            if list(constraints, "resourceRules").is_empty() {
                errors.required(at.child("resourceRules"), "");
            }
            if mutating {
                refuse_deletions(constraints, &at, errors);
            }
        }
    }
    let unchanged = |old| ["paramKind", "matchConditions"].iter().all(|key| same(spec, old, &[key]));
    if !old.is_some_and(unchanged) {
        let conditions = list(spec, "matchConditions");
        let compiled = Conditions::new(member(spec, "paramKind").is_some(), old);
        validate_match_conditions(conditions, &compiled, &SPEC.child("matchConditions"), errors);
    }
    let variables = list(spec, "variables");
    let mut expressions = Expressions::new(spec, old, mutating || !variables.is_empty());
    for (i, variable) in variables.iter().enumerate() {
        validate_variable(variable, &mut expressions, &SPEC.child("variables").index(i), errors);
    }
    expressions
}

fn refuse_deletions(resources: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    const OPERATIONS: &[&str] = &["*", "CONNECT", "CREATE", "UPDATE"];
    let rules = list(resources, "resourceRules").iter();
    for operation in rules.flat_map(|rule| list(rule, "operations")) {
        if !operation.as_str().is_some_and(|name| OPERATIONS.contains(&name)) {
            let at = at.child("resourceRules");
            errors.not_supported(at.child("operations"), operation, OPERATIONS);
        }
    }
}

fn validate_param_kind(kind: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    validate_api_version(text(kind, "apiVersion"), &at.child("apiVersion"), errors);
    let (name, at) = (text(kind, "kind"), at.child("kind"));
    if name.is_empty() {
        errors.required(at, "");
        return;
    }
    let complaints = names::dns1035_label(&name.to_lowercase());
    if !complaints.is_empty() {
        let why = format!("may have mixed case, but should otherwise match: {}", complaints.join(","));
        errors.invalid(at, &Value::from(name), why);
    }
}

fn validate_api_version(api_version: &str, at: &Field<'_>, errors: &mut ErrorList) {
    if api_version.is_empty() {
        errors.required(at, "");
        return;
    }
    let (group, version) = match api_version.split_once('/') {
        None => ("", api_version),
        Some((_, rest)) if rest.contains('/') => {
            let why = format!("unexpected GroupVersion string: {api_version}");
            errors.invalid(at, &Value::from(api_version), why);
            return;
        }
        Some(parts) => parts,
    };
    let mut refuse = |part: &str, complaints: Vec<String>| {
        if !complaints.is_empty() {
            errors.invalid(at, &Value::from(part), complaints.join(","));
        }
    };
    if !group.is_empty() {
        refuse(group, names::dns1123_subdomain(group));
    }
    match version {
        "" => errors.invalid(at, &Value::from(api_version), "version must be specified"),
        version => refuse(version, names::dns1035_label(version)),
    }
}

fn validate_variable(
    variable: &Value,
    expressions: &mut Expressions<'_>,
    at: &Field<'_>,
    errors: &mut ErrorList,
) {
    let name = text(variable, "name");
    if name.trim().is_empty() {
        errors.required(at.child("name"), "name is not specified");
    } else if !is_identifier(name) {
        errors.invalid(at.child("name"), &Value::from(name), "must be a valid CEL identifier");
    }
    expressions.variable(name, text(variable, "expression"), &at.child("expression"), errors);
}

/// A binding: its policy, parameters and matched requests.
pub(super) fn validate_binding(spec: &Value, mutating: bool, errors: &mut ErrorList) {
    let policy = text(spec, "policyName");
    match policy {
        "" => errors.required(SPEC.child("policyName"), ""),
        policy => complain(&SPEC.child("policyName"), policy, names::dns1123_subdomain(policy), errors),
    }
    if let Some(reference) = member(spec, "paramRef") {
        validate_param_ref(reference, &SPEC.child("paramRef"), errors);
    }
    if let Some(resources) = member(spec, "matchResources") {
        let at = SPEC.child("matchResources");
        validate_match_resources(resources, &at, errors);
        if mutating {
            refuse_deletions(resources, &at, errors);
        }
    }
}

fn validate_param_ref(reference: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    let (name, selector) = (text(reference, "name"), member(reference, "selector"));
    let both = "name and selector are mutually exclusive";
    if !name.is_empty() {
        complain(&at.child("name"), name, names::path_segment_name(name), errors);
        if selector.is_some() {
            errors.forbidden(at.child("name"), both);
        }
    }
    validate_label_selector(selector, LabelSelectorOptions::default(), &at.child("selector"), errors);
    match selector {
        Some(_) if !name.is_empty() => errors.forbidden(at.child("selector"), both),
        None if name.is_empty() => errors.required(at, "one of name or selector must be specified"),
        _ => {}
    }
    const ACTION: &str = "parameterNotFoundAction";
    match text(reference, ACTION) {
        "" => errors.required(at.child(ACTION), ""),
        _ => validate_choice(reference, ACTION, &["Deny", "Allow"], at, errors),
    }
}
