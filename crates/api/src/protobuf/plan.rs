//! The schema in protobuf's view: per message, its fields by number.
//!
//! Built once per type, at the first use, and kept: only the table's types have a plan, so their number is
//! bounded. Types may contain themselves; the link between two plans is followed
//! lazily.

use std::collections::HashMap;
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::schema::{self, AnyForm, Field, Kind, Struct, StructRef};
use crate::value::Str;

/// A type with a protobuf format, and its plan after the first use.
pub(super) struct Link {
    schema: StructRef,
    plan: OnceLock<Plan>,
}

/// One JSON object's fields. Several messages may share one plan's object: JSON flattens what protobuf
/// nests.
pub(super) struct Plan {
    /// The type's name, for errors.
    pub(super) name: Str,
    pub(super) root: Message,
    /// JSON names in byte order: a field's index here is its `rank`.
    pub(super) names: Vec<Str>,
}

/// One message on the wire: its slots in order of number.
pub(super) struct Message {
    pub(super) slots: Vec<Slot>,
}

pub(super) struct Slot {
    pub(super) number: u32,
    pub(super) content: Content,
}

pub(super) enum Content {
    /// A message whose fields JSON shows in the enclosing object.
    Inline(Message),
    Field {
        rank: usize,
        pointer: bool,
        shape: Shape,
    },
}

/// The protobuf format of a field's value.
pub(super) enum Shape {
    String,
    Bool,
    Int32,
    Int64,
    Double,
    Bytes,
    Quantity,
    IntOrString,
    Time,
    MicroTime,
    Duration,
    Raw,
    FieldsV1,
    Json,
    /// A schema or something simpler.
    Schema(AnyForm),
    List(Box<Shape>),
    /// Strings wrapped in a message of their own (`ExtraValue`, `Verbs`).
    Strings,
    Map(Box<Shape>),
    Struct(&'static Link),
}

impl Link {
    pub(super) fn plan(&self) -> &Plan {
        self.plan.get_or_init(|| compile(&self.schema))
    }

    pub(super) fn schema(&self) -> &Struct {
        &self.schema
    }
}

impl Message {
    pub(super) fn slot(&self, number: u32) -> Option<&Slot> {
        // Numbers are mostly 1, 2, 3, …: the slot is mostly at that index.
        let guess = (number as usize).wrapping_sub(1);
        match self.slots.get(guess) {
            Some(slot) if slot.number == number => Some(slot),
            _ => self.slots.binary_search_by_key(&number, |s| s.number).ok().map(|i| &self.slots[i]),
        }
    }
}

/// The link of a built-in type; `None` for any other.
pub(super) fn link(schema: &Struct) -> Option<&'static Link> {
    let known = schema::lookup(&schema.package, &schema.name)?;
    std::ptr::eq::<Struct>(&*known, schema).then(|| link_to(&known))
}

/// The link of `JSONSchemaProps`, which apiextensions' free-form fields contain.
pub(super) fn json_schema_props() -> &'static Link {
    static LINK: OnceLock<&'static Link> = OnceLock::new();
    LINK.get_or_init(|| {
        link_to(&schema::lookup("apiextensions/v1", "JSONSchemaProps").expect("the table has the type"))
    })
}

fn link_to(schema: &StructRef) -> &'static Link {
    static LINKS: OnceLock<Mutex<HashMap<usize, &'static Link>>> = OnceLock::new();
    let address = std::ptr::from_ref::<Struct>(schema) as usize;
    let mut links = LINKS.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
    links
        .entry(address)
        .or_insert_with(|| Box::leak(Box::new(Link { schema: schema.clone(), plan: OnceLock::new() })))
}

fn compile(schema: &Struct) -> Plan {
    let mut root = Message { slots: Vec::new() };
    let mut names = Vec::new();
    for field in &schema.fields {
        if let Some(shape) = shape_of(schema, field) {
            let content = Content::Field { rank: names.len(), pointer: field.pointer, shape };
            place(&mut root, &field.numbers, content);
            names.push(field.name.clone());
        }
    }
    Plan { name: schema.name.clone(), root, names }
}

/// Inserts a field at its path of numbers.
fn place(message: &mut Message, numbers: &[u32], content: Content) {
    let Some((&number, rest)) = numbers.split_first() else { return };
    let found = message.slots.binary_search_by_key(&number, |s| s.number);
    if rest.is_empty() {
        let at = found.unwrap_or_else(|at| at);
        message.slots.insert(at, Slot { number, content });
        return;
    }
    let at = found.unwrap_or_else(|at| {
        let content = Content::Inline(Message { slots: Vec::new() });
        message.slots.insert(at, Slot { number, content });
        at
    });
    if let Content::Inline(inner) = &mut message.slots[at].content {
        place(inner, rest, content);
    }
}

fn shape_of(schema: &Struct, field: &Field) -> Option<Shape> {
    if field.numbers.is_empty() {
        return None;
    }
    if schema.name == "APIResource" && field.name == "verbs" {
        return Some(Shape::Strings);
    }
    shape(&field.kind)
}

fn shape(kind: &Kind) -> Option<Shape> {
    Some(match kind {
        Kind::String => Shape::String,
        Kind::Bool => Shape::Bool,
        Kind::Int32 => Shape::Int32,
        Kind::Int64 => Shape::Int64,
        Kind::Double => Shape::Double,
        Kind::Bytes => Shape::Bytes,
        Kind::Quantity => Shape::Quantity,
        Kind::IntOrString => Shape::IntOrString,
        Kind::Time => Shape::Time,
        Kind::MicroTime => Shape::MicroTime,
        Kind::Duration => Shape::Duration,
        Kind::Raw => Shape::Raw,
        Kind::FieldsV1 => Shape::FieldsV1,
        Kind::Any(AnyForm::Free) => return None,
        Kind::Any(AnyForm::Json) => Shape::Json,
        Kind::Any(form) => Shape::Schema(*form),
        Kind::List(item, _) => Shape::List(Box::new(shape(item)?)),
        Kind::Map(item, _) => match &**item {
            Kind::List(..) => Shape::Map(Box::new(Shape::Strings)),
            item => Shape::Map(Box::new(shape(item)?)),
        },
        Kind::Struct(schema) => Shape::Struct(link_to(schema)),
    })
}
