//! Empty lists and maps in errors.
//!
//! Decoding drops empty lists and maps, because upstream does not encode them. Its errors show them nevertheless, as `[]`
//! and `{}`, where an absent value is `null`. So the body of the request decides, when a write is refused anyway. Objects
//! with named fields are never absent to upstream: an error that shows `null` at one is about another value.

use corten_api::schema::{Kind, Struct};
use corten_api::status::{ErrorList, FieldError};
use corten_api::{Value, json};

/// The errors as upstream shows them, given the object that a client sent as JSON, and its type.
pub(super) fn as_sent(errors: &ErrorList, body: &[u8], schema: &Struct) -> Option<ErrorList> {
    let is_null = |error: &FieldError| error.bad_value.as_deref() == Some("null");
    if !errors.0.iter().any(is_null) {
        return None;
    }
    let sent = json::parse(body).ok()?;
    let mut shown = errors.clone();
    for error in shown.0.iter_mut().filter(|error| is_null(error)) {
        error.bad_value = match find(&sent, &error.field) {
            Some(Value::Array(items)) if items.is_empty() => Some("[]".to_owned()),
            Some(Value::Object(members)) if members.is_empty() && is_map(schema, &error.field) => {
                Some("{}".to_owned())
            }
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

/// Returns true if a field has a type without named fields.
fn is_map(schema: &Struct, field: &str) -> bool {
    let (step, rest) = field.split_once('.').unwrap_or((field, ""));
    let (name, index) = step.split_at(step.find('[').unwrap_or(step.len()));
    let kind = match schema.field(name).map(|field| &field.kind) {
        Some(Kind::List(item, _)) if !index.is_empty() => item,
        Some(kind) => kind,
        None => return false,
    };
    match kind {
        Kind::Struct(inner) if !rest.is_empty() => is_map(inner, rest),
        kind => rest.is_empty() && matches!(kind, Kind::Map(..)),
    }
}

#[cfg(test)]
mod tests {
    use corten_api::schema;

    use super::*;

    #[track_caller]
    fn check(field: &str, body: &str, expected: &str) {
        let mut errors = ErrorList::new();
        errors.invalid(field, &Value::Null, "wrong");
        let schema = schema::lookup("core/v1", "Pod").unwrap();
        let shown = as_sent(&errors, body.as_bytes(), &schema).unwrap_or(errors);
        assert_eq!(shown.0[0].bad_value.as_deref(), Some(expected), "{field} of {body}");
    }

    #[test]
    fn empty_values_are_shown_as_they_were_sent() {
        check("metadata.labels", r#"{"metadata":{"labels":{}}}"#, "{}");
        check("spec.containers[1].args", r#"{"spec":{"containers":[{},{"args":[]}]}}"#, "[]");
        check(
            "spec.containers[0].resources.limits",
            r#"{"spec":{"containers":[{"resources":{"limits":{}}}]}}"#,
            "{}",
        );
        check("spec", r#"{"spec":{}}"#, "null");
        check("spec.securityContext", r#"{"spec":{"securityContext":{}}}"#, "null");
        for body in [
            "",
            "[]",
            "{}",
            r#"{"metadata":{"labels":null}}"#,
            r#"{"metadata":{"labels":{"a":"b"}}}"#,
            r#"{"metadata":[]}"#,
        ] {
            check("metadata.labels", body, "null");
        }
        for field in ["metadata[x].labels", "metadata[9].labels", "[0]", "."] {
            check(field, r#"{"metadata":{"labels":{}}}"#, "null");
        }
    }
}
