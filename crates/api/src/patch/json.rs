//! JSON patch: RFC 6902 with the leniency of the library upstream uses.
//!
//! Negative indices count from the end, replacing a missing member of an object adds it, and a missing
//! member passes for null in tests and copies.
//!
//! Limits keep a small patch from creating a large or deep object, or a lot of work: upstream's limits on
//! operations and copied bytes; the depth of documents, since nested operations could exceed it;
//! and a number of steps, since each operation may move a whole list.

mod target;
#[cfg(test)]
mod tests;

use crate::json::{MAX_DEPTH, MAX_FINDINGS_BYTES};
use crate::status::{Status, quoted};
use crate::value::{Str, Value};
use target::{Place, find, get, is_equal, parse_raw, put, take};

const MAX_OPERATIONS: usize = 10_000;
/// Maximum number of complaints about unknown fields, as of any other object.
const MAX_COMPLAINTS: usize = 100;
/// Maximum size of all copies of a patch, in bytes of JSON.
const MAX_COPIED_BYTES: usize = 3 * 1024 * 1024;
/// Maximum number of values that all operations of a patch may read or move: about a second's work.
const MAX_STEPS: usize = 50_000_000;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Not a list of operations.
    #[error("{0}")]
    Malformed(String),
    #[error("The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {0}")]
    TooManyOperations(usize),
    /// An operation that does not apply to the document.
    #[error("{0}")]
    Refused(String),
}

impl Error {
    /// The status for the client: upstream does not explain why a patch does not apply.
    pub fn to_status(&self) -> Status {
        match self {
            Error::Malformed(why) => Status::bad_request(why.as_str()),
            Error::TooManyOperations(_) => Status::too_large(self),
            Error::Refused(_) => Status::unprocessable(),
        }
    }
}

/// Checks a patch as strictly as field validation requires; returns the complaints about unknown fields.
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
    let (mut complaints, mut said) = (Vec::new(), 0);
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
                _ if said > MAX_FINDINGS_BYTES || complaints.len() == MAX_COMPLAINTS => {}
                _ => {
                    said += key.len();
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
    let mut spent = Spent::default();
    for operation in operations {
        apply_one(target, operation, &mut spent).map_err(Error::Refused)?;
    }
    Ok(())
}

/// The cost of a patch so far.
#[derive(Default)]
struct Spent {
    copied_bytes: usize,
    steps: usize,
}

impl Spent {
    fn step(&mut self, steps: usize) -> Result<(), String> {
        self.steps += steps;
        match self.steps > MAX_STEPS {
            true => Err(format!("the patch takes more than {MAX_STEPS} steps")),
            false => Ok(()),
        }
    }

    /// Counts the items that inserting into a container, or removing from it, moves.
    fn shift(&mut self, parent: &Value) -> Result<(), String> {
        self.step(match parent {
            Value::Array(items) => 1 + items.len(),
            Value::Object(map) => 1 + map.len(),
            _ => 1,
        })
    }

    /// Counts a value that is about to be inserted below `pointer`, and refuses one that would be too deep there.
    fn put(&mut self, pointer: &str, value: &Value) -> Result<(), String> {
        let (depth, size) = extent(value);
        self.step(size)?;
        match pointer.matches('/').count() + depth > MAX_DEPTH {
            true => Err("exceeded max depth".to_owned()),
            false => Ok(()),
        }
    }
}

fn apply_one(target: &mut Value, operation: &Value, spent: &mut Spent) -> Result<(), String> {
    let value = operation.get("value");
    match operation.get("op").and_then(Value::as_str).unwrap_or("unknown") {
        "add" => add(target, operation, value, spent),
        "remove" => remove(target, operation, spent),
        "replace" => replace(target, operation, value, spent),
        "move" => relocate(target, operation, spent),
        "test" => test(target, operation, value, spent),
        "copy" => copy(target, operation, spent),
        other => Err(format!("Unexpected kind: {other}")),
    }
}

/// A pointer of an operation: its path, or its source.
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

/// The path, for operations whose error only says that it is missing.
fn plain_path(operation: &Value, kind: &str) -> Result<Str, String> {
    pointer(operation, "path").map_err(|_| format!("{kind} operation failed to decode path: missing value"))
}

fn path(operation: &Value, kind: &str) -> Result<Str, String> {
    pointer(operation, "path").map_err(|why| format!("{kind} operation failed to decode path: {why}"))
}

fn from(operation: &Value, kind: &str) -> Result<Str, String> {
    pointer(operation, "from").map_err(|why| format!("{kind} operation failed to decode from: {why}"))
}

fn add(
    target: &mut Value,
    operation: &Value,
    value: Option<&Value>,
    spent: &mut Spent,
) -> Result<(), String> {
    let path = plain_path(operation, "add")?;
    let Some(Place { parent, key }) = find(target, &path) else {
        return Err(format!("add operation does not apply: doc is missing path: \"{path}\": missing value"));
    };
    let value = value.unwrap_or(&Value::Null);
    spent.put(&path, value)?;
    spent.shift(parent)?;
    put(parent, &key, value.clone()).map_err(|why| format!("error in add for path: '{path}': {why}"))
}

fn remove(target: &mut Value, operation: &Value, spent: &mut Spent) -> Result<(), String> {
    let path = plain_path(operation, "remove")?;
    let Some(Place { parent, key }) = find(target, &path) else {
        return Err(format!(
            "remove operation does not apply: doc is missing path: \"{path}\": missing value"
        ));
    };
    spent.shift(parent)?;
    take(parent, &key).map(drop).map_err(|why| format!("error in remove for path: '{path}': {why}"))
}

fn replace(
    target: &mut Value,
    operation: &Value,
    value: Option<&Value>,
    spent: &mut Spent,
) -> Result<(), String> {
    let path = path(operation, "replace")?;
    let value = value.cloned().unwrap_or_default();
    spent.put(&path, &value)?;
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
    spent.shift(parent)?;
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

fn relocate(target: &mut Value, operation: &Value, spent: &mut Spent) -> Result<(), String> {
    let from = from(operation, "move")?;
    let Some(Place { parent, key }) = find(target, &from) else {
        return Err(format!(
            "move operation does not apply: doc is missing from path: {from}: missing value"
        ));
    };
    spent.shift(parent)?;
    let moved = take(parent, &key).map_err(|why| format!("error in move for path: '{key}': {why}"))?;
    let path = path(operation, "move")?;
    let Some(Place { parent, key }) = find(target, &path) else {
        return Err(format!(
            "move operation does not apply: doc is missing destination path: {path}: missing value"
        ));
    };
    spent.put(&path, &moved)?;
    spent.shift(parent)?;
    put(parent, &key, moved).map_err(|why| format!("error in move for path: '{path}': {why}"))
}

fn test(
    target: &mut Value,
    operation: &Value,
    value: Option<&Value>,
    spent: &mut Spent,
) -> Result<(), String> {
    let path = path(operation, "test")?;
    let found = if path.is_empty() {
        Some(target)
    } else {
        let Some(Place { parent, key }) = find(target, &path) else {
            return Err(format!("test operation does not apply: is missing path: {path}: missing value"));
        };
        get(parent, &key).map_err(|why| format!("error in test for path: '{path}': {why}"))?
    };
    let found: &Value = match found {
        None => &Value::Null,
        Some(found) => {
            // Parsed once for all tests of it.
            parse_raw(found);
            found
        }
    };
    let equal = match value {
        None => found.is_null(),
        Some(value) => {
            spent.step(extent(value).1)?;
            is_equal(found, value)
        }
    };
    if equal { Ok(()) } else { Err(format!("testing value {path} failed: test failed")) }
}

fn copy(target: &mut Value, operation: &Value, spent: &mut Spent) -> Result<(), String> {
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
    spent.put(&path, &value)?;
    spent.shift(parent)?;
    if !value.is_null() {
        spent.copied_bytes += crate::json::write_to_string(&value).len();
    }
    if spent.copied_bytes > MAX_COPIED_BYTES {
        return Err(format!(
            "Unable to complete the copy, the accumulated size increase of copy is {}, exceeding the limit {MAX_COPIED_BYTES}",
            spent.copied_bytes
        ));
    }
    put(parent, &key, value).map_err(|why| format!("error while adding value during copy: {why}"))
}

/// The depth of a value, and the number of values in it. Values are at most as deep as documents, since
/// nothing deeper is ever created.
fn extent(value: &Value) -> (usize, usize) {
    let all = |values: &mut dyn Iterator<Item = &Value>| {
        values.map(extent).fold((1, 1), |(depth, size), (below, more)| (depth.max(below + 1), size + more))
    };
    match value {
        Value::Array(items) => all(&mut items.iter()),
        Value::Object(map) => all(&mut map.iter().map(|(_, value)| value)),
        Value::Raw(text) => (nesting(text), 1 + text.len() / 16),
        _ => (0, 1),
    }
}

/// An upper bound of the depth of raw text: brackets inside its strings count too.
fn nesting(text: &str) -> usize {
    let mut depths = text.bytes().scan(0usize, |depth, byte| {
        match byte {
            b'{' | b'[' => *depth += 1,
            b'}' | b']' => *depth = depth.saturating_sub(1),
            _ => {}
        }
        Some(*depth)
    });
    depths.by_ref().max().unwrap_or(0)
}
