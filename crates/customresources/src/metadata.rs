//! `apiVersion`, `kind` and `metadata` of embedded resources: decoding, which prunes unknown fields of `metadata`, and
//! validation.

use corten_api::conform::{Extent, conform};
use corten_api::names::{self, NameRule};
use corten_api::status::{ErrorList, FieldError, FieldErrorKind, shown};
use corten_api::{Field, Map, Value, go, json, schema};

use crate::schema::{Node, Schema};

/// The treatment of malformed metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// An error, as for a request.
    Refused,
    /// Removed, as for stored objects and defaults.
    Dropped,
}

/// Decodes the metadata of all embedded resources. The resource itself is not one of them. `unknown` receives the
/// paths of unknown fields in order.
pub fn coerce(
    object: &mut Value,
    schema: &Schema,
    malformed: Malformed,
    unknown: Option<&mut Vec<String>>,
) -> Result<(), String> {
    coerce_node(object, schema.root(), false, &Field::ROOT, malformed, unknown)
}

/// Decodes the metadata of the embedded resources in the value of a node.
pub(crate) fn coerce_node(
    value: &mut Value,
    node: &Node,
    is_resource: bool,
    at: &Field<'_>,
    malformed: Malformed,
    unknown: Option<&mut Vec<String>>,
) -> Result<(), String> {
    let mut found = Vec::new();
    let result = Coercer { malformed, unknown: &mut found }.value(value, Some(node), is_resource, at);
    if let Some(unknown) = unknown {
        found.sort();
        unknown.append(&mut found);
    }
    result.map_err(|error| error.to_string())
}

/// Decodes like `coerce_node`, with an error of the field that is malformed.
pub(crate) fn coerce_error(
    value: &mut Value,
    node: &Node,
    is_resource: bool,
    at: &Field<'_>,
) -> Result<(), Box<FieldError>> {
    let mut coercer = Coercer { malformed: Malformed::Refused, unknown: &mut Vec::new() };
    coercer.value(value, Some(node), is_resource, at)
}

/// Decodes an object's `metadata`. The error is that of Go's decoder. `unknown` receives the paths of unknown fields
/// below `metadata`, as `labelz`.
pub(crate) fn decode_object_meta(
    metadata: &mut Value,
    malformed: Malformed,
    unknown: &mut Vec<String>,
) -> Result<(), String> {
    let Some(object_meta) = schema::lookup("meta/v1", "ObjectMeta") else { return Ok(()) };
    let original = (malformed == Malformed::Dropped).then(|| metadata.clone());
    let mut strict = Vec::new();
    let mut result = conform(metadata, &object_meta, Extent::Whole, &mut strict).map_err(|e| e.to_string());
    if let (Err(_), Some(original)) = (&result, original) {
        strict.clear();
        result = decode_each(metadata, original, &object_meta, &mut strict);
    }
    let path = |complaint: &String| {
        let quoted = complaint.strip_prefix("unknown field \"").and_then(|rest| rest.strip_suffix('"'));
        quoted.map(str::to_owned)
    };
    unknown.extend(strict.iter().filter_map(path));
    result
}

/// Decodes field by field, leaving out those that are malformed.
fn decode_each(
    metadata: &mut Value,
    original: Value,
    object_meta: &schema::Struct,
    strict: &mut Vec<String>,
) -> Result<(), String> {
    let Value::Object(fields) = original else {
        let kind = go::type_name(&original);
        *metadata = original;
        return Err(format!("invalid metadata: expected object, got {kind}"));
    };
    let mut decoded = Map::with_capacity(fields.len());
    for (key, value) in fields {
        let mut one = Value::Object([(key, value)].into_iter().collect());
        if conform(&mut one, object_meta, Extent::Whole, strict).is_ok()
            && let Value::Object(one) = one
        {
            decoded.extend(one);
        }
    }
    *metadata = Value::Object(decoded);
    Ok(())
}

struct Coercer<'u> {
    malformed: Malformed,
    unknown: &'u mut Vec<String>,
}

impl Coercer<'_> {
    fn value(
        &mut self,
        value: &mut Value,
        node: Option<&Node>,
        is_resource: bool,
        at: &Field<'_>,
    ) -> Result<(), Box<FieldError>> {
        let Some(node) = node else { return Ok(()) };
        match value {
            Value::Object(map) => {
                if is_resource || node.embedded_resource {
                    self.resource(map, at)?;
                }
                let mut properties = node.in_order();
                for (key, value) in map.iter_mut() {
                    match properties.property(key) {
                        Some(property) => self.value(value, Some(property), false, &at.child(key))?,
                        None => self.value(value, node.additional.schema(), false, &at.key(key))?,
                    }
                }
            }
            Value::Array(items) => {
                for (i, item) in items.iter_mut().enumerate() {
                    self.value(item, node.items.as_deref(), false, &at.index(i))?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn resource(&mut self, map: &mut Map, at: &Field<'_>) -> Result<(), Box<FieldError>> {
        for key in ["apiVersion", "kind"] {
            match map.get(key) {
                None | Some(Value::String(_)) => {}
                Some(_) if self.malformed == Malformed::Dropped => drop(map.remove(key)),
                Some(other) => return Err(invalid(&at.child(key), other, "must be a string")),
            }
        }
        let Some(metadata) = map.get_mut("metadata") else { return Ok(()) };
        let at = at.child("metadata");
        let original = (self.malformed == Malformed::Refused).then(|| metadata.clone());
        let mut unknown = Vec::new();
        let decoded = decode_object_meta(metadata, self.malformed, &mut unknown);
        self.unknown.extend(unknown.iter().map(|path| format!("{at}.{path}")));
        match (decoded, original) {
            (Err(why), Some(original)) => Err(invalid(&at, &original, &why)),
            _ => Ok(()),
        }
    }
}

fn invalid(at: &Field<'_>, value: &Value, why: &str) -> Box<FieldError> {
    Box::new(FieldError {
        kind: FieldErrorKind::Invalid,
        field: at.to_string(),
        bad_value: Some(shown(value)),
        detail: why.to_owned(),
    })
}

/// Validates all embedded resources of a custom resource, which itself is not one of them.
pub fn validate(object: &Value, schema: &Schema, errors: &mut ErrorList) {
    validate_node(object, Some(schema.root()), false, &Field::ROOT, errors);
}

/// Validates the embedded resources in the value of a node.
pub(crate) fn validate_node(
    value: &Value,
    node: Option<&Node>,
    is_resource: bool,
    at: &Field<'_>,
    errors: &mut ErrorList,
) {
    let Some(node) = node.filter(|_| !errors.is_full()) else { return };
    match value {
        Value::Object(map) => {
            if is_resource || node.embedded_resource {
                validate_resource(map, at, errors);
            }
            let mut properties = node.in_order();
            for (key, value) in map.iter() {
                match properties.property(key) {
                    Some(property) => validate_node(value, Some(property), false, &at.child(key), errors),
                    None => validate_node(value, node.additional.schema(), false, &at.key(key), errors),
                }
            }
        }
        Value::Array(items) => {
            for (i, item) in items.iter().enumerate() {
                validate_node(item, node.items.as_deref(), false, &at.index(i), errors);
            }
        }
        _ => {}
    }
}

fn validate_resource(map: &Map, at: &Field<'_>, errors: &mut ErrorList) {
    for key in ["apiVersion", "kind"] {
        if !map.contains_key(key) {
            errors.required(at.child(key), "");
        }
    }
    for (key, check) in TYPE_META {
        let Some(value) = map.get(key) else { continue };
        let why = match value.as_str() {
            None => Some("must be a string".to_owned()),
            Some("") => Some("must not be empty".to_owned()),
            Some(text) => check(text),
        };
        if let Some(why) = why {
            errors.invalid(at.child(key), value, why);
        }
    }
    if let Some(metadata) = map.get("metadata") {
        validate_metadata(metadata, &at.child("metadata"), errors);
    }
}

/// A field of the type of an object, and the reason for which a text is invalid there.
type TypeMeta = (&'static str, fn(&str) -> Option<String>);

const TYPE_META: [TypeMeta; 2] = [("apiVersion", wrong_version), ("kind", wrong_kind)];

fn wrong_version(version: &str) -> Option<String> {
    (version.matches('/').count() > 1).then(|| format!("unexpected GroupVersion string: {version}"))
}

fn wrong_kind(kind: &str) -> Option<String> {
    let complaints = names::dns1035_label(&kind.to_lowercase());
    let why = "may have mixed case, but should otherwise match: ";
    (!complaints.is_empty()).then(|| format!("{why}{}", complaints.join(",")))
}

fn validate_metadata(metadata: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    let mut decoded = metadata.clone();
    if let Err(why) = decode_object_meta(&mut decoded, Malformed::Refused, &mut Vec::new()) {
        errors.invalid(at, metadata, why);
        return;
    }
    let text = |key: &str| decoded.str_at(&[key]).unwrap_or_default();
    let namespaced = !text("namespace").is_empty();
    if text("name").is_empty() {
        decoded.set(&["name"], "fakename");
    }
    names::validate_object_meta(&decoded, namespaced, NameRule::PathSegment, &at.to_string(), errors);
}

/// Raw text of embedded field sets as trees, so that every walk sees them as the objects that they are.
pub(crate) fn expand_raw(value: &mut Value) {
    match value {
        Value::Raw(text) => {
            *value = json::parse(text.as_bytes()).unwrap_or_default();
            expand_raw(value);
        }
        Value::Array(items) => items.iter_mut().for_each(expand_raw),
        Value::Object(map) => map.iter_mut().for_each(|(_, value)| expand_raw(value)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCHEMA: &str = r#"{"type":"object","properties":{"pod":{"type":"object",
        "x-kubernetes-embedded-resource":true,"x-kubernetes-preserve-unknown-fields":true}}}"#;

    fn schema() -> Schema {
        Schema::compile(&json::parse(SCHEMA.as_bytes()).unwrap()).unwrap()
    }

    #[track_caller]
    fn check(object: &str, malformed: Malformed, expected: Result<&str, &str>, paths: &[&str]) {
        let mut value = json::parse(object.as_bytes()).unwrap();
        let mut unknown = Vec::new();
        let result = coerce(&mut value, &schema(), malformed, Some(&mut unknown));
        let result = result.map(|()| json::write_to_string(&value));
        assert_eq!(result.as_deref().map_err(String::as_str), expected);
        assert_eq!(unknown, paths);
    }

    #[test]
    fn embedded_metadata_is_decoded() {
        check(
            r#"{"metadata":{"zz":1},"pod":{"metadata":{"name":"a","zz":1,"creationTimestamp":null}}}"#,
            Malformed::Refused,
            Ok(r#"{"metadata":{"zz":1},"pod":{"metadata":{"name":"a"}}}"#),
            &["pod.metadata.zz"],
        );
        check(
            r#"{"pod":{"kind":1}}"#,
            Malformed::Refused,
            Err("pod.kind: Invalid value: 1: must be a string"),
            &[],
        );
        check(
            r#"{"pod":{"metadata":{"labels":{"a":1}}}}"#,
            Malformed::Refused,
            Err(
                r#"pod.metadata: Invalid value: {"labels":{"a":1}}: json: cannot unmarshal number into Go struct field ObjectMeta.labels of type string"#,
            ),
            &[],
        );
        check(
            r#"{"pod":{"kind":1,"metadata":{"labels":{"a":1},"name":"b"}}}"#,
            Malformed::Dropped,
            Ok(r#"{"pod":{"metadata":{"name":"b"}}}"#),
            &[],
        );
    }

    #[track_caller]
    fn check_errors(object: &str, expected: &str) {
        let mut errors = ErrorList::new();
        validate(&json::parse(object.as_bytes()).unwrap(), &schema(), &mut errors);
        assert_eq!(errors.summary(), expected);
    }

    #[test]
    fn embedded_resources_are_validated() {
        check_errors(r#"{"pod":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"A b"}}}"#, "");
        check_errors(
            r#"{"pod":{"apiVersion":"a/b/c"}}"#,
            r#"[pod.kind: Required value, pod.apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c]"#,
        );
        check_errors(
            r#"{"pod":{"apiVersion":"v1","kind":"","metadata":{"name":"a/b"}}}"#,
            r#"[pod.kind: Invalid value: "": must not be empty, pod.metadata.name: Invalid value: "a/b": may not contain '/']"#,
        );
    }
}
