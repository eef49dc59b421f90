//! The three patches clients send: JSON patch (RFC 6902), JSON merge patch (RFC 7386) and Kubernetes' own
//! strategic merge patch.
//!
//! Each changes a tree in place. One that fails leaves the tree half patched: it is to be thrown away.
//! Nothing here knows an object's rules; the result is conformed and validated by the caller. Errors tell
//! how the server answers them (`to_status`), which is upstream's way: not every mistake in a patch is
//! answered with what was wrong.

pub mod json;
mod lists;
pub mod merge;
pub mod strategic;

pub use merge::merge;

use crate::json::write_to_string;
use crate::value::Value;

/// A value as Go's `%v` prints it.
fn shown(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".into(),
        Value::String(text) | Value::Raw(text) => text.to_string(),
        Value::Array(items) => shown_list(items),
        Value::Object(map) => {
            let members: Vec<String> =
                map.iter().map(|(key, value)| format!("{key}:{}", shown(value))).collect();
            format!("map[{}]", members.join(" "))
        }
        scalar => write_to_string(scalar),
    }
}

fn shown_list(items: &[Value]) -> String {
    let items: Vec<String> = items.iter().map(shown).collect();
    format!("[{}]", items.join(" "))
}

/// The Go type a decoded value has.
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
