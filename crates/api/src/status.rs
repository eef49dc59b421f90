//! Errors of the Kubernetes API: `metav1.Status` with upstream's reasons, codes and wording, and the
//! field errors of an `Invalid` one.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

use crate::value::{Map, Str, Value};

/// An error response.
#[derive(Debug, Clone, PartialEq)]
pub struct Status {
    pub code: u16,
    pub reason: Cow<'static, str>,
    pub message: String,
    pub details: Details,
    /// The token with which an expired list can continue, inconsistently.
    pub continue_token: String,
    /// True for errors of the HTTP layer, which have empty details.
    is_generic: bool,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Details {
    pub group: String,
    pub kind: String,
    pub name: String,
    pub uid: String,
    pub causes: Vec<Cause>,
    pub retry_after_seconds: u32,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Cause {
    pub reason: String,
    pub message: String,
    pub field: String,
}

/// The reasons of errors.
const REASONS: [&str; 20] = [
    "BadRequest",
    "Unauthorized",
    "Forbidden",
    "NotFound",
    "MethodNotAllowed",
    "NotAcceptable",
    "UnsupportedMediaType",
    "AlreadyExists",
    "Conflict",
    "Gone",
    "Expired",
    "RequestEntityTooLarge",
    "Invalid",
    "TooManyRequests",
    "InternalError",
    "ServiceUnavailable",
    "ServerTimeout",
    "Timeout",
    "StorageReadError",
    "Unknown",
];

impl std::error::Error for Status {}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// A group and a resource or kind, as messages name them: `pods`, `deployments.apps`.
fn qualified(group: &str, name: &str) -> String {
    if group.is_empty() { name.to_owned() } else { format!("{name}.{group}") }
}

impl Status {
    fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Status {
        Status {
            code,
            reason: Cow::Borrowed(reason),
            message: message.into(),
            details: Details::default(),
            continue_token: String::new(),
            is_generic: false,
        }
    }

    fn generic(code: u16, reason: &'static str, message: impl Into<String>) -> Status {
        Status { is_generic: true, ..Status::new(code, reason, message) }
    }

    fn about(mut self, group: &str, kind: &str, name: &str) -> Status {
        self.details.group = group.to_owned();
        self.details.kind = kind.to_owned();
        self.details.name = name.to_owned();
        self
    }

    pub fn bad_request(message: impl Into<String>) -> Status {
        Status::new(400, "BadRequest", message)
    }

    pub fn unauthorized() -> Status {
        Status::new(401, "Unauthorized", "Unauthorized")
    }

    pub fn forbidden(group: &str, resource: &str, name: &str, why: impl fmt::Display) -> Status {
        let message = match (resource, name) {
            ("", _) => format!("forbidden: {why}"),
            (_, "") => format!("{} is forbidden: {why}", qualified(group, resource)),
            _ => format!("{} \"{name}\" is forbidden: {why}", qualified(group, resource)),
        };
        Status::generic(403, "Forbidden", message).about(group, resource, name)
    }

    pub fn not_found(group: &str, resource: &str, name: &str) -> Status {
        let message = format!("{} \"{name}\" not found", qualified(group, resource));
        Status::new(404, "NotFound", message).about(group, resource, name)
    }

    /// An unknown path.
    pub fn unknown_path() -> Status {
        Status::generic(404, "NotFound", "the server could not find the requested resource")
    }

    pub fn method_not_supported(group: &str, resource: &str, action: &str) -> Status {
        let message =
            format!("{action} is not supported on resources of kind \"{}\"", qualified(group, resource));
        Status::new(405, "MethodNotAllowed", message).about(group, resource, "")
    }

    /// An HTTP method that a path does not support.
    pub fn method_not_allowed() -> Status {
        Status::generic(
            405,
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
        )
    }

    pub fn not_acceptable(accepted: &[&str]) -> Status {
        let message = format!("only the following media types are accepted: {}", accepted.join(", "));
        Status::new(406, "NotAcceptable", message)
    }

    /// A requested view that the resource does not have.
    pub fn unfit_view(message: impl Into<String>) -> Status {
        Status::new(406, "NotAcceptable", message)
    }

    /// The client accepts none of the served media types.
    pub fn no_representation(served: &[&str]) -> Status {
        let message = format!("406: Not Acceptable\n\nAvailable representations: {}", served.join(", "));
        Status::generic(406, "NotAcceptable", message)
    }

    /// An unknown patch format.
    pub fn unsupported_patch() -> Status {
        Status::generic(415, "UnsupportedMediaType", "415: Unsupported Media Type")
    }

    pub fn unsupported_media_type(accepted: &[&str]) -> Status {
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {}",
            accepted.join(", ")
        );
        Status::new(415, "UnsupportedMediaType", message)
    }

    pub fn already_exists(group: &str, resource: &str, name: &str) -> Status {
        let message = format!("{} \"{name}\" already exists", qualified(group, resource));
        Status::new(409, "AlreadyExists", message).about(group, resource, name)
    }

    pub fn generated_name_taken(group: &str, resource: &str, name: &str) -> Status {
        let message = format!(
            "{} \"{name}\" already exists, the server was not able to generate a unique name for the object",
            qualified(group, resource)
        );
        let mut status = Status::new(409, "AlreadyExists", message).about(group, resource, name);
        status.details.retry_after_seconds = 1;
        status
    }

    pub fn conflict(group: &str, resource: &str, name: &str, why: impl fmt::Display) -> Status {
        let message =
            format!("Operation cannot be fulfilled on {} \"{name}\": {why}", qualified(group, resource));
        Status::new(409, "Conflict", message).about(group, resource, name)
    }

    /// A conflict of optimistic locking.
    pub fn stale(group: &str, resource: &str, name: &str) -> Status {
        Status::conflict(
            group,
            resource,
            name,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    pub fn apply_conflict(message: String, causes: Vec<Cause>) -> Status {
        let mut status = Status::new(409, "Conflict", message);
        status.details.causes = causes;
        status
    }

    pub fn gone(message: impl Into<String>) -> Status {
        Status::new(410, "Gone", message)
    }

    /// The requested revision is compacted.
    pub fn expired(message: impl Into<String>) -> Status {
        Status::new(410, "Expired", message)
    }

    pub fn too_large(message: impl fmt::Display) -> Status {
        Status::new(413, "RequestEntityTooLarge", format!("Request entity too large: {message}"))
    }

    pub fn invalid(group: &str, kind: &str, name: &str, errors: &ErrorList) -> Status {
        let subject = qualified(group, kind);
        let message = match errors.summary() {
            summary if summary.is_empty() => format!("{subject} \"{name}\" is invalid"),
            summary => format!("{subject} \"{name}\" is invalid: {summary}"),
        };
        let mut status = Status::new(422, "Invalid", message).about(group, kind, name);
        status.details.causes = errors.causes();
        status
    }

    /// A well-formed request that cannot be processed; upstream does not say why.
    pub fn unprocessable() -> Status {
        let message = "the server rejected our request due to an error in our request";
        Status::generic(422, "Invalid", message)
    }

    /// An error without a status of its own.
    pub fn unclassified(message: impl Into<String>) -> Status {
        Status::new(500, "", message)
    }

    pub fn too_many_requests(message: impl Into<String>, retry_after_seconds: u32) -> Status {
        let mut status = Status::new(429, "TooManyRequests", message);
        status.details.retry_after_seconds = retry_after_seconds;
        status
    }

    pub fn internal(why: impl fmt::Display) -> Status {
        let why = why.to_string();
        let mut status = Status::new(500, "InternalError", format!("Internal error occurred: {why}"));
        status.details.causes = vec![Cause { message: why, ..Cause::default() }];
        status
    }

    /// An error that upstream returns without a reason of its own.
    pub fn unexplained(message: impl Into<String>) -> Status {
        Status::new(500, "", message)
    }

    pub fn unavailable(message: impl Into<String>) -> Status {
        Status::new(503, "ServiceUnavailable", message)
    }

    pub fn timeout(message: impl fmt::Display, retry_after_seconds: u32) -> Status {
        let mut status = Status::new(504, "Timeout", format!("Timeout: {message}"));
        status.details.retry_after_seconds = retry_after_seconds;
        status
    }

    /// A resourceVersion newer than the current one; clients recognise the cause.
    pub fn too_large_resource_version(requested: u64, current: u64) -> Status {
        let mut status =
            Status::timeout(format!("Too large resource version: {requested}, current: {current}"), 1);
        status.details.causes = vec![Cause {
            reason: "ResourceVersionTooLarge".into(),
            message: "Too large resource version".into(),
            field: String::new(),
        }];
        status
    }

    /// Decodes the error response of another server.
    pub fn from_value(value: &Value) -> Status {
        let text = |path: &[&str]| value.str_at(path).unwrap_or_default().to_owned();
        let reason = value.str_at(&["reason"]).unwrap_or_default();
        let known = REASONS.iter().find(|known| **known == reason);
        let reason = known.map_or_else(|| Cow::Owned(reason.to_owned()), |known| Cow::Borrowed(*known));
        let code = value.int_at(&["code"]).and_then(|code| u16::try_from(code).ok()).unwrap_or(500);
        let mut status = Status::new(code, "", text(&["message"]));
        status.reason = reason;
        let seconds = value.int_at(&["details", "retryAfterSeconds"]).unwrap_or(0);
        status.details = Details {
            group: text(&["details", "group"]),
            kind: text(&["details", "kind"]),
            name: text(&["details", "name"]),
            uid: text(&["details", "uid"]),
            causes: value.items_at(&["details", "causes"]).iter().map(Cause::from_value).collect(),
            retry_after_seconds: u32::try_from(seconds).unwrap_or(0),
        };
        status
    }

    /// The `Status` object.
    pub fn to_value(&self) -> Value {
        let mut map = Map::new();
        map.insert("apiVersion", "v1");
        map.insert("kind", "Status");
        let mut metadata = Map::new();
        if !self.continue_token.is_empty() {
            metadata.insert("continue", self.continue_token.as_str());
        }
        map.insert("metadata", metadata);
        map.insert("status", "Failure");
        map.insert("message", self.message.as_str());
        if !self.reason.is_empty() {
            map.insert("reason", &*self.reason);
        }
        let generic = self.is_generic.then(Value::object);
        if let Some(details) = self.details.to_value().or(generic) {
            map.insert("details", details);
        }
        map.insert("code", i64::from(self.code));
        Value::Object(map)
    }
}

impl Details {
    fn to_value(&self) -> Option<Value> {
        if *self == Details::default() {
            return None;
        }
        let mut map = Map::new();
        let mut text = |key: &'static str, value: &str| {
            if !value.is_empty() {
                map.insert(key, value);
            }
        };
        text("name", &self.name);
        text("group", &self.group);
        text("kind", &self.kind);
        text("uid", &self.uid);
        if !self.causes.is_empty() {
            map.insert("causes", self.causes.iter().map(Cause::to_value).collect::<Vec<_>>());
        }
        if self.retry_after_seconds > 0 {
            map.insert("retryAfterSeconds", i64::from(self.retry_after_seconds));
        }
        Some(Value::Object(map))
    }
}

impl Cause {
    fn from_value(value: &Value) -> Cause {
        let text = |key: &str| value.str_at(&[key]).unwrap_or_default().to_owned();
        Cause { reason: text("reason"), message: text("message"), field: text("field") }
    }

    fn to_value(&self) -> Value {
        let members = [("reason", &self.reason), ("message", &self.message), ("field", &self.field)];
        Value::Object(
            members
                .into_iter()
                .filter(|(_, text)| !text.is_empty())
                .map(|(key, text)| (Str::new_static(key), Value::from(text.as_str())))
                .collect(),
        )
    }
}

/// A success, as deletes and some subresources return it.
pub fn success(details: Option<Details>) -> Value {
    let mut map = Map::new();
    map.insert("apiVersion", "v1");
    map.insert("kind", "Status");
    map.insert("metadata", Map::new());
    map.insert("status", "Success");
    if let Some(details) = details.and_then(|d| d.to_value()) {
        map.insert("details", details);
    }
    Value::Object(map)
}

/// The success of a subresource that created an object.
pub fn created() -> Value {
    let mut status = success(None);
    status.set(&["code"], 201);
    status
}

/// One error of one field.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldError {
    pub kind: FieldErrorKind,
    pub field: String,
    /// The invalid value as upstream prints it, where it prints one.
    pub bad_value: Option<String>,
    pub detail: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldErrorKind {
    NotFound,
    Required,
    Duplicate,
    Invalid,
    NotSupported,
    Forbidden,
    TooLong,
    TooShort,
    TooMany,
    TooFew,
    Internal,
    TypeInvalid,
}

impl FieldErrorKind {
    fn words(self) -> (&'static str, &'static str) {
        match self {
            FieldErrorKind::NotFound => ("FieldValueNotFound", "Not found"),
            FieldErrorKind::Required => ("FieldValueRequired", "Required value"),
            FieldErrorKind::Duplicate => ("FieldValueDuplicate", "Duplicate value"),
            FieldErrorKind::Invalid => ("FieldValueInvalid", "Invalid value"),
            FieldErrorKind::NotSupported => ("FieldValueNotSupported", "Unsupported value"),
            FieldErrorKind::Forbidden => ("FieldValueForbidden", "Forbidden"),
            FieldErrorKind::TooLong => ("FieldValueTooLong", "Too long"),
            FieldErrorKind::TooShort => ("FieldValueTooShort", "Too short"),
            FieldErrorKind::TooMany => ("FieldValueTooMany", "Too many"),
            FieldErrorKind::TooFew => ("FieldValueTooFew", "Too few"),
            FieldErrorKind::Internal => ("InternalError", "Internal error"),
            FieldErrorKind::TypeInvalid => ("FieldValueTypeInvalid", "Invalid value"),
        }
    }
}

impl FieldError {
    fn body(&self) -> String {
        let (_, words) = self.kind.words();
        let mut out = words.to_owned();
        if let Some(bad) = &self.bad_value {
            out.push_str(": ");
            out.push_str(bad);
        }
        if !self.detail.is_empty() {
            out.push_str(": ");
            out.push_str(&self.detail);
        }
        out
    }

    fn cause(&self) -> Cause {
        Cause { reason: self.kind.words().0.to_owned(), message: self.body(), field: self.field.clone() }
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.field.as_str() {
            "" => f.write_str(&self.body()),
            field => write!(f, "{field}: {}", self.body()),
        }
    }
}

/// Maximum size of the listed errors in bytes; the first error is always listed.
const MAX_ERROR_BYTES: usize = 256 * 1024;

/// The errors of an object, up to a size that a client can be expected to read: there may be as many errors
/// as fields, and each may show a value as large as the object.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ErrorList(pub Vec<FieldError>, usize);

impl ErrorList {
    pub fn new() -> ErrorList {
        ErrorList::default()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns true if no more errors are listed: then none is formatted either.
    pub fn is_full(&self) -> bool {
        self.1 > MAX_ERROR_BYTES && !self.0.is_empty()
    }

    fn push(
        &mut self,
        kind: FieldErrorKind,
        field: impl Into<String>,
        bad_value: impl FnOnce() -> Option<String>,
        detail: impl Into<String>,
    ) {
        if !self.is_full() {
            self.add(FieldError { kind, field: field.into(), bad_value: bad_value(), detail: detail.into() });
        }
    }

    /// Adds a formatted error.
    pub fn add(&mut self, error: FieldError) {
        if !self.is_full() {
            self.1 +=
                error.field.len() + error.bad_value.as_ref().map_or(0, String::len) + error.detail.len();
            self.0.push(error);
        }
    }

    pub fn required(&mut self, field: impl Into<String>, detail: impl Into<String>) {
        self.push(FieldErrorKind::Required, field, || None, detail);
    }

    pub fn forbidden(&mut self, field: impl Into<String>, detail: impl Into<String>) {
        self.push(FieldErrorKind::Forbidden, field, || None, detail);
    }

    pub fn invalid(&mut self, field: impl Into<String>, bad: &Value, detail: impl Into<String>) {
        self.push(FieldErrorKind::Invalid, field, || Some(shown(bad)), detail);
    }

    pub fn duplicate(&mut self, field: impl Into<String>, bad: &Value) {
        self.push(FieldErrorKind::Duplicate, field, || Some(shown(bad)), "");
    }

    /// `Duplicate` for a value that upstream does not print as JSON.
    pub fn duplicate_shown(&mut self, field: impl Into<String>, shown: impl Into<String>) {
        self.push(FieldErrorKind::Duplicate, field, || Some(shown.into()), "");
    }

    pub fn not_found(&mut self, field: impl Into<String>, bad: &Value) {
        self.push(FieldErrorKind::NotFound, field, || Some(shown(bad)), "");
    }

    /// `Invalid` for a value that upstream does not print as JSON.
    pub fn invalid_shown(
        &mut self,
        field: impl Into<String>,
        shown: impl Into<String>,
        detail: impl Into<String>,
    ) {
        self.push(FieldErrorKind::Invalid, field, || Some(shown.into()), detail);
    }

    pub fn type_invalid(&mut self, field: impl Into<String>, bad: &Value, detail: impl Into<String>) {
        self.push(FieldErrorKind::TypeInvalid, field, || Some(shown(bad)), detail);
    }

    pub fn internal(&mut self, field: impl Into<String>, detail: impl Into<String>) {
        self.push(FieldErrorKind::Internal, field, || None, detail);
    }

    pub fn too_long(&mut self, field: impl Into<String>, max: usize) {
        let detail = format!("may not be more than {max} {}", plural(max, "byte"));
        self.push(FieldErrorKind::TooLong, field, || None, detail);
    }

    /// `TooLong` where length is counted in characters.
    pub fn too_long_characters(&mut self, field: impl Into<String>, max: usize) {
        let detail = format!("may not be more than {max} {}", plural(max, "character"));
        self.push(FieldErrorKind::TooLong, field, || None, detail);
    }

    pub fn too_short(&mut self, field: impl Into<String>, min: usize) {
        let detail = format!("must be at least {min} {}", plural(min, "character"));
        self.push(FieldErrorKind::TooShort, field, || None, detail);
    }

    pub fn too_many(&mut self, field: impl Into<String>, actual: usize, max: usize) {
        let detail = format!("must have at most {max} {}", plural(max, "item"));
        self.push(FieldErrorKind::TooMany, field, || Some(actual.to_string()), detail);
    }

    pub fn too_few(&mut self, field: impl Into<String>, actual: usize, min: usize) {
        let detail = format!("must have at least {min} {}", plural(min, "item"));
        self.push(FieldErrorKind::TooFew, field, || Some(actual.to_string()), detail);
    }

    pub fn not_supported(&mut self, field: impl Into<String>, bad: &Value, supported: &[&str]) {
        if !self.is_full() {
            self.not_supported_shown(field, shown(bad), supported);
        }
    }

    /// `NotSupported` for a value that upstream does not print as JSON.
    pub fn not_supported_shown(
        &mut self,
        field: impl Into<String>,
        shown: impl Into<String>,
        supported: &[&str],
    ) {
        let supported: Vec<String> = supported.iter().copied().map(quoted).collect();
        let detail = format!("supported values: {}", supported.join(", "));
        self.push(FieldErrorKind::NotSupported, field, || Some(shown.into()), detail);
    }

    /// Each error as a status lists it.
    pub fn causes(&self) -> Vec<Cause> {
        self.0.iter().map(FieldError::cause).collect()
    }

    /// Removes errors that repeat an earlier one.
    pub fn dedup(&mut self) {
        if self.0.len() > 1 {
            let mut seen = HashSet::new();
            self.0.retain(|error| seen.insert(error.to_string()));
        }
    }

    /// One line for all, each error once: bare when there is one, bracketed when there are more.
    pub fn summary(&self) -> String {
        let mut seen = HashSet::new();
        let mut lines: Vec<String> = self.0.iter().map(FieldError::to_string).collect();
        lines.retain(|line| seen.insert(line.clone()));
        match lines.len() {
            1 => lines.remove(0),
            0 => String::new(),
            _ => format!("[{}]", lines.join(", ")),
        }
    }
}

fn plural(count: usize, noun: &str) -> String {
    if count == 1 { noun.to_owned() } else { format!("{noun}s") }
}

/// Text as Go's `%q` quotes it.
pub fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{b}' => out.push_str("\\v"),
            '\u{c}' => out.push_str("\\f"),
            '\0'..' ' | '\u{7f}' => out.push_str(&format!("\\x{:02x}", c as u32)),
            '\u{80}'..='\u{a0}' => out.push_str(&format!("\\u{:04x}", c as u32)),
            c => out.push(c),
        }
    }
    out + "\""
}

/// A value as field errors show it.
pub fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => quoted(text),
        Value::Float(number) => crate::go::float(*number),
        other => crate::go::json(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_listed_errors_of_an_object_are_bounded() {
        let list = Value::Array(vec![Value::from("x".repeat(1000)); 100]);
        let mut errors = ErrorList::new();
        for i in 0..10_000 {
            errors.invalid(format!("spec.items[{i}]"), &list, "no");
        }
        assert_eq!(errors.0.len(), 3);
        assert!(errors.summary().len() < 2 * MAX_ERROR_BYTES);
        // A cleared error can be added again.
        errors.0.clear();
        errors.required("a", "");
        assert!(!errors.is_empty());
    }

    #[test]
    fn messages_are_upstreams() {
        assert_eq!(Status::not_found("apps", "deployments", "x").message, "deployments.apps \"x\" not found");
        assert_eq!(
            Status::stale("", "pods", "p").message,
            "Operation cannot be fulfilled on pods \"p\": the object has been modified; please apply your changes to the latest version and try again"
        );
        let mut errors = ErrorList::new();
        errors.required("metadata.name", "name or generateName is required");
        let status = Status::invalid("", "Pod", "", &errors);
        assert_eq!(
            status.message,
            "Pod \"\" is invalid: metadata.name: Required value: name or generateName is required"
        );
        errors.invalid("metadata.labels", &Value::from("a b"), "bad");
        assert!(
            Status::invalid("", "Pod", "", &errors)
                .message
                .contains("is invalid: [metadata.name: Required value")
        );
    }
}
