//! Config maps: data for pods. One that is marked immutable keeps its data for good.

use corten_api::Value;
use corten_api::status::ErrorList;

use crate::prepare::same;
use crate::rules::{RowContext, Rules};
use crate::table::{AGE, NAME, age, cells, count, name, text};

pub(crate) const RULES: Rules = Rules {
    group: "",
    resource: "configmaps",
    storage_prefix: "configmaps",
    validate_update,
    columns: &[NAME, text("Data", "How many entries there are."), AGE],
    row,
    ..Rules::DEFAULT
};

fn row(object: &Value, context: &RowContext<'_>) -> Vec<Value> {
    let entries = count(object, &["data"]) + count(object, &["binaryData"]);
    cells![name(object), entries, age(object, context)]
}

fn validate_update(object: &Value, old: &Value, errors: &mut ErrorList) {
    if old.bool_at(&["immutable"]) != Some(true) {
        return;
    }
    let why = "field is immutable when `immutable` is set";
    if object.bool_at(&["immutable"]) != Some(true) {
        errors.forbidden("immutable", why);
    }
    for part in ["data", "binaryData"] {
        if !same(object, old, &[part]) {
            errors.forbidden(part, why);
        }
    }
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::*;

    #[test]
    fn what_is_immutable_stays() {
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
}
