//! Values as messages show them where they differ from what was sent: a struct has all its members, in the
//! order of its fields.

use corten_api::{Value, json};

use crate::validation::fields::part;
use crate::validation::text::member;

/// How a value is shown.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Shape {
    /// As it is; this if there is none.
    Plain(&'static str),
    /// All members, under the names fields have.
    Struct(&'static [(&'static str, Shape)]),
    /// The same, or null.
    Pointer(&'static [(&'static str, Shape)]),
    /// Items that are structs, or null.
    List(&'static [(&'static str, Shape)]),
}

pub(crate) const TEXT: Shape = Shape::Plain("\"\"");
pub(crate) const NUMBER: Shape = Shape::Plain("0");
pub(crate) const FLAG: Shape = Shape::Plain("false");
pub(crate) const NULLABLE: Shape = Shape::Plain("null");

/// A value in a shape.
pub(crate) fn shaped(value: &Value, shape: Shape) -> String {
    match (value, shape) {
        (Value::Null, Shape::Plain(zero)) => zero.to_owned(),
        (_, Shape::Plain(_)) => json::write_to_string(value),
        (Value::Null, Shape::Pointer(_) | Shape::List(_)) => "null".to_owned(),
        (_, Shape::Struct(members) | Shape::Pointer(members)) => {
            let shown = |(key, shape): &(&str, Shape)| {
                format!("\"{}\":{}", field_name(key), shaped(part(value, key), *shape))
            };
            format!("{{{}}}", members.iter().map(shown).collect::<Vec<_>>().join(","))
        }
        (_, Shape::List(members)) => {
            let items = value.as_array().unwrap_or_default().iter();
            let shown: Vec<String> = items.map(|item| shaped(item, Shape::Struct(members))).collect();
            format!("[{}]", shown.join(","))
        }
    }
}

/// A member's name as a field.
fn field_name(key: &str) -> String {
    match key.strip_prefix("api") {
        Some(rest) => format!("API{rest}"),
        None => {
            let mut chars = key.chars();
            chars.next().into_iter().flat_map(char::to_uppercase).chain(chars).collect()
        }
    }
}

/// A label selector: labels first, and nothing that is empty.
pub(crate) fn selector(selector: &Value) -> String {
    if selector.is_null() {
        return "null".to_owned();
    }
    let shown = |key: &str| {
        let part = member(selector, key).map(json::write_to_string);
        part.filter(|text| text != "{}" && text != "[]").map(|text| format!("\"{key}\":{text}"))
    };
    let parts: Vec<String> = ["matchLabels", "matchExpressions"].into_iter().filter_map(shown).collect();
    format!("{{{}}}", parts.join(","))
}
