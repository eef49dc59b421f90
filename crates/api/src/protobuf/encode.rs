//! `Value` to protobuf message.
//!
//! The tree is expected to conform to the schema: a value of another type is an error, unknown members
//! are left out. Messages are written backwards (see `writer`), hence everything here runs from the last
//! field to the first and from the last item to the first.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use thiserror::Error;

use super::decode::ZERO_TIME;
use super::plan::{self, Content, Message, Plan, Shape};
use super::reader::{FIXED64, VARINT};
use super::writer::Writer;
use crate::schema::{self, AnyForm, Struct};
use crate::value::{Map, Str, Value};
use crate::{json, time};

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum EncodeError {
    #[error(
        "object {0} does not implement the protobuf marshalling interface and cannot be encoded to a protobuf message"
    )]
    NotOnWire(String),
    #[error("field {field} of {message} holds a {found}, which its protobuf type cannot hold")]
    Mismatch { message: Str, field: Str, found: &'static str },
}

/// Appends an object of a built-in type as a message.
pub fn encode(schema: &Struct, value: &Value, out: &mut Vec<u8>) -> Result<(), EncodeError> {
    let link = plan::link(schema).ok_or_else(|| EncodeError::NotOnWire(schema.go_name()))?;
    let mut encoder = Encoder { writer: Writer::new(), found: Vec::new() };
    encoder.object(link.plan(), value)?;
    out.extend_from_slice(encoder.writer.written());
    Ok(())
}

/// Appends a list message (`PodList`, …) made of its metadata and its items' own messages.
pub fn encode_list_from_items<'a>(
    metadata: &Value,
    items: impl IntoIterator<Item = &'a [u8]>,
    out: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    let list_meta = schema::lookup("meta/v1", "ListMeta").expect("the table has the type");
    let mut encoded = Vec::new();
    encode(&list_meta, metadata, &mut encoded)?;
    forward_field(1, &encoded, out);
    for item in items {
        forward_field(2, item, out);
    }
    Ok(())
}

/// Appends a field of bytes in the usual direction.
pub(super) fn forward_field(number: u32, bytes: &[u8], out: &mut Vec<u8>) {
    let mut head = Writer::new();
    head.varint(bytes.len() as u64);
    head.tag(number, super::reader::BYTES);
    out.extend_from_slice(head.written());
    out.extend_from_slice(bytes);
}

/// The place of a value, for errors.
#[derive(Clone, Copy)]
struct Place<'p> {
    plan: &'p Plan,
    rank: usize,
}

impl Place<'_> {
    fn mismatch(self, value: &Value) -> EncodeError {
        EncodeError::Mismatch {
            message: self.plan.name.clone(),
            field: self.plan.names.get(self.rank).cloned().unwrap_or_default(),
            found: value.go_kind(),
        }
    }
}

struct Encoder<'v> {
    writer: Writer,
    /// The members of the objects being written, by rank: the innermost object's are last.
    found: Vec<Option<&'v Value>>,
}

impl<'v> Encoder<'v> {
    fn object(&mut self, plan: &Plan, value: &'v Value) -> Result<(), EncodeError> {
        let base = self.found.len();
        match value {
            Value::Object(map) => self.find(plan, map),
            Value::Null => self.found.resize(base + plan.names.len(), None),
            _ => return Err(Place { plan, rank: usize::MAX }.mismatch(value)),
        }
        let result = self.message(plan, &plan.root, base);
        self.found.truncate(base);
        result
    }

    /// Finds the value of each of the plan's fields. Both sides are sorted.
    fn find(&mut self, plan: &Plan, map: &'v Map) {
        let mut members = map.iter().peekable();
        for name in &plan.names {
            while members.next_if(|(key, _)| *key < name).is_some() {}
            self.found.push(members.next_if(|(key, _)| *key == name).map(|(_, value)| value));
        }
    }

    fn message(&mut self, plan: &Plan, message: &Message, base: usize) -> Result<(), EncodeError> {
        for slot in message.slots.iter().rev() {
            match &slot.content {
                Content::Inline(inner) => {
                    let before = self.writer.len();
                    self.message(plan, inner, base)?;
                    self.writer.close(slot.number, before);
                }
                Content::Field { rank, pointer, shape } => {
                    let value = self.found[base + rank].filter(|v| !v.is_null());
                    if value.is_some() || !(*pointer || nil_able(shape)) {
                        let place = Place { plan, rank: *rank };
                        self.field(slot.number, shape, value.unwrap_or(&Value::Null), place)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn field(
        &mut self,
        number: u32,
        shape: &Shape,
        value: &'v Value,
        place: Place<'_>,
    ) -> Result<(), EncodeError> {
        match (shape, value) {
            (Shape::List(item), Value::Array(items)) => {
                for element in items.iter().rev() {
                    self.field(number, item, element, place)?;
                }
                Ok(())
            }
            (Shape::Map(item), Value::Object(map)) => {
                for (key, element) in map.iter().rev() {
                    let before = self.writer.len();
                    if !(element.is_null() && matches!(**item, Shape::Bytes)) {
                        self.field(2, item, element, place)?;
                    }
                    self.writer.field(1, key.as_bytes());
                    self.writer.close(number, before);
                }
                Ok(())
            }
            (Shape::Bool | Shape::Int32 | Shape::Int64, _) => {
                self.writer.varint(integer(value).ok_or_else(|| place.mismatch(value))?);
                self.writer.tag(number, VARINT);
                Ok(())
            }
            (Shape::Double, _) => {
                let double = double(value).ok_or_else(|| place.mismatch(value))?;
                self.writer.bytes(&double.to_bits().to_le_bytes());
                self.writer.tag(number, FIXED64);
                Ok(())
            }
            _ => {
                let before = self.writer.len();
                self.content(shape, value, place)?;
                self.writer.close(number, before);
                Ok(())
            }
        }
    }

    /// The content after tag and length.
    fn content(&mut self, shape: &Shape, value: &'v Value, place: Place<'_>) -> Result<(), EncodeError> {
        let mismatch = || place.mismatch(value);
        match (shape, value) {
            (Shape::Struct(link), _) => return self.object(link.plan(), value),
            (Shape::String, Value::String(text)) => self.writer.bytes(text.as_bytes()),
            (Shape::Bytes, Value::String(text)) => {
                let decoded = STANDARD.decode(text.as_bytes()).map_err(|_| mismatch())?;
                self.writer.bytes(&decoded);
            }
            (Shape::Quantity, Value::String(text)) => self.writer.field(1, text.as_bytes()),
            (Shape::Quantity, Value::Null) => self.writer.field(1, b"0"),
            (Shape::IntOrString, Value::Null | Value::Int(_)) => {
                self.writer.field(3, b"");
                self.numbered(2, value.as_int().unwrap_or_default());
                self.numbered(1, 0);
            }
            (Shape::IntOrString, Value::String(text)) => {
                self.writer.field(3, text.as_bytes());
                self.numbered(2, 0);
                self.numbered(1, 1);
            }
            (Shape::Time | Shape::MicroTime, Value::String(text)) => {
                let at = time::parse(text).map_err(|_| mismatch())?;
                self.time(at, matches!(shape, Shape::MicroTime));
            }
            (Shape::Duration, Value::String(text)) => {
                let seconds = time::go_duration(text).map_err(|_| mismatch())?;
                self.numbered(1, (seconds * 1e9).round() as i64);
            }
            (Shape::Duration, Value::Null) => self.numbered(1, 0),
            (Shape::FieldsV1, Value::Raw(text)) => self.writer.field(1, text.as_bytes()),
            // Absent: an empty message, or an empty string.
            (
                Shape::String
                | Shape::Bytes
                | Shape::Time
                | Shape::MicroTime
                | Shape::Raw
                | Shape::Json
                | Shape::Schema(_)
                | Shape::Strings,
                Value::Null,
            ) => {}
            (Shape::Raw | Shape::Json | Shape::FieldsV1, _) => {
                self.writer.field(1, json::write_to_string(value).as_bytes());
            }
            (Shape::Strings, Value::Array(items)) => {
                for item in items.iter().rev() {
                    self.field(1, &Shape::String, item, place)?;
                }
            }
            (Shape::Schema(form), _) => return self.schema(*form, value, place),
            _ => return Err(mismatch()),
        }
        Ok(())
    }

    fn numbered(&mut self, number: u32, value: i64) {
        self.writer.varint(value as u64);
        self.writer.tag(number, VARINT);
    }

    fn time(&mut self, at: jiff::Timestamp, micros: bool) {
        // Whole seconds are rounded down, not towards zero: nanoseconds count forward.
        let (mut seconds, mut nanos) = (at.as_second(), at.subsec_nanosecond());
        if nanos < 0 {
            seconds -= 1;
            nanos += 1_000_000_000;
        }
        let nanos = if micros { nanos / 1000 * 1000 } else { 0 };
        if seconds == ZERO_TIME && nanos == 0 {
            return;
        }
        self.numbered(2, nanos.into());
        self.numbered(1, seconds);
    }

    fn schema(&mut self, form: AnyForm, value: &'v Value, place: Place<'_>) -> Result<(), EncodeError> {
        let props = plan::json_schema_props();
        match (form, value) {
            (AnyForm::SchemaOrBool, Value::Bool(allows)) => self.numbered(1, (*allows).into()),
            (AnyForm::SchemaOrBool, Value::Object(_)) => {
                self.field(2, &Shape::Struct(props), value, place)?;
                self.numbered(1, 1);
            }
            (_, Value::Object(_)) => self.field(1, &Shape::Struct(props), value, place)?,
            (AnyForm::SchemaOrArray, Value::Array(items)) => {
                for item in items.iter().rev() {
                    self.field(2, &Shape::Struct(props), item, place)?;
                }
            }
            (AnyForm::SchemaOrStringArray, Value::Array(items)) => {
                for item in items.iter().rev() {
                    self.field(2, &Shape::String, item, place)?;
                }
            }
            _ => return Err(place.mismatch(value)),
        }
        Ok(())
    }
}

/// Returns true if Go's type has a nil, which is not encoded.
fn nil_able(shape: &Shape) -> bool {
    matches!(shape, Shape::List(_) | Shape::Map(_) | Shape::Bytes | Shape::Strings)
}

fn integer(value: &Value) -> Option<u64> {
    match value {
        Value::Null => Some(0),
        Value::Bool(bool) => Some((*bool).into()),
        Value::Int(int) => Some(*int as u64),
        _ => None,
    }
}

fn double(value: &Value) -> Option<f64> {
    match value {
        Value::Null => Some(0.0),
        Value::Int(int) => Some(*int as f64),
        Value::Float(float) => Some(*float),
        _ => None,
    }
}
