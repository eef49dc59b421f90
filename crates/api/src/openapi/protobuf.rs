//! Version 2 as the protobuf message `openapi.v2.Document` of gnostic, field numbers from `OpenAPIv2.proto`.
//!
//! Only what this module's siblings write is encoded: there is no general conversion here. Free-form
//! values (extensions, enums) travel as YAML text, of which JSON is a part.

use super::documents::Sink;
use crate::{Value, json};

/// Collects the message. Each section is gathered apart because its length comes first on the wire.
pub(super) struct ProtobufSink {
    head: Vec<u8>,
    paths: Vec<u8>,
    definitions: Vec<u8>,
    parameters: Vec<u8>,
}

impl ProtobufSink {
    pub(super) fn new(info: &Value, security: &Value) -> Self {
        let mut head = Vec::new();
        string(&mut head, 1, "2.0");
        message(&mut head, 2, |out| {
            text(out, 1, info.get("title"));
            text(out, 2, info.get("version"));
        });
        for (name, _) in security.as_object().into_iter().flat_map(|schemes| schemes.iter()) {
            message(&mut head, 12, |out| {
                message(out, 1, |out| {
                    string(out, 1, name);
                    message(out, 2, |_| {});
                });
            });
        }
        message(&mut head, 13, |out| {
            named(out, 1, security, |out, scheme| {
                message(out, 2, |out| {
                    text(out, 1, scheme.get("type"));
                    text(out, 2, scheme.get("name"));
                    text(out, 3, scheme.get("in"));
                    text(out, 4, scheme.get("description"));
                });
            });
        });
        ProtobufSink { head, paths: Vec::new(), definitions: Vec::new(), parameters: Vec::new() }
    }

    pub(super) fn finish(self) -> Vec<u8> {
        let mut out = self.head;
        out.reserve(self.paths.len() + self.definitions.len() + self.parameters.len() + 32);
        for (field, section) in [(8, self.paths), (9, self.definitions), (10, self.parameters)] {
            bytes(&mut out, field, &section);
        }
        out
    }
}

impl Sink for ProtobufSink {
    fn path(&mut self, path: &str, item: &Value) {
        name_and_value(&mut self.paths, 2, path, item, path_item);
    }

    fn definition(&mut self, name: &str, value: &Value) {
        name_and_value(&mut self.definitions, 1, name, value, schema);
    }

    fn parameter(&mut self, name: &str, value: &Value) {
        name_and_value(&mut self.parameters, 1, name, value, parameter);
    }
}

fn path_item(out: &mut Vec<u8>, item: &Value) {
    const METHODS: [(u32, &str); 7] =
        [(2, "get"), (3, "put"), (4, "post"), (5, "delete"), (6, "options"), (7, "head"), (8, "patch")];
    for (field, method) in METHODS {
        if let Some(value) = item.get(method) {
            message(out, field, |out| operation(out, value));
        }
    }
    parameters(out, 9, item);
}

fn operation(out: &mut Vec<u8>, value: &Value) {
    texts(out, 1, value.get("tags"));
    text(out, 3, value.get("description"));
    text(out, 5, value.get("operationId"));
    texts(out, 6, value.get("produces"));
    texts(out, 7, value.get("consumes"));
    parameters(out, 8, value);
    if let Some(responses) = value.get("responses") {
        message(out, 9, |out| {
            named(out, 1, responses, |out, value| message(out, 1, |out| response(out, value)))
        });
    }
    texts(out, 10, value.get("schemes"));
    extensions(out, 13, value);
}

fn parameters(out: &mut Vec<u8>, field: u32, owner: &Value) {
    for item in owner.items_at(&["parameters"]) {
        message(out, field, |out| match item.get("$ref") {
            Some(reference) => message(out, 2, |out| text(out, 1, Some(reference))),
            None => message(out, 1, |out| parameter(out, item)),
        });
    }
}

fn parameter(out: &mut Vec<u8>, value: &Value) {
    match value.str_at(&["in"]) {
        Some("body") => message(out, 1, |out| {
            text(out, 2, value.get("name"));
            text(out, 3, value.get("in"));
            flag(out, 4, value.get("required"));
            if let Some(of) = value.get("schema") {
                message(out, 5, |out| schema(out, of));
            }
        }),
        // A path parameter has no allowEmptyValue, so that what follows it counts one less.
        Some("path") => message(out, 2, |out| message(out, 4, |out| sub_schema(out, value, 0))),
        _ => message(out, 2, |out| message(out, 3, |out| sub_schema(out, value, 1))),
    }
}

fn sub_schema(out: &mut Vec<u8>, value: &Value, shift: u32) {
    flag(out, 1, value.get("required"));
    text(out, 2, value.get("in"));
    text(out, 3, value.get("description"));
    text(out, 4, value.get("name"));
    text(out, 5 + shift, value.get("type"));
    flag(out, 19 + shift, value.get("uniqueItems"));
}

fn response(out: &mut Vec<u8>, value: &Value) {
    text(out, 1, value.get("description"));
    if let Some(of) = value.get("schema") {
        message(out, 2, |out| message(out, 1, |out| schema(out, of)));
    }
}

fn schema(out: &mut Vec<u8>, value: &Value) {
    text(out, 1, value.get("$ref"));
    text(out, 2, value.get("format"));
    text(out, 4, value.get("description"));
    texts(out, 19, value.get("required"));
    for item in value.items_at(&["enum"]) {
        message(out, 20, |out| any(out, item));
    }
    if let Some(item) = value.get("additionalProperties") {
        message(out, 21, |out| message(out, 1, |out| schema(out, item)));
    }
    if let Some(kind) = value.get("type") {
        message(out, 22, |out| text(out, 1, Some(kind)));
    }
    if let Some(item) = value.get("items") {
        message(out, 23, |out| message(out, 1, |out| schema(out, item)));
    }
    if let Some(properties) = value.get("properties") {
        message(out, 25, |out| named(out, 1, properties, schema));
    }
    extensions(out, 31, value);
}

fn extensions(out: &mut Vec<u8>, field: u32, owner: &Value) {
    let members = owner.as_object().into_iter().flat_map(|map| map.iter());
    for (name, value) in members.filter(|(name, _)| name.starts_with("x-")) {
        name_and_value(out, field, name, value, any);
    }
}

/// `Any`: YAML text in field 2.
fn any(out: &mut Vec<u8>, value: &Value) {
    string(out, 2, &json::write_to_string(value));
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
        varint(out, u64::from(field) << 3);
        out.push(1);
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

/// A nested message: written in place, then moved to make room for its length.
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
