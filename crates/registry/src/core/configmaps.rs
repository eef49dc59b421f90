//! Config maps: data for pods. An immutable one keeps its data.

use corten_api::status::ErrorList;
use corten_api::{Field, Value, names};

use crate::prepare::same;
use crate::rules::{RowContext, Rules};
use crate::table::{AGE, NAME, age, cells, count, name, text};
use crate::validation::fields::{entries, part};
use crate::validation::text::complain;

pub(crate) const RULES: Rules = Rules {
    group: "",
    resource: "configmaps",
    prefix_on_update: true,
    storage_prefix: "configmaps",
    validate_create: validate,
    validate_update,
    columns: &[NAME, text("Data", "How many entries there are.").of("core/v1.ConfigMap", "data"), AGE],
    row,
    ..Rules::DEFAULT
};

fn row(object: &Value, context: &RowContext<'_>) -> Vec<Value> {
    let entries = count(object, &["data"]) + count(object, &["binaryData"]);
    cells![name(object), entries, age(object, context)]
}

/// Maximum size of all data of a config map or a secret.
pub(crate) const MOST_BYTES: usize = 1024 * 1024;

fn validate(object: &Value, errors: &mut ErrorList) {
    let mut size = 0;
    let at = Field::new("data");
    for (key, value) in entries(object, "data") {
        validate_key(key, &at, errors);
        if part(object, "binaryData").get(key).is_some() {
            errors.invalid(at.key(key), &Value::from(key), "duplicate of key present in binaryData");
        }
        size += value.as_str().unwrap_or_default().len();
    }
    for (key, value) in entries(object, "binaryData") {
        validate_key(key, &Field::new("binaryData"), errors);
        size += byte_length(value);
    }
    if size > MOST_BYTES {
        errors.too_long("[]", MOST_BYTES);
    }
}

/// A key of data that may become a file.
pub(crate) fn validate_key(key: &str, at: &Field<'_>, errors: &mut ErrorList) {
    complain(&at.key(key), key, names::config_map_key(key), errors);
}

/// The decoded length of a base64 value.
pub(crate) fn byte_length(value: &Value) -> usize {
    let text = value.as_str().unwrap_or_default().trim_end_matches('=');
    text.len() / 4 * 3 + text.len() % 4 * 3 / 4
}

fn validate_update(object: &Value, old: &Value, errors: &mut ErrorList) {
    validate_immutable(object, old, &["data", "binaryData"], errors);
    validate(object, errors);
}

/// An immutable object keeps its data and the mark.
pub(crate) fn validate_immutable(object: &Value, old: &Value, kept: &[&str], errors: &mut ErrorList) {
    if old.bool_at(&["immutable"]) != Some(true) {
        return;
    }
    let why = "field is immutable when `immutable` is set";
    if object.bool_at(&["immutable"]) != Some(true) {
        errors.forbidden("immutable", why);
    }
    for part in kept.iter().filter(|part| !same(object, old, &[part])) {
        errors.forbidden(*part, why);
    }
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::*;

    #[test]
    fn immutable_fields_are_kept() {
        let complaints = |new: &Value, old: &Value| {
            let mut errors = ErrorList::new();
            validate_update(new, old, &mut errors);
            errors.0.into_iter().map(|e| e.field).collect::<Vec<_>>()
        };
        let old = value!({"immutable": true, "data": {"a": "1"}});
        assert!(complaints(&old, &old).is_empty());
        assert_eq!(complaints(&value!({"data": {"a": "2"}}), &old), ["immutable", "data"]);
        let grown = value!({"immutable": true, "data": {"a": "1"}, "binaryData": {"b": "Yg=="}});
        assert_eq!(complaints(&grown, &old), ["binaryData"]);
        assert!(complaints(&old, &value!({"data": {"a": "0"}})).is_empty());
    }

    #[test]
    fn all_data_together_has_a_limit() {
        for (encoded, bytes) in [("", 0), ("QQ==", 1), ("QUI=", 2), ("QUJD", 3), ("QUJDRA==", 4)] {
            assert_eq!(byte_length(&Value::from(encoded)), bytes, "{encoded}");
        }
        let complaints = |text: usize, binary: &str| {
            let object = value!({"data": {"a": ("x".repeat(text))}, "binaryData": {"b": binary}});
            let mut errors = ErrorList::new();
            validate(&object, &mut errors);
            errors.summary()
        };
        assert_eq!(complaints(MOST_BYTES - 1, "QQ=="), "");
        assert_eq!(complaints(MOST_BYTES - 1, "QUI="), "[]: Too long: may not be more than 1048576 bytes");
    }
}
