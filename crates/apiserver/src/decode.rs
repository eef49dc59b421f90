//! Decoding of request bodies: format, kind and version are checked, the tree is conformed to its type, and the findings of
//! strict validation become warnings or an error.

use bytes::Bytes;
use corten_api::conform::{Extent, conform, convert};
use corten_api::schema::Struct;
use corten_api::{Status, Value, json, meta, protobuf, resources, yaml};
use http::HeaderMap;

use crate::crd;
use crate::negotiate::{self, Format};
use crate::request::Query;

/// The handling of unknown and duplicate fields.
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

/// The kind that a body must have.
#[derive(Clone, Copy)]
pub(crate) struct Expected<'a> {
    pub schema: &'a Struct,
    /// The version of a custom resource.
    pub custom: Option<&'a crd::Version>,
    pub kind: &'a str,
    pub api_version: &'a str,
}

/// A decoded object, and the warnings of its decoding, which are sent with the error of an object of another version,
/// too.
pub(crate) struct Decoded {
    pub object: Result<Value, Status>,
    pub warnings: Vec<String>,
}

/// Decodes a body as an object of one kind.
pub(crate) fn object(
    headers: &HeaderMap,
    body: &Bytes,
    expected: Expected<'_>,
    validation: FieldValidation,
) -> Result<Decoded, Status> {
    let format = negotiate::body_format(headers)?;
    let mut strict = Vec::new();
    let mut object = parse(format, body, expected, validation, &mut strict)?;
    check_size(&object)?;
    let of_version = check_kind(&mut object, body, expected, &mut strict)?;
    if of_version.is_ok() {
        conform_whole(&mut object, expected, &mut strict)?;
    }
    if format == Format::Json && strict.len() > 1 && expected.custom.is_none() {
        drop_below_unknown_fields(&mut strict);
        in_document_order(&mut strict, body);
    }
    let warnings = apply_validation(strict, validation, expected)?;
    Ok(Decoded { object: of_version.map(|()| object), warnings })
}

/// The limit of objects and lists in one body or patched object. No object that can be stored has as many; the smallest,
/// of two bytes, grows to a thousand bytes when its defaults are set.
const MAX_PARTS: usize = 100_000;

/// Refuses a tree of so many parts that setting its defaults would take memory out of proportion to the request.
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

/// The path that a finding shows.
fn path_of(finding: &str) -> &str {
    finding.split_once('"').map_or("", |(_, rest)| rest.trim_end_matches('"'))
}

/// Drops duplicates of unknown fields and in their values, which upstream does not read.
fn drop_below_unknown_fields(strict: &mut Vec<String>) {
    let (unknown, duplicates): (Vec<String>, Vec<String>) =
        std::mem::take(strict).into_iter().partition(|finding| finding.starts_with("unknown"));
    let is_below = |path: &str, field: &str| {
        path.strip_prefix(field).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    };
    let read = duplicates
        .into_iter()
        .filter(|finding| !unknown.iter().any(|field| is_below(path_of(finding), path_of(field))))
        .collect::<Vec<_>>();
    strict.extend(read);
    strict.extend(unknown);
}

/// Sorts findings by their position in the document.
fn in_document_order(strict: &mut Vec<String>, body: &[u8]) {
    let paths: Vec<&str> = strict.iter().map(|finding| path_of(finding)).collect();
    let places = json::places(body, &paths);
    let mut findings: Vec<(usize, String)> = std::mem::take(strict)
        .into_iter()
        .zip(places)
        .map(|(finding, places)| {
            // A duplicate is found at its second occurrence.
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
    validation: FieldValidation,
    strict: &mut Vec<String>,
) -> Result<Value, Status> {
    let unreadable = |error: String| unrecognized(expected, body, &error);
    match format {
        Format::Json => {
            let mut duplicates = Vec::new();
            let parsed = match expected.custom {
                Some(_) => json::parse_reporting(body, Some(&mut duplicates)),
                None => json::parse_literally(body, &mut duplicates),
            };
            let value = parsed.map_err(|error| match error {
                json::ParseError::NumberRange(_) => cannot_handle(expected, &error.to_string()),
                error => unreadable(format!("couldn't get version/kind; json parse error: {error}")),
            })?;
            strict.extend(duplicates.iter().map(|d| format!("duplicate field {:?}", d.path)));
            Ok(value)
        }
        Format::Yaml => {
            let mut duplicates = Vec::new();
            let value = yaml::to_value(body, &mut duplicates).map_err(|e| unreadable(e.to_string()))?;
            match validation {
                FieldValidation::Strict => strict.extend(yaml::strict_error(&duplicates)),
                _ => strict.extend(duplicates.iter().map(ToString::to_string)),
            }
            Ok(value)
        }
        Format::Protobuf => protobuf_tree(body, expected),
    }
}

fn protobuf_tree(body: &Bytes, expected: Expected<'_>) -> Result<Value, Status> {
    let failed = |e: &dyn std::fmt::Display| unrecognized(expected, body, &e.to_string());
    let envelope = protobuf::decode_envelope(body).map_err(|e| failed(&e))?;
    if expected.custom.is_some() {
        let why = "object *unstructured.Unstructured does not implement the protobuf marshalling interface and cannot be \
                   encoded to a protobuf message";
        return Err(cannot_handle(expected, why));
    }
    let (group, version) = resources::split_api_version(&envelope.api_version);
    let named = resources::schema_of(group, version, &envelope.kind);
    let schema: &Struct = match &named {
        Some(schema) if !envelope.kind.is_empty() => schema,
        _ => expected.schema,
    };
    let mut value =
        protobuf::decode(schema, envelope.raw).map_err(|e| cannot_handle(expected, &e.to_string()))?;
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

/// The first bytes of a body that could not be parsed, as upstream shows them.
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

/// Checks kind and apiVersion; a body may leave them out. The inner error is that of another version of the kind.
fn check_kind(
    object: &mut Value,
    body: &[u8],
    expected: Expected<'_>,
    strict: &mut Vec<String>,
) -> Result<Result<(), Status>, Status> {
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
    match expected.custom {
        Some(_) => check_custom_kind(object, body, expected)?,
        None => {
            let of_version = check_given_kind(object, body, expected, strict)?;
            if of_version.is_err() {
                return Ok(of_version);
            }
        }
    }
    let map = object.make_object();
    map.insert("kind", expected.kind);
    map.insert("apiVersion", expected.api_version);
    Ok(Ok(()))
}

/// The message about a body that is not an object.
pub(crate) fn not_an_object(value: &Value) -> String {
    format!(
        "json: cannot unmarshal {} into Go value of type struct {{ APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}",
        value.go_kind()
    )
}

/// The message about an unregistered kind.
pub(crate) fn unregistered(kind: &str, api_version: &str) -> String {
    format!(
        "no kind {kind:?} is registered for version {api_version:?} in scheme \"pkg/runtime/scheme.go:111\""
    )
}

/// Checks kind and apiVersion of a custom resource, which may not leave them out.
fn check_custom_kind(object: &Value, body: &[u8], expected: Expected<'_>) -> Result<(), Status> {
    let (kind, api_version) = (meta::kind(object), meta::api_version(object));
    if kind.is_empty() {
        let shown = String::from_utf8_lossy(body);
        return Err(unrecognized(expected, body, &format!("Object 'Kind' is missing in '{shown}'")));
    }
    if api_version.matches('/').count() > 1 {
        return Err(unrecognized(expected, body, &format!("unexpected GroupVersion string: {api_version}")));
    }
    if api_version != expected.api_version {
        return Err(other_version(api_version, expected));
    }
    if kind == expected.kind {
        return Ok(());
    }
    let mut errors = corten_api::status::ErrorList::new();
    errors.invalid("kind", &Value::from(kind), format!("must be {}", expected.kind));
    let (group, _) = resources::split_api_version(api_version);
    Err(Status::invalid(group, kind, meta::name(object), &errors))
}

fn other_version(api_version: &str, expected: Expected<'_>) -> Status {
    Status::bad_request(format!(
        "the API version in the data ({api_version}) does not match the expected API version ({})",
        expected.api_version
    ))
}

/// The version of upstream's internal types. Their fields have no names in JSON.
const INTERNAL: &str = "__internal";

/// Checks kind and apiVersion of a body, if it has them. The inner error is that of another version of the kind, whose
/// strict findings are added.
fn check_given_kind(
    object: &Value,
    body: &[u8],
    expected: Expected<'_>,
    strict: &mut Vec<String>,
) -> Result<Result<(), Status>, Status> {
    let or =
        |said: &'_ str, otherwise: &str| if said.is_empty() { otherwise.to_owned() } else { said.to_owned() };
    let kind = or(meta::kind(object), expected.kind);
    let api_version = or(meta::api_version(object), expected.api_version);
    if kind == expected.kind && api_version == expected.api_version {
        return Ok(Ok(()));
    }
    if api_version.matches('/').count() > 1 {
        return Err(unrecognized(expected, body, &format!("unexpected GroupVersion string: {api_version}")));
    }
    let (group, version) = resources::split_api_version(&api_version);
    let (expected_group, _) = resources::split_api_version(expected.api_version);
    let same_kind = kind == expected.kind && group == expected_group;
    if same_kind && version == INTERNAL {
        let fields = object.as_object().into_iter().flat_map(|map| map.iter().map(|(field, _)| field));
        let unknown = fields.filter(|field| !matches!(&***field, "kind" | "apiVersion"));
        strict.extend(unknown.map(|field| format!("unknown field {field:?}")));
        return Ok(Err(other_version(&api_version, expected)));
    }
    let refused = |why: &str| {
        Status::bad_request(format!(
            "{kind} in version {version:?} cannot be handled as a {}: {why}",
            expected.kind
        ))
    };
    if let Some(schema) = resources::schema_of(group, version, &kind) {
        conform(&mut object.clone(), &schema, Extent::Whole, strict).map_err(|e| refused(&e.to_string()))?;
        if same_kind {
            return Ok(Err(other_version(&api_version, expected)));
        }
    }
    Err(refused(&given_kind_error(&kind, &api_version, expected)))
}

/// Checks kind and apiVersion of a patched object, which may lack them. The error is the reason for which the object is
/// not one of the kind.
pub(crate) fn check_patched_kind(object: &Value, expected: Expected<'_>) -> Result<(), String> {
    let (kind, api_version) = (meta::kind(object), meta::api_version(object));
    let kind = if kind.is_empty() { expected.kind } else { kind };
    let api_version = if api_version.is_empty() { expected.api_version } else { api_version };
    if kind == expected.kind && api_version == expected.api_version {
        return Ok(());
    }
    Err(given_kind_error(kind, api_version, expected))
}

/// The reason for which an object of one kind is not one of another.
fn given_kind_error(kind: &str, api_version: &str, expected: Expected<'_>) -> String {
    let (group, version) = resources::split_api_version(api_version);
    let (expected_group, _) = resources::split_api_version(expected.api_version);
    match resources::schema_of(group, version, kind) {
        Some(other) => format!(
            "converting ({}) to ({}.{}): unknown conversion",
            other.go_name(),
            resources::internal_package_of(expected_group, expected.kind),
            expected.kind
        ),
        None => unregistered(kind, api_version),
    }
}

/// Conforms a tree to its type; a value of the wrong type is an error of the client.
pub(crate) fn conform_whole(
    object: &mut Value,
    expected: Expected<'_>,
    strict: &mut Vec<String>,
) -> Result<(), Status> {
    match expected.custom {
        Some(version) => version.decode(object, strict).map_err(|status| match status.code {
            400 => cannot_handle(expected, &status.message),
            _ => status,
        }),
        None => conform(object, expected.schema, Extent::Whole, strict)
            .map_err(|e| cannot_handle(expected, &e.to_string())),
    }
}

/// Conforms a tree that server-side apply has merged to its type.
pub(crate) fn conform_applied(
    object: &mut Value,
    configuration: &Value,
    expected: Expected<'_>,
) -> Result<(), Status> {
    match expected.custom {
        Some(version) => version.decode_applied(object).map_err(|e| cannot_handle(expected, &e.message)),
        None => {
            let place = || [meta::namespace(configuration), meta::name(configuration)].join("/");
            convert(object, expected.schema, &mut Vec::new())
                .map_err(|e| unconvertible(&place(), expected, &e.converting))
        }
    }
}

/// The error of a merged object that does not convert to its type. Upstream has no particular status for it.
fn unconvertible(place: &str, expected: Expected<'_>, why: &str) -> Status {
    let (group, version) = resources::split_api_version(expected.api_version);
    let kind = format!("{group}/{version}, Kind={}", expected.kind);
    Status::unexplained(format!(
        "failed to convert new object ({place}; {kind}) to proper version: \
         unable to convert unstructured object to {kind}: {why}"
    ))
}

pub(crate) fn cannot_handle(expected: Expected<'_>, why: &str) -> Status {
    let version = resources::split_api_version(expected.api_version).1;
    Status::bad_request(format!(
        "{kind} in version {version:?} cannot be handled as a {kind}: {why}",
        kind = expected.kind
    ))
}

/// Turns strict findings into warnings, an error, or nothing.
pub(crate) fn apply_validation(
    strict: Vec<String>,
    validation: FieldValidation,
    expected: Expected<'_>,
) -> Result<Vec<String>, Status> {
    match validation {
        _ if strict.is_empty() => Ok(strict),
        FieldValidation::Ignore => Ok(Vec::new()),
        FieldValidation::Warn => Ok(strict),
        FieldValidation::Strict => {
            Err(cannot_handle(expected, &format!("strict decoding error: {}", strict.join(", "))))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_of_other_versions_and_kinds_are_refused() {
        let schema = resources::schema_of("batch", "v1", "Job").unwrap();
        let expected = Expected { schema: &schema, custom: None, kind: "Job", api_version: "batch/v1" };
        let refused = |body: &'static str| {
            let decoded = object(
                &HeaderMap::new(),
                &Bytes::from_static(body.as_bytes()),
                expected,
                FieldValidation::Warn,
            );
            match decoded {
                Ok(Decoded { object, warnings }) => (object.err().unwrap().message, warnings),
                Err(status) => (status.message, Vec::new()),
            }
        };
        let table: [(&str, &str, &[&str]); 4] = [
            (
                r#"{"apiVersion":"batch/__internal","kind":"Job","spec":{"x":1},"metadata":{}}"#,
                "the API version in the data (batch/__internal) does not match the expected API version (batch/v1)",
                &["unknown field \"spec\"", "unknown field \"metadata\""],
            ),
            (
                r#"{"apiVersion":"batch/v9","kind":"Job"}"#,
                "Job in version \"v9\" cannot be handled as a Job: no kind \"Job\" is registered for version \"batch/v9\" in scheme \"pkg/runtime/scheme.go:111\"",
                &[],
            ),
            (
                r#"{"apiVersion":"v1","kind":"ConfigMap","data":{"a":{}}}"#,
                "ConfigMap in version \"v1\" cannot be handled as a Job: json: cannot unmarshal object into Go struct field ConfigMap.data of type string",
                &[],
            ),
            (
                r#"{"apiVersion":"v1","kind":"ConfigMap"}"#,
                "ConfigMap in version \"v1\" cannot be handled as a Job: converting (v1.ConfigMap) to (batch.Job): unknown conversion",
                &[],
            ),
        ];
        for (body, message, warnings) in table {
            assert_eq!(
                refused(body),
                (message.to_owned(), warnings.iter().map(ToString::to_string).collect())
            );
        }
    }

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
