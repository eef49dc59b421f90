//! Validation of events.
//!
//! Old events have times of their first and last occurrence; new ones have an `eventTime` and a reporting
//! controller. Clients of `events.k8s.io` write only new ones, and change only the series.

use corten_api::status::ErrorList;
use corten_api::{Field, Value, json, names};

use crate::prepare::same;
use crate::table::{present, str_at, time_at};
use crate::validation::fields::{IMMUTABLE, part};
use crate::validation::internal_form;
use crate::validation::number::int;
use crate::validation::text::{complain, text};

/// Validation in the core group.
pub(crate) fn core(event: &Value, errors: &mut ErrorList) {
    validate(event, "reportingComponent", errors);
}

/// Validation of a new event in `events.k8s.io`.
pub(crate) fn create(event: &Value, errors: &mut ErrorList) {
    // The rules of all events precede those of the metadata.
    let of_metadata = std::mem::take(&mut errors.0);
    validate(event, "reportingController", errors);
    errors.0.extend(of_metadata);
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

/// Validation of an update in `events.k8s.io`.
pub(crate) fn update(event: &Value, old: &Value, errors: &mut ErrorList) {
    validate(event, "reportingController", errors);
    if !same(event, old, &["series"]) {
        validate_series(event, errors);
    }
    for (key, field, kept) in KEPT {
        let shown = |event: &Value| kept.shown(part(event, key));
        if shown(event) != shown(old) {
            errors.invalid_shown(field, shown(event), IMMUTABLE);
        }
    }
}

/// The Go type of a member, which determines how it is printed.
#[derive(Debug, Clone, Copy)]
enum Kept {
    /// Any value; this if it is absent.
    Plain(&'static str),
    /// A struct, which is printed even if it was not sent.
    Struct(&'static str),
    /// A pointer.
    Pointer(&'static str),
}

impl Kept {
    fn shown(self, value: &Value) -> String {
        match self {
            Kept::Plain(zero) if value.is_null() => zero.to_owned(),
            Kept::Plain(_) => json::write_to_string(value),
            Kept::Struct(kind) if value.is_null() => internal_form::compact(kind, &Value::object()),
            Kept::Struct(kind) | Kept::Pointer(kind) => internal_form::compact(kind, value),
        }
    }
}

const TEXT: Kept = Kept::Plain("\"\"");
const NULLABLE: Kept = Kept::Plain("null");

/// Immutable members and their names in messages, in upstream's order; the reason is checked twice.
const KEPT: [(&str, &str, Kept); 14] = [
    ("involvedObject", "involvedObject", Kept::Struct("ObjectReference")),
    ("reason", "reason", TEXT),
    ("message", "message", TEXT),
    ("source", "source", Kept::Struct("EventSource")),
    ("firstTimestamp", "firstTimestamp", NULLABLE),
    ("lastTimestamp", "lastTimestamp", NULLABLE),
    ("count", "count", Kept::Plain("0")),
    ("reason", "reason", TEXT),
    ("type", "type", TEXT),
    ("eventTime", "eventTime", NULLABLE),
    ("action", "action", TEXT),
    ("related", "related", Kept::Pointer("ObjectReference")),
    ("reportingComponent", "reportingController", TEXT),
    ("reportingInstance", "reportingInstance", TEXT),
];

fn validate_series(event: &Value, errors: &mut ErrorList) {
    let Some(series) = event.get("series").filter(|series| !series.is_null()) else { return };
    if int(series, "count") < 2 {
        errors.invalid("series.count", &Value::from(""), "should be at least 2");
    }
    if time_at(series, &["lastObservedTime"]).is_none() {
        errors.required("series.lastObservedTime", "");
    }
}

/// Rules of all events; one with an `eventTime` is a new one.
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

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::*;

    fn complaints(check: impl Fn(&mut ErrorList)) -> Vec<String> {
        let mut errors = ErrorList::new();
        check(&mut errors);
        errors.causes().into_iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect()
    }

    fn event() -> Value {
        value!({
            "metadata": {"name": "e", "namespace": "default"},
            "involvedObject": {"kind": "Pod", "namespace": "default", "name": "p"},
            "eventTime": "2026-01-01T00:00:00.000001Z", "reportingComponent": "example.com/me",
            "reportingInstance": "me-1", "action": "Look", "reason": "Odd", "type": "Normal", "message": "x",
        })
    }

    #[test]
    fn new_events_are_not_old_ones() {
        let of = |change: fn(&mut Value)| {
            let mut event = event();
            change(&mut event);
            complaints(|errors| create(&event, errors))
        };
        assert!(of(|_| {}).is_empty());
        let untimed = of(|event| {
            event.remove(&["eventTime"]);
        });
        assert_eq!(untimed, ["eventTime: Required value"]);
        let elsewhere = value!({"metadata": {"namespace": "default"}, "involvedObject": {"namespace": "x"}, "type": "Normal"});
        let found = complaints(|errors| {
            errors.required("metadata.name", "");
            create(&elsewhere, errors);
        });
        assert_eq!(
            found,
            [
                "involvedObject.namespace: Invalid value: \"x\": does not match event.namespace",
                "metadata.name: Required value",
                "eventTime: Required value",
            ]
        );
        assert_eq!(
            of(|event| event.set(&["type"], "Odd")),
            ["type: Invalid value: \"\": has invalid value: Odd"]
        );
        let old = of(|event| {
            event.set(&["firstTimestamp"], "2026-01-01T00:00:00Z");
            event.set(&["count"], 3);
            event.set(&["source", "component"], "x");
        });
        let unset = |field: &str| format!("{field}: Invalid value: \"\": needs to be unset");
        assert_eq!(old, ["firstTimestamp", "count", "source"].map(unset));
        assert_eq!(
            of(|event| event.set(&["series"], value!({"count": 1}))),
            [
                "series.count: Invalid value: \"\": should be at least 2",
                "series.lastObservedTime: Required value",
            ]
        );
    }

    #[test]
    fn only_the_series_changes() {
        let of = |change: fn(&mut Value)| {
            let mut changed = event();
            change(&mut changed);
            complaints(|errors| update(&changed, &event(), errors))
        };
        let series = value!({"count": 3, "lastObservedTime": "2026-01-01T00:00:00.000001Z"});
        assert!(
            complaints(|errors| {
                let mut changed = event();
                changed.set(&["series"], series.clone());
                changed.set(&["source"], Value::object());
                update(&changed, &event(), errors);
            })
            .is_empty()
        );
        assert_eq!(
            of(|event| event.set(&["involvedObject", "name"], "q")),
            [
                "involvedObject: Invalid value: {\"Kind\":\"Pod\",\"Namespace\":\"default\",\"Name\":\"q\",\"UID\":\"\",\"APIVersion\":\"\",\"ResourceVersion\":\"\",\"FieldPath\":\"\"}: field is immutable"
            ]
        );
        assert_eq!(
            of(|event| {
                event.set(&["reason"], "z");
                event.set(&["count"], 4);
                event.set(&["reportingComponent"], "a/b");
            }),
            [
                "reason: Invalid value: \"z\": field is immutable",
                "count: Invalid value: 4: field is immutable",
                "reason: Invalid value: \"z\": field is immutable",
                "reportingController: Invalid value: \"a/b\": field is immutable",
            ]
        );
    }
}
