//! Access to the schemas of custom resources: the parts of one, and every schema within one.
//!
//! Some parts have two forms: `items` is a schema or a list of them, `additionalProperties` a schema or
//! a boolean.

use corten_api::{Map, Value};

use crate::validation::text::{list, member};

/// A member that is a schema.
pub(super) fn part<'v>(schema: &'v Value, key: &str) -> Option<&'v Value> {
    schema.get(key).filter(|part| part.as_object().is_some())
}

/// A member that maps names to schemas.
pub(super) fn named<'v>(schema: &'v Value, key: &str) -> impl Iterator<Item = (&'v str, &'v Value)> {
    let parts = schema.get(key).and_then(Value::as_object).map(Map::iter).into_iter().flatten();
    parts.map(|(name, part)| (name.as_str(), part))
}

pub(super) fn property<'v>(schema: &'v Value, name: &str) -> Option<&'v Value> {
    schema.get("properties")?.get(name)
}

pub(super) fn flag(schema: &Value, key: &str) -> bool {
    schema.bool_at(&[key]) == Some(true)
}

/// Returns true if a member is set: numbers always are.
pub(super) fn is_set(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::String(text) | Value::Raw(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(map) => !map.is_empty(),
        Value::Bool(true) | Value::Int(_) | Value::Float(_) => true,
    }
}

/// Lists of schemas that all, some or one of must hold.
pub(super) const JUNCTORS: [&str; 3] = ["allOf", "anyOf", "oneOf"];

/// Returns true if a schema or one within it satisfies the predicate.
pub(super) fn any(schema: &Value, asked: &mut dyn FnMut(&Value) -> bool) -> bool {
    if asked(schema) {
        return true;
    }
    let single = ["items", "not", "additionalProperties", "additionalItems"];
    let lists = ["items", "allOf", "anyOf", "oneOf"];
    let maps = ["properties", "patternProperties", "definitions", "dependencies"];
    single.iter().filter_map(|key| part(schema, key)).any(|part| any(part, asked))
        || lists.iter().flat_map(|key| list(schema, key)).any(|part| any(part, asked))
        || maps.iter().flat_map(|key| named(schema, key)).any(|(_, part)| any(part, asked))
}

/// The schema of a version or the one that versions share.
pub(super) fn of(validation: Option<&Value>) -> Option<&Value> {
    validation.and_then(|validation| member(validation, "openAPIV3Schema"))
}
