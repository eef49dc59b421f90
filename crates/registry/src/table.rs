//! Helpers for rows and columns.
//!
//! Every function accepts any tree and any path: a missing value, or one of a wrong type, reads as the zero
//! value.

use corten_api::{Str, Value, time};
use jiff::Timestamp;

use crate::rules::{Column, RowContext};
use corten_api::duration::human_since;

pub(crate) const NONE: &str = "<none>";
pub(crate) const UNKNOWN: &str = "<unknown>";
pub(crate) const UNSET: &str = "<unset>";

const OBJECT_META: &str = "meta/v1.ObjectMeta";

pub(crate) const NAME: Column = Column {
    name: "Name",
    kind: "string",
    format: "name",
    priority: 0,
    description: "Unique among objects of its kind in a namespace; given at creation and never changed.",
    field: Some((OBJECT_META, "name")),
};

pub(crate) const AGE: Column =
    text("Age", "How long ago the object was created.").of(OBJECT_META, "creationTimestamp");

pub(crate) const CONTAINERS: Column = text("Containers", "Names of each container in the template.").wide();
pub(crate) const IMAGES: Column =
    text("Images", "Images referenced by each container in the template.").wide();

pub(crate) const CREATED_AT: Column = Column {
    name: "Created At",
    kind: "date",
    format: "",
    priority: 0,
    description: "When the object was created, by the server's clock.",
    field: Some((OBJECT_META, "creationTimestamp")),
};

pub(crate) const DEFAULT_COLUMNS: &[Column] = &[NAME, CREATED_AT];

/// Creates the cells of a row from values.
macro_rules! cells {
    ($($cell:expr),* $(,)?) => { vec![$(corten_api::Value::from($cell)),*] };
}
pub(crate) use cells;

pub(crate) const fn text(name: &'static str, description: &'static str) -> Column {
    Column { name, kind: "string", format: "", priority: 0, description, field: None }
}

pub(crate) const fn integer(name: &'static str, description: &'static str) -> Column {
    Column { kind: "integer", ..text(name, description) }
}

pub(crate) const fn boolean(name: &'static str, description: &'static str) -> Column {
    Column { kind: "boolean", ..text(name, description) }
}

impl Column {
    /// The column of a field, which shares its description.
    pub(crate) const fn of(self, type_name: &'static str, field: &'static str) -> Column {
        Column { field: Some((type_name, field)), ..self }
    }

    /// The column shown only in wide output.
    pub(crate) const fn wide(self) -> Column {
        Column { priority: 1, ..self }
    }
}

pub(crate) fn default_row(object: &Value, _: &RowContext<'_>) -> Vec<Value> {
    vec![name(object), created_at(object)]
}

pub(crate) fn created_at(object: &Value) -> Value {
    Value::from(object.str_at(&["metadata", "creationTimestamp"]).unwrap_or("0001-01-01T00:00:00Z"))
}

pub(crate) fn name(object: &Value) -> Value {
    Value::from(object.str_at(&["metadata", "name"]).unwrap_or_default())
}

pub(crate) fn age(object: &Value, context: &RowContext<'_>) -> Value {
    Value::from(since(object, &["metadata", "creationTimestamp"], context))
}

/// The text at a path, or nothing.
pub(crate) fn str_at<'v>(object: &'v Value, path: &[&str]) -> &'v str {
    object.str_at(path).unwrap_or_default()
}

/// The text at a path, or `otherwise` if it is missing or empty.
pub(crate) fn str_or<'v>(object: &'v Value, path: &[&str], otherwise: &'v str) -> &'v str {
    object.str_at(path).filter(|text| !text.is_empty()).unwrap_or(otherwise)
}

/// The text at a path as a selectable field's value.
pub(crate) fn field(object: &Value, path: &[&str]) -> Str {
    object.at(path).and_then(Value::as_str).map(Str::from).unwrap_or_default()
}

/// The quantity at a path, `0` for none.
pub(crate) fn quantity(object: &Value, path: &[&str]) -> String {
    match object.at(path) {
        Some(Value::String(text)) => text.to_string(),
        Some(Value::Int(number)) => number.to_string(),
        _ => "0".to_owned(),
    }
}

pub(crate) fn int_at(object: &Value, path: &[&str]) -> i64 {
    object.int_at(path).unwrap_or(0)
}

/// The number of entries of the array or object at a path.
pub(crate) fn count(object: &Value, path: &[&str]) -> i64 {
    let entries = match object.at(path) {
        Some(Value::Array(items)) => items.len(),
        Some(Value::Object(map)) => map.len(),
        _ => 0,
    };
    i64::try_from(entries).unwrap_or(i64::MAX)
}

/// Returns true if there is a value other than null at a path.
pub(crate) fn present(object: &Value, path: &[&str]) -> bool {
    object.at(path).is_some_and(|v| !v.is_null())
}

pub(crate) fn time_at(object: &Value, path: &[&str]) -> Option<Timestamp> {
    time::parse(object.str_at(path)?).ok()
}

/// The time since the timestamp at a path, or `<unknown>`.
pub(crate) fn since(object: &Value, path: &[&str], context: &RowContext<'_>) -> String {
    time_at(object, path).map_or_else(|| UNKNOWN.to_owned(), |then| human_since(then, context.now))
}

/// The condition of a type, if there is one.
pub(crate) fn condition<'v>(object: &'v Value, kind: &str) -> Option<&'v Value> {
    object.items_at(&["status", "conditions"]).iter().find(|c| c.str_at(&["type"]) == Some(kind))
}

/// Returns true if there is a condition of a type whose status is `True`.
pub(crate) fn condition_true(object: &Value, kind: &str) -> bool {
    condition(object, kind).is_some_and(|c| c.str_at(&["status"]) == Some("True"))
}

/// Names and images of the containers at a path, each joined by commas.
pub(crate) fn containers(object: &Value, path: &[&str]) -> [Value; 2] {
    let items = object.items_at(path);
    let joined = |key: &str| {
        let texts: Vec<&str> = items.iter().map(|c| str_at(c, &[key])).collect();
        Value::from(texts.join(","))
    };
    [joined("name"), joined("image")]
}

/// The strings of an array, joined.
pub(crate) fn joined(object: &Value, path: &[&str], separator: &str) -> String {
    let texts: Vec<&str> = object.items_at(path).iter().filter_map(Value::as_str).collect();
    texts.join(separator)
}

/// The first items of a list, and the number of the others; `<unset>` if there are none.
pub(crate) fn first_few(items: &[&str], most: usize) -> String {
    if items.len() > most {
        return format!("{} + {} more...", items[..most].join(","), items.len() - most);
    }
    match items.join(",") {
        list if list.is_empty() => UNSET.to_owned(),
        list => list,
    }
}
