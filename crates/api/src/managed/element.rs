//! One step of a path into an object: a field, a list item identified by key or by value, or an index.
//!
//! Invariants: the order is upstream's (fields, then keys, then values, then indices), since field sets
//! are written in it; a key's members are sorted by name; numbers compare by value.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;

use crate::json;
use crate::value::{Str, Value};

#[derive(Debug, Clone)]
pub enum Element {
    /// A member of a struct or map.
    Field(Str),
    /// The item of a keyed list that has these values.
    Key(Box<[(Str, Value)]>),
    /// The item of a set.
    Value(Value),
    /// A position in a list. Never created here, but other writers may have.
    Index(i64),
}

impl Element {
    /// Parses the form of field sets: `f:name`, `k:{"name":"x"}`, `v:"x"`, `i:0`. `None` in the
    /// result is a kind of element that a later version may know.
    pub fn parse(text: &str) -> Result<Option<Element>, String> {
        let (kind, rest) = match text.as_bytes() {
            [kind, b':', ..] => (kind, &text[2..]),
            [_, _, ..] => return Err(format!("missing colon: {text}")),
            _ => return Err("key must be 2 characters long:".to_owned()),
        };
        Ok(Some(match kind {
            b'f' => Element::Field(Str::new(rest)),
            b'k' => match json::parse(rest.as_bytes()).map_err(|e| e.to_string())? {
                Value::Object(map) => Element::Key(map.into_iter().collect()),
                _ => return Err(format!("expected an object: {rest}")),
            },
            b'v' => Element::Value(json::parse(rest.as_bytes()).map_err(|e| e.to_string())?),
            b'i' => Element::Index(rest.parse().map_err(|_| format!("invalid index: {rest}"))?),
            _ => return Ok(None),
        }))
    }

    /// Appends the element as a quoted JSON string.
    pub(super) fn write(&self, out: &mut Vec<u8>, scratch: &mut Vec<u8>) {
        if let Element::Field(name) = self {
            return write_field(name, out, scratch);
        }
        scratch.clear();
        match self {
            Element::Field(_) => {}
            Element::Key(members) => {
                scratch.extend_from_slice(b"k:{");
                for (i, (name, value)) in members.iter().enumerate() {
                    if i > 0 {
                        scratch.push(b',');
                    }
                    json::write_string(scratch, name);
                    scratch.push(b':');
                    write_escaping_html(scratch, value);
                }
                scratch.push(b'}');
            }
            Element::Value(value) => {
                scratch.extend_from_slice(b"v:");
                write_escaping_html(scratch, value);
            }
            Element::Index(i) => scratch.extend_from_slice(format!("i:{i}").as_bytes()),
        }
        json::write_string(out, &String::from_utf8_lossy(scratch));
    }

    fn rank(&self) -> u8 {
        match self {
            Element::Field(_) => 0,
            Element::Key(_) => 1,
            Element::Value(_) => 2,
            Element::Index(_) => 3,
        }
    }
}

/// Appends a field as a quoted JSON string.
pub(super) fn write_field(name: &str, out: &mut Vec<u8>, scratch: &mut Vec<u8>) {
    out.reserve(name.len() + 4);
    out.extend_from_slice(b"\"f:");
    if json::is_escaped(name) {
        scratch.clear();
        json::write_string(scratch, name);
        out.extend_from_slice(&scratch[1..]);
    } else {
        out.extend_from_slice(name.as_bytes());
        out.push(b'"');
    }
}

/// As Go's encoder writes a value: `<`, `>` and `&` inside text are escaped.
fn write_escaping_html(out: &mut Vec<u8>, value: &Value) {
    let start = out.len();
    json::write(out, value);
    // All but three of the escaped characters begin with this byte.
    if out[start..].iter().any(|b| matches!(b, b'<' | b'>' | b'&' | 0xe2)) {
        let escaped = escape_html(&String::from_utf8_lossy(&out[start..])).into_owned();
        out.truncate(start);
        out.extend_from_slice(escaped.as_bytes());
    }
}

/// Escapes the characters that Go escapes in JSON beyond those that JSON requires.
pub(super) fn escape_html(text: &str) -> Cow<'_, str> {
    if !text.contains(['<', '>', '&', '\u{2028}', '\u{2029}']) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => out.push_str(&format!("\\u{:04x}", c as u32)),
            c => out.push(c),
        }
    }
    Cow::Owned(out)
}

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Element::Field(name) => write!(f, ".{name}"),
            Element::Key(members) => {
                f.write_str("[")?;
                for (i, (name, value)) in members.iter().enumerate() {
                    let comma = if i > 0 { "," } else { "" };
                    write!(f, "{comma}{name}={}", shown(value))?;
                }
                f.write_str("]")
            }
            Element::Value(value) => write!(f, "[={}]", shown(value)),
            Element::Index(i) => write!(f, "[{i}]"),
        }
    }
}

/// A value in a path. The members of a map have no separator, as upstream prints them.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => format!("{text:?}"),
        Value::Array(items) => format!("[{}]", items.iter().map(shown).collect::<Vec<_>>().join(",")),
        Value::Object(map) => map.iter().map(|(key, value)| format!("{key}={}", shown(value))).collect(),
        other => json::write_to_string(other),
    }
}

impl PartialEq for Element {
    fn eq(&self, other: &Element) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Element {}

impl PartialOrd for Element {
    fn partial_cmp(&self, other: &Element) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Element {
    fn cmp(&self, other: &Element) -> Ordering {
        match (self, other) {
            (Element::Field(a), Element::Field(b)) => a.as_str().cmp(b.as_str()),
            (Element::Key(a), Element::Key(b)) => {
                let each = a.iter().zip(b.iter()).map(|((name_a, value_a), (name_b, value_b))| {
                    name_a.as_str().cmp(name_b.as_str()).then_with(|| order(value_a, value_b))
                });
                each.fold(Ordering::Equal, Ordering::then).then(a.len().cmp(&b.len()))
            }
            (Element::Value(a), Element::Value(b)) => order(a, b),
            (Element::Index(a), Element::Index(b)) => a.cmp(b),
            (a, b) => a.rank().cmp(&b.rank()),
        }
    }
}

/// Upstream's order of values: numbers, text, booleans, lists, objects, null.
pub(super) fn order(a: &Value, b: &Value) -> Ordering {
    match (a, b) {
        (Value::Int(a), Value::Int(b)) => a.cmp(b),
        (Value::Int(_) | Value::Float(_), Value::Int(_) | Value::Float(_)) => {
            number(a).partial_cmp(&number(b)).unwrap_or(Ordering::Equal)
        }
        (Value::String(a), Value::String(b)) => a.as_str().cmp(b.as_str()),
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::Array(a), Value::Array(b)) => {
            let each = a.iter().zip(b).map(|(a, b)| order(a, b));
            each.fold(Ordering::Equal, Ordering::then).then(a.len().cmp(&b.len()))
        }
        (Value::Object(a), Value::Object(b)) => {
            let each = a.iter().zip(b.iter());
            each.map(|((ka, va), (kb, vb))| ka.as_str().cmp(kb.as_str()).then_with(|| order(va, vb)))
                .fold(Ordering::Equal, Ordering::then)
                .then(a.len().cmp(&b.len()))
        }
        (Value::Raw(a), Value::Raw(b)) => a.as_str().cmp(b.as_str()),
        (a, b) => value_rank(a).cmp(&value_rank(b)),
    }
}

fn number(value: &Value) -> f64 {
    match value {
        Value::Int(i) => *i as f64,
        Value::Float(f) => *f,
        _ => 0.0,
    }
}

fn value_rank(value: &Value) -> u8 {
    match value {
        Value::Int(_) | Value::Float(_) => 0,
        Value::String(_) => 1,
        Value::Bool(_) => 2,
        Value::Array(_) => 3,
        Value::Object(_) => 4,
        Value::Raw(_) => 5,
        Value::Null => 6,
    }
}
