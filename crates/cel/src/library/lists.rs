//! Kubernetes' functions of lists: `isSorted`, `sum`, `min`, `max`, `indexOf`, `lastIndexOf`, `includes`.

use std::cmp::Ordering;

use super::arguments::{declare, list};
use crate::declare::{Declaration, Library};
use crate::error::{Error, Result};
use crate::value::{Value, compare, equal};

pub const LIBRARY: Library = Library { declarations: DECLARATIONS, types: &[] };

/// `includes`, which is newer than the rest of the library.
pub const INCLUDES: Library = Library {
    declarations: &[declare("includes", "list_includes_dyn_dyn", "dyn.(dyn) bool", includes)],
    types: &[],
};

const DECLARATIONS: &[Declaration] = &[
    declare("isSorted", "list_int_is_sorted_bool", "list(int).() bool", is_sorted),
    declare("isSorted", "list_uint_is_sorted_bool", "list(uint).() bool", is_sorted),
    declare("isSorted", "list_double_is_sorted_bool", "list(double).() bool", is_sorted),
    declare("isSorted", "list_bool_is_sorted_bool", "list(bool).() bool", is_sorted),
    declare("isSorted", "list_duration_is_sorted_bool", "list(duration).() bool", is_sorted),
    declare("isSorted", "list_timestamp_is_sorted_bool", "list(timestamp).() bool", is_sorted),
    declare("isSorted", "list_string_is_sorted_bool", "list(string).() bool", is_sorted),
    declare("isSorted", "list_bytes_is_sorted_bool", "list(bytes).() bool", is_sorted),
    declare("sum", "list_int_sum_int", "list(int).() int", |list| sum(list, Value::Int(0))),
    declare("sum", "list_uint_sum_uint", "list(uint).() uint", |list| sum(list, Value::Uint(0))),
    declare("sum", "list_double_sum_double", "list(double).() double", |list| sum(list, Value::Double(0.0))),
    declare("sum", "list_duration_sum_duration", "list(duration).() duration", |list| {
        sum(list, Value::Duration(0))
    }),
    declare("max", "list_int_max_int", "list(int).() int", max),
    declare("max", "list_uint_max_uint", "list(uint).() uint", max),
    declare("max", "list_double_max_double", "list(double).() double", max),
    declare("max", "list_bool_max_bool", "list(bool).() bool", max),
    declare("max", "list_duration_max_duration", "list(duration).() duration", max),
    declare("max", "list_timestamp_max_timestamp", "list(timestamp).() timestamp", max),
    declare("max", "list_string_max_string", "list(string).() string", max),
    declare("max", "list_bytes_max_bytes", "list(bytes).() bytes", max),
    declare("min", "list_int_min_int", "list(int).() int", min),
    declare("min", "list_uint_min_uint", "list(uint).() uint", min),
    declare("min", "list_double_min_double", "list(double).() double", min),
    declare("min", "list_bool_min_bool", "list(bool).() bool", min),
    declare("min", "list_duration_min_duration", "list(duration).() duration", min),
    declare("min", "list_timestamp_min_timestamp", "list(timestamp).() timestamp", min),
    declare("min", "list_string_min_string", "list(string).() string", min),
    declare("min", "list_bytes_min_bytes", "list(bytes).() bytes", min),
    declare("indexOf", "list_a_index_of_int", "list(A).(A) int", index_of),
    declare("lastIndexOf", "list_a_last_index_of_int", "list(A).(A) int", last_index_of),
];

/// Returns true for values of types that have an order.
pub(super) fn is_comparable(value: &Value<'_>) -> bool {
    matches!(
        value,
        Value::Bool(_)
            | Value::Int(_)
            | Value::Uint(_)
            | Value::Double(_)
            | Value::String(_)
            | Value::Bytes(_)
            | Value::Duration(_)
            | Value::Timestamp(_)
    )
}

fn comparable(value: Result<Value<'_>>) -> Result<Value<'_>> {
    value.and_then(|value| if is_comparable(&value) { Ok(value) } else { Err(Error::no_such_overload()) })
}

/// Items that cannot be compared with each other count as sorted.
fn is_sorted<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    let mut previous: Option<Value<'a>> = None;
    for item in list(arguments, 0)?.iter() {
        let item = comparable(item)?;
        if previous.is_some_and(|previous| compare(&previous, &item) == Ok(Ordering::Greater)) {
            return Ok(false.into());
        }
        previous = Some(item);
    }
    Ok(true.into())
}

fn sum<'a>(arguments: &[Value<'a>], zero: Value<'a>) -> Result<Value<'a>> {
    list(arguments, 0)?.iter().try_fold(zero, |total, item| {
        const OVERFLOW: Error = Error::new("integer overflow");
        match (total, item?) {
            (Value::Int(a), Value::Int(b)) => a.checked_add(b).map(Value::Int).ok_or(OVERFLOW),
            (Value::Duration(a), Value::Duration(b)) => a.checked_add(b).map(Value::Duration).ok_or(OVERFLOW),
            (Value::Uint(a), Value::Uint(b)) => {
                a.checked_add(b).map(Value::Uint).ok_or(Error::new("unsigned integer overflow"))
            }
            (Value::Double(a), Value::Double(b)) => Ok(Value::Double(a + b)),
            _ => Err(Error::no_such_overload()),
        }
    })
}

fn max<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    extreme(arguments, Ordering::Less, "max called on empty list")
}

fn min<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    extreme(arguments, Ordering::Greater, "min called on empty list")
}

/// The first item that does not compare as `worse` with any after it.
fn extreme<'a>(arguments: &[Value<'a>], worse: Ordering, empty: &'static str) -> Result<Value<'a>> {
    let mut best: Option<Value<'a>> = None;
    for item in list(arguments, 0)?.iter() {
        let item = comparable(item)?;
        if best.as_ref().is_none_or(|best| compare(best, &item) == Ok(worse)) {
            best = Some(item);
        }
    }
    best.ok_or(Error::new(empty))
}

fn index_of<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    let sought = sought(arguments)?;
    let found = list(arguments, 0)?.iter().position(|item| is_equal(item, sought));
    Ok(position(found))
}

fn last_index_of<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    let sought = sought(arguments)?;
    let found =
        list(arguments, 0)?.iter().enumerate().filter(|(_, item)| is_equal(item.clone(), sought)).last();
    Ok(position(found.map(|(index, _)| index)))
}

fn sought<'v, 'a>(arguments: &'v [Value<'a>]) -> Result<&'v Value<'a>> {
    arguments.get(1).ok_or(Error::no_such_overload())
}

fn position<'a>(found: Option<usize>) -> Value<'a> {
    Value::Int(found.and_then(|index| i64::try_from(index).ok()).unwrap_or(-1))
}

/// Errors of comparisons count as differences.
fn is_equal<'a>(item: Result<Value<'a>>, other: &Value<'a>) -> bool {
    item.and_then(|item| equal(&item, other)).is_ok_and(|equal| equal)
}

fn includes<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    let sought = sought(arguments)?;
    Ok(match arguments.first() {
        Some(Value::List(list)) => list.iter().any(|item| is_equal(item, sought)),
        Some(target) => is_equal(Ok(target.clone()), sought),
        None => false,
    }
    .into())
}
