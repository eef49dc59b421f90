//! The smallest checks: one member of an object.

use corten_api::status::{ErrorList, FieldError, FieldErrorKind};
use corten_api::{Field, Map, Value};

use crate::prepare::same;
pub(crate) use crate::validation::number::int as number;

pub(crate) const IMMUTABLE: &str = "field is immutable";
pub(crate) const NOT_NEGATIVE: &str = "must be greater than or equal to 0";

/// A member's tree; null if there is none.
pub(crate) fn part<'v>(value: &'v Value, key: &str) -> &'v Value {
    value.get(key).unwrap_or(&Value::Null)
}

/// The entries of a member that is a map, by key.
pub(crate) fn entries<'v>(value: &'v Value, key: &str) -> impl Iterator<Item = (&'v str, &'v Value)> {
    let map = value.get(key).and_then(Value::as_object);
    map.into_iter().flat_map(Map::iter).map(|(key, value)| (key.as_str(), value))
}

/// A count may be zero or missing, not negative.
pub(crate) fn non_negative(owner: &Value, key: &str, at: &Field<'_>, errors: &mut ErrorList) {
    let count = number(owner, key);
    if count < 0 {
        errors.invalid(at.child(key), &Value::Int(count), NOT_NEGATIVE);
    }
}

/// An immutable member.
pub(crate) fn immutable(new: &Value, old: &Value, key: &str, at: &Field<'_>, errors: &mut ErrorList) {
    if !same(new, old, &[key]) {
        errors.invalid(at.child(key), part(new, key), IMMUTABLE);
    }
}

/// An immutable member of a kind that upstream validates declaratively: the error does not show the new value.
pub(crate) fn immutable_unshown(new: &Value, old: &Value, key: &str, at: &Field<'_>, errors: &mut ErrorList) {
    if !same(new, old, &[key]) {
        errors.invalid(at.child(key), &Value::Null, IMMUTABLE);
    }
}

/// An immutable text, which is empty rather than absent.
pub(crate) fn immutable_text(new: &Value, old: &Value, key: &str, at: &Field<'_>, errors: &mut ErrorList) {
    if !same(new, old, &[key]) {
        let text = part(new, key).as_str().unwrap_or_default();
        errors.invalid(at.child(key), &Value::from(text), IMMUTABLE);
    }
}

/// A member that must be one of a few texts; empty counts as absent.
pub(crate) fn one_of(owner: &Value, key: &str, supported: &[&str], at: &Field<'_>, errors: &mut ErrorList) {
    match owner.get(key).and_then(Value::as_str).unwrap_or_default() {
        "" => errors.required(at.child(key), ""),
        text if supported.contains(&text) => {}
        other => errors.not_supported(at.child(key), &Value::from(other), supported),
    }
}

/// The same for a member that may be absent, but not empty.
pub(crate) fn any_of(owner: &Value, key: &str, supported: &[&str], at: &Field<'_>, errors: &mut ErrorList) {
    let Some(text) = owner.get(key).and_then(Value::as_str) else { return };
    if !supported.contains(&text) {
        errors.not_supported(at.child(key), &Value::from(text), supported);
    }
}

/// `Invalid` with the value omitted.
pub(crate) fn invalid_omitted(at: Field<'_>, why: impl Into<String>, errors: &mut ErrorList) {
    let kind = FieldErrorKind::Invalid;
    errors.add(FieldError { kind, field: at.into(), bad_value: None, detail: why.into() });
}
