//! The type of a custom resource for field management (server-side apply).
//!
//! Upstream derives it from the published OpenAPI document: lists are atomic unless they say otherwise, fields below
//! `x-kubernetes-preserve-unknown-fields` and objects without named fields have the type of their values, strings with
//! a format are any scalar, and `metadata` of resources is that of built-in types.

use std::sync::Arc;

use corten_api::schema::{
    self, AnyForm, Field, Kind, ListTopology, MapTopology, OpenApiFacts, PatchStrategy, Struct, StructRef,
};
use corten_api::{Str, Value};

use crate::schema::{Additional, Check, ListType, MapType, Node, Schema, Type};

/// The type of a custom resource of a kind. `preserve_unknown_fields` is that of the definition.
pub fn resource_type(
    schema: &Schema,
    group_version: &str,
    kind: &str,
    preserve_unknown_fields: bool,
) -> StructRef {
    let builder = Builder { package: Str::new(group_version) };
    let root = schema.root();
    let preserves = preserve_unknown_fields || root.preserve_unknown_fields;
    let mut resource = builder.structure(root, Str::new(kind), preserves, true);
    if root.kind == Type::Any && root.properties.is_empty() {
        // Without a schema, even metadata has the type of its value.
        resource = Struct::new(builder.package.clone(), Str::new(kind), Vec::new());
    }
    StructRef::Shared(Arc::new(resource))
}

struct Builder {
    package: Str,
}

impl Builder {
    fn kind(&self, node: &Node, preserves: bool) -> Kind {
        let preserves = preserves || node.preserve_unknown_fields;
        match node.kind {
            // Published without a type.
            _ if node.int_or_string => Kind::Any(AnyForm::Free),
            Type::Object => self.object(node, preserves),
            Type::Array => self.list(node, preserves),
            Type::Integer | Type::Number => Kind::Double,
            Type::Boolean => Kind::Bool,
            Type::String if has_format(node) => Kind::IntOrString,
            Type::String => Kind::String,
            Type::Any | Type::Unknown if node.properties.is_empty() => Kind::Any(AnyForm::Free),
            Type::Any | Type::Unknown => self.object(node, preserves),
        }
    }

    fn object(&self, node: &Node, preserves: bool) -> Kind {
        if !node.properties.is_empty() || node.embedded_resource {
            let structure = self.structure(node, Str::default(), preserves, node.embedded_resource);
            return Kind::Struct(StructRef::Shared(Arc::new(structure)));
        }
        let topology = match node.map_type {
            MapType::Atomic => MapTopology::Atomic,
            MapType::Unset | MapType::Granular => MapTopology::Granular,
        };
        let item = match &node.additional {
            Additional::Schema(item) => self.kind(item, preserves),
            Additional::Absent | Additional::Bool(_) => Kind::Any(AnyForm::Free),
        };
        Kind::Map(Box::new(item), topology)
    }

    /// A type with named fields; `is_resource` adds those of every resource.
    fn structure(&self, node: &Node, name: Str, preserves: bool, is_resource: bool) -> Struct {
        let own = |name: &Str| !(is_resource && crate::prune::is_type_or_object_meta(name));
        let properties = node.properties.iter().filter(|(name, _)| own(name));
        let mut fields: Vec<Field> = properties
            .map(|(name, node)| field(name.clone(), self.kind(node, preserves), node.default.as_deref()))
            .collect();
        if is_resource {
            fields.push(field(Str::new_static("apiVersion"), Kind::String, None));
            fields.push(field(Str::new_static("kind"), Kind::String, None));
            let metadata = schema::lookup("meta/v1", "ObjectMeta").map(Kind::Struct);
            fields.extend(metadata.map(|kind| field(Str::new_static("metadata"), kind, None)));
        }
        let mut structure = Struct::new(self.package.clone(), name, fields);
        structure.atomic = node.map_type == MapType::Atomic;
        structure.preserves_unknown_fields = match node.additional {
            Additional::Absent => preserves,
            Additional::Bool(allowed) => allowed,
            Additional::Schema(_) => true,
        };
        structure
    }

    fn list(&self, node: &Node, preserves: bool) -> Kind {
        let item = match &node.items {
            Some(items) => self.kind(items, preserves),
            None => Kind::Any(AnyForm::Free),
        };
        let topology = match node.list_type {
            ListType::Unset | ListType::Atomic => ListTopology::Atomic,
            ListType::Set => ListTopology::Set,
            ListType::Map => ListTopology::Map(node.list_map_keys.to_vec()),
        };
        Kind::List(Box::new(item), topology)
    }
}

fn has_format(node: &Node) -> bool {
    let is_other = |check: &Check| match check {
        Check::Format(format) | Check::IgnoredFormat(format) => format.name.as_str() != "byte",
        _ => false,
    };
    node.checks.iter().any(is_other)
}

/// A field without protobuf number or patch strategy.
fn field(name: Str, kind: Kind, default: Option<&Value>) -> Field {
    Field {
        name,
        kind,
        numbers: Vec::new(),
        required: false,
        default: default.cloned(),
        pointer: true,
        keep: false,
        patch: PatchStrategy::default(),
        openapi: OpenApiFacts::default(),
        enum_values: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use corten_api::json;
    use corten_api::managed::{Context, apply};

    use super::*;

    const SCHEMA: &str = r#"{"type":"object","properties":{"spec":{"type":"object","properties":{
        "s":{"type":"string"},"n":{"type":"integer"},"ios":{"x-kubernetes-int-or-string":true},
        "date":{"type":"string","format":"date"},
        "atomic":{"type":"array","items":{"type":"string"}},
        "set":{"type":"array","x-kubernetes-list-type":"set","items":{"type":"string"}},
        "map":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["k"],"items":{"type":"object","properties":{"k":{"type":"string","default":"d"},"v":{"type":"integer"}}}},
        "free":{"type":"object"},"values":{"type":"object","additionalProperties":{"type":"string"}},
        "whole":{"type":"object","x-kubernetes-map-type":"atomic","properties":{"a":{"type":"string"}}},
        "open":{"type":"object","x-kubernetes-preserve-unknown-fields":true,"properties":{"a":{"type":"object","properties":{"b":{"type":"string"}}}}},
        "pod":{"type":"object","x-kubernetes-embedded-resource":true,"properties":{"spec":{"type":"object"}}}}}}}"#;

    /// Applies a specification to nothing; returns the field set or the error.
    #[track_caller]
    fn check(spec: &str, expected: Result<&str, &str>) {
        let schema = Schema::compile(&json::parse(SCHEMA.as_bytes()).unwrap()).unwrap();
        let schema = resource_type(&schema, "example.com/v1", "Widget", false);
        let text = format!(
            r#"{{"apiVersion":"example.com/v1","kind":"Widget","metadata":{{"name":"w"}},"spec":{spec}}}"#
        );
        let ctx = Context {
            schema: &schema,
            api_version: "example.com/v1",
            manager: "m",
            subresource: "",
            now: "2026-01-01T00:00:00Z",
            filter: None,
            versions: None,
        };
        let applied = apply(&ctx, None, &json::parse(text.as_bytes()).unwrap(), false);
        let fields = applied.map(|object| {
            let entry = &object.items_at(&["metadata", "managedFields"])[0];
            json::write_to_string(entry.get("fieldsV1").unwrap())
        });
        let fields = fields.map_err(|status| status.message);
        assert_eq!(fields.as_deref().map_err(String::as_str), expected, "{spec}");
    }

    #[test]
    fn fields_are_owned_by_their_topology() {
        check(
            r#"{"s":"x","n":1.5,"ios":"5%","date":"2024-01-01"}"#,
            Ok(r#"{"f:spec":{"f:date":{},"f:ios":{},"f:n":{},"f:s":{}}}"#),
        );
        check(r#"{"ios":{"a":1}}"#, Ok(r#"{"f:spec":{"f:ios":{"f:a":{}}}}"#));
        check(r#"{"atomic":["a"],"set":["a"]}"#, Ok(r#"{"f:spec":{"f:atomic":{},"f:set":{"v:\"a\"":{}}}}"#));
        check(r#"{"map":[{"v":1}]}"#, Ok(r#"{"f:spec":{"f:map":{"k:{\"k\":\"d\"}":{".":{},"f:v":{}}}}}"#));
        check(
            r#"{"free":{"a":{"b":[1]}},"values":{"x":"y"},"whole":{"a":"b"}}"#,
            Ok(r#"{"f:spec":{"f:free":{"f:a":{".":{},"f:b":{}}},"f:values":{"f:x":{}},"f:whole":{}}}"#),
        );
        check(
            r#"{"open":{"x":{"y":1},"a":{"b":"c","d":1}}}"#,
            Ok(r#"{"f:spec":{"f:open":{"f:a":{"f:b":{},"f:d":{}},"f:x":{".":{},"f:y":{}}}}}"#),
        );
        check(
            r#"{"pod":{"metadata":{"labels":{"a":"b"}},"spec":{"c":1}}}"#,
            Ok(r#"{"f:spec":{"f:pod":{"f:metadata":{"f:labels":{"f:a":{}}},"f:spec":{"f:c":{}}}}}"#),
        );
    }

    #[test]
    fn undeclared_fields_are_refused() {
        let what = "failed to create typed patch object (/w; example.com/v1, Kind=Widget): ";
        check(r#"{"zz":1}"#, Err(&format!("{what}.spec.zz: field not declared in schema")));
        check(r#"{"n":"x"}"#, Err(&format!("{what}.spec.n: expected numeric (int or float), got string")));
        check(r#"{"pod":{"zz":1}}"#, Err(&format!("{what}.spec.pod.zz: field not declared in schema")));
    }
}
