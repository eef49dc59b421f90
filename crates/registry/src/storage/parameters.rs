//! Validation that classes share: provisioner and parameters.

use corten_api::status::ErrorList;
use corten_api::{Field, Value, names};

use crate::validation::fields::entries;
use crate::validation::text::complain;

const MOST_PARAMETERS: usize = 512;
const MOST_BYTES: usize = 256 * 1024;

/// The name of a provisioner or driver, in any case.
pub(crate) fn validate_provisioner(name: &str, at: &Field<'_>, errors: &mut ErrorList) {
    if name.is_empty() {
        errors.required(at, "");
        return;
    }
    let name = name.to_lowercase();
    complain(at, &name, names::qualified_name(&name), errors);
}

pub(crate) fn validate_parameters(class: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    if entries(class, "parameters").count() > MOST_PARAMETERS {
        errors.too_long(at, MOST_PARAMETERS);
        return;
    }
    let mut size = 0;
    for (key, value) in entries(class, "parameters") {
        if key.is_empty() {
            errors.invalid(at, &Value::from(key), "field can not be empty.");
        }
        size += key.len() + value.as_str().unwrap_or_default().len();
    }
    if size > MOST_BYTES {
        errors.too_long(at, MOST_BYTES);
    }
}
