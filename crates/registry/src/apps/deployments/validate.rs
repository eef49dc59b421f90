//! Validation of a deployment: replicas of a template, and its update strategy.

use corten_api::selector::LabelSelector;
use corten_api::status::ErrorList;
use corten_api::{Field, Value};

use crate::validation::fields::{non_negative, number, part};
use crate::validation::int_or_percent::{magnitude, validate_at_most_100_percent, validate_int_or_percent};
use crate::validation::internal_form;
use crate::validation::text::{member, text};
use crate::validation::workload::{
    at_most, shown_selector, validate_collisions, validate_required_selector, validate_restarting_template,
    validate_selector_is_immutable, validate_selector_matches,
};

pub(super) fn validate_create(deployment: &Value, errors: &mut ErrorList) {
    validate(deployment, None, errors);
}

pub(super) fn validate_update(deployment: &Value, old: &Value, errors: &mut ErrorList) {
    validate(deployment, Some(part(old, "spec")), errors);
    validate_selector_is_immutable(deployment, old, errors);
}

fn validate(deployment: &Value, old: Option<&Value>, errors: &mut ErrorList) {
    let (spec, at) = (part(deployment, "spec"), Field::new("spec"));
    non_negative(spec, "replicas", &at, errors);
    validate_replicated_template(spec, old, &at, errors);
    validate_strategy(part(spec, "strategy"), &at.child("strategy"), errors);
    non_negative(spec, "minReadySeconds", &at, errors);
    non_negative(spec, "revisionHistoryLimit", &at, errors);
    if member(spec, "progressDeadlineSeconds").is_some() {
        non_negative(spec, "progressDeadlineSeconds", &at, errors);
        let deadline = number(spec, "progressDeadlineSeconds");
        if deadline <= number(spec, "minReadySeconds") {
            let why = "must be greater than minReadySeconds";
            errors.invalid(at.child("progressDeadlineSeconds"), &Value::Int(deadline), why);
        }
    }
}

/// A selector and the template it must match, of replica sets and deployments.
pub(crate) fn validate_replicated_template(
    spec: &Value,
    old: Option<&Value>,
    at: &Field<'_>,
    errors: &mut ErrorList,
) {
    validate_required_selector(spec, "deployment", at, errors);
    let selector = member(spec, "selector");
    let Ok(parsed) = LabelSelector::from_object(selector) else {
        let shown = shown_selector(selector);
        errors.invalid_shown(at.child("selector"), shown, "invalid label selector");
        return;
    };
    let at = at.child("template");
    validate_selector_matches(part(spec, "template"), &parsed, &at, errors);
    validate_restarting_template(spec, old, "ReplicaSet", &at, errors);
}

fn validate_strategy(strategy: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    let rolling = member(strategy, "rollingUpdate");
    match (text(strategy, "type"), rolling) {
        ("Recreate", None) => {}
        ("Recreate", Some(_)) => {
            let why = "may not be specified when strategy `type` is 'Recreate'";
            errors.forbidden(at.child("rollingUpdate"), why);
        }
        ("RollingUpdate", Some(rolling)) => {
            validate_rolling_update(rolling, &at.child("rollingUpdate"), errors);
        }
        ("RollingUpdate", None) => {
            errors.required(at.child("rollingUpdate"), "this should be defaulted and never be nil");
        }
        _ => errors.not_supported_shown(
            *at,
            internal_form::compact("DeploymentStrategy", strategy),
            &["Recreate", "RollingUpdate"],
        ),
    }
}

fn validate_rolling_update(rolling: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    let (unavailable, surge) = (part(rolling, "maxUnavailable"), part(rolling, "maxSurge"));
    let unavailable_at = at.child("maxUnavailable");
    validate_int_or_percent(unavailable, &unavailable_at, errors);
    validate_int_or_percent(surge, &at.child("maxSurge"), errors);
    if magnitude(unavailable) == 0 && magnitude(surge) == 0 {
        errors.invalid(unavailable_at, unavailable, "may not be 0 when `maxSurge` is 0");
    }
    validate_at_most_100_percent(unavailable, &unavailable_at, errors);
}

pub(super) fn validate_subresource(sub: &str, deployment: &Value, old: &Value, errors: &mut ErrorList) {
    if sub != "status" {
        return;
    }
    let (status, at) = (part(deployment, "status"), Field::new("status"));
    for key in [
        "observedGeneration",
        "replicas",
        "updatedReplicas",
        "readyReplicas",
        "availableReplicas",
        "unavailableReplicas",
        "terminatingReplicas",
        "collisionCount",
    ] {
        non_negative(status, key, &at, errors);
    }
    let why = "cannot be greater than status.replicas";
    for key in ["updatedReplicas", "readyReplicas", "availableReplicas"] {
        at_most(status, key, "replicas", why, errors);
    }
    at_most(status, "availableReplicas", "readyReplicas", "cannot be greater than readyReplicas", errors);
    validate_collisions(deployment, old, errors);
}
