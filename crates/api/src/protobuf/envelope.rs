//! The envelope of an object: a magic number and a `runtime.Unknown` that names the type.
//!
//! In a watch, each frame is a bare `WatchEvent` behind its length; the object in it is in an envelope.

use super::decode;
use super::encode::{EncodeError, encode, forward_field};
use super::reader::{BYTES, DecodeError, Reader};
use crate::resources;
use crate::schema::{self, Struct, StructRef};
use crate::value::{Str, Value};

/// The first bytes of every message.
pub const MAGIC: [u8; 4] = *b"k8s\0";

/// An object's type and its message.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Envelope<'a> {
    pub api_version: Str,
    pub kind: Str,
    pub raw: &'a [u8],
    pub content_encoding: Str,
    pub content_type: Str,
}

/// Decodes an envelope; its message is not decoded.
pub fn decode_envelope(bytes: &[u8]) -> Result<Envelope<'_>, DecodeError> {
    if bytes.is_empty() {
        return Err(DecodeError::Empty);
    }
    let body = bytes.strip_prefix(&MAGIC).ok_or(DecodeError::NotProtobuf)?;
    if body.is_empty() {
        return Err(DecodeError::EmptyBody);
    }
    let name = Str::new_static("Unknown");
    let mut envelope = Envelope::default();
    let mut reader = Reader::new(body);
    while let Some((number, wire)) = reader.tag(&name)? {
        if !(1..=4).contains(&number) {
            reader.skip(wire)?;
            continue;
        }
        if wire != BYTES {
            return Err(DecodeError::WrongWireType { field: name, wire });
        }
        let content = reader.bytes()?;
        match number {
            1 => type_meta(content, &mut envelope)?,
            2 => envelope.raw = content,
            3 => envelope.content_encoding = text(content),
            _ => envelope.content_type = text(content),
        }
    }
    Ok(envelope)
}

fn type_meta(raw: &[u8], envelope: &mut Envelope<'_>) -> Result<(), DecodeError> {
    let name = Str::new_static("TypeMeta");
    let mut reader = Reader::new(raw);
    while let Some((number, wire)) = reader.tag(&name)? {
        let target = match number {
            1 => &mut envelope.api_version,
            2 => &mut envelope.kind,
            _ => {
                reader.skip(wire)?;
                continue;
            }
        };
        if wire != BYTES {
            return Err(DecodeError::WrongWireType { field: name, wire });
        }
        *target = text(reader.bytes()?);
    }
    Ok(())
}

fn text(bytes: &[u8]) -> Str {
    Str::new(String::from_utf8_lossy(bytes))
}

/// Appends an envelope around a message.
pub fn encode_envelope(api_version: &str, kind: &str, raw: &[u8], out: &mut Vec<u8>) {
    out.reserve(raw.len() + api_version.len() + kind.len() + 32);
    let mut type_meta = Vec::with_capacity(api_version.len() + kind.len() + 4);
    forward_field(1, api_version.as_bytes(), &mut type_meta);
    forward_field(2, kind.as_bytes(), &mut type_meta);
    out.extend_from_slice(&MAGIC);
    forward_field(1, &type_meta, out);
    forward_field(2, raw, out);
    forward_field(3, b"", out);
    forward_field(4, b"", out);
}

/// Decodes a whole object, including `apiVersion` and `kind`, whose type the envelope names.
pub fn decode_object(bytes: &[u8]) -> Result<Value, DecodeError> {
    decode_object_nested(bytes, 0)
}

pub(super) fn decode_object_nested(bytes: &[u8], depth: usize) -> Result<Value, DecodeError> {
    let envelope = decode_envelope(bytes)?;
    let schema = schema_of(&envelope.api_version, &envelope.kind)
        .ok_or_else(|| DecodeError::NotOnWire(format!("{}, {}", envelope.api_version, envelope.kind)))?;
    let mut value = decode::decode_nested(&schema, envelope.raw, depth)?;
    value.set(&["apiVersion"], envelope.api_version);
    value.set(&["kind"], envelope.kind);
    Ok(value)
}

fn schema_of(api_version: &str, kind: &str) -> Option<StructRef> {
    let (group, version) = resources::split_api_version(api_version);
    resources::schema_of(group, version, kind).or_else(|| {
        (group == "meta.k8s.io" && version == "v1").then(|| schema::lookup("meta/v1", kind)).flatten()
    })
}

/// Appends a whole object in its envelope; its own `apiVersion` and `kind` name the type.
pub fn encode_object(schema: &Struct, value: &Value, out: &mut Vec<u8>) -> Result<(), EncodeError> {
    let mut raw = Vec::new();
    encode(schema, value, &mut raw)?;
    let name = |key| value.get(key).and_then(Value::as_str).unwrap_or_default();
    encode_envelope(name("apiVersion"), name("kind"), &raw, out);
    Ok(())
}

/// Appends one frame of a watch: the event with an object that is already in its envelope.
pub fn encode_watch_event(event: &str, object: &[u8], out: &mut Vec<u8>) {
    let mut raw_extension = Vec::with_capacity(object.len() + 8);
    forward_field(1, object, &mut raw_extension);
    let start = out.len();
    out.reserve(raw_extension.len() + event.len() + 20);
    out.extend_from_slice(&[0; 4]);
    forward_field(1, event.as_bytes(), out);
    forward_field(2, &raw_extension, out);
    // A frame is one object, limited far below 4 GiB.
    let length = u32::try_from(out.len() - start - 4).unwrap_or(u32::MAX);
    out[start..start + 4].copy_from_slice(&length.to_be_bytes());
}
