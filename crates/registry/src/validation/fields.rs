//! The smallest checks: one member of an object, and what is said of it.

use corten_api::status::{ErrorList, FieldError, FieldErrorKind};
use corten_api::{Field, Value};

use crate::prepare::same;

pub(crate) const IMMUTABLE: &str = "field is immutable";
pub(crate) const NOT_NEGATIVE: &str = "must be greater than or equal to 0";

/// A member's number; zero if there is none.
pub(crate) fn number(value: &Value, key: &str) -> i64 {
    value.get(key).and_then(Value::as_int).unwrap_or_default()
}

/// A member's tree; null if there is none.
pub(crate) fn part<'v>(value: &'v Value, key: &str) -> &'v Value {
    value.get(key).unwrap_or(&Value::Null)
}

/// A count may be zero or missing, not negative.
pub(crate) fn non_negative(owner: &Value, key: &str, at: &Field<'_>, errors: &mut ErrorList) {
    let count = number(owner, key);
    if count < 0 {
        errors.invalid(at.child(key), &Value::Int(count), NOT_NEGATIVE);
    }
}

/// A member that must stay as it was.
pub(crate) fn immutable(new: &Value, old: &Value, key: &str, at: &Field<'_>, errors: &mut ErrorList) {
    if !same(new, old, &[key]) {
        errors.invalid(at.child(key), part(new, key), IMMUTABLE);
    }
}

/// `Invalid` where the value is too much to show.
pub(crate) fn invalid_omitted(at: Field<'_>, why: impl Into<String>, errors: &mut ErrorList) {
    let kind = FieldErrorKind::Invalid;
    errors.0.push(FieldError { kind, field: at.into(), bad_value: None, detail: why.into() });
}
