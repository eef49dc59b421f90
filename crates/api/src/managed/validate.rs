//! Checks of client input: applied configurations against their type, manager names, and lists of
//! owners.
//!
//! Invariants: errors are upstream's, including Go's formatting of the value.

use super::apply::failed;
use super::element::Element;
use super::entries;
use super::shape::{Items, Shape};
use crate::go;
use crate::json;
use crate::patch::shown;
use crate::schema::{Kind, Struct};
use crate::status::{ErrorList, Status};
use crate::value::{Str, Value};

const MAX_MANAGER_BYTES: usize = 128;
const MAX_SUBRESOURCE_BYTES: usize = 256;

/// The manager of a request that names none: the part of its user agent before the first slash.
pub fn manager_from_user_agent(user_agent: &str) -> Str {
    let name = user_agent.split('/').next().unwrap_or_default();
    let mut out = String::new();
    for c in name.chars().filter(|c| is_print(*c)) {
        if out.len() + c.len_utf8() > MAX_MANAGER_BYTES {
            break;
        }
        out.push(c);
    }
    out.into()
}

/// Go's `unicode.IsPrint`.
fn is_print(c: char) -> bool {
    if c.is_ascii() {
        return !c.is_ascii_control();
    }
    // Only at the start of a text are combining characters escaped.
    let text: String = ['a', c].iter().collect();
    text.escape_debug().count() == 2
}

/// Checks the `fieldManager` option.
pub fn validate_manager(manager: &str, field: &str, errors: &mut ErrorList) {
    if manager.len() > MAX_MANAGER_BYTES {
        errors.too_long(field, MAX_MANAGER_BYTES);
    }
    let bad = Value::from(manager);
    for (at, c) in manager.char_indices().filter(|(_, c)| !is_print(*c)) {
        let shown = format!("U+{:04X}", c as u32);
        errors.invalid(field, &bad, format!("invalid character {shown} (at position {at})"));
    }
}

/// Checks an object's `metadata.managedFields` as part of validating its metadata.
pub fn validate_managed_fields(managed_fields: &Value, field: &str, errors: &mut ErrorList) {
    for (i, entry) in managed_fields.as_array().unwrap_or_default().iter().enumerate() {
        let text = |key: &str| entry.str_at(&[key]).unwrap_or_default();
        let path = |key: &str| format!("{field}[{i}].{key}");
        match text("operation") {
            "" => errors.required(path("operation"), "must not be empty"),
            "Apply" | "Update" => {}
            other => errors.not_supported(path("operation"), &Value::from(other), &["Apply", "Update"]),
        }
        match text("fieldsType") {
            "" | "FieldsV1" => {}
            other => errors.invalid(path("fieldsType"), &Value::from(other), "must be `FieldsV1`"),
        }
        validate_manager(text("manager"), &path("manager"), errors);
        if text("subresource").len() > MAX_SUBRESOURCE_BYTES {
            errors.too_long(path("subresource"), MAX_SUBRESOURCE_BYTES);
        }
    }
}

/// Checks that a list of owners can be decoded; lists changed by admission plugins must pass.
pub fn check_managed_fields(managed_fields: &Value) -> Result<(), String> {
    entries::decode(managed_fields, None).map(drop)
}

/// Checks an applied configuration, as the client sent it, against its type. Here an undeclared field is
/// an error, never dropped.
pub fn validate_applied(schema: &Struct, applied: &Value) -> Result<(), Status> {
    let checked = check_type(schema, applied, Duplicates::Refused);
    checked.map_err(|why| cannot_type("patch", applied, &why))
}

/// Checks the live object of an apply against its type.
pub(super) fn validate_live(schema: &Struct, live: &Value) -> Result<(), Status> {
    let checked = check_type(schema, live, Duplicates::Allowed);
    checked.map_err(|why| cannot_type("live", live, &why))
}

/// The treatment of several items of one key in a list.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Duplicates {
    Allowed,
    Refused,
}

/// Checks an object against its type; the error is upstream's.
pub(super) fn check_type(schema: &Struct, object: &Value, duplicates: Duplicates) -> Result<(), String> {
    let mut walk = Walk { path: Vec::new(), errors: Vec::new(), said: 0, duplicates };
    walk.place(object, Shape::Struct(schema));
    match walk.errors.as_slice() {
        [] => Ok(()),
        [only] => Err(only.clone()),
        many => Err(format!("errors:\n  {}", many.join("\n  "))),
    }
}

fn cannot_type(which: &str, object: &Value, why: &str) -> Status {
    let text = |key| object.str_at(&["metadata", key]).unwrap_or_default();
    let (namespace, name, kind) = (text("namespace"), text("name"), group_version_kind(object));
    failed(&format!("failed to create typed {which} object ({namespace}/{name}; {kind})"), why)
}

/// The type of an object, as Go prints it: `apps/v1, Kind=Deployment`, `/v1, Kind=Pod`.
pub(super) fn group_version_kind(object: &Value) -> String {
    let text = |key| object.str_at(&[key]).unwrap_or_default();
    let slash = if text("apiVersion").contains('/') { "" } else { "/" };
    format!("{slash}{}, Kind={}", text("apiVersion"), text("kind"))
}

struct Walk {
    path: Vec<Element>,
    errors: Vec<String>,
    /// The length of all errors together.
    said: usize,
    duplicates: Duplicates,
}

impl Walk {
    fn complain(&mut self, why: &str) {
        // An object may have as many errors as places, each at any depth.
        if self.said > json::MAX_FINDINGS_BYTES {
            return;
        }
        let path: String = self.path.iter().map(Element::to_string).collect();
        let error = if path.is_empty() { why.to_owned() } else { format!("{path}: {why}") };
        self.said += error.len();
        self.errors.push(error);
    }

    fn place(&mut self, value: &Value, shape: Shape<'_>) {
        if value.is_null() {
            return;
        }
        match shape {
            Shape::Deduced => {}
            Shape::Struct(schema) => self.object(value, shape, Some(schema)),
            Shape::Map(_) => self.object(value, shape, None),
            Shape::List(items) => self.list(value, Some(items), items.item),
            Shape::Leaf(kind) => self.leaf(value, kind),
        }
    }

    /// Atomic containers are checked as well: they are one value, but not any value.
    fn leaf(&mut self, value: &Value, kind: &Kind) {
        let fits = match kind {
            Kind::Struct(schema) => return self.object(value, Shape::Struct(schema), Some(schema)),
            Kind::Map(item, _) => return self.object(value, Shape::Map(item), None),
            Kind::List(item, _) => return self.list(value, None, item),
            Kind::Raw | Kind::Any(_) | Kind::FieldsV1 => true,
            Kind::Int32 | Kind::Int64 | Kind::Double => matches!(value, Value::Int(_) | Value::Float(_)),
            Kind::String | Kind::Bytes => matches!(value, Value::String(_)),
            Kind::Bool => matches!(value, Value::Bool(_)),
            Kind::Quantity | Kind::IntOrString | Kind::Time | Kind::MicroTime | Kind::Duration => {
                !matches!(value, Value::Array(_) | Value::Object(_))
            }
        };
        if fits {
            return;
        }
        let why = match kind {
            Kind::Int32 | Kind::Int64 | Kind::Double => {
                format!("expected numeric (int or float), got {}", go::type_name(value))
            }
            Kind::String | Kind::Bytes => {
                format!("expected string, got &value.valueUnstructured{{Value:{}}}", go_syntax(value))
            }
            Kind::Bool => format!("expected boolean, got &{{{}}}", shown(value)),
            _ => format!("expected any scalar, got &{{{}}}", shown(value)),
        };
        self.complain(&why);
    }

    fn object(&mut self, value: &Value, shape: Shape<'_>, schema: Option<&Struct>) {
        let Value::Object(map) = value else {
            return self.complain(&format!("expected map, got &{{{}}}", shown(value)));
        };
        for (key, value) in map.iter() {
            self.path.push(Element::Field(key.clone()));
            let undeclared = schema.is_some_and(|schema| {
                !schema.fields.is_empty() && !schema.preserves_unknown_fields && schema.field(key).is_none()
            });
            if undeclared {
                self.complain("field not declared in schema");
            } else {
                self.place(value, shape.member(key).0);
            }
            self.path.pop();
            if undeclared {
                return;
            }
        }
    }

    fn list(&mut self, value: &Value, items: Option<Items<'_>>, item: &Kind) {
        let Value::Array(list) = value else {
            return self.complain(&format!("expected list, got &{{{}}}", shown(value)));
        };
        let mut seen = std::collections::BTreeSet::new();
        for (i, value) in list.iter().enumerate() {
            let element = match items.map(|items| items.element(value)) {
                None => Element::Index(i64::try_from(i).unwrap_or_default()),
                Some(Ok(element)) => element,
                Some(Err(why)) => return self.complain(&format!("element {i}: {why}")),
            };
            if self.duplicates == Duplicates::Refused && !seen.insert(element.clone()) {
                self.complain(&format!("duplicate entries for key {element}"));
            }
            self.path.push(element);
            self.place(value, Shape::of(item));
            self.path.pop();
        }
    }
}

/// Go's `%#v` of a decoded value.
fn go_syntax(value: &Value) -> String {
    let mut out = String::new();
    write_go_syntax(value, &mut out);
    out
}

fn write_go_syntax(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("interface {}(nil)"),
        Value::String(text) => out.push_str(&format!("{text:?}")),
        Value::Array(items) => {
            out.push_str("[]interface {}{");
            for (i, item) in items.iter().enumerate() {
                out.push_str(if i > 0 { ", " } else { "" });
                write_go_syntax(item, out);
            }
            out.push('}');
        }
        Value::Object(map) => {
            out.push_str("map[string]interface {}{");
            for (i, (key, value)) in map.iter().enumerate() {
                out.push_str(if i > 0 { ", " } else { "" });
                out.push_str(&format!("{key:?}:"));
                write_go_syntax(value, out);
            }
            out.push('}');
        }
        other => out.push_str(&json::write_to_string(other)),
    }
}
