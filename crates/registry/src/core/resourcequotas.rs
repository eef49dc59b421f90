//! Resource quotas: limits of a namespace's usage; the status has the usage.

use std::cell::LazyCell;

use corten_api::status::ErrorList;
use corten_api::{Field, Map, Value, set_of};

use crate::defaults::{made, resource_list};
use crate::prepare::{drop_status, keep_status, resets_spec_or_status, status_keeps_spec};
use crate::rules::{RowContext, Rules};
use crate::table::{AGE, NAME, age, cells, name, quantity, text as column};
use crate::validation::fields::{IMMUTABLE, entries, part};
use crate::validation::internal_form;
use crate::validation::resources::{amount, is_standard, spelled, validate_quantity, validate_resource_name};
use crate::validation::text::{list, member, text};

pub(crate) const RULES: Rules = Rules {
    group: "",
    resource: "resourcequotas",
    storage_prefix: "resourcequotas",
    default,
    prepare_create: drop_status,
    prepare_update: keep_status,
    prepare_subresource: status_keeps_spec,
    reset_fields: resets_spec_or_status,
    validate_create,
    validate_update,
    validate_subresource: |_, object, _, errors| validate_status(object, errors),
    warnings,
    delete_returns_object: true,
    columns: &[
        NAME,
        column("Request", "Request represents a minimum amount of cpu/memory that a container may consume."),
        column(
            "Limit",
            "Limits control the maximum amount of cpu/memory that a container may use independent of contention on the node.",
        ),
        AGE,
    ],
    row,
    ..Rules::DEFAULT
};

fn row(object: &Value, context: &RowContext<'_>) -> Vec<Value> {
    let (mut requests, mut limits) = (Vec::new(), Vec::new());
    let hard = object.at(&["status", "hard"]).and_then(Value::as_object).map(Map::keys);
    for resource in hard.into_iter().flatten() {
        let used = quantity(object, &["status", "used", resource]);
        let hard = quantity(object, &["status", "hard", resource]);
        let column = if resource.starts_with("limits.") { &mut limits } else { &mut requests };
        column.push(format!("{resource}: {used}/{hard}"));
    }
    cells![name(object), requests.join(", "), limits.join(", "), age(object, context)]
}

fn default(object: &mut Value) {
    let Some(object) = object.as_object_mut() else { return };
    resource_list(made(object, "spec"), "hard");
    let status = made(object, "status");
    resource_list(status, "hard");
    resource_list(status, "used");
}

const SPEC: Field<'static> = Field::new("spec");

fn validate_create(object: &Value, errors: &mut ErrorList) {
    let spec = part(object, "spec");
    validate_resources(spec, "hard", &SPEC, errors);
    validate_scopes(spec, errors);
    if let Some(selector) = member(spec, "scopeSelector") {
        validate_selector(spec, selector, errors);
    }
}

/// The scopes of a quota are immutable.
fn validate_update(object: &Value, old: &Value, errors: &mut ErrorList) {
    validate_create(object, errors);
    let (scopes, old) = (object.items_at(SCOPES), old.items_at(SCOPES));
    if set_of(scopes) != set_of(old) {
        errors.invalid(SPEC.child("scopes"), part(part(object, "spec"), "scopes"), IMMUTABLE);
    }
}

fn validate_status(object: &Value, errors: &mut ErrorList) {
    let (status, at) = (part(object, "status"), Field::new("status"));
    for key in ["hard", "used"] {
        validate_resources(status, key, &at, errors);
    }
}

fn validate_resources(owner: &Value, key: &str, at: &Field<'_>, errors: &mut ErrorList) {
    let at = at.child(key);
    for (name, value) in entries(owner, key) {
        let at = at.key(name);
        validate_resource_name(name, &at, errors);
        if !name.contains('/') && !is_counted(name) {
            errors.invalid(at, &Value::from(name), "must be a standard resource for quota");
        }
        validate_quantity(name, value, &at, errors);
    }
}

/// Returns true for resources that quotas know by name.
fn is_counted(name: &str) -> bool {
    is_standard(name) && name != "storage"
}

const SCOPES: &[&str] = &["spec", "scopes"];

fn validate_scopes(spec: &Value, errors: &mut ErrorList) {
    let (scopes, shown, at) = (list(spec, "scopes"), part(spec, "scopes"), SPEC.child("scopes"));
    for scope in scopes.iter().map(|scope| scope.as_str().unwrap_or_default()) {
        if !is_scope(scope) {
            errors.invalid(at, shown, "unsupported scope");
        }
        for _ in out_of_scope(spec, scope) {
            errors.invalid(at, shown, "unsupported scope applied to resource");
        }
    }
    for _ in conflicts(|scope| scopes.iter().any(|given| given.as_str() == Some(scope))) {
        errors.invalid(at, shown, "conflicting scopes");
    }
}

fn is_scope(scope: &str) -> bool {
    const SCOPES: [&str; 7] = [
        "Terminating",
        "NotTerminating",
        "BestEffort",
        "NotBestEffort",
        "PriorityClass",
        "VolumeAttributesClass",
        "CrossNamespacePodAffinity",
    ];
    SCOPES.contains(&scope)
}

/// The limited resources that a scope does not apply to.
fn out_of_scope<'v>(spec: &'v Value, scope: &'v str) -> impl Iterator<Item = &'v str> {
    let applies = move |name: &str| match scope {
        "Terminating"
        | "NotTerminating"
        | "NotBestEffort"
        | "PriorityClass"
        | "CrossNamespacePodAffinity" => {
            let compute = name.trim_start_matches("limits.").trim_start_matches("requests.");
            name == "pods" || matches!(compute, "cpu" | "memory")
        }
        "BestEffort" => name == "pods",
        "VolumeAttributesClass" => matches!(name, "persistentvolumeclaims" | "requests.storage"),
        _ => true,
    };
    entries(spec, "hard").map(|(name, _)| name).filter(move |name| is_counted(name) && !applies(name))
}

/// Scopes that exclude each other.
fn conflicts(has: impl Fn(&str) -> bool) -> impl Iterator<Item = [&'static str; 2]> {
    let pairs = [["BestEffort", "NotBestEffort"], ["Terminating", "NotTerminating"]];
    pairs.into_iter().filter(move |pair| pair.iter().all(|scope| has(scope)))
}

fn validate_selector(spec: &Value, selector: &Value, errors: &mut ErrorList) {
    let selector_at = SPEC.child("scopeSelector");
    let at = selector_at.child("matchExpressions");
    let expressions = list(selector, "matchExpressions");
    // The whole selector: written once, however many errors show it.
    let shown = LazyCell::new(|| internal_form::compact("ScopeSelector", selector));
    for expression in expressions {
        let scope = text(expression, "scopeName");
        if !is_scope(scope) {
            errors.invalid(at.child("scopeName"), &Value::from(scope), "unsupported scope");
        }
        for _ in out_of_scope(spec, scope) {
            errors.invalid_shown(at, shown.as_str(), "unsupported scope applied to resource");
        }
        validate_expression(expression, &at, errors);
    }
    for _ in conflicts(|scope| expressions.iter().any(|given| text(given, "scopeName") == scope)) {
        errors.invalid(at, part(spec, "scopes"), "conflicting scopes");
    }
}

fn validate_expression(expression: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    let operator = text(expression, "operator");
    let bare = ["BestEffort", "NotBestEffort", "Terminating", "NotTerminating", "CrossNamespacePodAffinity"];
    if bare.contains(&text(expression, "scopeName")) && operator != "Exists" {
        let why = "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity";
        errors.invalid(at.child("operator"), &Value::from(operator), why);
    }
    let (values, values_at) = (list(expression, "values"), at.child("values"));
    match operator {
        "In" | "NotIn" if values.is_empty() => {
            let why = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector";
            errors.required(values_at, why);
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let why = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector";
            errors.invalid(values_at, part(expression, "values"), why);
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        other => errors.invalid(at.child("operator"), &Value::from(other), "not a valid selector operator"),
    }
}

/// Requests above the limits can never be satisfied.
fn warnings(object: &Value, old: Option<&Value>) -> Vec<String> {
    let mut warnings = Vec::new();
    if old.is_some() {
        return warnings;
    }
    let hard = part(part(object, "spec"), "hard");
    for name in ["cpu", "memory", "storage", "ephemeral-storage"] {
        let (mut request_name, limit_name) = (format!("requests.{name}"), format!("limits.{name}"));
        if hard.get(&request_name).is_none() && matches!(name, "cpu" | "memory") {
            request_name = name.to_owned();
        }
        let (Some(request), Some(limit)) = (hard.get(&request_name), hard.get(&limit_name)) else { continue };
        if amount(request) > amount(limit) {
            let (request, limit) = (spelled(request), spelled(limit));
            warnings.push(format!(
                "ResourceQuota {request_name} ({}) should be less than {limit_name} ({})",
                request.as_str().unwrap_or_default(),
                limit.as_str().unwrap_or_default(),
            ));
        }
    }
    warnings
}
