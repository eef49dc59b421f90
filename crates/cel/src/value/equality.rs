//! Equality and order of values.
//!
//! Numbers compare by value across types. Values of different types are unequal, except where a list or object with a
//! schema is compared with something else: that is an error, as upstream's typed values decide.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};
use std::fmt::Write;

use corten_api::Value as Tree;

use super::{List, Map, Value};
use crate::error::{Error, Result};
use crate::schema::ListKind;
use crate::work;

/// `a == b`.
pub fn equal<'a>(a: &Value<'a>, b: &Value<'a>) -> Result<bool> {
    match (a, b) {
        (Value::Null, Value::Null) => Ok(true),
        (Value::Null, _) | (_, Value::Null) => Ok(false),
        _ => direct(a, b),
    }
}

/// Equality as the left value decides it.
pub(super) fn direct<'a>(a: &Value<'a>, b: &Value<'a>) -> Result<bool> {
    Ok(match (a, b) {
        (Value::Null, Value::Null) => true,
        (Value::Bool(a), Value::Bool(b)) => a == b,
        (Value::Int(a), Value::Int(b)) => a == b,
        (Value::Uint(a), Value::Uint(b)) => a == b,
        (Value::Double(a), Value::Double(b)) => a == b,
        (
            Value::Int(_) | Value::Uint(_) | Value::Double(_),
            Value::Int(_) | Value::Uint(_) | Value::Double(_),
        ) => compare_numbers(a, b) == Some(Ordering::Equal),
        (Value::String(a), Value::String(b)) => texts(a.as_bytes(), b.as_bytes())?,
        (Value::Bytes(a), Value::Bytes(b)) => texts(a, b)?,
        (Value::Duration(a), Value::Duration(b)) => a == b,
        (Value::Timestamp(a), Value::Timestamp(b)) => a.same_instant(*b),
        (Value::Type(a), Value::Type(b)) => a.name() == b.name(),
        (Value::Optional(a), Value::Optional(b)) => match (a, b) {
            (Some(a), Some(b)) => direct(a, b)?,
            (a, b) => a.is_none() == b.is_none(),
        },
        (Value::Opaque(a), Value::Opaque(b)) => a.equals(&**b).ok_or(Error::no_such_overload())?,
        (Value::Opaque(_), _) => return Err(Error::no_such_overload()),
        (Value::Object(a), Value::Object(b)) => a.equals(b)?,
        (Value::Preserved(a), Value::Preserved(b)) => trees(a, b)?,
        (Value::List(a), Value::List(b)) => lists(a, b)?,
        (Value::Map(a), Value::Map(b)) => maps(a, b)?,
        (Value::List(List::Typed(..) | List::Merged(_)) | Value::Map(Map::Typed(..)), _) => {
            return Err(Error::no_such_overload());
        }
        _ => false,
    })
}

fn lists<'a>(a: &List<'a>, b: &List<'a>) -> Result<bool> {
    if a.len() != b.len() {
        return Ok(false);
    }
    match a.kind() {
        Some(ListKind::Set) => return sets(a, b),
        Some(ListKind::Map(keys)) => return map_lists(a, b, keys),
        _ => {}
    }
    let strict = matches!(a, List::Typed(..));
    for (a, b) in a.iter().zip(b.iter()) {
        work::spend(1)?;
        if strict {
            if !direct(&a?, &b?)? {
                return Ok(false);
            }
        } else if !ignoring_errors(a.and_then(|a| equal(&a, &b?)))? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn sets<'a>(a: &List<'a>, b: &List<'a>) -> Result<bool> {
    let mut known = HashSet::new();
    for item in a.iter() {
        work::spend(1)?;
        known.insert(set_key(&item?)?);
    }
    let mut seen = HashSet::new();
    for item in b.iter() {
        let key = set_key(&item?)?;
        if !known.contains(&key) {
            return Ok(false);
        }
        seen.insert(key);
    }
    Ok(seen.len() == known.len())
}

fn map_lists<'a>(a: &List<'a>, b: &List<'a>, keys: &'a [Box<str>]) -> Result<bool> {
    let mut known = HashMap::new();
    for item in a.iter() {
        let item = item?;
        known.insert(map_list_key(&item, keys), item);
    }
    let mut seen = HashSet::new();
    for item in b.iter() {
        let item = item?;
        let key = map_list_key(&item, keys);
        match known.get(&key) {
            None => return Ok(false),
            Some(other) if !direct(other, &item)? => return Ok(false),
            Some(_) => {}
        }
        seen.insert(key);
    }
    Ok(seen.len() == known.len())
}

/// A text that is equal for equal items of a set.
pub(super) fn set_key(value: &Value<'_>) -> Result<String> {
    match value {
        Value::List(_) | Value::Map(_) => {
            Err(Error::new("listSet operations are only supported on lists of scalar values"))
        }
        _ => Ok(scalar_key(value)),
    }
}

/// The key of an item of a map list. A missing or invalid key counts as null.
pub(super) fn map_list_key<'a>(value: &Value<'a>, keys: &'a [Box<str>]) -> String {
    let mut text = String::new();
    for key in keys {
        let field = match value {
            Value::Map(map) => map.find_text(key).ok().flatten(),
            _ => None,
        };
        let field = field.map_or_else(|| "null".to_owned(), |field| scalar_key(&field));
        // Cannot fail: the target is a string. The length keeps the parts apart.
        let _ = write!(text, "{}:{field}", field.len());
    }
    text
}

fn scalar_key(value: &Value<'_>) -> String {
    match value {
        Value::Double(d) => format!("double {:?}", d + 0.0),
        Value::String(text) => format!("string {}", &**text),
        Value::Bytes(bytes) => format!("bytes {:?}", &**bytes),
        other => format!("{} {other:?}", other.type_name()),
    }
}

fn maps<'a>(a: &Map<'a>, b: &Map<'a>) -> Result<bool> {
    if a.len() != b.len() {
        return Ok(false);
    }
    let Map::Typed(tree, schema) = a else {
        for (key, value) in a.iter() {
            work::spend(1)?;
            let Some(other) = b.find(&key).ok().flatten() else { return Ok(false) };
            if !ignoring_errors(value.and_then(|value| equal(&value, &other)))? {
                return Ok(false);
            }
        }
        return Ok(true);
    };
    for (key, value) in tree.iter() {
        work::spend(1)?;
        if schema.value_of(key).is_none() {
            // A field that the schema does not have is compared as it is.
            let Map::Typed(other, _) = b else { return Err(Error::no_such_overload()) };
            if let Some(other) = other.get(key)
                && !trees(other, value)?
            {
                return Ok(false);
            }
            continue;
        }
        // Upstream looks the name up as if it were an escaped one.
        match (a.find_text(key)?, b.find_text(key)?) {
            (Some(a), Some(b)) if !direct(&a, &b)? => return Ok(false),
            (Some(_), None) | (None, Some(_)) => return Ok(false),
            _ => {}
        }
    }
    Ok(true)
}

/// Lists and maps that expressions create ignore errors of what they contain.
fn ignoring_errors(outcome: Result<bool>) -> Result<bool> {
    outcome.or_else(|error| error.unless_cancelled().map(|_| true))
}

/// The bytes that are compared in one step.
const STEP: usize = 64;

fn texts(a: &[u8], b: &[u8]) -> Result<bool> {
    if a.len() != b.len() {
        return Ok(false);
    }
    work::spend((a.len() / STEP) as u64)?;
    Ok(a == b)
}

fn trees(a: &Tree, b: &Tree) -> Result<bool> {
    work::spend(1)?;
    match (a, b) {
        (Tree::Array(a), Tree::Array(b)) => {
            Ok(a.len() == b.len() && all(a.iter().zip(b), |(a, b)| trees(a, b))?)
        }
        (Tree::Object(a), Tree::Object(b)) => {
            let entries = a.iter().zip(b.iter());
            Ok(a.len() == b.len() && all(entries, |((k, a), (l, b))| Ok(k == l && trees(a, b)?))?)
        }
        (Tree::String(a), Tree::String(b)) => texts(a.as_bytes(), b.as_bytes()),
        (a, b) => Ok(a == b),
    }
}

fn all<T>(items: impl Iterator<Item = T>, holds: impl Fn(T) -> Result<bool>) -> Result<bool> {
    for item in items {
        if !holds(item)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The order of two values; an error for types without a common order.
pub fn compare(a: &Value<'_>, b: &Value<'_>) -> Result<Ordering> {
    match (a, b) {
        (
            Value::Int(_) | Value::Uint(_) | Value::Double(_),
            Value::Int(_) | Value::Uint(_) | Value::Double(_),
        ) => compare_numbers(a, b).ok_or(Error::new("NaN values cannot be ordered")),
        (Value::String(a), Value::String(b)) => Ok((**a).cmp(&**b)),
        (Value::Bool(a), Value::Bool(b)) => Ok(a.cmp(b)),
        (Value::Bytes(a), Value::Bytes(b)) => Ok((**a).cmp(&**b)),
        (Value::Timestamp(a), Value::Timestamp(b)) => Ok(a.cmp_instant(*b)),
        (Value::Duration(a), Value::Duration(b)) => Ok(a.cmp(b)),
        _ => Err(Error::no_such_overload()),
    }
}

/// The order of two numbers; `None` if one is not a number.
fn compare_numbers(a: &Value<'_>, b: &Value<'_>) -> Option<Ordering> {
    match (a, b) {
        (Value::Int(a), Value::Int(b)) => Some(a.cmp(b)),
        (Value::Uint(a), Value::Uint(b)) => Some(a.cmp(b)),
        (Value::Double(a), Value::Double(b)) => a.partial_cmp(b),
        (Value::Int(a), Value::Uint(b)) => Some(compare_int_uint(*a, *b)),
        (Value::Uint(a), Value::Int(b)) => Some(compare_int_uint(*b, *a).reverse()),
        (Value::Double(a), Value::Int(b)) => compare_double(*a, *b as f64, i64::MIN as f64, i64::MAX as f64),
        (Value::Int(a), Value::Double(b)) => {
            compare_double(*b, *a as f64, i64::MIN as f64, i64::MAX as f64).map(Ordering::reverse)
        }
        (Value::Double(a), Value::Uint(b)) => compare_double(*a, *b as f64, 0.0, u64::MAX as f64),
        (Value::Uint(a), Value::Double(b)) => {
            compare_double(*b, *a as f64, 0.0, u64::MAX as f64).map(Ordering::reverse)
        }
        _ => None,
    }
}

fn compare_int_uint(a: i64, b: u64) -> Ordering {
    u64::try_from(a).map_or(Ordering::Less, |a| a.cmp(&b))
}

/// Compares a double with the double nearest to an integer; doubles outside the integer's range are beyond all of it.
fn compare_double(double: f64, integer: f64, least: f64, greatest: f64) -> Option<Ordering> {
    if double < least {
        Some(Ordering::Less)
    } else if double > greatest {
        Some(Ordering::Greater)
    } else {
        double.partial_cmp(&integer)
    }
}
