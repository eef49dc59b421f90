//! Bodies into objects: format, kind and version checked, the tree conformed, and what strict validation
//! finds turned into warnings or a refusal.

use bytes::Bytes;
use corten_api::conform::{Extent, conform};
use corten_api::schema::Struct;
use corten_api::{Status, Value, json, meta, protobuf, resources, yaml};
use http::HeaderMap;

use crate::negotiate::{self, Format};
use crate::request::Query;

/// What to do about fields nobody knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FieldValidation {
    Ignore,
    Warn,
    Strict,
}

impl FieldValidation {
    pub(crate) fn parse(query: &Query) -> Result<FieldValidation, Status> {
        match query.text("fieldValidation") {
            "" | "Warn" => Ok(FieldValidation::Warn),
            "Ignore" => Ok(FieldValidation::Ignore),
            "Strict" => Ok(FieldValidation::Strict),
            other => {
                let mut errors = corten_api::status::ErrorList::new();
                errors.not_supported(
                    "fieldValidation",
                    &Value::from(other),
                    &["", "Ignore", "Strict", "Warn"],
                );
                Err(Status::invalid("meta.k8s.io", "CreateOptions", "", &errors))
            }
        }
    }
}

/// The kind a body must hold.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Expected<'a> {
    pub schema: &'a Struct,
    pub kind: &'a str,
    pub api_version: &'a str,
}

/// A decoded object, and the warnings its decoding earned.
pub(crate) struct Decoded {
    pub object: Value,
    pub warnings: Vec<String>,
}

/// A body as a tree of one kind.
pub(crate) fn object(
    headers: &HeaderMap,
    body: &Bytes,
    expected: Expected<'_>,
    validation: FieldValidation,
) -> Result<Decoded, Status> {
    let format = negotiate::body_format(headers)?;
    let mut strict = Vec::new();
    let mut object = parse(format, body, expected, &mut strict)?;
    check_size(&object)?;
    check_kind(&mut object, body, expected)?;
    conform_whole(&mut object, expected, &mut strict)?;
    if format == Format::Json && strict.len() > 1 {
        in_document_order(&mut strict, body);
    }
    let warnings = judge(strict, validation, expected)?;
    Ok(Decoded { object, warnings })
}

/// How many objects and lists one body, or the outcome of a patch, may consist of. No object that can be stored
/// has as many; the smallest of them, two bytes long, becomes a thousand once its type fills it in.
const MAX_PARTS: usize = 100_000;

/// Refuses a tree of so many parts that filling it in would take memory out of proportion to the request.
pub(crate) fn check_size(tree: &Value) -> Result<(), Status> {
    fn count(value: &Value, left: usize) -> Option<usize> {
        match value {
            Value::Array(items) => {
                items.iter().try_fold(left.checked_sub(1)?, |left, item| count(item, left))
            }
            Value::Object(map) => {
                map.iter().try_fold(left.checked_sub(1)?, |left, (_, item)| count(item, left))
            }
            _ => Some(left),
        }
    }
    match count(tree, MAX_PARTS) {
        Some(_) => Ok(()),
        None => Err(Status::too_large(format!("limit is {MAX_PARTS} objects and lists"))),
    }
}

/// Findings in the order in which a reader of the document comes upon them.
fn in_document_order(strict: &mut Vec<String>, body: &[u8]) {
    let paths: Vec<&str> = strict
        .iter()
        .map(|finding| finding.split_once('"').map_or("", |(_, rest)| rest.trim_end_matches('"')))
        .collect();
    let places = json::places(body, &paths);
    let mut findings: Vec<(usize, String)> = std::mem::take(strict)
        .into_iter()
        .zip(places)
        .map(|(finding, places)| {
            // A duplicate is found where it stands for the second time.
            let skipped = usize::from(finding.starts_with("duplicate"));
            (places.get(skipped).copied().unwrap_or(usize::MAX), finding)
        })
        .collect();
    findings.sort_by_key(|(place, _)| *place);
    strict.extend(findings.into_iter().map(|(_, finding)| finding));
}

/// The tree of a body in any format, not yet checked against a type.
fn parse(
    format: Format,
    body: &Bytes,
    expected: Expected<'_>,
    strict: &mut Vec<String>,
) -> Result<Value, Status> {
    let unreadable = |error: String| unrecognized(expected, body, &error);
    match format {
        Format::Json => {
            let mut duplicates = Vec::new();
            let value = json::parse_reporting(body, Some(&mut duplicates))
                .map_err(|e| unreadable(format!("couldn't get version/kind; json parse error: {e}")))?;
            strict.extend(duplicates.iter().map(|d| format!("duplicate field {:?}", d.path)));
            Ok(value)
        }
        Format::Yaml => {
            let mut duplicates = Vec::new();
            let value = yaml::to_value(body, &mut duplicates)
                .map_err(|e| unreadable(format!("couldn't get version/kind; json parse error: {e}")))?;
            strict.extend(duplicates.iter().map(ToString::to_string));
            Ok(value)
        }
        Format::Protobuf => protobuf_tree(body, expected),
    }
}

fn protobuf_tree(body: &Bytes, expected: Expected<'_>) -> Result<Value, Status> {
    let failed = |e: &dyn std::fmt::Display| unrecognized(expected, body, &e.to_string());
    let envelope = protobuf::decode_envelope(body).map_err(|e| failed(&e))?;
    let (group, version) = resources::split_api_version(&envelope.api_version);
    let named = resources::schema_of(group, version, &envelope.kind);
    let schema: &Struct = match &named {
        Some(schema) if !envelope.kind.is_empty() => schema,
        _ => expected.schema,
    };
    let mut value =
        protobuf::decode(schema, envelope.raw).map_err(|e| mishandled(expected, &e.to_string()))?;
    let map = value.make_object();
    if !envelope.kind.is_empty() {
        map.insert("kind", &*envelope.kind);
        map.insert("apiVersion", &*envelope.api_version);
    }
    Ok(value)
}

fn unrecognized(expected: Expected<'_>, body: &[u8], error: &str) -> Status {
    Status::bad_request(format!(
        "the object provided is unrecognized (must be of type {}): {error} ({})",
        expected.kind,
        summary(body)
    ))
}

/// The first bytes of a body that could not be read, as upstream shows them.
fn summary(body: &[u8]) -> String {
    const SHOWN: usize = 30;
    if body.is_empty() {
        return "<empty>".to_owned();
    }
    if body.starts_with(b"{") {
        let text = String::from_utf8_lossy(&body[..body.len().min(SHOWN)]);
        return if body.len() > SHOWN { format!("{text} ...") } else { text.into_owned() };
    }
    let hex: String = body.iter().take(SHOWN).map(|b| format!("{b:02x}")).collect();
    if body.len() > SHOWN { format!("{hex} ...") } else { hex }
}

/// A body may leave out what it is; what it says must be what is expected.
fn check_kind(object: &mut Value, body: &[u8], expected: Expected<'_>) -> Result<(), Status> {
    if object.is_null() {
        *object = Value::object();
    }
    let Value::Object(_) = object else {
        let error = format!("couldn't get version/kind; json parse error: {}", not_an_object(object));
        return Err(unrecognized(expected, body, &error));
    };
    for field in ["apiVersion", "kind"] {
        if let Some(wrong) = object.get(field).filter(|v| !matches!(v, Value::String(_) | Value::Null)) {
            let found = wrong.go_kind();
            let error = format!(
                "couldn't get version/kind; json parse error: json: cannot unmarshal {found} into Go struct field .{field} of type string"
            );
            return Err(unrecognized(expected, body, &error));
        }
    }
    said_kind(object, body, expected)?;
    let map = object.make_object();
    map.insert("kind", expected.kind);
    map.insert("apiVersion", expected.api_version);
    Ok(())
}

/// What is said of a body that is no object.
pub(crate) fn not_an_object(value: &Value) -> String {
    format!(
        "json: cannot unmarshal {} into Go value of type struct {{ APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}",
        value.go_kind()
    )
}

/// What is said of a kind that does not belong here.
pub(crate) fn unregistered(kind: &str, api_version: &str) -> String {
    format!(
        "no kind {kind:?} is registered for version {api_version:?} in scheme \"pkg/runtime/scheme.go:111\""
    )
}

/// What a body says it is, if it says so, must be what is expected.
fn said_kind(object: &Value, body: &[u8], expected: Expected<'_>) -> Result<(), Status> {
    let or =
        |said: &'_ str, otherwise: &str| if said.is_empty() { otherwise.to_owned() } else { said.to_owned() };
    let kind = or(meta::kind(object), expected.kind);
    let api_version = or(meta::api_version(object), expected.api_version);
    if kind == expected.kind && api_version == expected.api_version {
        return Ok(());
    }
    if api_version.matches('/').count() > 1 {
        return Err(unrecognized(expected, body, &format!("unexpected GroupVersion string: {api_version}")));
    }
    let (group, version) = resources::split_api_version(&api_version);
    let (expected_group, _) = resources::split_api_version(expected.api_version);
    let known = resources::schema_of(group, version, &kind);
    if kind == expected.kind && group == expected_group && known.is_some() {
        return Err(Status::bad_request(format!(
            "the API version in the data ({api_version}) does not match the expected API version ({})",
            expected.api_version
        )));
    }
    let why = match known {
        Some(other) => format!(
            "converting ({}) to ({}.{}): unknown conversion",
            other.go_name(),
            resources::package_of(expected_group),
            expected.kind
        ),
        None => unregistered(&kind, &api_version),
    };
    Err(Status::bad_request(format!(
        "{kind} in version {version:?} cannot be handled as a {}: {why}",
        expected.kind
    )))
}

/// Makes a tree what its type says; a value of the wrong type is the client's mistake.
pub(crate) fn conform_whole(
    object: &mut Value,
    expected: Expected<'_>,
    strict: &mut Vec<String>,
) -> Result<(), Status> {
    conform(object, expected.schema, Extent::Whole, strict).map_err(|e| mishandled(expected, &e.to_string()))
}

pub(crate) fn mishandled(expected: Expected<'_>, why: &str) -> Status {
    let version = resources::split_api_version(expected.api_version).1;
    Status::bad_request(format!(
        "{kind} in version {version:?} cannot be handled as a {kind}: {why}",
        kind = expected.kind
    ))
}

/// Strict findings as warnings, a refusal, or nothing.
pub(crate) fn judge(
    strict: Vec<String>,
    validation: FieldValidation,
    expected: Expected<'_>,
) -> Result<Vec<String>, Status> {
    match validation {
        _ if strict.is_empty() => Ok(strict),
        FieldValidation::Ignore => Ok(Vec::new()),
        FieldValidation::Warn => Ok(strict),
        FieldValidation::Strict => {
            Err(mishandled(expected, &format!("strict decoding error: {}", strict.join(", "))))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_come_in_document_order() {
        let body = br#"{"b":1,"spec":{"z":1,"list":[{"q":1},{"a":2}],"k":1,"k":2},"a":1}"#;
        let mut strict: Vec<String> = [
            "duplicate field \"spec.k\"",
            "unknown field \"a\"",
            "unknown field \"b\"",
            "unknown field \"spec.list[1].a\"",
            "unknown field \"spec.z\"",
        ]
        .map(str::to_owned)
        .to_vec();
        in_document_order(&mut strict, body);
        let order: Vec<&str> = strict.iter().map(|s| s.split('"').nth(1).unwrap()).collect();
        assert_eq!(order, ["b", "spec.z", "spec.list[1].a", "spec.k", "a"]);
    }
}
