//! Values of object trees, with and without a schema.
//!
//! A schema decides how a value is read. Data that contradicts its schema is an error when it is read, not before;
//! texts of the errors are upstream's.

use std::collections::{HashMap, HashSet};

use base64::engine::{GeneralPurpose, GeneralPurposeConfig};
use base64::{DecodeError, Engine};
use corten_api::Value as Tree;

use super::{List, Map, Text, Timestamp, Value, equality};
use crate::error::{Error, Result};
use crate::schema::{Format, ListKind, Schema, Shape, unescape};

/// A value without a schema.
pub fn plain(value: &Tree) -> Value<'_> {
    match value {
        Tree::Null => Value::Null,
        Tree::Bool(b) => Value::Bool(*b),
        Tree::Int(i) => Value::Int(*i),
        Tree::Float(f) => Value::Double(*f),
        Tree::String(text) => Value::String(Text::Borrowed(text)),
        Tree::Array(items) => Value::List(List::Plain(items)),
        Tree::Object(map) => Value::Map(Map::Plain(map)),
        Tree::Raw(_) => Value::Preserved(value),
    }
}

/// A value with its schema.
pub(super) fn typed<'a>(value: &'a Tree, schema: &'a Schema) -> Result<Value<'a>> {
    if value.is_null() {
        return match schema.nullable() {
            true => Ok(Value::Null),
            false => Err(Error::new("invalid data, got null for schema with nullable=false")),
        };
    }
    match (schema.shape(), value) {
        (Shape::IntOrString, Tree::String(text)) => Ok(Value::String(Text::Borrowed(text))),
        (Shape::IntOrString, Tree::Int(i)) => Ok(Value::Int(*i)),
        (Shape::IntOrString, _) => {
            Err(Error::new("invalid data, expected XIntOrString value to be either a string or integer"))
        }
        (Shape::Object(_) | Shape::Map(_), Tree::Object(map)) => Ok(Value::Map(Map::Typed(map, schema))),
        (Shape::Object(_) | Shape::Map(_), _) => {
            Err(Error::new("invalid data, expected a map for the provided schema with type=object"))
        }
        (Shape::Array(None, _), Tree::Array(_)) => {
            Err(Error::new("invalid array type, expected Items with a non-empty Schema"))
        }
        (Shape::Array(..), Tree::Array(items)) => Ok(Value::List(List::Typed(items, schema))),
        (Shape::Array(..), _) => {
            Err(Error::new("invalid data, expected an array for the provided schema with type=array"))
        }
        (Shape::String(format), Tree::String(text)) => formatted(text, *format),
        (Shape::String(_), _) => Err(unexpected("string", value)),
        (Shape::Number, Tree::Int(i)) => Ok(Value::Double(*i as f64)),
        (Shape::Number, Tree::Float(f)) => Ok(Value::Double(*f)),
        (Shape::Number, _) => Err(unexpected("float", value)),
        (Shape::Integer, Tree::Int(i)) => Ok(Value::Int(*i)),
        (Shape::Integer, _) => Err(unexpected("int", value)),
        (Shape::Boolean, Tree::Bool(b)) => Ok(Value::Bool(*b)),
        (Shape::Boolean, _) => Err(unexpected("bool", value)),
        (Shape::Named(_), _) => Ok(Value::Preserved(value)),
        (Shape::Unknown, _) if schema.preserves_unknown() => Ok(Value::Preserved(value)),
        (Shape::Unknown, _) => Err(Error::new(
            "invalid type, expected object, array, number, integer, boolean or string, or no type with \
             x-kubernetes-int-or-string or x-kubernetes-preserve-unknown-fields is true, got ",
        )),
    }
}

fn unexpected(expected: &str, value: &Tree) -> Error {
    let found = match value {
        Tree::Null => "<nil>",
        Tree::Bool(_) => "bool",
        Tree::Int(_) => "int64",
        Tree::Float(_) => "float64",
        Tree::String(_) => "string",
        Tree::Array(_) => "[]interface {}",
        Tree::Object(_) | Tree::Raw(_) => "map[string]interface {}",
    };
    format!("invalid data, expected {expected}, got {found}").into()
}

fn formatted(text: &str, format: Format) -> Result<Value<'_>> {
    match format {
        Format::Duration => super::time::parse_schema_duration(text)
            .map(Value::Duration)
            .map_err(|error| format!("Invalid duration {text}: {error}").into()),
        Format::Date => Timestamp::parse_date(text)
            .map(Value::Timestamp)
            .map_err(|error| format!("Invalid date formatted string {text}: {error}").into()),
        Format::DateTime => Timestamp::parse_schema(text)
            .map(Value::Timestamp)
            .map_err(|error| format!("Invalid date-time formatted string {text}: {error}").into()),
        Format::Byte => decode_base64(text)
            .map(Value::bytes)
            .map_err(|error| format!("Invalid byte formatted string {text}: {error}").into()),
        Format::None => Ok(Value::String(Text::Borrowed(text))),
    }
}

/// Decodes base64 as upstream's decoder does, which ignores line breaks.
fn decode_base64(text: &str) -> std::result::Result<Vec<u8>, String> {
    let joined: String;
    let text = if text.contains(['\n', '\r']) {
        joined = text.replace(['\n', '\r'], "");
        &joined
    } else {
        text
    };
    BASE64.decode(text).map_err(|error| {
        let at = match error {
            DecodeError::InvalidByte(at, _) => at,
            _ => text.len() / 4 * 4,
        };
        format!("illegal base64 data at input byte {at}")
    })
}

/// Bits that the last character has too many are ignored, as Go does.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true),
);

/// The item of an array.
pub(super) fn item<'a>(value: &'a Tree, schema: &'a Schema) -> Result<Value<'a>> {
    match schema.items() {
        Some(items) => typed(value, items),
        None => Err(Error::new("invalid array type, expected Items with a non-empty Schema")),
    }
}

/// The value of a key. In an object with properties, keys are escaped names and null fields are absent.
pub(super) fn field<'a>(
    map: &'a corten_api::Map,
    schema: &'a Schema,
    key: &str,
) -> Result<Option<Value<'a>>> {
    if !schema.has_properties() {
        return match (map.get(key), schema.value_of(key)) {
            (Some(value), Some(schema)) => typed(value, schema).map(Some),
            _ => Ok(None),
        };
    }
    let Some(name) = unescape(key) else { return Ok(None) };
    match (map.get(&name), schema.value_of(&name)) {
        (Some(value), Some(schema)) if !value.is_null() => typed(value, schema).map(Some),
        _ => Ok(None),
    }
}

/// `list + other` for a list with a schema: sets and map lists merge, others concatenate.
pub(super) fn add<'a>(list: &List<'a>, kind: Option<&'a ListKind>, other: &List<'a>) -> Result<List<'a>> {
    let total = list.len().saturating_add(other.len());
    if total > crate::declare::MAX_RESULT / size_of::<Value<'_>>() {
        return Err(Error::Cancelled);
    }
    let mut result = Vec::with_capacity(total);
    for value in list.iter() {
        result.push(value?);
    }
    match kind {
        Some(kind @ ListKind::Map(keys)) => {
            add_to_map_list(&mut result, other, keys)?;
            Ok(List::merged(result, kind))
        }
        Some(kind @ ListKind::Set) => {
            add_to_set(&mut result, other)?;
            Ok(List::merged(result, kind))
        }
        _ => {
            for value in other.iter() {
                result.push(value?);
            }
            Ok(List::of(result.into()))
        }
    }
}

/// Appends the items that the list does not have.
fn add_to_set<'a>(result: &mut Vec<Value<'a>>, other: &List<'a>) -> Result<()> {
    let mut known = HashSet::new();
    for value in result.iter() {
        known.insert(equality::set_key(value)?);
    }
    for value in other.iter() {
        let value = value?;
        if known.insert(equality::set_key(&value)?) {
            result.push(value);
        }
    }
    Ok(())
}

/// Replaces items with the same keys in place and appends the others.
fn add_to_map_list<'a>(result: &mut Vec<Value<'a>>, other: &List<'a>, keys: &'a [Box<str>]) -> Result<()> {
    let mut position = HashMap::new();
    for (at, value) in result.iter().enumerate() {
        position.insert(equality::map_list_key(value, keys), at);
    }
    for value in other.iter() {
        let value = value?;
        match position.get(&equality::map_list_key(&value, keys)) {
            Some(at) => result[*at] = value,
            None => result.push(value),
        }
    }
    Ok(())
}
