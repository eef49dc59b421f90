//! Compiles a schema as JSON into nodes.
//!
//! A member of the wrong kind counts as absent: the registry checks the shape of definitions.

use std::sync::Arc;

use corten_api::{Str, Value};
use corten_cel::library::regex::Budget;

use super::{Additional, Check, ListType, MapType, Node, Rule, Type};
use crate::format::Format;
use crate::pattern::{Pattern, pattern_budget};

/// Members that a structural schema may not have, with their names in upstream's errors.
const UNSUPPORTED: [(&str, &str); 7] = [
    ("id", "id"),
    ("$schema", "schema"),
    ("$ref", "$ref"),
    ("patternProperties", "patternProperties"),
    ("dependencies", "dependencies"),
    ("additionalItems", "additionalItems"),
    ("definitions", "definitions"),
];

/// A list of schemas and its check.
type Junctor = (&'static str, fn(Box<[Node]>) -> Check);

/// In the order in which they are applied.
const JUNCTORS: [Junctor; 3] = [("anyOf", Check::AnyOf), ("oneOf", Check::OneOf), ("allOf", Check::AllOf)];

/// The node of a schema and of all schemas within it.
pub(super) fn node(schema: &Value) -> Result<Node, String> {
    part_of_schema(schema, &Arc::new(pattern_budget()))
}

/// The node of a part of a schema, whose patterns share a budget.
fn part_of_schema(schema: &Value, budget: &Arc<Budget>) -> Result<Node, String> {
    check_supported(schema)?;
    let mut node = Node {
        kind: kind(schema),
        nullable: flag(schema, "nullable"),
        int_or_string: flag(schema, "x-kubernetes-int-or-string"),
        preserve_unknown_fields: flag(schema, "x-kubernetes-preserve-unknown-fields"),
        embedded_resource: flag(schema, "x-kubernetes-embedded-resource"),
        list_type: match text(schema, "x-kubernetes-list-type") {
            "atomic" => ListType::Atomic,
            "set" => ListType::Set,
            "map" => ListType::Map,
            _ => ListType::Unset,
        },
        map_type: match text(schema, "x-kubernetes-map-type") {
            "granular" => MapType::Granular,
            "atomic" => MapType::Atomic,
            _ => MapType::Unset,
        },
        list_map_keys: texts(schema, "x-kubernetes-list-map-keys"),
        items: part(schema, "items", budget)?,
        properties: properties(schema, budget)?,
        additional: match schema.get("additionalProperties") {
            Some(Value::Bool(allowed)) => Additional::Bool(*allowed),
            _ => part(schema, "additionalProperties", budget)?.map_or(Additional::Absent, Additional::Schema),
        },
        default: schema.get("default").filter(|default| !default.is_null()).cloned().map(Box::new),
        checks: Box::default(),
        rules: list(schema, "x-kubernetes-validations").iter().map(rule).collect(),
    };
    node.checks = checks(schema, &node, budget)?;
    Ok(node)
}

/// Refuses members that a structural schema cannot have.
fn check_supported(schema: &Value) -> Result<(), String> {
    if let Some((_, name)) = UNSUPPORTED.iter().find(|(key, _)| schema.get(key).is_some_and(is_set)) {
        return Err(format!("OpenAPIV3Schema '{name}' is not supported"));
    }
    if schema.get("items").is_some_and(|items| items.as_array().is_some()) {
        return Err("OpenAPIV3Schema 'items' must be a schema, but is an array".to_owned());
    }
    if schema.bool_at(&["x-kubernetes-preserve-unknown-fields"]) == Some(false) {
        let why = "internal error: 'x-kubernetes-preserve-unknown-fields' must be true or undefined";
        return Err(why.to_owned());
    }
    Ok(())
}

fn is_set(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(map) => !map.is_empty(),
        Value::Bool(_) | Value::Int(_) | Value::Float(_) | Value::Raw(_) => true,
    }
}

fn kind(schema: &Value) -> Type {
    match text(schema, "type") {
        "" => Type::Any,
        "object" => Type::Object,
        "array" => Type::Array,
        "string" => Type::String,
        "integer" => Type::Integer,
        "number" => Type::Number,
        "boolean" => Type::Boolean,
        _ => Type::Unknown,
    }
}

fn properties(schema: &Value, budget: &Arc<Budget>) -> Result<Box<[(Str, Node)]>, String> {
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
        return Ok(Box::default());
    };
    let mut nodes = Vec::with_capacity(properties.len());
    for (name, schema) in properties.iter() {
        nodes.push((name.clone(), part_of_schema(schema, budget)?));
    }
    Ok(nodes.into_boxed_slice())
}

/// Value validations in the order in which they are applied.
fn checks(schema: &Value, node: &Node, budget: &Arc<Budget>) -> Result<Box<[Check]>, String> {
    let mut checks = Vec::new();
    for (key, check) in JUNCTORS {
        let branches = list(schema, key).iter().map(|branch| part_of_schema(branch, budget));
        let branches: Box<[Node]> = branches.collect::<Result<_, _>>()?;
        checks.extend((!branches.is_empty()).then(|| check(branches)));
    }
    checks.extend(part(schema, "not", budget)?.map(Check::Not));
    checks.extend(number_of_things(schema, "maxLength").map(Check::MaxLength));
    checks.extend(number_of_things(schema, "minLength").map(Check::MinLength));
    let pattern = text(schema, "pattern");
    checks.extend((!pattern.is_empty()).then(|| Check::Pattern(Box::new(Pattern::new(pattern, budget)))));
    let format = Some(text(schema, "format")).filter(|name| !name.is_empty()).map(Format::new);
    checks.extend(format.map(|format| match format.is_supported(node) {
        true => Check::Format(format),
        false => Check::IgnoredFormat(format),
    }));
    checks.extend(number(schema, "multipleOf").map(Check::MultipleOf));
    let minimum = number(schema, "minimum");
    checks.extend(minimum.map(|least| Check::Minimum(least, flag(schema, "exclusiveMinimum"))));
    let maximum = number(schema, "maximum");
    checks.extend(maximum.map(|most| Check::Maximum(most, flag(schema, "exclusiveMaximum"))));
    checks.extend(number_of_things(schema, "minItems").map(Check::MinItems));
    checks.extend(number_of_things(schema, "maxItems").map(Check::MaxItems));
    checks.extend(flag(schema, "uniqueItems").then_some(Check::UniqueItems));
    let allowed = list(schema, "enum");
    checks.extend((!allowed.is_empty()).then(|| Check::Enum(allowed.into())));
    checks.extend(number_of_things(schema, "minProperties").map(Check::MinProperties));
    checks.extend(number_of_things(schema, "maxProperties").map(Check::MaxProperties));
    let required = texts(schema, "required");
    checks.extend((!required.is_empty()).then_some(Check::Required(required)));
    checks.extend((node.kind == Type::Unknown).then(|| Check::TypeName(Str::new(text(schema, "type")))));
    Ok(checks.into_boxed_slice())
}

fn rule(rule: &Value) -> Rule {
    let text = |key: &str| Str::new(text(rule, key));
    Rule {
        rule: text("rule"),
        message: text("message"),
        message_expression: text("messageExpression"),
        reason: rule.str_at(&["reason"]).map(Str::new),
        field_path: text("fieldPath"),
        optional_old_self: rule.bool_at(&["optionalOldSelf"]),
    }
}

fn part(schema: &Value, key: &str, budget: &Arc<Budget>) -> Result<Option<Box<Node>>, String> {
    match schema.get(key) {
        Some(part @ Value::Object(_)) => Ok(Some(Box::new(part_of_schema(part, budget)?))),
        _ => Ok(None),
    }
}

fn flag(schema: &Value, key: &str) -> bool {
    schema.bool_at(&[key]) == Some(true)
}

fn text<'v>(schema: &'v Value, key: &str) -> &'v str {
    schema.str_at(&[key]).unwrap_or_default()
}

fn list<'v>(schema: &'v Value, key: &str) -> &'v [Value] {
    schema.items_at(&[key])
}

fn texts(schema: &Value, key: &str) -> Box<[Str]> {
    list(schema, key).iter().filter_map(Value::as_str).map(Str::new).collect()
}

fn number_of_things(schema: &Value, key: &str) -> Option<i64> {
    schema.int_at(&[key])
}

fn number(schema: &Value, key: &str) -> Option<f64> {
    match schema.get(key)? {
        Value::Int(number) => Some(*number as f64),
        Value::Float(number) => Some(*number),
        _ => None,
    }
}
