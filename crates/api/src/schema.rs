//! The types of all objects: fields with their JSON names, protobuf numbers, kinds, list and map
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

use crate::stored::WriteSteps;
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
    /// Positions of the fields that are present even when they are not set.
    pub filled: Vec<u32>,
    names: Names,
    /// True if server-side apply treats the whole as one value.
    pub atomic: bool,
    /// True if server-side apply accepts fields that are not named here (`x-kubernetes-preserve-unknown-fields`).
    pub preserves_unknown_fields: bool,
    /// The map topology that the table states for the type.
    pub stated_topology: StatedTopology,
    /// Unions: at most one member is set, named by the discriminator if there is one.
    pub union: Option<Union>,
    /// The required fields in the order of OpenAPI documents, where protobuf numbers do not give it.
    pub required_order: Vec<Str>,
    /// Facts about the fields of upstream's Go type, in its order. Types of custom resources have none.
    pub go_fields: Vec<GoField>,
    /// The fields that writes change, found when the first object is written.
    pub(crate) write_steps: OnceLock<WriteSteps>,
}

/// A field of a Go type, for error texts.
#[derive(Debug)]
pub struct GoField {
    /// The position in `Struct::fields`.
    pub position: usize,
    /// The type, where it is not the one that the field's kind has.
    pub type_name: Option<Str>,
    /// The embedded structs that have the field: `RuleWithOperations.Rule`.
    pub embedded: Option<Str>,
    /// The field is behind a feature gate that is off: writes drop it.
    pub disabled: bool,
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
        Struct {
            package,
            name,
            filled,
            names,
            fields,
            atomic: false,
            preserves_unknown_fields: false,
            stated_topology: StatedTopology::None,
            union: None,
            required_order: Vec::new(),
            go_fields: Vec::new(),
            write_steps: OnceLock::new(),
        }
    }

    pub fn field(&self, name: &str) -> Option<&Field> {
        self.position(name).map(|i| &self.fields[i])
    }

    /// The position of a field.
    pub fn position(&self, name: &str) -> Option<usize> {
        self.names.find(&self.fields, name)
    }

    /// The facts about the Go field at a position in `fields`.
    pub fn go_field(&self, position: usize) -> Option<&GoField> {
        self.go_fields.iter().find(|field| field.position == position)
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
    /// The values that OpenAPI documents list; of the items, if the field is a list or a map. Validation
    /// has its own rules.
    pub enum_values: Vec<Str>,
    pub openapi: OpenApiFacts,
}

/// Facts about a field that only OpenAPI documents show.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OpenApiFacts {
    pub topology: StatedTopology,
    /// The default is an empty text, although that text is not encoded.
    pub empty_default: bool,
}

/// The topology that the table states. Where it states none, documents show none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum StatedTopology {
    #[default]
    None,
    List,
    Map(MapTopology),
}

/// A field's strategy in strategic merge patches.
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
    /// Free-form JSON; the form is its protobuf format.
    Any(AnyForm),
    List(Box<Kind>, ListTopology),
    /// String keys; the flag is true if apply treats the map as one value.
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
    /// A boolean (1), and a schema (2).
    SchemaOrBool,
    /// A schema (1), or names of properties (2).
    SchemaOrStringArray,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListTopology {
    Atomic,
    Set,
    /// Items are identified by these fields.
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
            // All are decoded from text.
            Kind::Time | Kind::MicroTime | Kind::Duration => "string".into(),
            Kind::Raw => "runtime.RawExtension".into(),
            Kind::FieldsV1 => "v1.FieldsV1".into(),
            Kind::Any(_) => "interface {}".into(),
            Kind::List(item, _) => format!("[]{}", item.go_name()),
            Kind::Map(item, _) => match &**item {
                Kind::Time => "map[string]v1.Time".into(),
                item => format!("map[string]{}", item.go_name()),
            },
            Kind::Struct(s) => s.go_name(),
        }
    }
}
