//! Parts of a definition as upstream's errors show them: as its internal types, which have other names than the API's
//! and no field that is left out.

use corten_api::{Value, go};

/// The form of a field.
#[derive(Clone, Copy)]
enum Form {
    /// Empty if absent.
    Text,
    /// False if absent.
    Flag,
    /// Zero if absent.
    Number,
    /// Null if absent.
    Any,
    Object(&'static [Part]),
    List(&'static [Part]),
    Map(&'static [Part]),
    SchemaOrArray,
    SchemaOrBool,
    SchemasOrTexts,
}

/// A field: its internal name, its name in the API, its form.
type Part = (&'static str, &'static str, Form);

static SCHEMA: [Part; 44] = [
    ("ID", "id", Form::Text),
    ("Schema", "$schema", Form::Text),
    ("Ref", "$ref", Form::Any),
    ("Description", "description", Form::Text),
    ("Type", "type", Form::Text),
    ("Nullable", "nullable", Form::Flag),
    ("Format", "format", Form::Text),
    ("Title", "title", Form::Text),
    ("Default", "default", Form::Any),
    ("Maximum", "maximum", Form::Any),
    ("ExclusiveMaximum", "exclusiveMaximum", Form::Flag),
    ("Minimum", "minimum", Form::Any),
    ("ExclusiveMinimum", "exclusiveMinimum", Form::Flag),
    ("MaxLength", "maxLength", Form::Any),
    ("MinLength", "minLength", Form::Any),
    ("Pattern", "pattern", Form::Text),
    ("MaxItems", "maxItems", Form::Any),
    ("MinItems", "minItems", Form::Any),
    ("UniqueItems", "uniqueItems", Form::Flag),
    ("MultipleOf", "multipleOf", Form::Any),
    ("Enum", "enum", Form::Any),
    ("MaxProperties", "maxProperties", Form::Any),
    ("MinProperties", "minProperties", Form::Any),
    ("Required", "required", Form::Any),
    ("Items", "items", Form::SchemaOrArray),
    ("AllOf", "allOf", Form::List(&SCHEMA)),
    ("OneOf", "oneOf", Form::List(&SCHEMA)),
    ("AnyOf", "anyOf", Form::List(&SCHEMA)),
    ("Not", "not", Form::Object(&SCHEMA)),
    ("Properties", "properties", Form::Map(&SCHEMA)),
    ("AdditionalProperties", "additionalProperties", Form::SchemaOrBool),
    ("PatternProperties", "patternProperties", Form::Map(&SCHEMA)),
    ("Dependencies", "dependencies", Form::SchemasOrTexts),
    ("AdditionalItems", "additionalItems", Form::SchemaOrBool),
    ("Definitions", "definitions", Form::Map(&SCHEMA)),
    ("ExternalDocs", "externalDocs", Form::Object(DOCUMENTATION)),
    ("Example", "example", Form::Any),
    ("XPreserveUnknownFields", "x-kubernetes-preserve-unknown-fields", Form::Any),
    ("XEmbeddedResource", "x-kubernetes-embedded-resource", Form::Flag),
    ("XIntOrString", "x-kubernetes-int-or-string", Form::Flag),
    ("XListMapKeys", "x-kubernetes-list-map-keys", Form::Any),
    ("XListType", "x-kubernetes-list-type", Form::Any),
    ("XMapType", "x-kubernetes-map-type", Form::Any),
    ("XValidations", "x-kubernetes-validations", Form::List(RULE)),
];

const DOCUMENTATION: &[Part] = &[("Description", "description", Form::Text), ("URL", "url", Form::Text)];

const RULE: &[Part] = &[
    ("Rule", "rule", Form::Text),
    ("Message", "message", Form::Text),
    ("MessageExpression", "messageExpression", Form::Text),
    ("Reason", "reason", Form::Any),
    ("FieldPath", "fieldPath", Form::Text),
    ("OptionalOldSelf", "optionalOldSelf", Form::Any),
];

const VERSION: &[Part] = &[
    ("Name", "name", Form::Text),
    ("Served", "served", Form::Flag),
    ("Storage", "storage", Form::Flag),
    ("Deprecated", "deprecated", Form::Flag),
    ("DeprecationWarning", "deprecationWarning", Form::Any),
    ("Schema", "schema", Form::Object(&[("OpenAPIV3Schema", "openAPIV3Schema", Form::Object(&SCHEMA))])),
    (
        "Subresources",
        "subresources",
        Form::Object(&[("Status", "status", Form::Any), ("Scale", "scale", Form::Object(SCALE))]),
    ),
    ("AdditionalPrinterColumns", "additionalPrinterColumns", Form::List(COLUMN)),
    ("SelectableFields", "selectableFields", Form::List(&[("JSONPath", "jsonPath", Form::Text)])),
];

const SCALE: &[Part] = &[
    ("SpecReplicasPath", "specReplicasPath", Form::Text),
    ("StatusReplicasPath", "statusReplicasPath", Form::Text),
    ("LabelSelectorPath", "labelSelectorPath", Form::Any),
];

const COLUMN: &[Part] = &[
    ("Name", "name", Form::Text),
    ("Type", "type", Form::Text),
    ("Format", "format", Form::Text),
    ("Description", "description", Form::Text),
    ("Priority", "priority", Form::Number),
    ("JSONPath", "jsonPath", Form::Text),
];

/// A text ends after this many bytes: an empty schema is shown with all fields of its type, so a small definition would
/// have a huge text.
const MOST_BYTES: usize = 256 * 1024;

/// A schema.
pub(super) fn schema(schema: &Value) -> String {
    let mut out = String::new();
    object(&mut out, schema, &SCHEMA, &[]);
    out
}

/// The schemas of items, where there is one for each item.
pub(super) fn schemas(schemas: &[Value]) -> String {
    let mut out = String::from("{\"Schema\":null,\"JSONSchemas\":[");
    separated(&mut out, schemas, |out, item| object(out, item, &SCHEMA, &[]));
    out.push_str("]}");
    out
}

/// A version, without the parts that are in `left_out`.
pub(super) fn version(version: &Value, left_out: &[&str]) -> String {
    let mut out = String::new();
    object(&mut out, version, VERSION, left_out);
    out
}

/// Writes items with commas between them, until the text is long enough.
fn separated<T>(out: &mut String, items: impl IntoIterator<Item = T>, write: impl Fn(&mut String, T)) {
    for (i, item) in items.into_iter().enumerate() {
        if out.len() > MOST_BYTES {
            return;
        }
        if i > 0 {
            out.push(',');
        }
        write(out, item);
    }
}

fn object(out: &mut String, value: &Value, parts: &[Part], left_out: &[&str]) {
    out.push('{');
    separated(out, parts, |out, (name, key, form)| {
        let part = value.get(key).filter(|part| !part.is_null() && !left_out.contains(key));
        out.push_str(&format!("\"{name}\":"));
        field(out, part, *form);
    });
    out.push('}');
}

fn field(out: &mut String, value: Option<&Value>, form: Form) {
    let Some(value) = value else {
        return out.push_str(match form {
            Form::Text => "\"\"",
            Form::Flag => "false",
            Form::Number => "0",
            _ => "null",
        });
    };
    match form {
        Form::Text | Form::Flag | Form::Number | Form::Any => out.push_str(&go::json(value)),
        Form::Object(parts) => object(out, value, parts, &[]),
        Form::List(parts) => list(out, value, parts),
        Form::Map(parts) => map(out, value, |out, item| object(out, item, parts, &[])),
        Form::SchemaOrArray => match value {
            Value::Array(_) => {
                out.push_str("{\"Schema\":null,\"JSONSchemas\":");
                list(out, value, &SCHEMA);
                out.push('}');
            }
            _ => within(out, "{\"Schema\":", value, ",\"JSONSchemas\":null}"),
        },
        Form::SchemaOrBool => match value {
            Value::Bool(allows) => out.push_str(&format!("{{\"Allows\":{allows},\"Schema\":null}}")),
            _ => within(out, "{\"Allows\":true,\"Schema\":", value, "}"),
        },
        Form::SchemasOrTexts => map(out, value, |out, item| match item {
            Value::Array(_) => {
                out.push_str(&format!("{{\"Schema\":null,\"Property\":{}}}", go::json(item)));
            }
            _ => within(out, "{\"Schema\":", item, ",\"Property\":null}"),
        }),
    }
}

/// A schema between two texts.
fn within(out: &mut String, before: &str, schema: &Value, after: &str) {
    out.push_str(before);
    object(out, schema, &SCHEMA, &[]);
    out.push_str(after);
}

fn list(out: &mut String, value: &Value, parts: &[Part]) {
    out.push('[');
    separated(out, value.as_array().unwrap_or_default(), |out, item| object(out, item, parts, &[]));
    out.push(']');
}

fn map(out: &mut String, value: &Value, write: impl Fn(&mut String, &Value)) {
    out.push('{');
    let members = value.as_object().into_iter().flat_map(|map| map.iter());
    separated(out, members, |out, (key, value)| {
        out.push_str(&go::json(&Value::from(key.as_str())));
        out.push(':');
        write(out, value);
    });
    out.push('}');
}

#[cfg(test)]
mod tests {
    use corten_api::json;

    use super::*;

    /// A schema's text with the absent fields removed.
    fn brief(text: &str) -> String {
        let schema = schema(&json::parse(text.as_bytes()).unwrap());
        let absent = |(name, _, form): &Part| {
            let mut absent = format!("\"{name}\":");
            field(&mut absent, None, *form);
            absent
        };
        let absent = SCHEMA.iter().chain(DOCUMENTATION).map(absent);
        let brief = absent.fold(schema, |text, absent| text.replace(&absent, ""));
        let brief = brief.split(',').filter(|part| !part.is_empty()).collect::<Vec<_>>().join(",");
        brief.replace("{,", "{").replace(",}", "}")
    }

    #[test]
    fn schemas_have_internal_names() {
        for (schema, expected) in [
            (r#"{"type":"string","default":"<a>"}"#, r#"{"Type":"string","Default":"\u003ca\u003e"}"#),
            (r#"{"items":{"type":"x"}}"#, r#"{"Items":{"Schema":{"Type":"x"},"JSONSchemas":null}}"#),
            (r#"{"additionalProperties":true}"#, r#"{"AdditionalProperties":{"Allows":true,"Schema":null}}"#),
            (
                r#"{"additionalProperties":{"type":"x"},"properties":{"p":{"title":"t"}}}"#,
                r#"{"Properties":{"p":{"Title":"t"}},"AdditionalProperties":{"Allows":true,"Schema":{"Type":"x"}}}"#,
            ),
            (r#"{"maxLength":3,"required":["a"]}"#, r#"{"MaxLength":3,"Required":["a"]}"#),
        ] {
            assert_eq!(brief(schema), expected, "{schema}");
        }
    }

    #[test]
    fn every_field_of_a_version_is_shown() {
        let text = r#"{"name":"v1","served":true,"schema":{"openAPIV3Schema":{}},
            "additionalPrinterColumns":[{"name":"a","type":"string","jsonPath":".b"}],"subresources":{"status":{}}}"#;
        assert_eq!(
            version(&json::parse(text.as_bytes()).unwrap(), &["schema"]),
            concat!(
                r#"{"Name":"v1","Served":true,"Storage":false,"Deprecated":false,"DeprecationWarning":null,"Schema":null,"#,
                r#""Subresources":{"Status":{},"Scale":null},"AdditionalPrinterColumns":[{"Name":"a","Type":"string","#,
                r#""Format":"","Description":"","Priority":0,"JSONPath":".b"}],"SelectableFields":null}"#
            )
        );
    }
}
