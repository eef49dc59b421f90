//! Paths of files: without `..`, and where required relative.

use corten_api::status::ErrorList;
use corten_api::{Field, Value};

pub(crate) const MOST_FILE_MODE: i64 = 0o777;

pub(crate) fn has_backsteps(path: &str) -> bool {
    path.split('/').any(|part| part == "..")
}

/// A path without `..`.
pub(crate) fn no_backsteps(path: &str, at: &Field<'_>, errors: &mut ErrorList) {
    if has_backsteps(path) {
        errors.invalid(at, &Value::from(path), "must not contain '..'");
    }
}

/// A relative path without `..`.
pub(crate) fn local_descending(path: &str, at: &Field<'_>, errors: &mut ErrorList) {
    if path.starts_with('/') {
        errors.invalid(at, &Value::from(path), "must be a relative path");
    }
    no_backsteps(path, at, errors);
}

/// A relative path without `..` that is not reserved by atomic writers.
pub(crate) fn local_non_reserved(path: &str, at: &Field<'_>, errors: &mut ErrorList) {
    local_descending(path, at, errors);
    if path.starts_with("..") && !path.starts_with("../") {
        errors.invalid(at, &Value::from(path), "must not start with '..'");
    }
}

/// Returns true if `local_non_reserved` accepts a path.
pub(crate) fn is_local_non_reserved(path: &str) -> bool {
    !path.starts_with('/') && !path.starts_with("..") && !has_backsteps(path)
}

/// The permissions of a file, if they are set.
pub(crate) fn file_mode(value: &Value, key: &str, at: &Field<'_>, errors: &mut ErrorList) {
    let Some(mode) = value.get(key).and_then(Value::as_int) else { return };
    if !(0..=MOST_FILE_MODE).contains(&mode) {
        let why = "must be a number between 0 and 0777 (octal), both inclusive";
        errors.invalid(at.child(key), &Value::from(mode), why);
    }
}
