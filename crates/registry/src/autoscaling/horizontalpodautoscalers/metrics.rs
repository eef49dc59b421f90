//! The metrics of an autoscaler: each has one source, and a matching target.

use corten_api::quantity::Quantity;
use corten_api::status::ErrorList;
use corten_api::{Field, Value, names};

use super::validate::{ApiVersion, validate_reference};
use crate::validation::fields::{number, part};
use crate::validation::resources::validate_container_resource_name;
use crate::validation::text::{complain, list, member, text};

/// Types of sources, as messages list them.
const TYPES: [&str; 5] = ["ContainerResource", "External", "Object", "Pods", "Resource"];
/// Types of sources and their members, in the order of validation.
const SOURCES: [(&str, &str); 5] = [
    ("Object", "object"),
    ("External", "external"),
    ("Pods", "pods"),
    ("Resource", "resource"),
    ("ContainerResource", "containerResource"),
];

pub(super) fn validate(
    spec: &Value,
    least: Option<i64>,
    described: ApiVersion,
    at: &Field<'_>,
    errors: &mut ErrorList,
) {
    let metrics = list(spec, "metrics");
    for (i, metric) in metrics.iter().enumerate() {
        validate_metric(metric, described, &at.index(i), errors);
    }
    // Without pods there are no pod metrics: another metric must trigger scaling up.
    let without_pods = |metric: &Value| matches!(text(metric, "type"), "Object" | "External");
    if least == Some(0) && !metrics.iter().any(without_pods) {
        let why = "must specify at least one Object or External metric to support scaling to zero replicas";
        errors.forbidden(*at, why);
    }
}

fn validate_metric(metric: &Value, described: ApiVersion, at: &Field<'_>, errors: &mut ErrorList) {
    let kind = text(metric, "type");
    let unsupported =
        |errors: &mut ErrorList| errors.not_supported(at.child("type"), &Value::from(kind), &TYPES);
    if kind.is_empty() {
        errors.required(at.child("type"), "must specify a metric source type");
    }
    let wanted = SOURCES.iter().find(|(name, _)| *name == kind).map(|(_, key)| *key);
    if wanted.is_none() {
        unsupported(errors);
    }
    let given: Vec<&str> =
        SOURCES.iter().map(|(_, key)| *key).filter(|key| member(metric, key).is_some()).collect();
    if let Some(first) = given.first() {
        validate_source(first, part(metric, first), described, &at.child(first), errors);
    }
    match wanted {
        Some(key) if !given.contains(&key) => {
            errors.required(at.child(key), "must populate information for the given metric source");
        }
        Some(_) => {}
        None => unsupported(errors),
    }
    if given.len() != 1 {
        for key in given.iter().filter(|key| Some(**key) != wanted) {
            errors.forbidden(at.child(key), "must populate the given metric source only");
        }
    }
}

fn validate_source(key: &str, source: &Value, described: ApiVersion, at: &Field<'_>, errors: &mut ErrorList) {
    let target = part(source, "target");
    let has = |key: &str| member(target, key).is_some();
    let target_at = at.child("target");
    match key {
        "object" => {
            validate_reference(
                part(source, "describedObject"),
                described,
                &at.child("describedObject"),
                errors,
            );
            validate_identifier(source, at, errors);
        }
        "external" | "pods" => validate_identifier(source, at, errors),
        "containerResource" => validate_container_resource(source, at, errors),
        _ => validate_resource_name(source, at, errors),
    }
    validate_target(target, &target_at, errors);
    let average = target_at.child("averageValue");
    match key {
        "object" if !has("value") && !has("averageValue") => {
            errors.required(average, "must set either a target value or averageValue");
        }
        "external" if !has("value") && !has("averageValue") => {
            errors.required(average, "must set either a target value for metric or a per-pod target");
        }
        "external" if has("value") && has("averageValue") => {
            let why = "may not set both a target value for metric and a per-pod target";
            errors.forbidden(target_at.child("value"), why);
        }
        "pods" if !has("averageValue") => {
            errors.required(average, "must specify a positive target averageValue");
        }
        "resource" | "containerResource" => match (has("averageUtilization"), has("averageValue")) {
            (false, false) => {
                let why = "must set either a target raw value or a target utilization";
                errors.required(target_at.child("averageUtilization"), why);
            }
            (true, true) => {
                errors.forbidden(average, "may not set both a target raw value and a target utilization");
            }
            _ => {}
        },
        _ => {}
    }
}

fn validate_resource_name(source: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    if text(source, "name").is_empty() {
        errors.required(at.child("name"), "must specify a resource name");
    }
}

fn validate_container_resource(source: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    validate_resource_name(source, at, errors);
    let name = text(source, "name");
    if !name.is_empty() {
        validate_container_resource_name(name, &at.child("name"), errors);
    }
    match text(source, "container") {
        "" => errors.required(at.child("container"), "must specify a container"),
        name => complain(&at.child("container"), name, names::dns1123_label(name), errors),
    }
}

fn validate_target(target: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    let kind = text(target, "type");
    if kind.is_empty() {
        errors.required(at.child("type"), "must specify a metric target type");
    }
    if !matches!(kind, "Utilization" | "Value" | "AverageValue") {
        let why = "must be either Utilization, Value, or AverageValue";
        errors.invalid(at.child("type"), &Value::from(kind), why);
    }
    for key in ["value", "averageValue"] {
        let Some(amount) = member(target, key) else { continue };
        let parsed = amount.as_str().and_then(|text| Quantity::parse(text).ok());
        if parsed.is_none_or(|parsed| parsed.is_zero() || parsed.is_negative()) {
            errors.invalid(at.child(key), amount, "must be positive");
        }
    }
    if member(target, "averageUtilization").is_some() && number(target, "averageUtilization") < 1 {
        let percent = Value::Int(number(target, "averageUtilization"));
        errors.invalid(at.child("averageUtilization"), &percent, "must be greater than 0");
    }
}

fn validate_identifier(source: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    let at = at.child("metric");
    match text(part(source, "metric"), "name") {
        "" => errors.required(at.child("name"), "must specify a metric name"),
        name => complain(&at.child("name"), name, names::path_segment_name(name), errors),
    }
}
