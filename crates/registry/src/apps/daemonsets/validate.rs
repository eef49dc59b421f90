//! Validation of a daemon set: its template and its update strategy.

use corten_api::status::ErrorList;
use corten_api::{Field, Value};

use crate::validation::fields::{non_negative, part};
use crate::validation::int_or_percent::{magnitude, validate_at_most_100_percent, validate_int_or_percent};
use crate::validation::internal_form;
use crate::validation::label_selector::{LabelSelectorOptions, has_invalid_values, validate_label_selector};
use crate::validation::text::{member, text};
use crate::validation::workload::{
    validate_collisions, validate_restarting_template, validate_selected, validate_selector_is_immutable,
    validate_selector_is_not_empty,
};

pub(super) fn validate_create(set: &Value, errors: &mut ErrorList) {
    validate_spec(set, None, LabelSelectorOptions::default(), errors);
}

pub(super) fn validate_update(set: &Value, old: &Value, errors: &mut ErrorList) {
    validate_selector_is_immutable(set, old, errors);
    let allow_invalid_values = has_invalid_values(old.at(&["spec", "selector"]));
    validate_spec(set, Some(part(old, "spec")), LabelSelectorOptions { allow_invalid_values }, errors);
}

fn validate_spec(set: &Value, old: Option<&Value>, options: LabelSelectorOptions, errors: &mut ErrorList) {
    let (spec, at) = (part(set, "spec"), Field::new("spec"));
    let selector = member(spec, "selector");
    validate_label_selector(selector, options, &at.child("selector"), errors);
    validate_selected(spec, &at.child("template"), errors);
    if let Some(selector) = selector {
        validate_selector_is_not_empty(selector, "daemonset", &at.child("selector"), errors);
    }
    validate_restarting_template(spec, old, "DaemonSet", &at.child("template"), errors);
    non_negative(spec, "minReadySeconds", &at, errors);
    validate_strategy(part(spec, "updateStrategy"), &at.child("updateStrategy"), errors);
    non_negative(spec, "revisionHistoryLimit", &at, errors);
}

fn validate_strategy(strategy: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    match (text(strategy, "type"), member(strategy, "rollingUpdate")) {
        ("OnDelete", _) => {}
        ("RollingUpdate", Some(rolling)) => {
            validate_rolling_update(rolling, &at.child("rollingUpdate"), errors);
        }
        ("RollingUpdate", None) => errors.required(at.child("rollingUpdate"), ""),
        _ => errors.not_supported_shown(
            *at,
            internal_form::compact("DaemonSetUpdateStrategy", strategy),
            &["RollingUpdate", "OnDelete"],
        ),
    }
}

/// A node's pod is removed before the next one is created, or after it; never both, never neither.
fn validate_rolling_update(rolling: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    let (unavailable, surge) = (part(rolling, "maxUnavailable"), part(rolling, "maxSurge"));
    let (unavailable_at, surge_at) = (at.child("maxUnavailable"), at.child("maxSurge"));
    validate_int_or_percent(unavailable, &unavailable_at, errors);
    validate_int_or_percent(surge, &surge_at, errors);
    validate_at_most_100_percent(unavailable, &unavailable_at, errors);
    validate_at_most_100_percent(surge, &surge_at, errors);
    match (magnitude(unavailable) != 0, magnitude(surge) != 0) {
        (true, true) => errors.invalid(surge_at, surge, "may not be set when maxUnavailable is non-zero"),
        (false, false) => errors.required(unavailable_at, "cannot be 0 when maxSurge is 0"),
        _ => {}
    }
}

pub(super) fn validate_subresource(sub: &str, set: &Value, old: &Value, errors: &mut ErrorList) {
    if sub != "status" {
        return;
    }
    let (status, at) = (part(set, "status"), Field::new("status"));
    for key in [
        "currentNumberScheduled",
        "numberMisscheduled",
        "desiredNumberScheduled",
        "numberReady",
        "observedGeneration",
        "updatedNumberScheduled",
        "numberAvailable",
        "numberUnavailable",
        "collisionCount",
    ] {
        non_negative(status, key, &at, errors);
    }
    validate_collisions(set, old, errors);
}
