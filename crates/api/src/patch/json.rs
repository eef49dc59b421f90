//! JSON patch: RFC 6902 with the leniency of the library upstream uses.
//!
//! Negative indices count from the end, replacing a missing member of an object adds it, and a missing
//! member passes for null in tests and copies. Two limits keep a small patch from making a large object.

mod target;
#[cfg(test)]
mod tests;

use crate::status::{Status, quoted};
use crate::value::{Str, Value};
use target::{Place, find, get, is_equal, put, take};

const MAX_OPERATIONS: usize = 10_000;
/// How much all copies of a patch may add, in bytes of JSON.
const MAX_COPIED_BYTES: usize = 3 * 1024 * 1024;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Not a list of operations.
    #[error("{0}")]
    Malformed(String),
    #[error("The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {0}")]
    TooManyOperations(usize),
    /// An operation that the document refuses.
    #[error("{0}")]
    Refused(String),
}

impl Error {
    /// What a client gets to see: upstream does not say why a document refused a patch.
    pub fn to_status(&self) -> Status {
        match self {
            Error::Malformed(why) => Status::bad_request(why.as_str()),
            Error::TooManyOperations(_) => Status::too_large(self),
            Error::Refused(_) => Status::unprocessable(),
        }
    }
}

/// Checks a patch as strictly as field validation asks for; complaints about unknown fields come back.
pub fn check(patch: &Value) -> Result<Vec<String>, Error> {
    let malformed = |found: &Value, place: &str| {
        let found = found.go_kind();
        Error::Malformed(format!("error decoding patch: json: cannot unmarshal {found} into Go {place}"))
    };
    let operations = match patch {
        Value::Null => return Ok(Vec::new()),
        Value::Array(operations) => operations,
        other => return Err(malformed(other, "value of type []handlers.jsonPatchOp")),
    };
    let mut complaints = Vec::new();
    for (i, operation) in operations.iter().enumerate() {
        let members = match operation {
            Value::Null => continue,
            Value::Object(members) => members,
            other => return Err(malformed(other, "value of type handlers.jsonPatchOp")),
        };
        for (key, value) in members.iter() {
            match (key.as_str(), value) {
                ("op" | "path" | "from", Value::String(_) | Value::Null) | ("value", _) => {}
                ("op" | "path" | "from", other) => {
                    let place = format!("struct field jsonPatchOp.{key} of type string");
                    return Err(malformed(other, &place));
                }
                _ => {
                    complaints.push(format!("json patch unknown field {}", quoted(&format!("[{i}].{key}"))));
                }
            }
        }
    }
    Ok(complaints)
}

/// Applies all operations of a patch, in order.
pub fn apply(target: &mut Value, patch: &Value) -> Result<(), Error> {
    let malformed = |found: &Value, expected: &str| {
        let found = found.go_kind();
        Error::Malformed(format!("json: cannot unmarshal {found} into Go value of type jsonpatch.{expected}"))
    };
    let operations = match patch {
        Value::Null => return Ok(()),
        Value::Array(operations) => operations,
        other => return Err(malformed(other, "Patch")),
    };
    if let Some(odd) = operations.iter().find(|op| !matches!(op, Value::Object(_) | Value::Null)) {
        return Err(malformed(odd, "Operation"));
    }
    if operations.len() > MAX_OPERATIONS {
        return Err(Error::TooManyOperations(operations.len()));
    }
    let mut copied = 0;
    for operation in operations {
        apply_one(target, operation, &mut copied).map_err(Error::Refused)?;
    }
    Ok(())
}

fn apply_one(target: &mut Value, operation: &Value, copied: &mut usize) -> Result<(), String> {
    let value = operation.get("value");
    match operation.get("op").and_then(Value::as_str).unwrap_or("unknown") {
        "add" => add(target, operation, value),
        "remove" => remove(target, operation),
        "replace" => replace(target, operation, value),
        "move" => relocate(target, operation),
        "test" => test(target, operation, value),
        "copy" => copy(target, operation, copied),
        other => Err(format!("Unexpected kind: {other}")),
    }
}

/// A pointer of an operation: its path, or where from.
fn pointer(operation: &Value, field: &str) -> Result<Str, String> {
    match operation.get(field) {
        Some(Value::String(text)) => Ok(text.clone()),
        None | Some(Value::Null) if field == "path" => {
            Err("operation missing path field: missing value".into())
        }
        None | Some(Value::Null) => Err(format!("operation, missing {field} field: missing value")),
        Some(other) => {
            Err(format!("json: cannot unmarshal {} into Go value of type string", other.go_kind()))
        }
    }
}

/// The path, for those operations that only say that they need one.
fn plain_path(operation: &Value, kind: &str) -> Result<Str, String> {
    pointer(operation, "path").map_err(|_| format!("{kind} operation failed to decode path: missing value"))
}

fn path(operation: &Value, kind: &str) -> Result<Str, String> {
    pointer(operation, "path").map_err(|why| format!("{kind} operation failed to decode path: {why}"))
}

fn from(operation: &Value, kind: &str) -> Result<Str, String> {
    pointer(operation, "from").map_err(|why| format!("{kind} operation failed to decode from: {why}"))
}

fn add(target: &mut Value, operation: &Value, value: Option<&Value>) -> Result<(), String> {
    let path = plain_path(operation, "add")?;
    let Some(Place { parent, key }) = find(target, &path) else {
        return Err(format!("add operation does not apply: doc is missing path: \"{path}\": missing value"));
    };
    put(parent, &key, value.cloned().unwrap_or_default())
        .map_err(|why| format!("error in add for path: '{path}': {why}"))
}

fn remove(target: &mut Value, operation: &Value) -> Result<(), String> {
    let path = plain_path(operation, "remove")?;
    let Some(Place { parent, key }) = find(target, &path) else {
        return Err(format!(
            "remove operation does not apply: doc is missing path: \"{path}\": missing value"
        ));
    };
    take(parent, &key).map(drop).map_err(|why| format!("error in remove for path: '{path}': {why}"))
}

fn replace(target: &mut Value, operation: &Value, value: Option<&Value>) -> Result<(), String> {
    let path = path(operation, "replace")?;
    let value = value.cloned().unwrap_or_default();
    if path.is_empty() {
        if !matches!(value, Value::Object(_) | Value::Array(_)) {
            return Err("replace operation value must be object or array: %!w(<nil>)".into());
        }
        *target = value;
        return Ok(());
    }
    let Some(Place { parent, key }) = find(target, &path) else {
        return Err(format!("replace operation does not apply: doc is missing path: {path}: missing value"));
    };
    match parent {
        Value::Object(map) => {
            map.insert(key, value);
        }
        parent => match get(parent, &key) {
            Ok(Some(item)) => *item = value,
            _ => {
                return Err(format!(
                    "replace operation does not apply: doc is missing key: {path}: missing value"
                ));
            }
        },
    }
    Ok(())
}

fn relocate(target: &mut Value, operation: &Value) -> Result<(), String> {
    let from = from(operation, "move")?;
    let Some(Place { parent, key }) = find(target, &from) else {
        return Err(format!(
            "move operation does not apply: doc is missing from path: {from}: missing value"
        ));
    };
    let moved = take(parent, &key).map_err(|why| format!("error in move for path: '{key}': {why}"))?;
    let path = path(operation, "move")?;
    let Some(Place { parent, key }) = find(target, &path) else {
        return Err(format!(
            "move operation does not apply: doc is missing destination path: {path}: missing value"
        ));
    };
    put(parent, &key, moved).map_err(|why| format!("error in move for path: '{path}': {why}"))
}

fn test(target: &mut Value, operation: &Value, value: Option<&Value>) -> Result<(), String> {
    let path = path(operation, "test")?;
    let found = if path.is_empty() {
        Some(target)
    } else {
        let Some(Place { parent, key }) = find(target, &path) else {
            return Err(format!("test operation does not apply: is missing path: {path}: missing value"));
        };
        get(parent, &key).map_err(|why| format!("error in test for path: '{path}': {why}"))?
    };
    let found: &Value = found.map_or(&Value::Null, |found| found);
    let equal = match value {
        None => found.is_null(),
        Some(value) => is_equal(found, value),
    };
    if equal { Ok(()) } else { Err(format!("testing value {path} failed: test failed")) }
}

fn copy(target: &mut Value, operation: &Value, copied: &mut usize) -> Result<(), String> {
    let from = from(operation, "copy")?;
    let Some(Place { parent, key }) = find(target, &from) else {
        return Err(format!(
            "copy operation does not apply: doc is missing from path: {from}: missing value"
        ));
    };
    let value = get(parent, &key)
        .map_err(|why| format!("error in copy for from: '{from}': {why}"))?
        .map(|value| value.clone())
        .unwrap_or_default();
    let path = plain_path(operation, "copy")?;
    let Some(Place { parent, key }) = find(target, &path) else {
        return Err(format!(
            "copy operation does not apply: doc is missing destination path: {path}: missing value"
        ));
    };
    if !value.is_null() {
        *copied += crate::json::write_to_string(&value).len();
    }
    if *copied > MAX_COPIED_BYTES {
        return Err(format!(
            "Unable to complete the copy, the accumulated size increase of copy is {copied}, exceeding the limit {MAX_COPIED_BYTES}"
        ));
    }
    put(parent, &key, value).map_err(|why| format!("error while adding value during copy: {why}"))
}
