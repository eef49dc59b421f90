//! Protobuf message to `Value`.
//!
//! Unknown fields are skipped. A message field that occurs twice is merged, a scalar's last value
//! wins, and so does a map key's. Work is linear in the input: no search among decoded values,
//! and a map is sorted once.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;

use super::envelope;
use super::plan::{self, Content, Link, Message, Plan, Shape};
use super::reader::{BYTES, DecodeError, FIXED64, Reader, VARINT};
use crate::conform::{self, Extent};
use crate::schema::{AnyForm, Struct};
use crate::value::{Map, Str, Value};
use crate::{json, time};

/// Maximum depth of messages. Beyond any real object, below the limit of the stack.
const MAX_DEPTH: usize = 128;

/// Go's zero `time.Time` in seconds since the epoch: it means "no time".
pub(super) const ZERO_TIME: i64 = -62_135_596_800;

/// Decodes a message of a built-in type. Zero values are still in the tree: see `conform`.
pub fn decode(schema: &Struct, raw: &[u8]) -> Result<Value, DecodeError> {
    decode_nested(schema, raw, 0)
}

/// Decodes a message that is nested `depth` deep in another one.
pub(super) fn decode_nested(schema: &Struct, raw: &[u8], depth: usize) -> Result<Value, DecodeError> {
    let link = plan::link(schema).ok_or_else(|| DecodeError::NotOnWire(schema.go_name()))?;
    object(link.plan(), raw, depth)
}

/// A field's value while its message is being decoded.
enum Part<'a> {
    Done(Value),
    /// A map's entries in the order they came.
    Entries(Vec<(Str, Value)>),
    /// A nested message, decoded at the end: occurrences are concatenated, which merges them.
    Message(&'static Link, Cow<'a, [u8]>),
}

fn object(plan: &Plan, raw: &[u8], depth: usize) -> Result<Value, DecodeError> {
    if depth > MAX_DEPTH {
        return Err(DecodeError::TooDeep);
    }
    let mut walk = Walk { plan, depth, parts: Vec::new() };
    walk.parts.resize_with(plan.names.len(), || None);
    walk.message(&plan.root, raw)?;
    walk.finish()
}

struct Walk<'p, 'a> {
    plan: &'p Plan,
    depth: usize,
    /// The decoded members, indexed by their rank in the plan.
    parts: Vec<Option<Part<'a>>>,
}

impl<'p, 'a> Walk<'p, 'a> {
    fn message(&mut self, message: &'p Message, raw: &'a [u8]) -> Result<(), DecodeError> {
        let mut reader = Reader::new(raw);
        while let Some((number, wire)) = reader.tag(&self.plan.name)? {
            match message.slot(number).map(|slot| &slot.content) {
                None => reader.skip(wire)?,
                Some(Content::Inline(inner)) => {
                    expect(wire, BYTES, &self.plan.name)?;
                    self.message(inner, reader.bytes()?)?;
                }
                Some(Content::Field { rank, shape, .. }) => self.field(*rank, shape, wire, &mut reader)?,
            }
        }
        Ok(())
    }

    fn field(
        &mut self,
        rank: usize,
        shape: &'p Shape,
        wire: u8,
        reader: &mut Reader<'a>,
    ) -> Result<(), DecodeError> {
        let (plan, depth) = (self.plan, self.depth);
        let name = &plan.names[rank];
        let part = &mut self.parts[rank];
        match shape {
            Shape::List(item) => list_item(item, wire, reader, name, depth, done(part).make_array()),
            Shape::Map(item) => {
                expect(wire, BYTES, name)?;
                let entry = map_entry(item, reader.bytes()?, name, depth)?;
                match part {
                    Some(Part::Entries(entries)) => entries.push(entry),
                    other => *other = Some(Part::Entries(vec![entry])),
                }
                Ok(())
            }
            Shape::Struct(link) => {
                expect(wire, BYTES, name)?;
                let bytes = reader.bytes()?;
                match part {
                    Some(Part::Message(_, so_far)) => so_far.to_mut().extend_from_slice(bytes),
                    other => *other = Some(Part::Message(link, Cow::Borrowed(bytes))),
                }
                Ok(())
            }
            _ => {
                *part = Some(Part::Done(value(shape, wire, reader, name, depth)?));
                Ok(())
            }
        }
    }

    fn finish(self) -> Result<Value, DecodeError> {
        let Walk { plan, depth, parts } = self;
        let present = parts.iter().flatten().count();
        let mut map = Map::with_capacity(present);
        for (rank, part) in parts.into_iter().enumerate() {
            let value = match part {
                None => continue,
                Some(Part::Done(value)) => value,
                Some(Part::Entries(entries)) => Value::Object(entries.into_iter().collect()),
                Some(Part::Message(link, bytes)) => object(link.plan(), &bytes, depth + 1)?,
            };
            map.insert(plan.names[rank].clone(), value);
        }
        Ok(Value::Object(map))
    }
}

/// The value in a slot that is not deferred, made `Null` first if there is none.
fn done<'v>(part: &'v mut Option<Part<'_>>) -> &'v mut Value {
    if !matches!(part, Some(Part::Done(_))) {
        *part = Some(Part::Done(Value::Null));
    }
    match part {
        Some(Part::Done(value)) => value,
        _ => unreachable!("made so above"),
    }
}

fn expect(wire: u8, wanted: u8, field: &Str) -> Result<(), DecodeError> {
    if wire == wanted { Ok(()) } else { Err(DecodeError::WrongWireType { field: field.clone(), wire }) }
}

fn list_item(
    item: &Shape,
    wire: u8,
    reader: &mut Reader<'_>,
    name: &Str,
    depth: usize,
    items: &mut Vec<Value>,
) -> Result<(), DecodeError> {
    let unpacked = match item {
        Shape::Bool | Shape::Int32 | Shape::Int64 => VARINT,
        Shape::Double => FIXED64,
        _ => BYTES,
    };
    if wire == BYTES && unpacked != BYTES {
        let mut packed = Reader::new(reader.bytes()?);
        while !packed.is_empty() {
            items.push(value(item, unpacked, &mut packed, name, depth)?);
        }
        return Ok(());
    }
    items.push(value(item, wire, reader, name, depth)?);
    Ok(())
}

fn map_entry(item: &Shape, raw: &[u8], name: &Str, depth: usize) -> Result<(Str, Value), DecodeError> {
    let mut key = Str::default();
    let mut found = None;
    let mut reader = Reader::new(raw);
    while let Some((number, wire)) = reader.tag(name)? {
        match number {
            1 => {
                expect(wire, BYTES, name)?;
                key = text(reader.bytes()?);
            }
            2 => found = Some(value(item, wire, &mut reader, name, depth)?),
            _ => reader.skip(wire)?,
        }
    }
    Ok((key, found.unwrap_or_else(|| zero(item))))
}

/// The value of an entry without a value.
fn zero(shape: &Shape) -> Value {
    match shape {
        Shape::String | Shape::Bytes => Value::from(""),
        Shape::Bool => Value::Bool(false),
        Shape::Int32 | Shape::Int64 | Shape::Double | Shape::IntOrString => Value::Int(0),
        Shape::Quantity => Value::from("0"),
        Shape::Strings | Shape::List(_) => Value::Array(Vec::new()),
        Shape::Struct(_) | Shape::Map(_) => Value::object(),
        _ => Value::Null,
    }
}

/// One value that is neither a list nor a map.
fn value(
    shape: &Shape,
    wire: u8,
    reader: &mut Reader<'_>,
    name: &Str,
    depth: usize,
) -> Result<Value, DecodeError> {
    match shape {
        Shape::Bool => {
            expect(wire, VARINT, name)?;
            return Ok(Value::Bool(reader.varint()? != 0));
        }
        Shape::Int32 => {
            expect(wire, VARINT, name)?;
            return Ok(Value::from(reader.varint()? as i32));
        }
        Shape::Int64 => {
            expect(wire, VARINT, name)?;
            return Ok(Value::from(reader.varint()? as i64));
        }
        Shape::Double => {
            expect(wire, FIXED64, name)?;
            return number(f64::from_bits(reader.fixed64()?), name);
        }
        _ => expect(wire, BYTES, name)?,
    }
    let bytes = reader.bytes()?;
    Ok(match shape {
        Shape::String => Value::String(text(bytes)),
        Shape::Bytes => Value::from(STANDARD.encode(bytes)),
        Shape::Quantity => match single(bytes, name)? {
            [] => Value::from("0"),
            text => Value::String(self::text(text)),
        },
        Shape::IntOrString => int_or_string(bytes, name)?,
        Shape::Time => timestamp(bytes, false, name)?.map_or(Value::Null, |at| time::format(at).into()),
        Shape::MicroTime => {
            timestamp(bytes, true, name)?.map_or(Value::Null, |at| time::format_micro(at).into())
        }
        Shape::Duration => duration(bytes, name)?.into(),
        Shape::Raw => raw_extension(single(bytes, name)?, name, depth)?,
        Shape::FieldsV1 => match json_text(single(bytes, name)?, name)? {
            Value::Null => Value::Null,
            tree => Value::Raw(json::write_to_string(&tree).into()),
        },
        Shape::Json => json_text(single(bytes, name)?, name)?,
        Shape::Schema(form) => schema(*form, bytes, name, depth + 1)?,
        Shape::Strings => strings(bytes, 1, name)?,
        Shape::Struct(link) => object(link.plan(), bytes, depth + 1)?,
        // Neither nests in the other on this wire.
        _ => Value::Null,
    })
}

/// A whole double is an integer in JSON, which has no NaN or infinity.
fn number(double: f64, name: &Str) -> Result<Value, DecodeError> {
    if !double.is_finite() {
        return Err(DecodeError::NotFinite { field: name.clone() });
    }
    let whole = double as i64;
    let exact = double == double.trunc() && double.abs() < 9.2e18;
    Ok(if exact { Value::Int(whole) } else { Value::Float(double) })
}

fn text(bytes: &[u8]) -> Str {
    Str::new(String::from_utf8_lossy(bytes))
}

/// Field 1 of a message that has only that.
fn single<'a>(raw: &'a [u8], name: &Str) -> Result<&'a [u8], DecodeError> {
    let mut content: &[u8] = &[];
    let mut reader = Reader::new(raw);
    while let Some((number, wire)) = reader.tag(name)? {
        match number {
            1 => {
                expect(wire, BYTES, name)?;
                content = reader.bytes()?;
            }
            _ => reader.skip(wire)?,
        }
    }
    Ok(content)
}

/// All of one field of a message, as strings.
fn strings(raw: &[u8], wanted: u32, name: &Str) -> Result<Value, DecodeError> {
    let mut items = Vec::new();
    let mut reader = Reader::new(raw);
    while let Some((number, wire)) = reader.tag(name)? {
        if number == wanted {
            expect(wire, BYTES, name)?;
            items.push(Value::String(text(reader.bytes()?)));
        } else {
            reader.skip(wire)?;
        }
    }
    Ok(Value::Array(items))
}

fn int_or_string(raw: &[u8], name: &Str) -> Result<Value, DecodeError> {
    let (mut is_string, mut int, mut string) = (false, 0i32, Str::default());
    let mut reader = Reader::new(raw);
    while let Some((number, wire)) = reader.tag(name)? {
        match number {
            1 => {
                expect(wire, VARINT, name)?;
                is_string = reader.varint()? == 1;
            }
            2 => {
                expect(wire, VARINT, name)?;
                int = reader.varint()? as i32;
            }
            3 => {
                expect(wire, BYTES, name)?;
                string = text(reader.bytes()?);
            }
            _ => reader.skip(wire)?,
        }
    }
    Ok(if is_string { Value::String(string) } else { Value::from(int) })
}

/// `None` for Go's zero time.
fn timestamp(raw: &[u8], micros: bool, name: &Str) -> Result<Option<Timestamp>, DecodeError> {
    if raw.is_empty() {
        return Ok(None);
    }
    let (mut seconds, mut nanos) = (0i64, 0i32);
    let mut reader = Reader::new(raw);
    while let Some((number, wire)) = reader.tag(name)? {
        match number {
            1 => {
                expect(wire, VARINT, name)?;
                seconds = reader.varint()? as i64;
            }
            2 => {
                expect(wire, VARINT, name)?;
                nanos = reader.varint()? as i32;
            }
            _ => reader.skip(wire)?,
        }
    }
    let nanos = if micros { nanos / 1000 * 1000 } else { 0 };
    if seconds == ZERO_TIME && nanos == 0 {
        return Ok(None);
    }
    let in_range = (ZERO_TIME..253_402_300_800).contains(&seconds) && (0..1_000_000_000).contains(&nanos);
    let at = Timestamp::new(seconds, nanos).ok().filter(|_| in_range);
    at.map(Some).ok_or_else(|| DecodeError::Time { field: name.clone() })
}

fn duration(raw: &[u8], name: &Str) -> Result<String, DecodeError> {
    let mut nanoseconds = 0;
    let mut reader = Reader::new(raw);
    while let Some((number, wire)) = reader.tag(name)? {
        if number == 1 {
            expect(wire, VARINT, name)?;
            nanoseconds = reader.varint()? as i64;
        } else {
            reader.skip(wire)?;
        }
    }
    Ok(time::format_duration(nanoseconds))
}

fn json_text(bytes: &[u8], name: &Str) -> Result<Value, DecodeError> {
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    json::parse(bytes).map_err(|source| DecodeError::Json { field: name.clone(), source })
}

/// An embedded object: JSON, or protobuf in its own envelope.
fn raw_extension(bytes: &[u8], name: &Str, depth: usize) -> Result<Value, DecodeError> {
    if bytes.starts_with(&envelope::MAGIC) {
        return envelope::decode_object_nested(bytes, depth + 1);
    }
    json_text(bytes, name)
}

/// A schema or something simpler. Its JSON is free-form, so that it is not conformed later: it
/// is done here.
fn schema(form: AnyForm, raw: &[u8], name: &Str, depth: usize) -> Result<Value, DecodeError> {
    let (schema_at, other_at) = if form == AnyForm::SchemaOrBool { (2, 1) } else { (1, 2) };
    let (mut found, mut list, mut allows) = (None, Vec::new(), false);
    let mut reader = Reader::new(raw);
    while let Some((number, wire)) = reader.tag(name)? {
        if number == schema_at {
            expect(wire, BYTES, name)?;
            found = Some(props(reader.bytes()?, name, depth)?);
        } else if number == other_at && form == AnyForm::SchemaOrBool {
            expect(wire, VARINT, name)?;
            allows = reader.varint()? != 0;
        } else if number == other_at {
            expect(wire, BYTES, name)?;
            let bytes = reader.bytes()?;
            list.push(match form {
                AnyForm::SchemaOrArray => props(bytes, name, depth)?,
                _ => Value::String(text(bytes)),
            });
        } else {
            reader.skip(wire)?;
        }
    }
    Ok(match (found, list.is_empty()) {
        (_, false) => Value::Array(list),
        (Some(schema), true) => schema,
        (None, true) if form == AnyForm::SchemaOrBool => Value::Bool(allows),
        (None, true) => Value::Null,
    })
}

fn props(raw: &[u8], name: &Str, depth: usize) -> Result<Value, DecodeError> {
    let link = plan::json_schema_props();
    let mut value = object(link.plan(), raw, depth)?;
    conform::conform(&mut value, link.schema(), Extent::Whole, &mut Vec::new())
        .map_err(|source| DecodeError::Schema { field: name.clone(), source })?;
    Ok(value)
}
