//! Schemas of custom resource definitions as this crate takes them.

use std::sync::Arc;

use corten_api::Value as Tree;
use corten_cel::schema::{Format, ListKind, Property, Schema, escape};

use crate::cases::text;

/// The schema of a JSON schema. `root` is true for the root of a resource.
pub(crate) fn schema(tree: &Tree, root: bool) -> Schema {
    let number = |member: &str| tree.get(member).and_then(Tree::as_int);
    let is_set = |member: &str| tree.get(member).and_then(Tree::as_bool).unwrap_or(false);
    let built = if is_set("x-kubernetes-int-or-string") {
        Schema::int_or_string(number("maxLength"))
    } else {
        match text(tree, "type").unwrap_or_default() {
            "boolean" => Schema::boolean(),
            "integer" => Schema::integer(),
            "number" => Schema::number(),
            "string" => Schema::string(
                Format::parse(text(tree, "format").unwrap_or_default()),
                number("maxLength"),
                longest(tree),
            ),
            "array" => Schema::array(tree.get("items").map(nested), list_kind(tree), number("maxItems")),
            "object" => object(tree, number("maxProperties")),
            _ => Schema::unknown(),
        }
    };
    let built = built
        .with_nullable(is_set("nullable"))
        .with_preserved_unknown(is_set("x-kubernetes-preserve-unknown-fields"));
    if root || is_set("x-kubernetes-embedded-resource") { built.with_object_meta() } else { built }
}

fn nested(tree: &Tree) -> Arc<Schema> {
    Arc::new(schema(tree, false))
}

fn object(tree: &Tree, max_properties: Option<i64>) -> Schema {
    if let Some(values @ Tree::Object(_)) = tree.get("additionalProperties") {
        return Schema::map(nested(values), max_properties);
    }
    let required: Vec<&str> = tree
        .get("required")
        .and_then(Tree::as_array)
        .unwrap_or_default()
        .iter()
        .filter_map(Tree::as_str)
        .collect();
    let Some(Tree::Object(properties)) = tree.get("properties") else { return Schema::object(Vec::new()) };
    let property = |(name, property): (&corten_api::Str, &Tree)| Property {
        name: (**name).into(),
        schema: nested(property),
        required: required.contains(&&**name),
        has_default: property.get("default").is_some(),
    };
    Schema::object(properties.iter().map(property).collect())
}

fn list_kind(tree: &Tree) -> ListKind {
    match text(tree, "x-kubernetes-list-type") {
        Some("set") => ListKind::Set,
        Some("map") => {
            let keys = tree.get("x-kubernetes-list-map-keys").and_then(Tree::as_array).unwrap_or_default();
            let keys = keys.iter().filter_map(Tree::as_str);
            ListKind::Map(keys.map(|key| escape(key).unwrap_or(key.into()).as_ref().into()).collect())
        }
        _ => ListKind::Atomic,
    }
}

/// The length of the longest allowed value.
fn longest(tree: &Tree) -> Option<i64> {
    let values = tree.get("enum")?.as_array()?;
    values.iter().filter_map(Tree::as_str).map(|value| value.len() as i64).max()
}
