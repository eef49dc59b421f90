//! The three patch formats of clients: JSON patch (RFC 6902), JSON merge patch (RFC 7386) and Kubernetes' own
//! strategic merge patch.
//!
//! Each changes a tree in place. A failed patch leaves the tree half patched: it must be discarded.
//! Nothing here knows an object's rules; the caller conforms and validates the result. Errors convert
//! to the server's response (`to_status`) as upstream's do: not every mistake in a patch is
//! explained to the client.

pub mod json;
mod lists;
pub mod merge;
pub mod strategic;

pub use merge::merge;

use crate::json::write_to_string;
use crate::value::Value;

/// A value in Go's `%v` format.
pub fn shown(value: &Value) -> String {
    let mut out = String::new();
    show(value, &mut out);
    out
}

fn shown_list(items: &[Value]) -> String {
    let mut out = String::new();
    show_list(items, &mut out);
    out
}

fn show(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("<nil>"),
        Value::String(text) | Value::Raw(text) => out.push_str(text),
        Value::Array(items) => show_list(items, out),
        Value::Object(map) => {
            out.push_str("map[");
            for (i, (key, value)) in map.iter().enumerate() {
                out.push_str(if i > 0 { " " } else { "" });
                out.push_str(key);
                out.push(':');
                show(value, out);
            }
            out.push(']');
        }
        scalar => out.push_str(&write_to_string(scalar)),
    }
}

fn show_list(items: &[Value], out: &mut String) {
    out.push('[');
    for (i, item) in items.iter().enumerate() {
        out.push_str(if i > 0 { " " } else { "" });
        show(item, out);
    }
    out.push(']');
}

/// The Go type of a decoded value.
fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "%!s(<nil>)",
        Value::Bool(_) => "bool",
        Value::Int(_) => "int64",
        Value::Float(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) | Value::Raw(_) => "map[string]interface {}",
    }
}
