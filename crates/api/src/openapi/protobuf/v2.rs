//! Version 2 as the message `openapi.v2.Document`, field numbers from `OpenAPIv2.proto`.

use super::*;
use crate::openapi::stream::Sink;

/// Writes the message.
pub(in crate::openapi) struct ProtobufSink {
    out: Vec<u8>,
}

impl ProtobufSink {
    pub(in crate::openapi) fn new(info: &Value, security: &Value) -> Self {
        let mut out = Vec::new();
        string(&mut out, 1, "2.0");
        message(&mut out, 2, |out| {
            text(out, 1, info.get("title"));
            text(out, 2, info.get("version"));
        });
        for (name, _) in security.as_object().into_iter().flat_map(|schemes| schemes.iter()) {
            message(&mut out, 12, |out| {
                message(out, 1, |out| {
                    string(out, 1, name);
                    message(out, 2, |_| {});
                });
            });
        }
        message(&mut out, 13, |out| {
            named(out, 1, security, |out, scheme| {
                message(out, 2, |out| {
                    text(out, 1, scheme.get("type"));
                    text(out, 2, scheme.get("name"));
                    text(out, 3, scheme.get("in"));
                    text(out, 4, scheme.get("description"));
                });
            });
        });
        ProtobufSink { out }
    }
}

impl Sink for ProtobufSink {
    fn path(&mut self, path: &str, item: &Value) {
        message(&mut self.out, 8, |out| name_and_value(out, 2, path, item, path_item));
    }

    fn definition(&mut self, name: &str, value: &Value) {
        message(&mut self.out, 9, |out| name_and_value(out, 1, name, value, schema));
    }

    fn parameter(&mut self, name: &str, value: &Value) {
        message(&mut self.out, 10, |out| name_and_value(out, 1, name, value, parameter));
    }

    fn finish(&mut self) {}

    fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.out)
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
        // A path parameter has no allowEmptyValue, so that the fields after it have lower numbers.
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

/// The members of a schema that are text, numbers or flags, by field.
const TEXTS: [(u32, &str); 5] =
    [(1, "$ref"), (2, "format"), (3, "title"), (4, "description"), (13, "pattern")];
const DOUBLES: [(u32, &str); 3] = [(6, "multipleOf"), (7, "maximum"), (9, "minimum")];
const INTEGERS: [(u32, &str); 6] = [
    (11, "maxLength"),
    (12, "minLength"),
    (14, "maxItems"),
    (15, "minItems"),
    (17, "maxProperties"),
    (18, "minProperties"),
];
const FLAGS: [(u32, &str); 3] = [(8, "exclusiveMaximum"), (10, "exclusiveMinimum"), (16, "uniqueItems")];

fn schema(out: &mut Vec<u8>, value: &Value) {
    scalars(out, value, &Scalars { texts: &TEXTS, doubles: &DOUBLES, integers: &INTEGERS, flags: &FLAGS });
    texts(out, 19, value.get("required"));
    for item in value.items_at(&["enum"]) {
        message(out, 20, |out| any(out, item));
    }
    match value.get("additionalProperties") {
        Some(Value::Bool(allowed)) => message(out, 21, |out| stated_flag(out, 2, *allowed)),
        Some(item) => message(out, 21, |out| message(out, 1, |out| schema(out, item))),
        None => {}
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
    if let Some(docs) = value.get("externalDocs") {
        message(out, 29, |out| external_docs(out, docs));
    }
    if let Some(example) = value.get("example") {
        message(out, 30, |out| any(out, example));
    }
    extensions(out, 31, value);
}
