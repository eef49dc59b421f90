//! Text of selected values.

use corten_api::{Value, go};

use super::Found;

/// Appends values, separated by spaces.
pub(super) fn results(values: &[Found<'_>], out: &mut String) {
    for (i, value) in values.iter().enumerate() {
        if i > 0 {
            out.push(' ');
        }
        out.push_str(&text(value));
    }
}

pub(super) fn text(value: &Found<'_>) -> String {
    match value.0.as_ref() {
        Value::String(text) => text.to_string(),
        Value::Float(number) => go::float(*number),
        other => go::json(other),
    }
}
