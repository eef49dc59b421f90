//! Trees of the values that mutations evaluate to.

use std::cell::Cell;

use corten_api::{Map, Str, Value as Tree};
use corten_cel::Value;
use corten_cel::value::{JSON_PATCH, Object};

/// Maximum nesting of a value: deeper ones are no objects of the API.
const MAX_DEPTH: usize = 200;
/// Maximum number of values in a value, and of bytes in their texts: values can contain others many times.
const MAX_VALUES: usize = 100_000;
const MAX_BYTES: usize = 4 << 20;
/// Maximum number of wrong type names that are told.
const MAX_ERRORS: usize = 20;

/// The values that are left to visit.
struct Left {
    values: Cell<usize>,
    bytes: Cell<usize>,
}

impl Left {
    fn new() -> Left {
        Left { values: Cell::new(MAX_VALUES), bytes: Cell::new(MAX_BYTES) }
    }

    fn take(&self, bytes: usize) -> Result<(), String> {
        match (self.values.get().checked_sub(1), self.bytes.get().checked_sub(bytes)) {
            (Some(values), Some(bytes)) => {
                self.values.set(values);
                self.bytes.set(bytes);
                Ok(())
            }
            _ => Err("exceeded max size".to_owned()),
        }
    }
}

/// Checks that the type names of objects are the paths to them.
pub(super) fn check_type_names(value: &Value<'_>) -> Result<(), String> {
    let mut errors = Vec::new();
    if let Value::Object(object) = value {
        let mut path = object.name.to_string();
        check_names(value, &mut path, &mut errors, MAX_DEPTH, &Left::new());
    }
    if errors.is_empty() { Ok(()) } else { Err(errors.join("\n")) }
}

fn check_names(value: &Value<'_>, path: &mut String, errors: &mut Vec<String>, depth: usize, left: &Left) {
    // A value that is too deep or too large is refused when its tree is made.
    let (Some(depth), Ok(())) = (depth.checked_sub(1), left.take(0)) else { return };
    if errors.len() >= MAX_ERRORS {
        return;
    }
    match value {
        Value::Object(object) => {
            if *object.name != **path {
                errors.push(format!(
                    "unexpected type name {:?}, expected {path:?}, which matches field name path from root Object type",
                    object.name
                ));
            }
            for (name, field) in &object.fields {
                let length = path.len();
                path.push('.');
                path.push_str(name);
                check_names(field, path, errors, depth, left);
                path.truncate(length);
            }
        }
        Value::List(list) => {
            list.iter().flatten().for_each(|item| check_names(&item, path, errors, depth, left));
        }
        Value::Map(map) => map
            .iter()
            .filter_map(|(_, value)| value.ok())
            .for_each(|value| check_names(&value, path, errors, depth, left)),
        _ => {}
    }
}

/// The tree of an object literal.
pub(super) fn fields(object: &Object<'_>) -> Result<Tree, String> {
    object_tree(object, MAX_DEPTH, &Left::new())
}

fn object_tree(object: &Object<'_>, depth: usize, left: &Left) -> Result<Tree, String> {
    let field = |(name, value): &(std::sync::Arc<str>, Value<'_>)| match tree(value, depth, left) {
        Ok(value) => Ok((Str::from(&**name), value)),
        Err(why) => Err(format!("fail to convert field {name:?}: {why}")),
    };
    let fields: Result<Vec<(Str, Tree)>, String> = object.fields.iter().map(field).collect();
    Ok(Tree::Object(fields?.into_iter().collect::<Map>()))
}

/// The tree of a value.
fn tree(value: &Value<'_>, depth: usize, left: &Left) -> Result<Tree, String> {
    let depth = depth.checked_sub(1).ok_or("exceeded max depth")?;
    left.take(value.as_str().map_or(0, str::len))?;
    Ok(match value {
        Value::Null => Tree::Null,
        Value::Bool(value) => Tree::Bool(*value),
        Value::Int(value) => Tree::Int(*value),
        Value::Uint(value) => i64::try_from(*value).map_or(Tree::Float(*value as f64), Tree::Int),
        Value::Double(value) if value.is_finite() => Tree::Float(*value),
        Value::String(value) => Tree::from(&**value),
        Value::Timestamp(value) => Tree::from(value.to_string()),
        Value::Preserved(value) => (*value).clone(),
        Value::Object(object) => object_tree(object, depth, left)?,
        Value::List(list) => {
            let item = |item: corten_cel::Result<Value<'_>>| match item {
                Ok(item) => tree(&item, depth, left),
                Err(error) => Err(error.to_string()),
            };
            Tree::Array(list.iter().map(item).collect::<Result<_, _>>()?)
        }
        Value::Map(map) => {
            let mut entries = Vec::with_capacity(map.len());
            for (key, value) in map.iter() {
                let Value::String(key) = &key else {
                    return Err(format!("map key {key:?} is of type {}, not string", key.type_name()));
                };
                let value = value.map_err(|error| error.to_string())?;
                left.take(key.len())?;
                entries.push((Str::from(&**key), tree(&value, depth, left)?));
            }
            Tree::Object(entries.into_iter().collect::<Map>())
        }
        other => {
            return Err(format!(
                "unsupported type conversion from '{}' to google.protobuf.Value",
                other.type_name()
            ));
        }
    })
}

/// The tree of a list of operations.
pub(super) fn operations(value: &Value<'_>) -> Result<Tree, String> {
    let Value::List(list) = value else {
        return Err("type mismatch: JSONPatchType.expression should evaluate to array".to_owned());
    };
    let mut operations = Vec::new();
    let left = Left::new();
    for item in list.iter() {
        match item.map_err(|error| error.to_string())? {
            Value::Object(object) if &*object.name == JSON_PATCH => {
                operations.push(operation(&object, &left)?)
            }
            other => {
                return Err(format!(
                    "type mismatch: JSONPatchType.expression should evaluate to array of JSONPatch, got element of {}",
                    other.type_name()
                ));
            }
        }
    }
    Ok(Tree::Array(operations))
}

fn operation(object: &Object<'_>, left: &Left) -> Result<Tree, String> {
    let text = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default();
    left.take(text("op").len() + text("path").len() + text("from").len())?;
    let mut entries =
        vec![(Str::from("op"), Tree::from(text("op"))), (Str::from("path"), Tree::from(text("path")))];
    if !text("from").is_empty() {
        entries.push((Str::from("from"), Tree::from(text("from"))));
    }
    if let Some(value) = object.get("value") {
        check_type_names(value).map_err(|why| format!("type mismatch: {why}"))?;
        let value = tree(value, MAX_DEPTH, left).map_err(|why| {
            format!("JSONPath valueExpression evaluated to a type that could not marshal to JSON: {why}")
        })?;
        entries.push((Str::from("value"), value));
    }
    Ok(Tree::Object(entries.into_iter().collect::<Map>()))
}
