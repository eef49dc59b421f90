//! Version 3 as the message `openapi.v3.Document`, field numbers from `OpenAPIv3.proto`.

use super::*;
use crate::openapi::documents::V3Sink;

/// Writes the message.
pub(in crate::openapi) struct ProtobufSinkV3 {
    out: Vec<u8>,
}

impl ProtobufSinkV3 {
    pub(in crate::openapi) fn new(info: &Value) -> Self {
        let mut out = Vec::new();
        string(&mut out, 1, "3.0.0");
        message(&mut out, 2, |out| {
            text(out, 1, info.get("title"));
            text(out, 6, info.get("version"));
        });
        ProtobufSinkV3 { out }
    }
}

impl V3Sink for ProtobufSinkV3 {
    fn schema(&mut self, name: &str, value: &Value) {
        message(&mut self.out, 5, |out| {
            message(out, 1, |out| name_and_value(out, 1, name, value, schema_or_reference));
        });
    }

    fn security(&mut self, schemes: &Value) {
        message(&mut self.out, 5, |out| {
            message(out, 7, |out| {
                named(out, 1, schemes, |out, scheme| {
                    message(out, 1, |out| {
                        for (field, key) in [(1, "type"), (2, "description"), (3, "name"), (4, "in")] {
                            text(out, field, scheme.get(key));
                        }
                    });
                });
            });
        });
    }

    fn path(&mut self, path: &str, item: &Value) {
        message(&mut self.out, 4, |out| name_and_value(out, 1, path, item, path_item));
    }

    fn finish(self: Box<Self>) -> Vec<u8> {
        self.out
    }
}

fn path_item(out: &mut Vec<u8>, item: &Value) {
    const METHODS: [(u32, &str); 7] =
        [(4, "get"), (5, "put"), (6, "post"), (7, "delete"), (8, "options"), (9, "head"), (10, "patch")];
    for (field, method) in METHODS {
        if let Some(value) = item.get(method) {
            message(out, field, |out| operation(out, value));
        }
    }
    parameters(out, 13, item);
}

fn operation(out: &mut Vec<u8>, value: &Value) {
    texts(out, 1, value.get("tags"));
    text(out, 3, value.get("description"));
    text(out, 5, value.get("operationId"));
    parameters(out, 6, value);
    if let Some(body) = value.get("requestBody") {
        message(out, 7, |out| {
            message(out, 1, |out| {
                content(out, 2, body);
                flag(out, 3, body.get("required"));
            });
        });
    }
    if let Some(responses) = value.get("responses") {
        message(out, 8, |out| {
            named(out, 2, responses, |out, response| {
                message(out, 1, |out| {
                    text(out, 1, response.get("description"));
                    content(out, 3, response);
                });
            });
        });
    }
    extensions(out, 13, value);
}

fn parameters(out: &mut Vec<u8>, field: u32, owner: &Value) {
    for item in owner.items_at(&["parameters"]) {
        message(out, field, |out| {
            message(out, 1, |out| {
                text(out, 1, item.get("name"));
                text(out, 2, item.get("in"));
                text(out, 3, item.get("description"));
                flag(out, 4, item.get("required"));
                if let Some(of) = item.get("schema") {
                    message(out, 10, |out| schema_or_reference(out, of));
                }
            });
        });
    }
}

/// The schema of each media type.
fn content(out: &mut Vec<u8>, field: u32, owner: &Value) {
    if let Some(content) = owner.get("content") {
        message(out, field, |out| {
            named(out, 1, content, |out, media| {
                if let Some(of) = media.get("schema") {
                    message(out, 1, |out| schema_or_reference(out, of));
                }
            });
        });
    }
}

fn schema_or_reference(out: &mut Vec<u8>, value: &Value) {
    match value.get("$ref") {
        Some(reference) => message(out, 2, |out| text(out, 1, Some(reference))),
        None => message(out, 1, |out| schema(out, value)),
    }
}

/// The members of a schema that are text, numbers or flags, by field.
const TEXTS: [(u32, &str); 5] =
    [(9, "title"), (17, "pattern"), (25, "type"), (34, "description"), (35, "format")];
const DOUBLES: [(u32, &str); 3] = [(10, "multipleOf"), (11, "maximum"), (13, "minimum")];
const INTEGERS: [(u32, &str); 6] = [
    (15, "maxLength"),
    (16, "minLength"),
    (18, "maxItems"),
    (19, "minItems"),
    (21, "maxProperties"),
    (22, "minProperties"),
];
const FLAGS: [(u32, &str); 4] =
    [(1, "nullable"), (12, "exclusiveMaximum"), (14, "exclusiveMinimum"), (20, "uniqueItems")];
const ALTERNATIVES: [(u32, &str); 3] = [(26, "allOf"), (27, "oneOf"), (28, "anyOf")];

fn schema(out: &mut Vec<u8>, value: &Value) {
    scalars(out, value, &Scalars { texts: &TEXTS, doubles: &DOUBLES, integers: &INTEGERS, flags: &FLAGS });
    if let Some(docs) = value.get("externalDocs") {
        message(out, 6, |out| external_docs(out, docs));
    }
    if let Some(example) = value.get("example") {
        message(out, 7, |out| any(out, example));
    }
    texts(out, 23, value.get("required"));
    for item in value.items_at(&["enum"]) {
        message(out, 24, |out| any(out, item));
    }
    for (field, key) in ALTERNATIVES {
        for item in value.items_at(&[key]) {
            message(out, field, |out| schema_or_reference(out, item));
        }
    }
    if let Some(not) = value.get("not") {
        message(out, 29, |out| schema(out, not));
    }
    if let Some(item) = value.get("items") {
        message(out, 30, |out| message(out, 1, |out| schema_or_reference(out, item)));
    }
    if let Some(properties) = value.get("properties") {
        message(out, 31, |out| named(out, 1, properties, schema_or_reference));
    }
    match value.get("additionalProperties") {
        Some(Value::Bool(allowed)) => message(out, 32, |out| stated_flag(out, 2, *allowed)),
        Some(item) => message(out, 32, |out| message(out, 1, |out| schema_or_reference(out, item))),
        None => {}
    }
    if let Some(default) = value.get("default") {
        message(out, 33, |out| default_type(out, default));
    }
    extensions(out, 36, value);
}

/// A oneof of scalars; other defaults cannot be expressed.
fn default_type(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Int(number) => stated_double(out, 1, *number as f64),
        Value::Float(number) => stated_double(out, 1, *number),
        Value::Bool(flag) => stated_flag(out, 2, *flag),
        Value::String(text) => string(out, 3, text),
        Value::Null | Value::Array(_) | Value::Object(_) | Value::Raw(_) => {}
    }
}
