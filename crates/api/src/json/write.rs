//! `Value` to compact JSON text.

use super::scan::plain_run;
use crate::value::Value;

/// Appends the JSON of a value.
pub fn write(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Int(int) => out.extend_from_slice(itoa::Buffer::new().format(*int).as_bytes()),
        Value::Float(float) => write_float(out, *float),
        Value::String(text) => write_string(out, text),
        Value::Raw(text) => out.extend_from_slice(text.as_bytes()),
        Value::Array(items) => {
            out.push(b'[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                write(out, item);
            }
            out.push(b']');
        }
        Value::Object(map) => {
            out.push(b'{');
            for (i, (key, item)) in map.iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                write_string(out, key);
                out.push(b':');
                write(out, item);
            }
            out.push(b'}');
        }
    }
}

/// Appends indented JSON, as Go's `MarshalIndent` with two spaces lays it out.
pub fn write_pretty(out: &mut Vec<u8>, value: &Value) {
    pretty(out, value, 0);
}

fn pretty(out: &mut Vec<u8>, value: &Value, depth: usize) {
    match value {
        Value::Array(items) if !items.is_empty() => {
            out.push(b'[');
            for (i, item) in items.iter().enumerate() {
                line(out, i > 0, depth + 1);
                pretty(out, item, depth + 1);
            }
            line(out, false, depth);
            out.push(b']');
        }
        Value::Object(map) if !map.is_empty() => {
            out.push(b'{');
            for (i, (key, item)) in map.iter().enumerate() {
                line(out, i > 0, depth + 1);
                write_string(out, key);
                out.extend_from_slice(b": ");
                pretty(out, item, depth + 1);
            }
            line(out, false, depth);
            out.push(b'}');
        }
        Value::Raw(text) => match super::parse(text.as_bytes()) {
            Ok(tree) => pretty(out, &tree, depth),
            Err(_) => write(out, value),
        },
        _ => write(out, value),
    }
}

/// A new line, after a comma where one is needed.
fn line(out: &mut Vec<u8>, comma: bool, depth: usize) {
    out.extend_from_slice(if comma { b",\n" } else { b"\n" });
    out.resize(out.len() + depth * 2, b' ');
}

pub fn write_to_string(value: &Value) -> String {
    let mut out = Vec::with_capacity(512);
    write(&mut out, value);
    String::from_utf8(out).unwrap_or_default()
}

/// Returns true if a string contains characters that are escaped.
pub(crate) fn is_escaped(text: &str) -> bool {
    plain_run(text.as_bytes()) < text.len()
}

/// Appends a quoted JSON string.
pub fn write_string(out: &mut Vec<u8>, text: &str) {
    let mut rest = text.as_bytes();
    out.reserve(rest.len() + 2);
    out.push(b'"');
    loop {
        let (plain, special) = rest.split_at(plain_run(rest));
        out.extend_from_slice(plain);
        let Some((byte, after)) = special.split_first() else { break };
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            8 => out.extend_from_slice(b"\\b"),
            12 => out.extend_from_slice(b"\\f"),
            byte => out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
        }
        rest = after;
    }
    out.push(b'"');
}

fn write_float(out: &mut Vec<u8>, float: f64) {
    if !float.is_finite() {
        out.extend_from_slice(b"null");
    } else if float == 0.0 || (1e-6..1e21).contains(&float.abs()) {
        out.extend_from_slice(float.to_string().as_bytes());
    } else {
        // Go writes the sign of every exponent.
        let text = format!("{float:e}");
        let sign = if float.abs() < 1.0 { "e" } else { "e+" };
        out.extend_from_slice(text.replace('e', sign).as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{json::parse, value};

    #[test]
    fn encoded_objects_decode_to_themselves() {
        let value = value!({"a": "q\"\\\n\u{1}é", "b": [1, true, null, 1.5], "c": {"d": {}}});
        let text = write_to_string(&value);
        assert_eq!(text, "{\"a\":\"q\\\"\\\\\\n\\u0001é\",\"b\":[1,true,null,1.5],\"c\":{\"d\":{}}}");
        assert_eq!(parse(text.as_bytes()).unwrap(), value);
    }

    #[test]
    fn floats_are_written_as_go_writes_them() {
        for (float, text) in [
            (1e20, "100000000000000000000"),
            (1e21, "1e+21"),
            (-1.5e300, "-1.5e+300"),
            (1e-6, "0.000001"),
            (1.25e-7, "1.25e-7"),
            (0.1, "0.1"),
            (-0.0, "-0"),
        ] {
            assert_eq!(write_to_string(&Value::Float(float)), text);
        }
    }
}
