//! Types of objects as expressions see them, from built-in types and from OpenAPI schemas of custom resources.
//!
//! Values that have no single type (quantities, integers or strings, free-form JSON) are not exposed, as in upstream's
//! documents. A type inside itself is an object without fields.

use std::sync::Arc;

use corten_api::Value as Tree;
use corten_api::resources::schema_of;
use corten_api::schema::{Kind, Struct};
use corten_cel::schema::{Format, ListKind, Property, Schema};

use crate::policy::{items, text};

/// Maximum nesting of the schemas of custom resources.
const MAX_DEPTH: usize = 100;

/// The type of a built-in kind.
pub fn built_in(schema: &Struct) -> Arc<Schema> {
    Arc::new(structure(schema, &mut Vec::new()).with_object_meta())
}

fn structure(schema: &Struct, visited: &mut Vec<*const Struct>) -> Schema {
    let own: *const Struct = schema;
    if visited.contains(&own) {
        return Schema::object(Vec::new());
    }
    visited.push(own);
    let mut properties = Vec::with_capacity(schema.fields.len());
    for field in &schema.fields {
        properties.push(Property {
            name: field.name.as_str().into(),
            schema: Arc::new(kind(&field.kind, visited)),
            required: field.required,
            has_default: field.default.is_some(),
        });
    }
    visited.pop();
    Schema::object(properties)
}

fn kind(kind: &Kind, visited: &mut Vec<*const Struct>) -> Schema {
    match kind {
        Kind::String | Kind::Duration => Schema::string(Format::None, None, None),
        Kind::Bytes => Schema::string(Format::Byte, None, None),
        Kind::Time | Kind::MicroTime => Schema::string(Format::DateTime, None, None),
        Kind::Bool => Schema::boolean(),
        Kind::Int32 | Kind::Int64 => Schema::integer(),
        Kind::Double => Schema::number(),
        Kind::Quantity | Kind::IntOrString | Kind::Any(_) => Schema::unknown(),
        Kind::Raw | Kind::FieldsV1 => Schema::object(Vec::new()),
        Kind::List(item, _) => {
            Schema::array(Some(Arc::new(self::kind(item, visited))), ListKind::Atomic, None)
        }
        Kind::Map(item, _) => Schema::map(Arc::new(self::kind(item, visited)), None),
        Kind::Struct(schema) => structure(schema, visited),
    }
}

/// The type of a custom resource, from its schema in an OpenAPI document.
pub fn custom(schema: &Tree) -> Arc<Schema> {
    Arc::new(open_api(schema, true, MAX_DEPTH))
}

fn open_api(schema: &Tree, is_resource: bool, depth: usize) -> Schema {
    let Some(depth) = depth.checked_sub(1) else { return Schema::unknown() };
    let flag = |name: &str| schema.get(name).and_then(Tree::as_bool) == Some(true);
    if flag("x-kubernetes-int-or-string") {
        return Schema::int_or_string(None);
    }
    let inner = |inner: &Tree| {
        let is_resource = inner.get("x-kubernetes-embedded-resource").and_then(Tree::as_bool) == Some(true);
        Arc::new(open_api(inner, is_resource, depth))
    };
    if refers_to_metadata(schema) {
        let metadata = schema_of("meta", "v1", "ObjectMeta");
        return metadata.map_or_else(Schema::unknown, |meta| structure(&meta, &mut Vec::new()));
    }
    match text(schema, "type") {
        "array" => Schema::array(schema.get("items").map(inner), ListKind::Atomic, None),
        "boolean" => Schema::boolean(),
        "integer" => Schema::integer(),
        "number" => Schema::number(),
        "string" => Schema::string(Format::parse(text(schema, "format")), None, None),
        "object" => {
            if let Some(values) =
                schema.get("additionalProperties").filter(|values| values.as_object().is_some())
            {
                return Schema::map(inner(values), None);
            }
            let required: Vec<&str> = items(schema, "required").iter().filter_map(Tree::as_str).collect();
            let fields = schema.get("properties").and_then(Tree::as_object);
            let property = |(name, field): (&corten_api::Str, &Tree)| Property {
                name: name.as_str().into(),
                schema: inner(field),
                required: required.contains(&name.as_str()),
                has_default: field.get("default").is_some(),
            };
            let object =
                Schema::object(fields.into_iter().flat_map(|map| map.iter()).map(property).collect());
            if is_resource { object.with_object_meta() } else { object }
        }
        _ => Schema::unknown(),
    }
}

/// Returns true for a reference to the metadata of objects, which is the only one in schemas of custom resources.
fn refers_to_metadata(schema: &Tree) -> bool {
    let is_reference = |schema: &Tree| text(schema, "$ref").ends_with(".ObjectMeta");
    is_reference(schema) || items(schema, "allOf").iter().any(is_reference)
}
