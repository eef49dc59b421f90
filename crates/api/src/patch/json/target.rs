//! Places in a document, by JSON pointer.

use crate::value::{Str, Value};

/// A container and a key in it, which may be absent.
pub(super) struct Place<'v> {
    pub(super) parent: &'v mut Value,
    pub(super) key: Str,
}

/// Follows a pointer up to its last step. The text before the first slash is ignored.
pub(super) fn find<'v>(target: &'v mut Value, pointer: &str) -> Option<Place<'v>> {
    let (_, steps) = pointer.split_once('/')?;
    let (parents, key) = steps.rsplit_once('/').map_or((None, steps), |(parents, key)| (Some(parents), key));
    let mut parent = target;
    for step in parents.into_iter().flat_map(|parents| parents.split('/')) {
        parent = get(parent, &unescape(step)).ok()??;
        parse_raw(parent);
        if !matches!(parent, Value::Object(_) | Value::Array(_)) {
            return None;
        }
    }
    Some(Place { parent, key: unescape(key) })
}

fn unescape(step: &str) -> Str {
    if step.contains('~') { Str::from(step.replace("~1", "/").replace("~0", "~")) } else { Str::new(step) }
}

/// Parses raw text into a tree when a patch refers to its content.
pub(super) fn parse_raw(value: &mut Value) {
    if let Value::Raw(text) = value
        && let Ok(tree) = crate::json::parse(text.as_bytes())
    {
        *value = tree;
    }
}

/// The value of a key. A missing member of an object is no error, a missing item of an array is.
pub(super) fn get<'v>(parent: &'v mut Value, key: &str) -> Result<Option<&'v mut Value>, String> {
    match parent {
        Value::Array(items) => {
            let at = index(key, items.len(), items.len())?;
            Ok(items.get_mut(at))
        }
        parent => Ok(parent.get_mut(key)),
    }
}

/// Sets a member, or inserts an item.
pub(super) fn put(parent: &mut Value, key: &str, value: Value) -> Result<(), String> {
    match parent {
        Value::Array(items) if key == "-" => items.push(value),
        Value::Array(items) => {
            number(key).map_err(|why| format!("value was not a proper array index: '{key}': {why}"))?;
            let at = index(key, items.len() + 1, items.len() + 1)?;
            items.insert(at, value);
        }
        parent => {
            parent.make_object().insert(key, value);
        }
    }
    Ok(())
}

/// Removes a member or an item, which must exist.
pub(super) fn take(parent: &mut Value, key: &str) -> Result<Value, String> {
    match parent {
        Value::Array(items) => {
            let at = index(key, items.len(), items.len())?;
            Ok(items.remove(at))
        }
        parent => parent
            .remove(&[key])
            .ok_or_else(|| format!("Unable to remove nonexistent key: {key}: missing value")),
    }
}

/// An index below `bound`; negative ones count back from `length`.
fn index(key: &str, length: usize, bound: usize) -> Result<usize, String> {
    let number = number(key)?;
    let at = if number < 0 { number + i64::try_from(length).unwrap_or(i64::MAX) } else { number };
    usize::try_from(at)
        .ok()
        .filter(|at| *at < bound)
        .ok_or_else(|| format!("Unable to access invalid index: {number}: invalid index referenced"))
}

fn number(key: &str) -> Result<i64, String> {
    key.parse().map_err(|error: std::num::ParseIntError| {
        let why = match error.kind() {
            std::num::IntErrorKind::PosOverflow | std::num::IntErrorKind::NegOverflow => "value out of range",
            _ => "invalid syntax",
        };
        format!("strconv.Atoi: parsing {}: {why}", crate::status::quoted(key))
    })
}

/// Equality of content, whether the values are trees or text.
pub(super) fn is_equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Raw(_), _) | (_, Value::Raw(_)) => {
            let (mut a, mut b) = (a.clone(), b.clone());
            parse_raw(&mut a);
            parse_raw(&mut b);
            a == b
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len()
                && a.iter().zip(b.iter()).all(|((a_key, a), (b_key, b))| a_key == b_key && is_equal(a, b))
        }
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_equal(a, b))
        }
        (a, b) => a == b,
    }
}
