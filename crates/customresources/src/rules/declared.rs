//! Schemas as expressions see them.
//!
//! Values without a type are not exposed, nor are lists and maps of them. `apiVersion`, `kind` and the name of a
//! resource always are.

use std::sync::Arc;

use corten_cel::schema::{Format, ListKind, Property, Schema as Declared, Shape, escape};

use crate::schema::{Check, ListType, Node, Type};

/// Maximum length of `metadata.name`.
const NAME_MAX_LENGTH: i64 = 253;

/// The schema of a node; `is_resource` is true for a resource, even if the node does not say so.
pub(super) fn declare(node: &Node, is_resource: bool) -> Arc<Declared> {
    let declared = shape(node, is_resource);
    Arc::new(declared.with_nullable(node.nullable).with_preserved_unknown(node.preserve_unknown_fields))
}

/// Returns true if expressions can use values of a schema.
pub(super) fn is_exposed(declared: &Arc<Declared>) -> bool {
    declared.to_type("").is_some()
}

fn shape(node: &Node, is_resource: bool) -> Declared {
    if node.int_or_string {
        return Declared::int_or_string(limit(node, |check| match check {
            Check::MaxLength(most) => Some(*most),
            _ => None,
        }));
    }
    match node.kind {
        Type::Boolean => Declared::boolean(),
        Type::Integer => Declared::integer(),
        Type::Number => Declared::number(),
        Type::String => string(node),
        Type::Array => array(node),
        Type::Object => object(node, is_resource),
        Type::Any | Type::Unknown => Declared::unknown(),
    }
}

fn limit<T>(node: &Node, wanted: impl Fn(&Check) -> Option<T>) -> Option<T> {
    node.checks.iter().find_map(wanted)
}

fn string(node: &Node) -> Declared {
    let format = limit(node, |check| match check {
        Check::Format(format) => Some(Format::parse(&format.name)),
        _ => None,
    });
    let longest = limit(node, |check| match check {
        Check::Enum(allowed) => {
            let lengths = allowed.iter().filter_map(|value| value.as_str()).map(str::len);
            Some(lengths.max().map_or(0, |length| i64::try_from(length).unwrap_or(i64::MAX)))
        }
        _ => None,
    });
    Declared::string(format.unwrap_or(Format::None), max_length(node), longest)
}

fn max_length(node: &Node) -> Option<i64> {
    limit(node, |check| match check {
        Check::MaxLength(most) => Some(*most),
        _ => None,
    })
}

fn array(node: &Node) -> Declared {
    let items = node.items.as_deref().map(|items| declare(items, items.embedded_resource));
    let kind = match node.list_type {
        ListType::Unset | ListType::Atomic => ListKind::Atomic,
        ListType::Set => ListKind::Set,
        ListType::Map => {
            let key = |key: &str| escape(key).map_or_else(|| key.into(), |escaped| Box::from(&*escaped));
            ListKind::Map(node.list_map_keys.iter().map(|name| key(name)).collect())
        }
    };
    let most = limit(node, |check| match check {
        Check::MaxItems(most) => Some(*most),
        _ => None,
    });
    Declared::array(items, kind, most)
}

fn object(node: &Node, is_resource: bool) -> Declared {
    if let Some(values) = node.additional.schema() {
        let most = limit(node, |check| match check {
            Check::MaxProperties(most) => Some(*most),
            _ => None,
        });
        return Declared::map(declare(values, values.embedded_resource), most);
    }
    let required = |name: &str| {
        let names = node.checks.iter().filter_map(|check| match check {
            Check::Required(names) => Some(names),
            _ => None,
        });
        names.flatten().any(|required| required.as_str() == name)
    };
    let property = |name: &str, schema: Arc<Declared>, has_default: bool| Property {
        name: name.into(),
        schema,
        required: required(name),
        has_default,
    };
    let is_replaced = is_resource && !has_object_meta(node);
    let own = node
        .properties
        .iter()
        .filter(|(name, _)| !(is_replaced && crate::prune::is_type_or_object_meta(name)));
    let mut properties: Vec<Property> = own
        .map(|(name, inner)| property(name, declare(inner, inner.embedded_resource), inner.default.is_some()))
        .collect();
    if is_replaced {
        let text = || Arc::new(Declared::string(Format::None, None, None));
        properties.push(property("kind", text(), false));
        properties.push(property("apiVersion", text(), false));
        properties.push(property("metadata", object_meta(node), false));
    }
    Declared::object(properties)
}

/// Returns true if a schema has every field that is always accessible.
fn has_object_meta(node: &Node) -> bool {
    let is_text = |node: &Node, name: &str| node.property(name).is_some_and(|node| node.kind == Type::String);
    is_text(node, "kind")
        && is_text(node, "apiVersion")
        && node.property("metadata").is_some_and(|metadata| {
            metadata.kind == Type::Object && is_text(metadata, "name") && is_text(metadata, "generateName")
        })
}

fn object_meta(node: &Node) -> Arc<Declared> {
    let metadata = node.property("metadata");
    let text = |name: &str, most: i64| {
        let own = metadata.and_then(|metadata| metadata.property(name)).and_then(max_length);
        let most = own.map_or(most, |own| own.min(most));
        let schema = Arc::new(Declared::string(Format::None, Some(most), None));
        Property { name: name.into(), schema, required: false, has_default: false }
    };
    let fields = vec![text("name", NAME_MAX_LENGTH), text("generateName", NAME_MAX_LENGTH - 1)];
    Arc::new(Declared::object(fields))
}

/// The schema of a field within that of an object, if expressions can use it.
pub(super) fn field(declared: &Declared, name: &str) -> Option<Arc<Declared>> {
    let Shape::Object(properties) = declared.shape() else { return None };
    let found = properties.binary_search_by(|property| (*property.name).cmp(name)).ok()?;
    properties.get(found).map(|property| property.schema.clone()).filter(is_exposed)
}

/// The schema of the items of a list or the values of a map.
pub(super) fn element(declared: &Declared) -> Option<Arc<Declared>> {
    match declared.shape() {
        Shape::Array(items, _) => items.clone(),
        Shape::Map(values) => Some(values.clone()),
        _ => None,
    }
}
