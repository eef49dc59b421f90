//! Label selectors as objects: `matchLabels` and `matchExpressions`.

use corten_api::status::ErrorList;
use corten_api::{Field, Map, Value, names};

use crate::validation::text::complain;

/// Invalid values that a stored object may keep.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LabelSelectorOptions {
    /// Allows values of expressions that are not label values.
    pub(crate) allow_invalid_values: bool,
}

/// An absent selector is valid.
pub(crate) fn validate_label_selector(
    selector: Option<&Value>,
    options: LabelSelectorOptions,
    at: &Field<'_>,
    errors: &mut ErrorList,
) {
    let Some(selector) = selector else { return };
    validate_labels(selector.get("matchLabels"), &at.child("matchLabels"), errors);
    let at = at.child("matchExpressions");
    for (i, requirement) in selector.items_at(&["matchExpressions"]).iter().enumerate() {
        validate_requirement(requirement, options, &at.index(i), errors);
    }
}

/// A set of labels: every key and every value.
pub(crate) fn validate_labels(labels: Option<&Value>, at: &Field<'_>, errors: &mut ErrorList) {
    for (key, value) in labels.and_then(Value::as_object).into_iter().flat_map(Map::iter) {
        let value = value.as_str().unwrap_or_default();
        complain(at, key, names::qualified_name(key), errors);
        complain(at, value, names::label_value(value), errors);
    }
}

fn validate_requirement(
    requirement: &Value,
    options: LabelSelectorOptions,
    at: &Field<'_>,
    errors: &mut ErrorList,
) {
    let (values, values_at) = (requirement.items_at(&["values"]), at.child("values"));
    match requirement.str_at(&["operator"]).unwrap_or_default() {
        "In" | "NotIn" => {
            if values.is_empty() {
                errors.required(values_at, "must be specified when `operator` is 'In' or 'NotIn'");
            }
        }
        "Exists" | "DoesNotExist" => {
            if !values.is_empty() {
                let why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                errors.forbidden(values_at, why);
            }
        }
        other => {
            errors.invalid(at.child("operator"), &Value::from(other), "not a valid selector operator");
        }
    }
    let key = requirement.str_at(&["key"]).unwrap_or_default();
    complain(&at.child("key"), key, names::qualified_name(key), errors);
    if options.allow_invalid_values {
        return;
    }
    for (i, value) in values.iter().enumerate() {
        let value = value.as_str().unwrap_or_default();
        complain(&values_at.index(i), value, names::label_value(value), errors);
    }
}

/// Returns true if an expression has a value that no label can have.
pub(crate) fn has_invalid_values(selector: Option<&Value>) -> bool {
    let requirements = selector.map_or(&[][..], |selector| selector.items_at(&["matchExpressions"]));
    let mut values = requirements.iter().flat_map(|requirement| requirement.items_at(&["values"]));
    values.any(|value| !names::label_value(value.as_str().unwrap_or_default()).is_empty())
}
