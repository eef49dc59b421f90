//! What an event may look like.
//!
//! Old events say when they were first and last seen; new ones have an `eventTime` and say who reports
//! them. Whoever uses `events.k8s.io` writes new ones only, and changes nothing but the series.

use corten_api::status::ErrorList;
use corten_api::{Field, Value, names};

use crate::prepare::same;
use crate::table::{present, str_at, time_at};
use crate::validation::fields::{IMMUTABLE, part};
use crate::validation::number::int;
use crate::validation::text::{complain, text};

/// As the core group takes it.
pub(crate) fn core(event: &Value, errors: &mut ErrorList) {
    validate(event, "reportingComponent", errors);
}

/// As `events.k8s.io` takes a new one.
pub(crate) fn create(event: &Value, errors: &mut ErrorList) {
    validate(event, "reportingController", errors);
    validate_series(event, errors);
    if time_at(event, &["eventTime"]).is_none() {
        errors.required("eventTime", "");
    }
    let mut refuse = |field: &str, why: String| errors.invalid(field, &Value::from(""), why);
    if !matches!(text(event, "type"), "Normal" | "Warning") {
        refuse("type", format!("has invalid value: {}", text(event, "type")));
    }
    let unset = || "needs to be unset".to_owned();
    for key in ["firstTimestamp", "lastTimestamp"].into_iter().filter(|key| present(event, &[key])) {
        refuse(key, unset());
    }
    if int(event, "count") != 0 {
        refuse("count", unset());
    }
    let source = part(event, "source");
    if !text(source, "component").is_empty() || !text(source, "host").is_empty() {
        refuse("source", unset());
    }
}

/// As `events.k8s.io` takes a change.
pub(crate) fn update(event: &Value, old: &Value, errors: &mut ErrorList) {
    validate(event, "reportingController", errors);
    if !same(event, old, &["series"]) {
        validate_series(event, errors);
    }
    let kept = [
        ("involvedObject", "involvedObject"),
        ("reason", "reason"),
        ("message", "message"),
        ("source", "source"),
        ("firstTimestamp", "firstTimestamp"),
        ("lastTimestamp", "lastTimestamp"),
        ("count", "count"),
        ("reason", "reason"),
        ("type", "type"),
        ("eventTime", "eventTime"),
        ("action", "action"),
        ("related", "related"),
        ("reportingComponent", "reportingController"),
        ("reportingInstance", "reportingInstance"),
    ];
    for (key, field) in kept.into_iter().filter(|(key, _)| !same(event, old, &[key])) {
        errors.invalid(field, part(event, key), IMMUTABLE);
    }
}

fn validate_series(event: &Value, errors: &mut ErrorList) {
    let Some(series) = event.get("series").filter(|series| !series.is_null()) else { return };
    if int(series, "count") < 2 {
        errors.invalid("series.count", &Value::from(""), "should be at least 2");
    }
    if time_at(series, &["lastObservedTime"]).is_none() {
        errors.required("series.lastObservedTime", "");
    }
}

/// What holds for every event; one with an `eventTime` is a new one.
fn validate(event: &Value, reporter: &str, errors: &mut ErrorList) {
    let is_new = time_at(event, &["eventTime"]).is_some();
    let (own, of) =
        (str_at(event, &["metadata", "namespace"]), str_at(event, &["involvedObject", "namespace"]));
    let fits = match (is_new, of) {
        (true, "") => matches!(own, "default" | "kube-system"),
        (true, _) => true,
        (false, "") => matches!(own, "" | "default"),
        (false, of) => own == of,
    };
    if !fits {
        errors.invalid("involvedObject.namespace", &Value::from(of), "does not match event.namespace");
    }
    if is_new {
        validate_new(event, reporter, errors);
    }
}

fn validate_new(event: &Value, reporter: &str, errors: &mut ErrorList) {
    const SHORT: usize = 128;
    const MOST_MESSAGE: usize = 1024;
    let at = Field::new(reporter);
    let component = text(event, "reportingComponent");
    if component.is_empty() {
        errors.required(at, "");
    }
    complain(&at, component, names::qualified_name(component), errors);
    let mut limit = |key: &str, most: usize, required: bool| {
        let text = text(event, key);
        if required && text.is_empty() {
            errors.required(key, "");
        }
        if text.len() > most {
            errors.invalid(key, &Value::from(""), format!("can have at most {most} characters"));
        }
    };
    for key in ["reportingInstance", "action", "reason"] {
        limit(key, SHORT, true);
    }
    limit("message", MOST_MESSAGE, false);
}
