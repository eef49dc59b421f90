//! Values in the notation of Go's `fmt` and `encoding/json`, which upstream's messages use.

mod ordered;

pub use ordered::{Decoded, json_of, json_of_list, json_patched};

use crate::value::Value;

/// A float as `%v` prints it: the shortest digits, with an exponent below -4 and from 6 on.
pub fn float(number: f64) -> String {
    if number.is_nan() {
        return "NaN".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let shortest = format!("{number:e}");
    let (digits, exponent) = shortest.split_once('e').unwrap_or((&shortest, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..6).contains(&exponent) {
        return number.to_string();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

/// The conversion of a Go compiler for x86: a value out of range becomes the least integer.
pub fn integer(number: f64) -> i64 {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    if (-LIMIT..LIMIT).contains(&number) { number as i64 } else { i64::MIN }
}

/// JSON as `json.Marshal` writes it: characters of HTML are escaped.
pub fn json(value: &Value) -> String {
    let text = crate::json::write_to_string(value);
    if !text.contains(['<', '>', '&', '\u{2028}', '\u{2029}']) {
        return text;
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => out.push_str(&format!("\\u{:04x}", c as u32)),
            c => out.push(c),
        }
    }
    out
}

/// A value as `%v` prints it: `map[a:1 b:[x y]]`.
pub fn plain(value: &Value) -> String {
    let mut out = String::new();
    write_plain(value, &mut out);
    out
}

fn write_plain(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("<nil>"),
        Value::String(text) => out.push_str(text),
        Value::Float(number) => out.push_str(&float(*number)),
        Value::Array(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                out.push_str(if i > 0 { " " } else { "" });
                write_plain(item, out);
            }
            out.push(']');
        }
        Value::Object(map) => {
            out.push_str("map[");
            for (i, (key, item)) in map.iter().enumerate() {
                out.push_str(if i > 0 { " " } else { "" });
                out.push_str(key);
                out.push(':');
                write_plain(item, out);
            }
            out.push(']');
        }
        Value::Bool(_) | Value::Int(_) | Value::Raw(_) => {
            out.push_str(&crate::json::write_to_string(value));
        }
    }
}

/// The type of decoded JSON as `%T` prints it.
pub fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Int(_) => "int64",
        Value::Float(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) | Value::Raw(_) => "map[string]interface {}",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats() {
        for (number, expected) in [
            (1.5, "1.5"),
            (100000.0, "100000"),
            (1e6, "1e+06"),
            (123456789.0, "1.23456789e+08"),
            (1e21, "1e+21"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (-2.0, "-2"),
            (0.0, "0"),
        ] {
            assert_eq!(float(number), expected);
        }
    }

    #[test]
    fn trees() {
        let tree = crate::value!({"b": [1, "x", null, 1.5], "a": {"<": true}});
        assert_eq!(plain(&tree), "map[a:map[<:true] b:[1 x <nil> 1.5]]");
        assert_eq!(json(&tree), r#"{"a":{"\u003c":true},"b":[1,"x",null,1.5]}"#);
    }
}
