//! Paths of files: no way up, and where it says so no way out.

use corten_api::status::ErrorList;
use corten_api::{Field, Value};

pub(crate) fn has_backsteps(path: &str) -> bool {
    path.split('/').any(|part| part == "..")
}

/// A path that never goes up.
pub(crate) fn no_backsteps(path: &str, at: &Field<'_>, errors: &mut ErrorList) {
    if has_backsteps(path) {
        errors.invalid(at, &Value::from(path), "must not contain '..'");
    }
}
