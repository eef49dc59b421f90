//! The documents as protobuf messages of gnostic: `v2` and `v3`, and the writers that both need.
//!
//! Only the documents of this module's siblings are encoded: there is no general conversion here. Free-form
//! values (extensions, enums) are YAML text.
//!
//! A section of a document is written as many short messages, one for every entry: a parser merges them, so that
//! no section need be complete before its length is written.

mod v2;
mod v3;

pub(super) use v2::ProtobufSink;
pub(super) use v3::ProtobufSinkV3;

use crate::{Value, yaml};

/// The members of a schema that are single values, with the numbers of their fields.
struct Scalars<'a> {
    texts: &'a [(u32, &'a str)],
    doubles: &'a [(u32, &'a str)],
    integers: &'a [(u32, &'a str)],
    flags: &'a [(u32, &'a str)],
}

fn scalars(out: &mut Vec<u8>, schema: &Value, members: &Scalars<'_>) {
    for (field, key) in members.texts {
        text(out, *field, schema.get(key));
    }
    for (field, key) in members.doubles {
        double(out, *field, schema.get(key));
    }
    for (field, key) in members.integers {
        integer(out, *field, schema.get(key));
    }
    for (field, key) in members.flags {
        flag(out, *field, schema.get(key));
    }
}

fn external_docs(out: &mut Vec<u8>, docs: &Value) {
    text(out, 1, docs.get("description"));
    text(out, 2, docs.get("url"));
}

fn extensions(out: &mut Vec<u8>, field: u32, owner: &Value) {
    let members = owner.as_object().into_iter().flat_map(|map| map.iter());
    for (name, value) in members.filter(|(name, _)| name.starts_with("x-")) {
        name_and_value(out, field, name, value, any);
    }
}

/// `Any`: YAML text in field 2.
fn any(out: &mut Vec<u8>, value: &Value) {
    string(out, 2, &yaml::to_string(value));
}

/// The members of an object as messages of a name and a value.
fn named(out: &mut Vec<u8>, field: u32, object: &Value, encode: impl Fn(&mut Vec<u8>, &Value)) {
    for (name, value) in object.as_object().into_iter().flat_map(|map| map.iter()) {
        name_and_value(out, field, name, value, &encode);
    }
}

fn name_and_value(
    out: &mut Vec<u8>,
    field: u32,
    name: &str,
    value: &Value,
    encode: impl Fn(&mut Vec<u8>, &Value),
) {
    message(out, field, |out| {
        string(out, 1, name);
        message(out, 2, |out| encode(out, value));
    });
}

fn texts(out: &mut Vec<u8>, field: u32, list: Option<&Value>) {
    for item in list.and_then(Value::as_array).unwrap_or_default() {
        text(out, field, Some(item));
    }
}

fn text(out: &mut Vec<u8>, field: u32, value: Option<&Value>) {
    if let Some(text) = value.and_then(Value::as_str) {
        string(out, field, text);
    }
}

fn flag(out: &mut Vec<u8>, field: u32, value: Option<&Value>) {
    if value.and_then(Value::as_bool) == Some(true) {
        stated_flag(out, field, true);
    }
}

fn double(out: &mut Vec<u8>, field: u32, value: Option<&Value>) {
    match value {
        Some(Value::Int(number)) if *number != 0 => stated_double(out, field, *number as f64),
        Some(Value::Float(number)) if *number != 0.0 => stated_double(out, field, *number),
        _ => {}
    }
}

/// A member of a oneof, which is written even if it is zero.
fn stated_double(out: &mut Vec<u8>, field: u32, number: f64) {
    varint(out, u64::from(field) << 3 | 1);
    out.extend_from_slice(&number.to_le_bytes());
}

/// A member of a oneof, which is written even if it is false.
fn stated_flag(out: &mut Vec<u8>, field: u32, value: bool) {
    varint(out, u64::from(field) << 3);
    out.push(u8::from(value));
}

fn integer(out: &mut Vec<u8>, field: u32, value: Option<&Value>) {
    if let Some(number) = value.and_then(Value::as_int).filter(|number| *number != 0) {
        varint(out, u64::from(field) << 3);
        varint(out, number as u64);
    }
}

fn string(out: &mut Vec<u8>, field: u32, text: &str) {
    bytes(out, field, text.as_bytes());
}

fn bytes(out: &mut Vec<u8>, field: u32, bytes: &[u8]) {
    varint(out, u64::from(field) << 3 | 2);
    varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// A nested message: written in place, then moved to insert its length.
fn message(out: &mut Vec<u8>, field: u32, body: impl FnOnce(&mut Vec<u8>)) {
    varint(out, u64::from(field) << 3 | 2);
    let start = out.len();
    body(out);
    let mut length = Vec::with_capacity(5);
    varint(&mut length, (out.len() - start) as u64);
    out.splice(start..start, length);
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}
