//! Other parts of versions of a custom resource: columns, subresources, selectable fields.
//!
//! Upstream keeps a part that all versions share in one field, which errors name.

use std::collections::HashSet;

use corten_api::status::ErrorList;
use corten_api::{Field, Value};

use super::path;
use super::schema::of;
use crate::prepare::same;
use crate::validation::text::{list, member, text};

const SELECTABLE_FIELDS_MAX: usize = 8;

/// Returns true if all versions share a member. An empty list shares nothing.
fn agree(versions: &[Value], key: &str) -> bool {
    versions.first().is_some_and(|first| versions.iter().all(|version| same(version, first, &[key])))
}

/// The members that all versions share, of those that each may have on its own.
pub(super) fn agreed(versions: &[Value]) -> Vec<&'static str> {
    let keys = ["schema", "subresources", "additionalPrinterColumns", "selectableFields"];
    keys.into_iter().filter(|key| agree(versions, key)).collect()
}

/// The shared value of a member.
pub(super) fn shared<'v>(versions: &'v [Value], key: &str) -> Option<&'v Value> {
    versions.first().filter(|_| agree(versions, key)).and_then(|first| member(first, key))
}

pub(super) fn has_status(version: &Value) -> bool {
    version.at(&["subresources", "status"]).is_some_and(|status| !status.is_null())
}

pub(super) fn validate_columns(columns: &[Value], at: &Field<'_>, errors: &mut ErrorList) {
    for (i, column) in columns.iter().enumerate() {
        validate_column(column, &at.index(i), errors);
    }
}

fn validate_column(column: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    const TYPES: &[&str] = &["boolean", "date", "integer", "number", "string"];
    const FORMATS: &[&str] = &["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];
    if text(column, "name").is_empty() {
        errors.required(at.child("name"), "");
    }
    let (kind, format, json_path) = (text(column, "type"), text(column, "format"), text(column, "jsonPath"));
    let one_of = |known: &[&str]| format!("must be one of {}", known.join(","));
    if kind.is_empty() {
        errors.required(at.child("type"), one_of(TYPES));
    } else if !TYPES.contains(&kind) {
        errors.invalid(at.child("type"), &Value::from(kind), one_of(TYPES));
    }
    if !format.is_empty() && !FORMATS.contains(&format) {
        errors.invalid(at.child("format"), &Value::from(format), one_of(FORMATS));
    }
    if json_path.is_empty() {
        errors.required(at.child("JSONPath"), "");
    } else {
        validate_simple_path(json_path, &[], "", &at.child("JSONPath"), errors);
    }
}

/// A path in dots, below one of the given ones.
fn validate_simple_path(path: &str, below: &[&str], why: &str, at: &Field<'_>, errors: &mut ErrorList) {
    if !path.starts_with('.') {
        errors.invalid(at, &Value::from(path), "must be a simple json path starting with .");
    } else if !below.is_empty() && !below.iter().any(|prefix| path.starts_with(prefix)) {
        errors.invalid(at, &Value::from(path), why);
    }
}

pub(super) fn validate_subresources(subresources: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    let Some(scale) = member(subresources, "scale") else { return };
    let paths: [(&str, &str, &[&str], &str); 2] = [
        ("specReplicasPath", "scale.specReplicasPath", &[".spec."], "should be a json path under .spec"),
        (
            "statusReplicasPath",
            "scale.statusReplicasPath",
            &[".status."],
            "should be a json path under .status",
        ),
    ];
    for (key, name, below, why) in paths {
        match text(scale, key) {
            "" => errors.required(at.child(name), ""),
            path => validate_simple_path(path, below, why, &at.child(name), errors),
        }
    }
    let selector = text(scale, "labelSelectorPath");
    if !selector.is_empty() {
        let why = "should be a json path under either .spec or .status";
        let at = at.child("scale.labelSelectorPath");
        validate_simple_path(selector, &[".spec.", ".status."], why, &at, errors);
    }
}

/// Selectable fields, which must be simple fields of the schema.
pub(super) fn validate_selectable_fields(
    fields: &[Value],
    schema: &Value,
    any_number: bool,
    at: &Field<'_>,
    errors: &mut ErrorList,
) {
    let mut seen: HashSet<Vec<&str>> = HashSet::new();
    for (i, field) in fields.iter().enumerate() {
        let (json_path, at) = (text(field, "jsonPath"), at.index(i));
        let at = at.child("jsonPath");
        if json_path.is_empty() {
            errors.required(at, "");
            continue;
        }
        let mut refuse = |why: String| errors.invalid(at, &Value::from(json_path), why);
        let found = match path::find(json_path, schema, false) {
            Ok(found) => found,
            Err(why) => {
                refuse(format!("is an invalid path: {why}"));
                continue;
            }
        };
        if found.names.first() == Some(&"metadata") {
            refuse("must not point to fields in metadata".to_owned());
        }
        if !matches!(text(found.schema, "type"), "string" | "boolean" | "integer") {
            refuse("must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.".to_owned());
        }
        if !seen.insert(found.names) {
            errors.duplicate(at, &Value::from(json_path));
        }
    }
    if seen.len() > SELECTABLE_FIELDS_MAX && !any_number {
        errors.too_many(at, seen.len(), SELECTABLE_FIELDS_MAX);
    }
}

/// Returns true if an old version has more selectable fields than allowed, and the new one the same.
pub(super) fn may_keep_fields(version: &Value, old: &[Value]) -> bool {
    if list(version, "selectableFields").len() <= SELECTABLE_FIELDS_MAX {
        return false;
    }
    old.iter().any(|before| {
        text(before, "name") == text(version, "name")
            && list(before, "selectableFields").len() > SELECTABLE_FIELDS_MAX
            && same(before, version, &["selectableFields"])
    })
}

/// Selectable fields that not all versions share, or that they share while their schemas differ.
pub(super) fn refuse_without_schema(
    validation: Option<&Value>,
    why: &str,
    at: &Field<'_>,
    errors: &mut ErrorList,
) -> bool {
    let missing = of(validation).is_none();
    if missing {
        errors.invalid(at, &Value::from(""), why);
    }
    missing
}
