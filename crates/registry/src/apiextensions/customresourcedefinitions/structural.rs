//! Structural schemas: those that give the type of every field outside of `allOf`, `anyOf`, `oneOf` and `not`.

use corten_api::status::{ErrorList, FieldError};
use corten_api::{Field, Value, value};
use corten_cel::library::regex::Budget;
use corten_customresources::pattern_budget;

use super::schema::{JUNCTORS, flag, is_set, named, part, property};
use crate::validation::text::{list, member, text};

/// The place of a schema in a resource.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

/// The reason for which a schema cannot be structural at all, if any.
pub(super) fn unsupported(schema: &Value) -> Option<String> {
    const KEYS: [(&str, &str); 7] = [
        ("id", "id"),
        ("$schema", "schema"),
        ("$ref", "$ref"),
        ("patternProperties", "patternProperties"),
        ("dependencies", "dependencies"),
        ("additionalItems", "additionalItems"),
        ("definitions", "definitions"),
    ];
    let said = |key: &str| schema.get(key).is_some_and(is_set);
    if let Some((_, name)) = KEYS.iter().find(|(key, _)| said(key)) {
        return Some(format!("OpenAPIV3Schema '{name}' is not supported"));
    }
    if schema.get("items").is_some_and(|items| items.as_array().is_some()) {
        return Some("OpenAPIV3Schema 'items' must be a schema, but is an array".to_owned());
    }
    if schema.bool_at(&["x-kubernetes-preserve-unknown-fields"]) == Some(false) {
        let why = "internal error: 'x-kubernetes-preserve-unknown-fields' must be true or undefined";
        return Some(why.to_owned());
    }
    let parts = ["not", "items", "additionalProperties"].into_iter().filter_map(|key| part(schema, key));
    let parts = parts.chain(JUNCTORS.iter().flat_map(|key| list(schema, key)));
    parts.chain(named(schema, "properties").map(|(_, part)| part)).find_map(unsupported)
}

/// All violations of structural schemas, in order of their messages.
pub(super) fn validate_structural(schema: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    let mut found = ErrorList::new();
    validate_invariants(schema, Level::Root, &pattern_budget(), at, &mut found);
    validate_value_completeness(schema, schema, at, at, &mut found);
    if found.is_empty() {
        return;
    }
    let words = found.causes().into_iter().map(|cause| format!("{}: {}", cause.field, cause.message));
    let mut found: Vec<(String, FieldError)> = words.zip(found.0).collect();
    found.sort_by(|(a, _), (b, _)| a.cmp(b));
    found.into_iter().for_each(|(_, error)| errors.add(error));
}

fn validate_invariants(
    schema: &Value,
    level: Level,
    patterns: &Budget,
    at: &Field<'_>,
    errors: &mut ErrorList,
) {
    match part(schema, "items") {
        Some(items) => validate_invariants(items, Level::Item, patterns, &at.child("items"), errors),
        None if text(schema, "type") == "array" => errors.required(at.child("items"), "must be specified"),
        None => {}
    }
    for (name, property) in named(schema, "properties") {
        validate_invariants(property, Level::Field, patterns, &at.child("properties").key(name), errors);
    }
    let additional = at.child("additionalProperties");
    if member(schema, "additionalProperties").is_some() && level == Level::Root {
        errors.forbidden(additional, "must not be used at the root");
    }
    if let Some(part) = part(schema, "additionalProperties") {
        validate_invariants(part, Level::Field, patterns, &additional, errors);
    }
    let skip = Skip { any_of: is_int_or_string(schema), first_all_of: starts_with_int_or_string(schema) };
    validate_value_validation(schema, skip, patterns, at, errors);
    validate_extensions(schema, at, errors);
    validate_type(schema, level, at, errors);
    validate_meta(schema, level, at, errors);
}

fn validate_extensions(schema: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";
    const EMBEDDED: &str = "x-kubernetes-embedded-resource";
    if flag(schema, "x-kubernetes-int-or-string") {
        for key in [PRESERVE, EMBEDDED].into_iter().filter(|key| flag(schema, key)) {
            let why = "must be false if x-kubernetes-int-or-string is true";
            errors.invalid(at.child(key), &Value::from(true), why);
        }
    }
    if flag(schema, EMBEDDED) {
        if member(schema, "additionalProperties").is_some() {
            let why = "must not be used if x-kubernetes-embedded-resource is set";
            errors.forbidden(at.child("additionalProperties"), why);
        }
        if !flag(schema, PRESERVE) && named(schema, "properties").next().is_none() {
            let why = "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields";
            errors.required(at.child("properties"), why);
        }
    }
}

fn validate_type(schema: &Value, level: Level, at: &Field<'_>, errors: &mut ErrorList) {
    let kind = text(schema, "type");
    let any_type = ["x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields"];
    let at = at.child("type");
    if flag(schema, "x-kubernetes-embedded-resource") && kind != "object" {
        let why = "must be object if x-kubernetes-embedded-resource is true";
        match kind {
            "" => errors.required(at, why),
            kind => errors.invalid(at, &Value::from(kind), why),
        }
    } else if kind.is_empty() && !any_type.iter().any(|key| flag(schema, key)) {
        errors.required(
            at,
            match level {
                Level::Root => "must not be empty at the root",
                Level::Item => "must not be empty for specified array items",
                Level::Field => "must not be empty for specified object fields",
            },
        );
    }
    if level == Level::Root && !matches!(kind, "" | "object") {
        errors.invalid(at, &Value::from(kind), "must be object at the root");
    }
}

/// The metadata of objects is known: only few restrictions may be given.
fn validate_meta(schema: &Value, level: Level, at: &Field<'_>, errors: &mut ErrorList) {
    let at = at.child("properties");
    let is_object = level == Level::Root || flag(schema, "x-kubernetes-embedded-resource");
    for (name, kind) in [("kind", "string"), ("apiVersion", "string"), ("metadata", "object")] {
        let Some(property) = property(schema, name).filter(|_| is_object) else { continue };
        let said = text(property, "type");
        if said != kind {
            let why = format!("must be {kind}");
            errors.invalid(at.key(name).child("type"), &Value::from(said), why);
        }
    }
    let metadata = property(schema, "metadata").filter(|_| level == Level::Root);
    if metadata.is_some_and(says_more_than_names) {
        let why = "must not specify anything other than name and generateName, but metadata is implicitly specified";
        errors.forbidden(at.key("metadata"), why);
    }
}

fn says_more_than_names(metadata: &Value) -> bool {
    let Some(members) = metadata.as_object() else { return false };
    members.iter().any(|(key, value)| match key.as_str() {
        "type" | "default" => false,
        "properties" => {
            named(metadata, "properties").any(|(name, _)| !matches!(name, "name" | "generateName"))
        }
        "items" | "not" | "additionalProperties" => !value.is_null(),
        _ => is_set(value),
    })
}

/// The forms of "an integer or a string", which are allowed.
#[derive(Clone, Copy, Default)]
struct Skip {
    any_of: bool,
    first_all_of: bool,
}

fn is_int_or_string(schema: &Value) -> bool {
    let any_of = list(schema, "anyOf");
    any_of.len() == 2 && *any_of == [value!({"type": "integer"}), value!({"type": "string"})]
}

fn starts_with_int_or_string(schema: &Value) -> bool {
    list(schema, "allOf").first().is_some_and(is_int_or_string)
}

fn validate_value_validation(
    schema: &Value,
    skip: Skip,
    patterns: &Budget,
    at: &Field<'_>,
    errors: &mut ErrorList,
) {
    for key in JUNCTORS.into_iter().filter(|key| !(skip.any_of && *key == "anyOf")) {
        for (i, nested) in list(schema, key).iter().enumerate() {
            let any_of = skip.first_all_of && key == "allOf" && i == 0;
            let at = at.child(key);
            validate_nested(nested, Skip { any_of, first_all_of: false }, patterns, &at.index(i), errors);
        }
    }
    if let Some(not) = part(schema, "not") {
        validate_nested(not, Skip::default(), patterns, &at.child("not"), errors);
    }
    let expression = text(schema, "pattern");
    if !expression.is_empty()
        && let Some(why) = patterns.complaint(expression)
    {
        let why = format!("must be a valid regular expression, but isn't: {why}");
        errors.invalid(at.child("pattern"), &Value::from(expression), why);
    }
}

/// Below a junctor only values are restricted: types are given elsewhere.
fn validate_nested(schema: &Value, skip: Skip, patterns: &Budget, at: &Field<'_>, errors: &mut ErrorList) {
    const FORBIDDEN: [(&str, &str); 11] = [
        ("type", "empty"),
        ("default", "undefined"),
        ("title", "empty"),
        ("description", "empty"),
        ("nullable", "false"),
        ("x-kubernetes-preserve-unknown-fields", "false"),
        ("x-kubernetes-embedded-resource", "false"),
        ("x-kubernetes-int-or-string", "false"),
        ("x-kubernetes-list-map-keys", "empty"),
        ("x-kubernetes-map-type", "undefined"),
        ("x-kubernetes-validations", "empty"),
    ];
    validate_value_validation(schema, skip, patterns, at, errors);
    if let Some(items) = part(schema, "items") {
        validate_nested(items, Skip::default(), patterns, &at.child("items"), errors);
    }
    for (name, property) in named(schema, "properties") {
        validate_nested(property, Skip::default(), patterns, &at.child("properties").key(name), errors);
    }
    for (key, state) in FORBIDDEN {
        let said = match key {
            "default" => member(schema, key).is_some(),
            _ => schema.get(key).is_some_and(is_set),
        };
        if said {
            errors.forbidden(at.child(key), format!("must be {state} to be structural"));
        }
    }
    for key in ["additionalProperties", "x-kubernetes-list-type"] {
        if member(schema, key).is_some_and(|part| part.as_bool() != Some(false)) {
            errors.forbidden(at.child(key), "must be undefined to be structural");
        }
    }
    if property(schema, "metadata").is_some() {
        let at = at.child("properties");
        errors.forbidden(at.key("metadata"), "must not be specified in a nested context");
    }
}

/// Restricted values must be fields that exist: `said` is the restricting schema, `schema` that of the fields.
fn validate_value_completeness(
    said: &Value,
    schema: &Value,
    at: &Field<'_>,
    said_at: &Field<'_>,
    errors: &mut ErrorList,
) {
    if let Some(not) = part(said, "not") {
        validate_completeness(not, Some(schema), at, &said_at.child("not"), errors);
    }
    for key in JUNCTORS {
        for (i, nested) in list(said, key).iter().enumerate() {
            validate_completeness(nested, Some(schema), at, &said_at.child(key).index(i), errors);
        }
    }
}

fn validate_completeness(
    said: &Value,
    schema: Option<&Value>,
    at: &Field<'_>,
    said_at: &Field<'_>,
    errors: &mut ErrorList,
) {
    let Some(schema) = schema else {
        errors.required(at, format!("because it is defined in {said_at}"));
        return;
    };
    validate_value_completeness(said, schema, at, said_at, errors);
    if let Some(items) = part(said, "items") {
        let (at, said_at) = (at.child("items"), said_at.child("items"));
        validate_completeness(items, part(schema, "items"), &at, &said_at, errors);
    }
    let (at, said_at) = (at.child("properties"), said_at.child("properties"));
    for (name, said) in named(said, "properties") {
        validate_completeness(said, property(schema, name), &at.key(name), &said_at.key(name), errors);
    }
}
