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
                    &["Ignore", "Warn", "Strict", ""],
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
    check_kind(&mut object, body, expected)?;
    conform_whole(&mut object, expected, &mut strict)?;
    let warnings = judge(strict, validation, expected)?;
    Ok(Decoded { object, warnings })
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
            strict.extend(yaml::strict_error(&duplicates));
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
    let mut value = protobuf::decode(schema, envelope.raw).map_err(|e| failed(&e))?;
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
    let hex: String = body.iter().take(SHOWN).map(|b| format!("{b:02x}")).collect();
    if body.len() > SHOWN { format!("{hex} ...") } else { hex }
}

/// A body may leave out what it is; what it says must be what is expected.
fn check_kind(object: &mut Value, body: &[u8], expected: Expected<'_>) -> Result<(), Status> {
    let Value::Object(_) = object else {
        let error = format!(
            "couldn't get version/kind; json parse error: json: cannot unmarshal {} into Go value of type struct {{ APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}",
            object.go_kind()
        );
        return Err(unrecognized(expected, body, &error));
    };
    let (kind, api_version) = (meta::kind(object).to_owned(), meta::api_version(object).to_owned());
    if !api_version.is_empty() && api_version != expected.api_version {
        return Err(Status::bad_request(format!(
            "the API version in the data ({api_version}) does not match the expected API version ({})",
            expected.api_version
        )));
    }
    if !kind.is_empty() && kind != expected.kind {
        let (group, version) = resources::split_api_version(expected.api_version);
        let why = match resources::schema_of(group, version, &kind) {
            Some(other) => {
                format!(
                    "converting ({}) to ({}): unknown conversion",
                    other.go_name(),
                    expected.schema.go_name()
                )
            }
            None => format!(
                "no kind {kind:?} is registered for version {:?} in scheme \"pkg/api/legacyscheme/scheme.go:30\"",
                expected.api_version
            ),
        };
        return Err(Status::bad_request(format!(
            "{kind} in version {version:?} cannot be handled as a {}: {why}",
            expected.kind
        )));
    }
    let map = object.make_object();
    map.insert("kind", expected.kind);
    map.insert("apiVersion", expected.api_version);
    Ok(())
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
