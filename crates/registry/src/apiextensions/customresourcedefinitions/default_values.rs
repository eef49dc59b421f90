//! Defaults in schemas: values that the schema itself must accept.

use corten_api::status::ErrorList;
use corten_api::{Field, Value};

use super::schema::{flag, named, part, property};
use super::values::validate_value;
use crate::validation::text::member;

/// Every default in a schema. Where more was accepted before, `any_field` lets fields be unknown.
pub(super) fn validate_defaults(schema: &Value, any_field: bool, at: &Field<'_>, errors: &mut ErrorList) {
    if let Some(default) = member(schema, "default") {
        let at = at.child("default");
        if !any_field && has_unknown(default, schema) {
            errors.invalid(at, default, "must not have unknown fields");
        }
        validate_value(default, schema, &at, errors);
    }
    if let Some(items) = part(schema, "items") {
        validate_defaults(items, any_field, &at.child("items"), errors);
    }
    for (name, property) in named(schema, "properties") {
        validate_defaults(property, any_field, &at.child("properties").key(name), errors);
    }
}

/// Whether any default in a schema has fields that the schema does not know.
pub(super) fn has_unknown_fields(schema: &Value) -> bool {
    member(schema, "default").is_some_and(|default| has_unknown(default, schema))
        || part(schema, "items").is_some_and(has_unknown_fields)
        || named(schema, "properties").any(|(_, property)| has_unknown_fields(property))
}

fn has_unknown(value: &Value, schema: &Value) -> bool {
    match value {
        Value::Array(items) => {
            let schema = part(schema, "items").unwrap_or(&Value::Null);
            items.iter().any(|item| has_unknown(item, schema))
        }
        Value::Object(members) => members.iter().any(|(name, value)| {
            if flag(schema, "x-kubernetes-embedded-resource")
                && matches!(name.as_str(), "apiVersion" | "kind" | "metadata")
            {
                return false;
            }
            match property(schema, name).or_else(|| part(schema, "additionalProperties")) {
                Some(schema) => has_unknown(value, schema),
                None => {
                    !flag(schema, "x-kubernetes-preserve-unknown-fields")
                        && !flag(schema, "additionalProperties")
                }
            }
        }),
        _ => false,
    }
}
