//! Validation of an autoscaler: bounds, target and scaling behavior. Metrics have a file of their own.

use corten_api::status::ErrorList;
use corten_api::{Field, Value, names};

use super::metrics;
use crate::validation::fields::{non_negative, number, part};
use crate::validation::quantities::validate_non_negative_quantity;
use crate::validation::text::{complain, list, member, text};

const LONGEST_PERIOD_SECONDS: i64 = 1800;
const LONGEST_WINDOW_SECONDS: i64 = 3600;

/// The requirement on the `apiVersion` of a reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ApiVersion {
    /// A group and a version.
    WithGroup,
    /// The core group is allowed.
    AnyGroup,
    /// Not checked: a stored value may stay.
    Unchecked,
}

pub(super) fn validate_create(autoscaler: &Value, errors: &mut ErrorList) {
    let target = target_version(part(autoscaler, "spec"), None);
    validate_spec(part(autoscaler, "spec"), target, ApiVersion::AnyGroup, errors);
}

pub(super) fn validate_update(autoscaler: &Value, old: &Value, errors: &mut ErrorList) {
    let (spec, old) = (part(autoscaler, "spec"), part(old, "spec"));
    let mut described = list(old, "metrics")
        .iter()
        .filter(|metric| text(metric, "type") == "Object")
        .filter_map(|metric| metric.at(&["object", "describedObject"]));
    let invalid = described.any(|object| version_complaint(object, ApiVersion::AnyGroup).is_some());
    let described = if invalid { ApiVersion::Unchecked } else { ApiVersion::AnyGroup };
    validate_spec(spec, target_version(spec, Some(old)), described, errors);
}

pub(super) fn validate_subresource(sub: &str, autoscaler: &Value, _: &Value, errors: &mut ErrorList) {
    if sub != "status" {
        return;
    }
    let (status, at) = (part(autoscaler, "status"), Field::new("status"));
    for (i, condition) in list(status, "conditions").iter().enumerate() {
        non_negative(condition, "observedGeneration", &at.child("conditions").index(i), errors);
    }
    non_negative(status, "currentReplicas", &at, errors);
    non_negative(status, "desiredReplicas", &at, errors);
}

/// Replication controllers are the only scalable kind of the core group; an unchanged target is not
/// validated again.
fn target_version(spec: &Value, old: Option<&Value>) -> ApiVersion {
    let target = part(spec, "scaleTargetRef");
    let stays = |old: &Value| {
        let old = part(old, "scaleTargetRef");
        ["apiVersion", "kind"].iter().all(|key| text(target, key) == text(old, key))
    };
    match text(target, "kind") {
        _ if old.is_some_and(stays) => ApiVersion::Unchecked,
        "ReplicationController" => ApiVersion::AnyGroup,
        _ => ApiVersion::WithGroup,
    }
}

fn validate_spec(spec: &Value, target: ApiVersion, described: ApiVersion, errors: &mut ErrorList) {
    let at = Field::new("spec");
    let least = member(spec, "minReplicas").and_then(Value::as_int);
    let most = number(spec, "maxReplicas");
    let most_at = at.child("maxReplicas");
    if least.is_some_and(|least| most < least) {
        errors.invalid(most_at, &Value::Int(most), "must be greater than or equal to `minReplicas`");
    }
    validate_reference(part(spec, "scaleTargetRef"), target, &at.child("scaleTargetRef"), errors);
    metrics::validate(spec, least, described, &at.child("metrics"), errors);
    if let Some(behavior) = member(spec, "behavior") {
        let at = at.child("behavior");
        for key in ["scaleUp", "scaleDown"] {
            if let Some(rules) = member(behavior, key) {
                validate_scaling_rules(rules, &at.child(key), errors);
            }
        }
    }
    non_negative(spec, "minReplicas", &at, errors);
    if most == 0 {
        errors.required(most_at, "");
    } else if most < 0 {
        errors.invalid(most_at, &Value::Int(most), "must be greater than or equal to 1");
    }
}

/// A reference to an object of any version.
pub(super) fn validate_reference(
    reference: &Value,
    version: ApiVersion,
    at: &Field<'_>,
    errors: &mut ErrorList,
) {
    for key in ["kind", "name"] {
        match text(reference, key) {
            "" => errors.required(at.child(key), ""),
            name => complain(&at.child(key), name, names::path_segment_name(name), errors),
        }
    }
    if let Some(why) = version_complaint(reference, version) {
        errors.invalid(at.child("apiVersion"), &Value::from(text(reference, "apiVersion")), why);
    }
}

fn version_complaint(reference: &Value, wanted: ApiVersion) -> Option<String> {
    let version = text(reference, "apiVersion");
    let group = match version.split_once('/') {
        _ if wanted == ApiVersion::Unchecked => return None,
        Some((_, rest)) if rest.contains('/') => {
            return Some(format!("unexpected GroupVersion string: {version}"));
        }
        Some((group, _)) => group,
        None => "",
    };
    (wanted == ApiVersion::WithGroup && group.is_empty())
        .then(|| "apiVersion must specify API group".to_owned())
}

fn validate_scaling_rules(rules: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    let window = number(rules, "stabilizationWindowSeconds");
    let mut refuse =
        |why: String| errors.invalid(at.child("stabilizationWindowSeconds"), &Value::Int(window), why);
    if window < 0 {
        refuse("must be greater than or equal to zero".to_owned());
    }
    if window > LONGEST_WINDOW_SECONDS {
        refuse(format!("must be less than or equal to {LONGEST_WINDOW_SECONDS}"));
    }
    let known = ["Disabled", "Max", "Min"];
    if let Some(policy) = member(rules, "selectPolicy")
        && !policy.as_str().is_some_and(|policy| known.contains(&policy))
    {
        errors.not_supported(at.child("selectPolicy"), policy, &known);
    }
    let policies = list(rules, "policies");
    if policies.is_empty() {
        errors.required(at.child("policies"), "must specify at least one Policy");
    }
    for (i, policy) in policies.iter().enumerate() {
        validate_policy(policy, &at.child("policies").index(i), errors);
    }
    if let Some(tolerance) = member(rules, "tolerance") {
        validate_non_negative_quantity(tolerance, &at.child("tolerance"), errors);
    }
}

fn validate_policy(policy: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    let kind = text(policy, "type");
    if !matches!(kind, "Pods" | "Percent") {
        errors.not_supported(at.child("type"), &Value::from(kind), &["Percent", "Pods"]);
    }
    for key in ["value", "periodSeconds"] {
        if number(policy, key) <= 0 {
            errors.invalid(at.child(key), &Value::Int(number(policy, key)), "must be greater than zero");
        }
    }
    let period = number(policy, "periodSeconds");
    if period > LONGEST_PERIOD_SECONDS {
        let why = format!("must be less than or equal to {LONGEST_PERIOD_SECONDS}");
        errors.invalid(at.child("periodSeconds"), &Value::Int(period), why);
    }
}
