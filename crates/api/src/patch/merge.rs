//! JSON merge patch: RFC 7386, with the small deviations of upstream's library (nulls inside arrays
//! stay where the target was an object).

use crate::status::Status;
use crate::value::{Map, Value};

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The patch is not an object.
    #[error("Invalid JSON Patch")]
    BadPatch,
}

impl Error {
    pub fn to_status(self) -> Status {
        Status::bad_request(self.to_string())
    }
}

/// Merges a patch into an object: members replace, nulls remove, objects merge.
pub fn merge(target: &mut Value, patch: &Value) -> Result<(), Error> {
    let Value::Object(patch) = patch else { return Err(Error::BadPatch) };
    merge_objects(target.make_object(), patch);
    Ok(())
}

fn merge_objects(target: &mut Map, patch: &Map) {
    let mut added = Vec::new();
    for (key, value) in patch.iter().filter(|(_, value)| !value.is_null()) {
        match (target.get_mut(key), value) {
            (Some(Value::Object(current)), Value::Object(value)) => merge_objects(current, value),
            (Some(current @ Value::Object(_)), value) => *current = value.clone(),
            (Some(current), value) => *current = without_nulls(value),
            (None, value) => added.push((key.clone(), without_nulls(value))),
        }
    }
    if patch.iter().any(|(_, value)| value.is_null()) {
        target.retain(|key, _| !patch.get(key).is_some_and(Value::is_null));
    }
    target.extend(added);
}

/// Objects lose their null members at every depth; arrays keep their items.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(map) => Value::Object(
            map.iter()
                .filter(|(_, value)| !value.is_null())
                .map(|(key, value)| (key.clone(), without_nulls(value)))
                .collect(),
        ),
        Value::Array(items) => Value::Array(items.iter().map(without_nulls).collect()),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::{parse, write_to_string};

    #[track_caller]
    fn check(target: &str, patch: &str, expected: &str) {
        let mut value = parse(target.as_bytes()).unwrap();
        let patch = parse(patch.as_bytes()).unwrap();
        let found = match merge(&mut value, &patch) {
            Ok(()) => write_to_string(&value),
            Err(error) => error.to_string(),
        };
        assert_eq!(found, expected);
    }

    #[test]
    fn merges() {
        check(r#"{"a":"b"}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#);
        check(r#"{"a":"b"}"#, r#"{"b":"c"}"#, r#"{"a":"b","b":"c"}"#);
        check(r#"{"a":"b","b":"c"}"#, r#"{"a":null}"#, r#"{"b":"c"}"#);
        check(r#"{"a":["b"]}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#);
        check(r#"{"a":{"b":"c"}}"#, r#"{"a":{"b":"d","c":null}}"#, r#"{"a":{"b":"d"}}"#);
        check(r#"{"a":[{"b":"c"}]}"#, r#"{"a":[1,null]}"#, r#"{"a":[1,null]}"#);
        check("{}", r#"{"a":{"bb":{"ccc":null}}}"#, r#"{"a":{"bb":{}}}"#);
        check("{}", r#"{"a":[{"b":null}]}"#, r#"{"a":[{}]}"#);
        check(r#"{"a":{}}"#, r#"{"a":[{"b":null}]}"#, r#"{"a":[{"b":null}]}"#);
        check(r#"{"e":null}"#, r#"{"a":1}"#, r#"{"a":1,"e":null}"#);
    }

    #[test]
    fn only_objects_patch() {
        check("{}", "[]", "Invalid JSON Patch");
        check("{}", "null", "Invalid JSON Patch");
        assert_eq!(Error::BadPatch.to_status().code, 400);
    }
}
