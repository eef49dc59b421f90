//! Types as OpenAPI schemas.
//!
//! A definition is either a struct of the table or one of the few types whose JSON differs from
//! their declaration. Version 2 has no defaults: its clients would fill them in.

use std::collections::BTreeMap;

use super::names::{self, GroupVersionKind};
use super::{Descriptions, Dialect};
use crate::schema::{AnyForm, Field, Kind, ListTopology, MapTopology, StatedTopology, Struct, StructRef};
use crate::{Map, Value, value};

/// The target of a name in the definitions.
#[derive(Debug, Clone)]
pub(super) enum Definition {
    Struct(StructRef),
    /// Written the same wherever it is used.
    Fixed(Fixed),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fixed {
    Quantity,
    IntOrString,
    Time,
    Text,
    /// An object without known fields.
    Object,
    Anything,
}

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";
const EXTENSIONS: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1";

/// Every definition reachable from `roots`, by name.
pub(super) fn reachable(roots: impl IntoIterator<Item = StructRef>) -> BTreeMap<String, Definition> {
    let mut found = BTreeMap::new();
    let mut pending: Vec<StructRef> = roots.into_iter().collect();
    while let Some(next) = pending.pop() {
        let name = names::type_name(&next.package, &next.name);
        if found.contains_key(&name) {
            continue;
        }
        for field in &next.fields {
            match referred(&field.kind) {
                Some((_, Definition::Struct(inner))) => pending.push(inner),
                Some((name, fixed)) => drop(found.insert(name, fixed)),
                None => {}
            }
        }
        found.insert(name, Definition::Struct(next));
    }
    found
}

/// The definition a field of this kind refers to, under lists and maps.
fn referred(kind: &Kind) -> Option<(String, Definition)> {
    let fixed = |home: &str, name: &str, fixed| Some((format!("{home}.{name}"), Definition::Fixed(fixed)));
    match kind {
        Kind::List(item, _) | Kind::Map(item, _) => referred(item),
        Kind::Struct(inner) => {
            Some((names::type_name(&inner.package, &inner.name), Definition::Struct(inner.clone())))
        }
        Kind::Quantity => fixed("io.k8s.apimachinery.pkg.api.resource", "Quantity", Fixed::Quantity),
        Kind::IntOrString => fixed("io.k8s.apimachinery.pkg.util.intstr", "IntOrString", Fixed::IntOrString),
        Kind::Time => fixed(META, "Time", Fixed::Time),
        Kind::MicroTime => fixed(META, "MicroTime", Fixed::Time),
        Kind::Duration => fixed(META, "Duration", Fixed::Text),
        Kind::Raw => fixed("io.k8s.apimachinery.pkg.runtime", "RawExtension", Fixed::Object),
        Kind::FieldsV1 => fixed(META, "FieldsV1", Fixed::Object),
        Kind::Any(AnyForm::Json) => fixed(EXTENSIONS, "JSON", Fixed::Anything),
        Kind::Any(AnyForm::SchemaOrArray) => fixed(EXTENSIONS, "JSONSchemaPropsOrArray", Fixed::Anything),
        Kind::Any(AnyForm::SchemaOrBool) => fixed(EXTENSIONS, "JSONSchemaPropsOrBool", Fixed::Anything),
        Kind::Any(AnyForm::SchemaOrStringArray) => {
            fixed(EXTENSIONS, "JSONSchemaPropsOrStringArray", Fixed::Anything)
        }
        Kind::Any(AnyForm::Free) => None,
        Kind::String | Kind::Bool | Kind::Int32 | Kind::Int64 | Kind::Double | Kind::Bytes => None,
    }
}

/// Writes definitions for one document.
pub(super) struct Schemas<'a> {
    pub(super) dialect: Dialect,
    pub(super) descriptions: &'a dyn Descriptions,
    /// The groups and versions that have the kinds that every group shares.
    pub(super) versions: &'a [(&'a str, &'a str)],
}

impl Schemas<'_> {
    pub(super) fn definition(&self, name: &str, definition: &Definition) -> Value {
        let mut schema = match definition {
            Definition::Struct(of) => self.of_struct(name, of),
            Definition::Fixed(fixed) => self.of_fixed(*fixed),
        };
        if let Some(text) = self.descriptions.of_type(name) {
            schema.insert("description", text);
        }
        Value::Object(schema)
    }

    fn of_fixed(&self, fixed: Fixed) -> Map {
        let schema = match (fixed, self.dialect) {
            (Fixed::Quantity, Dialect::V2) => value!({"type": "string"}),
            (Fixed::Quantity, Dialect::V3) => value!({"oneOf": [{"type": "string"}, {"type": "number"}]}),
            (Fixed::IntOrString, Dialect::V2) => value!({"format": "int-or-string", "type": "string"}),
            (Fixed::IntOrString, Dialect::V3) => {
                value!({"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]})
            }
            (Fixed::Time, _) => value!({"format": "date-time", "type": "string"}),
            (Fixed::Text, _) => value!({"type": "string"}),
            (Fixed::Object, _) => value!({"type": "object"}),
            (Fixed::Anything, _) => Value::object(),
        };
        into_map(schema)
    }

    fn of_struct(&self, name: &str, of: &Struct) -> Map {
        let mut schema = Map::new();
        if !of.fields.is_empty() {
            let properties: Map =
                of.fields.iter().map(|f| (f.name.clone(), self.property(name, f))).collect();
            schema.insert("properties", properties);
        }
        let required = required(of);
        if !required.is_empty() {
            schema.insert("required", required);
        }
        schema.insert("type", "object");
        if let Some(kind) = names::kind_of(of) {
            schema.insert("x-kubernetes-group-version-kind", self.kinds(&kind));
        }
        map_type(&mut schema, of.stated_topology);
        if let Some(union) = &of.union {
            let fields: Map =
                union.members.iter().map(|m| (m.clone(), names::capitalised(m).into())).collect();
            let mut entry = Map::new();
            if let Some(discriminator) = &union.discriminator {
                entry.insert("discriminator", discriminator.clone());
            }
            entry.insert("fields-to-discriminateBy", fields);
            schema.insert("x-kubernetes-unions", vec![Value::Object(entry)]);
        }
        schema
    }

    /// A type is usually one kind; shared ones are known in every group.
    fn kinds(&self, own: &GroupVersionKind) -> Vec<Value> {
        let shared = own.group.is_empty() && matches!(own.kind.as_str(), "DeleteOptions" | "WatchEvent");
        let mut kinds = vec![own.clone()];
        if shared {
            let more = self.versions.iter().map(|(group, version)| names::gvk(group, version, &own.kind));
            kinds.extend(more.filter(|kind| kind != own));
        }
        kinds.iter().map(kind_value).collect()
    }

    fn property(&self, owner_name: &str, field: &Field) -> Value {
        let mut schema = self.of_kind(&field.kind);
        if let Some(default) = self.default(field) {
            schema.insert("default", default);
        }
        if let Some(text) = self.descriptions.of_field(owner_name, &field.name) {
            schema.insert("description", text);
        }
        if !field.enum_values.is_empty() {
            let place = match &field.kind {
                Kind::List(..) => schema.get_mut("items").and_then(Value::as_object_mut),
                Kind::Map(..) => schema.get_mut("additionalProperties").and_then(Value::as_object_mut),
                _ => Some(&mut schema),
            };
            let values: Vec<Value> = field.enum_values.iter().map(|v| v.clone().into()).collect();
            place.map(|place| place.insert("enum", values));
        }
        topology(&mut schema, field);
        patch_strategy(&mut schema, field);
        // Version 3 allows nothing beside a reference.
        if self.dialect == Dialect::V3
            && schema.len() > 1
            && let Some(reference) = schema.remove("$ref")
        {
            schema.insert("allOf", value!([{"$ref": reference}]));
        }
        Value::Object(schema)
    }

    fn default(&self, field: &Field) -> Option<Value> {
        if self.dialect == Dialect::V2 {
            return None;
        }
        let zero = || match (&field.kind, field.pointer) {
            _ if field.openapi.empty_default => Some("".into()),
            (_, true) => None,
            (Kind::Struct(_), false) => Some(Value::object()),
            (Kind::String, false) if field.keep => Some("".into()),
            (Kind::Bool, false) if field.keep => Some(false.into()),
            (Kind::Int32 | Kind::Int64 | Kind::Double, false) if field.keep => Some(0.into()),
            _ => None,
        };
        field.default.clone().or_else(zero)
    }

    fn of_kind(&self, kind: &Kind) -> Map {
        let schema = match kind {
            Kind::String => value!({"type": "string"}),
            Kind::Bool => value!({"type": "boolean"}),
            Kind::Int32 => value!({"format": "int32", "type": "integer"}),
            Kind::Int64 => value!({"format": "int64", "type": "integer"}),
            Kind::Double => value!({"format": "double", "type": "number"}),
            Kind::Bytes => value!({"format": "byte", "type": "string"}),
            Kind::Any(AnyForm::Free) => value!({"type": "object"}),
            Kind::List(item, _) => value!({"items": (self.of_kind(item)), "type": "array"}),
            Kind::Map(item, _) => value!({"additionalProperties": (self.of_kind(item)), "type": "object"}),
            other => match referred(other) {
                Some((name, _)) => value!({"$ref": (self.dialect.reference(&name))}),
                None => Value::object(),
            },
        };
        into_map(schema)
    }
}

pub(super) fn kind_value(kind: &GroupVersionKind) -> Value {
    value!({"group": (kind.group.as_str()), "kind": (kind.kind.as_str()), "version": (kind.version.as_str())})
}

/// The names of the required fields, in the order of upstream's declarations.
fn required(of: &Struct) -> Vec<Value> {
    let mut fields: Vec<&Field> = of.fields.iter().filter(|field| field.required).collect();
    let stated = |field: &Field| of.required_order.iter().position(|name| *name == field.name);
    fields.sort_by_key(|field| (stated(field), &field.numbers));
    fields.iter().map(|field| field.name.clone().into()).collect()
}

fn topology(schema: &mut Map, field: &Field) {
    match (field.openapi.topology, &field.kind) {
        (StatedTopology::None, _) => {}
        (StatedTopology::List, Kind::List(_, ListTopology::Map(keys))) => {
            let keys: Vec<Value> = keys.iter().map(|key| key.clone().into()).collect();
            schema.insert("x-kubernetes-list-map-keys", keys);
            schema.insert("x-kubernetes-list-type", "map");
        }
        (StatedTopology::List, Kind::List(_, ListTopology::Set)) => {
            schema.insert("x-kubernetes-list-type", "set");
        }
        (StatedTopology::List, _) => drop(schema.insert("x-kubernetes-list-type", "atomic")),
        (stated, _) => map_type(schema, stated),
    }
}

fn map_type(schema: &mut Map, stated: StatedTopology) {
    let word = match stated {
        StatedTopology::Map(MapTopology::Atomic) => "atomic",
        StatedTopology::Map(MapTopology::Granular) => "granular",
        StatedTopology::List | StatedTopology::None => return,
    };
    schema.insert("x-kubernetes-map-type", word);
}

fn patch_strategy(schema: &mut Map, field: &Field) {
    if let Some(key) = &field.patch.merge_key {
        schema.insert("x-kubernetes-patch-merge-key", key.clone());
    }
    let strategy = match (field.patch.merge, field.patch.retain_keys, field.patch.replace) {
        (true, true, _) => "merge,retainKeys",
        (true, false, _) => "merge",
        (false, true, _) => "retainKeys",
        (false, false, true) => "replace",
        (false, false, false) => return,
    };
    schema.insert("x-kubernetes-patch-strategy", strategy);
}

fn into_map(value: Value) -> Map {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}
