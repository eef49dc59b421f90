//! Validation that workloads share: a selector, a template of the pods it selects, and counts of those pods.

use corten_api::selector::LabelSelector;
use corten_api::status::ErrorList;
use corten_api::{Field, Map, Value, names};

use crate::prepare::same;
use crate::validation::fields::{IMMUTABLE, number, part};
use crate::validation::internal_form;
use crate::validation::label_selector::{LabelSelectorOptions, validate_label_selector};
use crate::validation::pod_template::{
    pod_template_warnings, validate_pod_template_spec, validate_pod_template_spec_update,
};
use crate::validation::text::{member, text};

/// A required selector that is not empty. Messages name the kind it is invalid for.
pub(crate) fn validate_required_selector(spec: &Value, kind: &str, at: &Field<'_>, errors: &mut ErrorList) {
    let at = at.child("selector");
    let Some(selector) = member(spec, "selector") else {
        errors.required(at, "");
        return;
    };
    validate_label_selector(Some(selector), LabelSelectorOptions::default(), &at, errors);
    validate_selector_is_not_empty(selector, kind, &at, errors);
}

/// A selector as messages print it.
pub(crate) fn shown_selector(selector: Option<&Value>) -> String {
    internal_form::compact("LabelSelector", selector.unwrap_or(&Value::Null))
}

/// An empty selector would select all pods.
pub(crate) fn validate_selector_is_not_empty(
    selector: &Value,
    kind: &str,
    at: &Field<'_>,
    errors: &mut ErrorList,
) {
    let labels = selector.get("matchLabels").and_then(Value::as_object);
    if labels.is_none_or(Map::is_empty) && selector.items_at(&["matchExpressions"]).is_empty() {
        let why = format!("empty selector is invalid for {kind}");
        errors.invalid_shown(*at, shown_selector(Some(selector)), why);
    }
}

/// The selector is immutable.
pub(crate) fn validate_selector_is_immutable(new: &Value, old: &Value, errors: &mut ErrorList) {
    if !same(new, old, &["spec", "selector"]) {
        let selector = part(part(new, "spec"), "selector");
        errors.invalid_shown("spec.selector", shown_selector(Some(selector)), IMMUTABLE);
    }
}

/// The selector, if it is valid, matches the pods of the template. `at` is the template.
pub(crate) fn validate_selected(spec: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    if let Ok(selector) = LabelSelector::from_object(member(spec, "selector")) {
        validate_selector_matches(part(spec, "template"), &selector, at, errors);
    }
}

/// The selector matches the pods of a template.
pub(crate) fn validate_selector_matches(
    template: &Value,
    selector: &LabelSelector,
    at: &Field<'_>,
    errors: &mut ErrorList,
) {
    static NONE: Map = Map::new();
    let labels = template.at(&["metadata", "labels"]);
    if !selector.matches(labels.and_then(Value::as_object).unwrap_or(&NONE)) {
        let why = "`selector` does not match template `labels`";
        let at = at.child("metadata");
        errors.invalid(at.child("labels"), labels.unwrap_or(&Value::Null), why);
    }
}

/// The template of a spec that may replace another.
pub(crate) fn validate_template(spec: &Value, old: Option<&Value>, at: &Field<'_>, errors: &mut ErrorList) {
    let template = |spec| part(spec, "template");
    match old {
        None => validate_pod_template_spec(template(spec), at, errors),
        Some(old) => validate_pod_template_spec_update(template(spec), template(old), at, errors),
    }
}

/// The same for pods that run until they are stopped.
pub(crate) fn validate_restarting_template(
    spec: &Value,
    old: Option<&Value>,
    kind: &str,
    at: &Field<'_>,
    errors: &mut ErrorList,
) {
    validate_template(spec, old, at, errors);
    validate_restart_always(part(spec, "template"), kind, at, errors);
}

/// Pods of a set are always restarted.
pub(crate) fn validate_restart_always(template: &Value, kind: &str, at: &Field<'_>, errors: &mut ErrorList) {
    let (spec, at) = (part(template, "spec"), at.child("spec"));
    let policy = text(spec, "restartPolicy");
    if policy != "Always" {
        errors.not_supported(at.child("restartPolicy"), &Value::from(policy), &["Always"]);
    }
    if member(spec, "activeDeadlineSeconds").is_some() {
        let why = format!("activeDeadlineSeconds in {kind} is not Supported");
        errors.forbidden(at.child("activeDeadlineSeconds"), why);
    }
}

/// A count that is at most another one.
pub(crate) fn at_most(status: &Value, key: &str, whole: &str, why: &str, errors: &mut ErrorList) {
    if number(status, key) > number(status, whole) {
        errors.invalid(Field::new("status").child(key), &Value::Int(number(status, key)), why);
    }
}

/// The collision count never decreases.
pub(crate) fn validate_collisions(new: &Value, old: &Value, errors: &mut ErrorList) {
    let count = |object: &Value| object.int_at(&["status", "collisionCount"]).unwrap_or(0);
    let known = old.at(&["status", "collisionCount"]).is_some_and(|count| !count.is_null());
    if known && count(new) < count(old) {
        errors.invalid("status.collisionCount", &Value::Int(count(new)), "cannot be decremented");
    }
}

/// A warning about a new workload whose name is not a DNS label.
pub(crate) fn name_warning(object: &Value) -> Option<String> {
    let complaints = names::dns1123_label(text(part(object, "metadata"), "name"));
    (!complaints.is_empty()).then(|| {
        let complaints = complaints.join(" ");
        format!(
            "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label is recommended: [{complaints}]"
        )
    })
}

/// Warnings about a template that is new or was changed.
pub(crate) fn template_warnings(object: &Value, old: Option<&Value>) -> Vec<String> {
    let generation = |object: &Value| object.int_at(&["metadata", "generation"]);
    if old.is_some_and(|old| generation(object) == generation(old)) {
        return Vec::new();
    }
    let template = |object| part(part(object, "spec"), "template");
    pod_template_warnings(template(object), old.map(template), &Field::new("spec").child("template"))
}

/// The name of a new workload, then its template.
pub(crate) fn warnings(object: &Value, old: Option<&Value>) -> Vec<String> {
    let name = if old.is_none() { name_warning(object) } else { None };
    name.into_iter().chain(template_warnings(object, old)).collect()
}
