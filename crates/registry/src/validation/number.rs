//! Numbers that must be in a range.

use corten_api::status::ErrorList;
use corten_api::{Field, Value};

const MOST_ID: i64 = i32::MAX as i64;

/// A member's number; zero if there is none.
pub(crate) fn int(value: &Value, key: &str) -> i64 {
    value.get(key).and_then(Value::as_int).unwrap_or(0)
}

/// A member's number, if there is one.
pub(crate) fn given(value: &Value, key: &str) -> Option<i64> {
    value.get(key).and_then(Value::as_int)
}

pub(crate) fn non_negative(number: i64, at: &Field<'_>, errors: &mut ErrorList) {
    if number < 0 {
        errors.invalid(at, &Value::from(number), "must be greater than or equal to 0");
    }
}

pub(crate) fn positive(number: i64, at: &Field<'_>, errors: &mut ErrorList) {
    if number <= 0 {
        errors.invalid(at, &Value::from(number), "must be greater than zero");
    }
}

pub(crate) fn in_range(number: i64, low: i64, high: i64, at: &Field<'_>, errors: &mut ErrorList) {
    if !(low..=high).contains(&number) {
        errors.invalid(at, &Value::from(number), format!("must be between {low} and {high}, inclusive"));
    }
}

/// A Linux user or group id.
pub(crate) fn id(number: i64, at: &Field<'_>, errors: &mut ErrorList) {
    in_range(number, 0, MOST_ID, at, errors);
}

/// A member that is a user or group id, if it is set.
pub(crate) fn optional_id(value: &Value, key: &str, at: &Field<'_>, errors: &mut ErrorList) {
    if let Some(number) = given(value, key) {
        id(number, &at.child(key), errors);
    }
}
