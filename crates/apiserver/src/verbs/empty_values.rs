//! Empty lists and maps in errors.
//!
//! Decoding drops empty lists and maps, because upstream does not encode them. Its errors show them nevertheless, as `[]`
//! and `{}`, where an absent value is `null`. So the body of the request decides, when a write is refused anyway.

use corten_api::status::{ErrorList, FieldError};
use corten_api::{Value, json};

/// The errors as upstream shows them, given the object that a client sent as JSON.
pub(super) fn as_sent(errors: &ErrorList, body: &[u8]) -> Option<ErrorList> {
    let is_null = |error: &FieldError| error.bad_value.as_deref() == Some("null");
    if !errors.0.iter().any(is_null) {
        return None;
    }
    let sent = json::parse(body).ok()?;
    let mut shown = errors.clone();
    for error in shown.0.iter_mut().filter(|error| is_null(error)) {
        error.bad_value = match find(&sent, &error.field) {
            Some(Value::Array(items)) if items.is_empty() => Some("[]".to_owned()),
            Some(Value::Object(members)) if members.is_empty() => Some("{}".to_owned()),
            _ => continue,
        };
    }
    Some(shown)
}

/// The value of a field: `spec.containers[0].env`.
fn find<'v>(object: &'v Value, field: &str) -> Option<&'v Value> {
    field.split('.').try_fold(object, |value, step| {
        let (name, indexes) = step.split_at(step.find('[').unwrap_or(step.len()));
        let indexes = indexes.split(['[', ']']).filter(|index| !index.is_empty());
        indexes
            .into_iter()
            .try_fold(value.get(name)?, |list, index| list.as_array()?.get(index.parse::<usize>().ok()?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(field: &str, body: &str, expected: &str) {
        let mut errors = ErrorList::new();
        errors.invalid(field, &Value::Null, "wrong");
        let shown = as_sent(&errors, body.as_bytes()).unwrap_or(errors);
        assert_eq!(shown.0[0].bad_value.as_deref(), Some(expected), "{field} of {body}");
    }

    #[test]
    fn empty_values_are_shown_as_they_were_sent() {
        check("spec.labels", r#"{"spec":{"labels":{}}}"#, "{}");
        check("spec.list[1].args", r#"{"spec":{"list":[{},{"args":[]}]}}"#, "[]");
        for body in [
            "",
            "[]",
            "{}",
            r#"{"spec":{"labels":null}}"#,
            r#"{"spec":{"labels":{"a":"b"}}}"#,
            r#"{"spec":[]}"#,
        ] {
            check("spec.labels", body, "null");
        }
        for field in ["spec[x].labels", "spec[9].labels", "[0]", "."] {
            check(field, r#"{"spec":{"labels":{}}}"#, "null");
        }
    }
}
