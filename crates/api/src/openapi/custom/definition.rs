//! The definitions of a custom resource: its schema as version 2 or version 3 can express it, and its list.
//!
//! Version 3 shows the schema whole, with the alternatives that `x-kubernetes-int-or-string` stands for.
//! Version 2 has neither alternatives nor nullable values nor defaults, and its clients refuse unknown fields of
//! an object whose properties are known: what they would misunderstand is left out.
//!
//! *Invariant:* only members that a structural schema can have are written, each at most once, so that a document
//! is valid whatever is stored. Depth is that of the parsed tree, which the parser bounds.

use super::CustomVersion;
use crate::openapi::{Descriptions, Dialect, schemas};
use crate::{Map, Value, json, value};

const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
const LIST_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";

const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";
const EMBEDDED: &str = "x-kubernetes-embedded-resource";
const INT_OR_STRING: &str = "x-kubernetes-int-or-string";

/// A built-in kind whose `apiVersion`, `kind` and `metadata` are described like those of every kind.
const DESCRIBED: &str = "io.k8s.api.core.v1.Pod";
const DESCRIBED_LIST: &str = "io.k8s.api.core.v1.PodList";

/// The form of a member of a schema, which says when it is left out.
enum Form {
    /// Left out if it is empty: text, a flag, a list, properties.
    Plain,
    /// Left out if it is null.
    Kept,
}

/// The members of a structural schema.
const MEMBERS: &[(&str, Form)] = &[
    ("additionalProperties", Form::Kept),
    ("allOf", Form::Plain),
    ("anyOf", Form::Plain),
    ("default", Form::Kept),
    ("description", Form::Plain),
    ("enum", Form::Plain),
    ("example", Form::Kept),
    ("exclusiveMaximum", Form::Plain),
    ("exclusiveMinimum", Form::Plain),
    ("externalDocs", Form::Kept),
    ("format", Form::Plain),
    ("items", Form::Kept),
    ("maxItems", Form::Kept),
    ("maxLength", Form::Kept),
    ("maxProperties", Form::Kept),
    ("maximum", Form::Kept),
    ("minItems", Form::Kept),
    ("minLength", Form::Kept),
    ("minProperties", Form::Kept),
    ("minimum", Form::Kept),
    ("multipleOf", Form::Kept),
    ("not", Form::Kept),
    ("nullable", Form::Plain),
    ("oneOf", Form::Plain),
    ("pattern", Form::Plain),
    ("properties", Form::Plain),
    ("required", Form::Plain),
    ("title", Form::Plain),
    ("type", Form::Plain),
    ("uniqueItems", Form::Plain),
    (EMBEDDED, Form::Plain),
    (INT_OR_STRING, Form::Plain),
    ("x-kubernetes-list-map-keys", Form::Plain),
    ("x-kubernetes-list-type", Form::Kept),
    ("x-kubernetes-map-type", Form::Kept),
    (PRESERVE, Form::Plain),
    ("x-kubernetes-validations", Form::Plain),
];

/// The definitions of the kind and of its list, by name.
pub(in crate::openapi) fn definitions(
    of: &CustomVersion,
    dialect: Dialect,
    descriptions: &dyn Descriptions,
) -> [(String, Value); 2] {
    let builder = Builder { of, dialect, descriptions };
    [
        (of.type_name(&of.kind), Value::Object(builder.object())),
        (of.type_name(&of.list_kind), Value::Object(builder.list())),
    ]
}

struct Builder<'a> {
    of: &'a CustomVersion,
    dialect: Dialect,
    descriptions: &'a dyn Descriptions,
}

impl Builder<'_> {
    fn object(&self) -> Map {
        let is_open = |schema: &Value| {
            self.of.preserve_unknown_fields || schema.bool_at(&[PRESERVE]).unwrap_or_default()
        };
        let mut schema = match (self.of.schema)() {
            // With known properties, version 2 clients would refuse all others.
            Some(schema) if !(self.dialect == Dialect::V2 && is_open(&schema)) => self.with_metadata(schema),
            _ => [("type".into(), "object".into())].into_iter().collect(),
        };
        self.mark(&mut schema, &self.of.kind);
        schema
    }

    fn with_metadata(&self, schema: Value) -> Map {
        let mut schema = into_map(schema);
        self.structural(&mut schema);
        let properties = schema.entry("properties").make_object();
        properties.insert("metadata", self.reference(OBJECT_META, DESCRIBED, "metadata"));
        self.type_meta(properties);
        schema
    }

    fn list(&self) -> Map {
        let CustomVersion { kind, list_kind, plural, .. } = self.of;
        let item = self.dialect.reference(&self.of.type_name(kind));
        let mut properties = Map::new();
        properties.insert(
            "items",
            value!({
                "description": (format!("List of {plural}. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md")),
                "items": {"$ref": item},
                "type": "array",
            }),
        );
        properties.insert("metadata", self.reference(LIST_META, DESCRIBED_LIST, "metadata"));
        self.type_meta(&mut properties);
        let mut schema = Map::new();
        schema.insert("description", format!("{list_kind} is a list of {kind}"));
        schema.insert("properties", properties);
        schema.insert("required", vec![Value::from("items")]);
        schema.insert("type", "object");
        self.mark(&mut schema, list_kind);
        schema
    }

    /// Group, version and kind, and the selectable fields.
    fn mark(&self, schema: &mut Map, kind: &str) {
        let kind = super::gvk(&self.of.group, &self.of.version, kind);
        schema.insert("x-kubernetes-group-version-kind", vec![schemas::kind_value(&kind)]);
        if !self.of.selectable_fields.is_empty() {
            let field = |path: &String| value!({"fieldPath": (path.strip_prefix('.').unwrap_or(path))});
            let fields: Vec<Value> = self.of.selectable_fields.iter().map(field).collect();
            schema.insert("x-kubernetes-selectable-fields", fields);
        }
    }

    fn type_meta(&self, properties: &mut Map) {
        for name in ["apiVersion", "kind"] {
            let mut property = value!({"type": "string"});
            if let Some(text) = self.descriptions.of_field(DESCRIBED, name) {
                property.set(&["description"], text);
            }
            properties.insert(name, property);
        }
    }

    /// A reference to a built-in type, described like a field of another.
    fn reference(&self, target: &str, described: &str, field: &str) -> Value {
        let reference = value!({"$ref": (self.dialect.reference(target))});
        let Some(text) = self.descriptions.of_field(described, field) else { return reference };
        match self.dialect {
            Dialect::V2 => value!({"$ref": (self.dialect.reference(target)), "description": text}),
            Dialect::V3 => value!({"allOf": [reference], "description": text}),
        }
    }

    /// Rewrites a schema in place, from the outside to the inside.
    fn structural(&self, schema: &mut Map) {
        retain_members(schema);
        match self.dialect {
            Dialect::V2 => strip(schema),
            Dialect::V3 => unfold(schema),
        }
        for key in ["items", "additionalProperties"] {
            rewrite(schema.get_mut(key), |inner| self.structural(inner));
        }
        for_each_property(schema, |inner| self.structural(inner));
        for_each_alternative(schema, nested);
        self.embed(schema);
    }

    /// An embedded object has type and metadata.
    fn embed(&self, schema: &mut Map) {
        let is_open = self.dialect == Dialect::V2 && flag(schema, PRESERVE);
        if !flag(schema, EMBEDDED) || is_open {
            return;
        }
        let properties = schema.entry("properties").make_object();
        for (name, text) in [
            ("apiVersion", "apiVersion is the group and version of the embedded object's schema."),
            ("kind", "kind is the type of the embedded object, in CamelCase."),
        ] {
            properties.insert(name, value!({"description": text, "type": "string"}));
        }
        properties.insert("metadata", self.reference(OBJECT_META, DESCRIBED, "metadata"));
        let required = schema.entry("required").make_array();
        for name in ["kind", "apiVersion"] {
            if !required.iter().any(|known| known.as_str() == Some(name)) {
                required.push(name.into());
            }
        }
    }
}

/// Keeps the members of a structural schema that say something.
fn retain_members(schema: &mut Map) {
    schema.retain(|key, member| match MEMBERS.iter().find(|(name, _)| *name == key.as_str()) {
        Some((_, Form::Kept)) => !member.is_null(),
        Some((_, Form::Plain)) => !is_empty(member),
        None => false,
    });
    for rule in schema.get_mut("x-kubernetes-validations").and_then(Value::as_array_mut).into_iter().flatten()
    {
        if let Some(rule) = rule.as_object_mut() {
            rule.retain(|key, text| key == "rule" || !is_empty(text));
        }
    }
}

fn is_empty(member: &Value) -> bool {
    match member {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        Value::Bool(true) | Value::Int(_) | Value::Float(_) | Value::Raw(_) => false,
    }
}

/// Leaves out what version 2 cannot express, or what its clients misunderstand.
fn strip(schema: &mut Map) {
    for key in ["allOf", "anyOf", "oneOf", "not", "default"] {
        schema.remove(key);
    }
    // Clients cope with nothing beside an unknown type.
    if schema.remove("nullable").is_some() {
        schema.remove("type");
        schema.remove("items");
        schema.remove("properties");
    }
    if flag(schema, PRESERVE) {
        schema.remove("items");
        schema.remove("properties");
    }
    let kind = schema.get("type").and_then(Value::as_str).unwrap_or_default();
    let is_open_object = kind == "object" && flag(schema, PRESERVE);
    if (kind == "array" && !schema.contains_key("items")) || is_open_object {
        schema.remove("type");
    }
    let is_nullable = |schema: &Value| schema.bool_at(&["nullable"]).unwrap_or_default();
    if schema.get("additionalProperties").is_some_and(is_nullable) {
        schema.remove("required");
    }
    let Some(mut required) = schema.remove("required") else { return };
    let properties = schema.get("properties");
    let keeps = |name: &Value| {
        let property = properties.and_then(|all| all.get(name.as_str().unwrap_or_default()));
        !property.is_some_and(is_nullable)
    };
    required.make_array().retain(keeps);
    if !is_empty(&required) {
        schema.insert("required", required);
    }
}

/// Writes out the alternatives of an integer or string.
fn unfold(schema: &mut Map) {
    if !flag(schema, INT_OR_STRING) {
        return;
    }
    let alternatives = value!([{"type": "integer"}, {"type": "string"}]);
    let first = schema.get("allOf").and_then(Value::as_array).and_then(|all| all.first());
    let is_unfolded = schema.get("anyOf") == Some(&alternatives)
        || first.is_some_and(|clause| clause.get("anyOf") == Some(&alternatives));
    if is_unfolded {
        return;
    }
    if schema.contains_key("anyOf") {
        let clause = value!({"anyOf": alternatives});
        schema.entry("allOf").make_array().insert(0, clause);
    } else {
        schema.insert("anyOf", alternatives);
    }
}

/// Rewrites a schema inside an alternative, which only restricts values.
fn nested(schema: &mut Map) {
    retain_members(schema);
    schema.remove("additionalProperties");
    rewrite(schema.get_mut("items"), nested);
    for_each_property(schema, nested);
    for_each_alternative(schema, nested);
}

fn for_each_property(schema: &mut Map, change: impl Fn(&mut Map)) {
    let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
    for (_, property) in properties.into_iter().flat_map(Map::iter_mut) {
        rewrite(Some(property), &change);
    }
}

fn for_each_alternative(schema: &mut Map, change: impl Fn(&mut Map)) {
    for key in ["allOf", "anyOf", "oneOf"] {
        for clause in schema.get_mut(key).and_then(Value::as_array_mut).into_iter().flatten() {
            rewrite(Some(clause), &change);
        }
    }
    rewrite(schema.get_mut("not"), change);
}

/// Changes a schema inside another; a flag in place of a schema stays as it is.
fn rewrite(schema: Option<&mut Value>, change: impl FnOnce(&mut Map)) {
    let Some(schema) = schema else { return };
    if matches!(schema, Value::Bool(_)) {
        return;
    }
    let mut inner = into_map(std::mem::take(schema));
    change(&mut inner);
    *schema = Value::Object(inner);
}

fn flag(schema: &Map, key: &str) -> bool {
    schema.get(key).and_then(Value::as_bool).unwrap_or_default()
}

/// The members of a schema. The parser keeps some values as text: those of a property that is called like a part
/// of managed fields.
fn into_map(schema: Value) -> Map {
    match schema {
        Value::Object(members) => members,
        Value::Raw(text) => match json::parse(text.as_bytes()) {
            Ok(Value::Object(members)) => members,
            _ => Map::new(),
        },
        _ => Map::new(),
    }
}
