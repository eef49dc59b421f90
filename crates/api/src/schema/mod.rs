//! The shape of every object: fields with their JSON names, protobuf numbers, kinds, list and map
//! topology, merge keys and defaults.
//!
//! Decoding, pruning, defaulting, strategic merge, server-side apply, protobuf and OpenAPI are walks
//! over these types. Built-in types come from the table beside this crate's sources and live as long as
//! the process; types made from a CRD are shared and freed with the CRD.

mod names;
mod table;

use std::ops::Deref;
use std::sync::{Arc, OnceLock};

pub(crate) use table::fingerprint;
pub use table::{lookup, struct_names};

use names::Names;

use crate::value::{Str, Value};

/// A message with named fields.
#[derive(Debug)]
pub struct Struct {
    /// Group and version as the table spells them: `core/v1`, `meta/v1`, `apps/v1`.
    pub package: Str,
    /// The type's own name: `Pod`.
    pub name: Str,
    /// In order of JSON name.
    pub fields: Vec<Field>,
    /// Positions of the fields that are there even when nobody sets them.
    pub filled: Vec<u32>,
    names: Names,
    /// Whether server-side apply treats the whole as one value.
    pub atomic: bool,
    /// Unions: at most one member is set, named by the discriminator if there is one.
    pub union: Option<Union>,
}

#[derive(Debug)]
pub struct Union {
    pub discriminator: Option<Str>,
    pub members: Vec<Str>,
}

impl Struct {
    /// A type with these fields, in any order.
    pub fn new(package: Str, name: Str, mut fields: Vec<Field>) -> Struct {
        fields.sort_by(|a, b| a.name.cmp(&b.name));
        let filled = (0u32..).zip(&fields).filter(|(_, f)| f.keep || f.default.is_some()).map(|(i, _)| i);
        let (filled, names) = (filled.collect(), Names::new(&fields));
        Struct { package, name, filled, names, fields, atomic: false, union: None }
    }

    pub fn field(&self, name: &str) -> Option<&Field> {
        self.position(name).map(|i| &self.fields[i])
    }

    /// Where a field stands among the others.
    pub fn position(&self, name: &str) -> Option<usize> {
        self.names.find(&self.fields, name)
    }

    /// The type as Go prints it, `v1.Pod`, for error texts.
    pub fn go_name(&self) -> String {
        format!("{}.{}", self.package.rsplit('/').next().unwrap_or_default(), self.name)
    }
}

#[derive(Debug)]
pub struct Field {
    pub name: Str,
    pub kind: Kind,
    /// Protobuf field numbers from the enclosing message down; empty if not on that wire. Two where JSON
    /// flattens what protobuf nests.
    pub numbers: Vec<u32>,
    pub required: bool,
    pub default: Option<Value>,
    /// A zero value differs from an absent one (a pointer in upstream's types).
    pub pointer: bool,
    /// Always encoded, even when zero.
    pub keep: bool,
    pub patch: PatchStrategy,
    pub enum_values: Vec<Str>,
}

/// How strategic merge patch treats a field.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PatchStrategy {
    pub merge: bool,
    /// Not even an object is merged.
    pub replace: bool,
    pub retain_keys: bool,
    pub merge_key: Option<Str>,
}

#[derive(Debug)]
pub enum Kind {
    String,
    Bool,
    Int32,
    Int64,
    Double,
    /// Base64 in JSON.
    Bytes,
    Quantity,
    IntOrString,
    /// RFC 3339 with seconds.
    Time,
    /// RFC 3339 with microseconds.
    MicroTime,
    /// In Go's notation, as in `1m30s`.
    Duration,
    /// An embedded object of any kind (`RawExtension`).
    Raw,
    /// A field set, kept as text.
    FieldsV1,
    /// Free-form JSON; the form says how protobuf carries it.
    Any(AnyForm),
    List(Box<Kind>, ListTopology),
    /// String keys; the flag says that apply treats the map as one value.
    Map(Box<Kind>, MapTopology),
    Struct(StructRef),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnyForm {
    /// Not on the protobuf wire.
    Free,
    /// A message with the JSON text in field 1.
    Json,
    /// A schema (1), or several (2).
    SchemaOrArray,
    /// Whether anything goes (1), and a schema (2).
    SchemaOrBool,
    /// A schema (1), or names of properties (2).
    SchemaOrStringArray,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListTopology {
    Atomic,
    Set,
    /// Items are told apart by these fields.
    Map(Vec<Str>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MapTopology {
    Granular,
    Atomic,
}

/// A struct type: one of the table's, or one made from a CRD.
#[derive(Debug, Clone)]
pub enum StructRef {
    BuiltIn(&'static OnceLock<Struct>),
    Shared(Arc<Struct>),
}

impl Deref for StructRef {
    type Target = Struct;

    fn deref(&self) -> &Struct {
        match self {
            StructRef::BuiltIn(cell) => cell.get().expect("the table fills every struct it refers to"),
            StructRef::Shared(shared) => shared,
        }
    }
}

impl Kind {
    /// The type as Go prints it in decoding errors.
    pub fn go_name(&self) -> String {
        match self {
            Kind::String => "string".into(),
            Kind::Bool => "bool".into(),
            Kind::Int32 => "int32".into(),
            Kind::Int64 => "int64".into(),
            Kind::Double => "float64".into(),
            Kind::Bytes => "[]uint8".into(),
            Kind::Quantity => "resource.Quantity".into(),
            Kind::IntOrString => "intstr.IntOrString".into(),
            // All are read from text.
            Kind::Time | Kind::MicroTime | Kind::Duration => "string".into(),
            Kind::Raw => "runtime.RawExtension".into(),
            Kind::FieldsV1 => "v1.FieldsV1".into(),
            Kind::Any(_) => "interface {}".into(),
            Kind::List(item, _) => format!("[]{}", item.go_name()),
            Kind::Map(item, _) => format!("map[string]{}", item.go_name()),
            Kind::Struct(s) => s.go_name(),
        }
    }
}
