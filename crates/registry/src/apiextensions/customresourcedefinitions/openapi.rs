//! Restrictions on all schemas of custom resources, structural or not, and the requirements of extensions.

use corten_api::status::ErrorList;
use corten_api::{ByContent, Field, Value, set_of};

use super::schema::{flag, is_set, named, part, property};
use super::shown;
use super::validate::Leeway;
use crate::validation::repeats::Repeats;
use crate::validation::text::{list, member, text};

const TYPES: &[&str] = &["array", "boolean", "integer", "number", "object", "string"];

/// Restrictions on a schema by its place.
#[derive(Clone, Copy, Default)]
pub(super) struct Place<'p> {
    root: bool,
    /// True within the metadata of objects.
    inside_meta: bool,
    /// The reason for which there may be no default, if any.
    no_default: Option<&'p str>,
}

impl Place<'_> {
    pub(super) const ROOT: Place<'static> = Place { root: true, inside_meta: false, no_default: None };
}

pub(super) fn validate_schema(
    schema: &Value,
    place: Place<'_>,
    leeway: &Leeway<'_>,
    at: &Field<'_>,
    errors: &mut ErrorList,
) {
    validate_keywords(schema, place, leeway, at, errors);
    if flag(schema, "uniqueItems") {
        let why = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        errors.forbidden(at.child("uniqueItems"), why);
    }
    let inner = Place { root: false, ..place };
    validate_additional_properties(schema, inner, leeway, at, errors);
    validate_properties(schema, place, leeway, at, errors);
    if let Some(not) = part(schema, "not") {
        validate_schema(not, inner, leeway, &at.child("not"), errors);
    }
    for key in ["allOf", "oneOf", "anyOf"] {
        for (i, nested) in list(schema, key).iter().enumerate() {
            validate_schema(nested, inner, leeway, &at.child(key).index(i), errors);
        }
    }
    for (name, nested) in named(schema, "definitions") {
        validate_schema(nested, inner, leeway, &at.child("definitions").key(name), errors);
    }
    if let Some(items) = part(schema, "items") {
        validate_schema(items, inner, leeway, &at.child("items"), errors);
    }
    for (i, nested) in list(schema, "items").iter().enumerate() {
        validate_schema(nested, inner, leeway, &at.child("items").index(i), errors);
    }
    validate_extensions(schema, leeway, at, errors);
    validate_rules(schema, at, errors);
}

fn validate_keywords(
    schema: &Value,
    place: Place<'_>,
    leeway: &Leeway<'_>,
    at: &Field<'_>,
    errors: &mut ErrorList,
) {
    let kind = text(schema, "type");
    if !leeway.types && !kind.is_empty() && !TYPES.contains(&kind) {
        errors.not_supported(at.child("type"), &Value::from(kind), TYPES);
    }
    if let Some(why) = place.no_default.filter(|_| member(schema, "default").is_some()) {
        errors.forbidden(at.child("default"), format!("must not be set {why}"));
    }
    for key in ["id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref"] {
        // The types of these two tell an empty value from none.
        let keeps_empty = matches!(key, "additionalItems" | "$ref");
        if schema.get(key).is_some_and(|value| is_set(value) || (keeps_empty && !value.is_null())) {
            errors.forbidden(at.child(key), format!("{key} is not supported"));
        }
    }
    if kind == "null" {
        let why = "type cannot be set to null, use nullable as an alternative";
        errors.forbidden(at.child("type"), why);
    }
    if !list(schema, "items").is_empty() {
        errors.forbidden(at.child("items"), "items must be a schema object and not an array");
    }
    if place.inside_meta && flag(schema, "x-kubernetes-embedded-resource") {
        let why = "must not be used inside of resource meta";
        errors.forbidden(at.child("x-kubernetes-embedded-resource"), why);
    }
}

/// Either some fields are named or none are.
fn validate_additional_properties(
    schema: &Value,
    mut place: Place<'_>,
    leeway: &Leeway<'_>,
    at: &Field<'_>,
    errors: &mut ErrorList,
) {
    let Some(additional) = member(schema, "additionalProperties") else { return };
    let at = at.child("additionalProperties");
    if named(schema, "properties").next().is_some() && additional.as_bool() != Some(true) {
        errors.forbidden(at, "additionalProperties and properties are mutual exclusive");
    }
    if place.inside_meta {
        place.no_default = Some("inside additionalProperties applying to object metadata");
    }
    if let Some(part) = part(schema, "additionalProperties") {
        validate_schema(part, place, leeway, &at, errors);
    }
}

fn validate_properties(
    schema: &Value,
    place: Place<'_>,
    leeway: &Leeway<'_>,
    at: &Field<'_>,
    errors: &mut ErrorList,
) {
    let is_object = place.root || flag(schema, "x-kubernetes-embedded-resource");
    for (name, property) in named(schema, "properties") {
        let top_level = match name {
            "metadata" => "in top-level metadata",
            "kind" => "in top-level kind",
            "apiVersion" => "in top-level apiVersion",
            _ => "",
        };
        let is_meta = is_object && !top_level.is_empty();
        let inner = Place {
            root: false,
            inside_meta: place.inside_meta || is_meta,
            no_default: if is_meta && place.root { Some(top_level) } else { place.no_default },
        };
        validate_schema(property, inner, leeway, &at.child("properties").key(name), errors);
    }
}

fn validate_extensions(schema: &Value, leeway: &Leeway<'_>, at: &Field<'_>, errors: &mut ErrorList) {
    const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";
    if schema.bool_at(&[PRESERVE]) == Some(false) {
        errors.invalid(at.child(PRESERVE), &Value::from(false), "must be true or undefined");
    }
    validate_extended_type(schema, "x-kubernetes-map-type", "object", at, errors);
    if let Some(kind) = member(schema, "x-kubernetes-map-type")
        && !matches!(kind.as_str(), Some("atomic" | "granular"))
    {
        errors.not_supported(at.child("x-kubernetes-map-type"), kind, &["atomic", "granular"]);
    }
    validate_extended_type(schema, "x-kubernetes-list-type", "array", at, errors);
    if text(schema, "type") == "array" && !leeway.set_items {
        validate_set_items(schema, at, errors);
    }
    validate_list_type(schema, leeway, at, errors);
}

/// An extension that is for one type only.
fn validate_extended_type(schema: &Value, key: &str, kind: &str, at: &Field<'_>, errors: &mut ErrorList) {
    let said = text(schema, "type");
    if member(schema, key).is_none() || said == kind {
        return;
    }
    let why = format!("must be {kind} if {key} is specified");
    match said {
        "" => errors.required(at.child("type"), why),
        said => errors.invalid(at.child("type"), &Value::from(said), why),
    }
}

/// The key of an item's extension that should say `atomic` and does not, for items of sets.
pub(super) fn divisible_item(schema: &Value) -> Option<&'static str> {
    let items = part(schema, "items").filter(|_| text(schema, "x-kubernetes-list-type") == "set")?;
    let said = |key: &str| member(items, key).map(|kind| kind.as_str() == Some("atomic"));
    match text(items, "type") {
        "array" if said("x-kubernetes-list-type") == Some(false) => Some("x-kubernetes-list-type"),
        "object" if said("x-kubernetes-map-type") != Some(true) => Some("x-kubernetes-map-type"),
        _ => None,
    }
}

fn validate_set_items(schema: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    let Some(key) = divisible_item(schema) else { return };
    // Upstream shows the list's kind for either.
    let shown = schema.at(&["items", "x-kubernetes-list-type"]).unwrap_or(&Value::Null);
    let why = "must be atomic as item of a list with x-kubernetes-list-type=set";
    errors.invalid(at.child("items").child(key), shown, why);
}

fn validate_list_type(schema: &Value, leeway: &Leeway<'_>, at: &Field<'_>, errors: &mut ErrorList) {
    const TYPE: &str = "x-kubernetes-list-type";
    const KEYS: &str = "x-kubernetes-list-map-keys";
    let kind = member(schema, TYPE);
    if let Some(kind) = kind
        && !matches!(kind.as_str(), Some("atomic" | "set" | "map"))
    {
        errors.not_supported(at.child(TYPE), kind, &["atomic", "set", "map"]);
    }
    let keys = list(schema, KEYS);
    let is_map = kind.and_then(Value::as_str) == Some("map");
    if !keys.is_empty() && !is_map {
        let why = "must be map if x-kubernetes-list-map-keys is non-empty";
        match kind {
            None => errors.required(at.child(TYPE), why),
            Some(kind) => errors.invalid(at.child(TYPE), kind, why),
        }
    }
    if is_map {
        if keys.is_empty() {
            errors.required(at.child(KEYS), "must not be empty if x-kubernetes-list-type is map");
        }
        validate_map_items(schema, keys, at, errors);
    }
    if !leeway.list_keys {
        validate_list_keys(schema, at, errors);
    }
}

/// Items of a map are objects, and their keys scalars.
fn validate_map_items(schema: &Value, keys: &[Value], at: &Field<'_>, errors: &mut ErrorList) {
    const KEYS: &str = "x-kubernetes-list-map-keys";
    let items_at = at.child("items");
    let Some(items) = part(schema, "items") else {
        match member(schema, "items") {
            None => errors.required(items_at, "must have a schema if x-kubernetes-list-type is map"),
            Some(Value::Array(schemas)) => {
                let why = "must only have a single schema if x-kubernetes-list-type is map";
                errors.invalid_shown(items_at, shown::schemas(schemas), why);
            }
            Some(_) => {}
        }
        return;
    };
    let kind = text(items, "type");
    if kind != "object" {
        let why = "must be object if parent array's x-kubernetes-list-type is map";
        errors.invalid(items_at.child("type"), &Value::from(kind), why);
        return;
    }
    let repeats = Repeats::of(keys, ByContent);
    for (i, key) in keys.iter().enumerate() {
        let name = key.as_str().unwrap_or_default();
        match property(items, name).map(|property| text(property, "type")) {
            Some("array" | "object") => {
                let why = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                let at = items_at.child("properties");
                errors.invalid(at.key(name).child("type"), &Value::from(kind), why);
            }
            Some(_) => {}
            None => {
                let why = "entries must all be names of item properties";
                errors.invalid(at.child(KEYS), &Value::from(keys.to_vec()), why);
            }
        }
        if repeats.at(i) {
            errors.invalid(at.child(KEYS), &Value::from(keys.to_vec()), "must not contain duplicate entries");
        }
    }
}

/// The keys of list items are required or have a default.
pub(super) fn validate_list_keys(schema: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    let kind = text(schema, "x-kubernetes-list-type");
    let Some(items) = part(schema, "items").filter(|_| matches!(kind, "set" | "map")) else { return };
    let at = at.child("items");
    if flag(items, "nullable") {
        let why = format!("cannot be nullable when x-kubernetes-list-type is {kind}");
        errors.forbidden(at.child("nullable"), why);
    }
    if kind != "map" {
        return;
    }
    let (at, required) = (at.child("properties"), set_of(list(items, "required")));
    for key in list(schema, "x-kubernetes-list-map-keys") {
        let name = key.as_str().unwrap_or_default();
        let Some(property) = property(items, name) else { continue };
        let at = at.key(name);
        if !required.contains(&ByContent(key)) && member(property, "default").is_none() {
            let why = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
            errors.required(at.child("default"), why);
        }
        if flag(property, "nullable") {
            let why = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
            errors.forbidden(at.child("nullable"), why);
        }
    }
}

/// Validation rules, as far as they can be checked without compiling them.
fn validate_rules(schema: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    let at = at.child("x-kubernetes-validations");
    for (i, rule) in list(schema, "x-kubernetes-validations").iter().enumerate() {
        validate_rule(schema, rule, &at.index(i), errors);
    }
}

fn validate_rule(schema: &Value, rule: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    const BLANK: &str = "must be non-empty if specified";
    const BREAKS: &str = "must not contain line breaks";
    let (expression, message) = (text(rule, "rule"), text(rule, "message"));
    let (is_blank, has_breaks) =
        (|text: &str| !text.is_empty() && text.trim().is_empty(), |text: &str| text.contains(['\n', '\r']));
    if expression.trim().is_empty() {
        errors.required(at.child("rule"), "rule is not specified");
    } else if is_blank(message) {
        errors.invalid(at.child("message"), &Value::from(message), BLANK);
    } else if has_breaks(message.trim()) {
        errors.invalid(at.child("message"), &Value::from(message), BREAKS);
    } else if has_breaks(expression.trim()) && message.is_empty() {
        errors.required(at.child("message"), "message must be specified if rule contains line breaks");
    }
    if is_blank(text(rule, "messageExpression")) {
        let why = "messageExpression must be non-empty if specified";
        errors.required(at.child("messageExpression"), why);
    }
    const REASONS: &[&str] =
        &["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];
    if let Some(reason) = member(rule, "reason")
        && !reason.as_str().is_some_and(|reason| REASONS.contains(&reason))
    {
        errors.not_supported(at.child("reason"), reason, REASONS);
    }
    let path = text(rule, "fieldPath");
    let mut refuse = |why: &str| errors.invalid(at.child("fieldPath"), &Value::from(path), why);
    if is_blank(path) {
        refuse(BLANK);
    }
    if has_breaks(path) {
        refuse(BREAKS);
    }
    let unsupported = super::structural::unsupported(schema).is_some();
    if !path.is_empty() && !unsupported && super::path::find(path, schema, true).is_err() {
        refuse("must be a valid path");
    }
}
