//! Optional values.

use std::sync::Arc;

use crate::declare::{Declaration, Implementation, Library};
use crate::error::{Error, Result};
use crate::value::Value;

pub const LIBRARY: Library = Library { declarations: DECLARATIONS, types: &["optional_type(dyn)"] };

use Implementation::{Special, Values};

const DECLARATIONS: &[Declaration] = &[
    Declaration::new("optional.of", "optional_of", "(V) optional_type(V)", Values(of)),
    Declaration::new(
        "optional.ofNonZeroValue",
        "optional_ofNonZeroValue",
        "(V) optional_type(V)",
        Values(of_non_zero),
    ),
    Declaration::new("optional.none", "optional_none", "() optional_type(V)", Values(none)),
    Declaration::new("value", "optional_value", "optional_type(V).() V", Values(value)),
    Declaration::new("hasValue", "optional_hasValue", "optional_type(V).() bool", Values(has_value)),
    Declaration::new(
        "or",
        "optional_or_optional",
        "optional_type(V).(optional_type(V)) optional_type(V)",
        Special,
    ),
    Declaration::new("orValue", "optional_orValue_value", "optional_type(V).(V) V", Special),
    Declaration::new("_?._", "select_optional_field", "(dyn, string) optional_type(V)", Special),
    Declaration::new("_[?_]", "list_optindex_optional_int", "(list(V), int) optional_type(V)", Special),
    Declaration::new(
        "_[?_]",
        "optional_list_optindex_optional_int",
        "(optional_type(list(V)), int) optional_type(V)",
        Special,
    ),
    Declaration::new("_[?_]", "map_optindex_optional_value", "(map(K, V), K) optional_type(V)", Special),
    Declaration::new(
        "_[?_]",
        "optional_map_optindex_optional_value",
        "(optional_type(map(K, V)), K) optional_type(V)",
        Special,
    ),
    Declaration::new(
        "_[_]",
        "optional_list_index_int",
        "(optional_type(list(V)), int) optional_type(V)",
        Special,
    ),
    Declaration::new(
        "_[_]",
        "optional_map_index_value",
        "(optional_type(map(K, V)), K) optional_type(V)",
        Special,
    ),
    Declaration::new("last", "list_last", "list(V).() optional_type(V)", Values(last)),
    Declaration::new("first", "list_first", "list(V).() optional_type(V)", Values(first)),
    Declaration::new(
        "optional.unwrap",
        "optional_unwrap",
        "(list(optional_type(V))) list(V)",
        Values(unwrap),
    ),
    Declaration::new("unwrapOpt", "optional_unwrapOpt", "list(optional_type(V)).() list(V)", Values(unwrap)),
];

fn of<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    let [value] = arguments else { return Err(Error::no_such_overload()) };
    Ok(Value::some(value.clone()))
}

fn of_non_zero<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    match arguments {
        [value] if value.is_zero() => Ok(Value::Optional(None)),
        _ => of(arguments),
    }
}

fn none<'a>(_arguments: &[Value<'a>]) -> Result<Value<'a>> {
    Ok(Value::Optional(None))
}

fn optional<'v, 'a>(arguments: &'v [Value<'a>]) -> Result<&'v Option<Arc<Value<'a>>>> {
    match arguments {
        [Value::Optional(value)] => Ok(value),
        _ => Err(Error::no_such_overload()),
    }
}

fn value<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    let value = optional(arguments)?.as_deref();
    value.cloned().ok_or(Error::new("optional.none() dereference"))
}

fn has_value<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    Ok(Value::Bool(optional(arguments)?.is_some()))
}

fn item<'a>(arguments: &[Value<'a>], position: fn(usize) -> Option<usize>) -> Result<Value<'a>> {
    let [Value::List(list)] = arguments else { return Err(Error::no_such_overload()) };
    match position(list.len()).and_then(|at| list.get(at)) {
        Some(value) => Ok(Value::some(value?)),
        None => Ok(Value::Optional(None)),
    }
}

fn first<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    item(arguments, |_| Some(0))
}

fn last<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    item(arguments, |length| length.checked_sub(1))
}

fn unwrap<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    let [Value::List(list)] = arguments else { return Err(Error::no_such_overload()) };
    let mut values = Vec::new();
    for item in list.iter() {
        match item? {
            Value::Optional(Some(value)) => values.push(Value::clone(&value)),
            Value::Optional(None) => {}
            other => return Err(format!("value {other} is not optional").into()),
        }
    }
    Ok(Value::list(values))
}
