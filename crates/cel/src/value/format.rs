//! The text of values in error messages and of numbers in conversions, as Go formats them.

use std::fmt::{self, Write as _};

use super::{List, Map, Value};

/// The text of a value in error messages, such as the key in `no such key: x`. It ends after `MAX_TEXT` bytes: a value can
/// contain another many times, and that another one.
impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Shown { out: f, left: MAX_TEXT }.value(self)
    }
}

/// Maximum length of a text in bytes.
const MAX_TEXT: usize = 64 << 10;
/// Texts of aggregates stop after this many entries: they are only parts of messages.
const SHOWN: usize = 100;

/// A text that is written.
struct Shown<'f, 'g> {
    out: &'f mut fmt::Formatter<'g>,
    /// The bytes that may follow.
    left: usize,
}

impl fmt::Write for Shown<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let shown = &text[..text.floor_char_boundary(self.left)];
        // A character that is cut off ends the text, too.
        self.left = if shown.len() < text.len() { 0 } else { self.left - text.len() };
        self.out.write_str(shown)
    }
}

impl Shown<'_, '_> {
    fn value(&mut self, value: &Value<'_>) -> fmt::Result {
        match value {
            Value::Null => self.write_str("NULL_VALUE"),
            Value::Bool(b) => write!(self, "{b}"),
            Value::Int(i) => write!(self, "{i}"),
            Value::Uint(u) => write!(self, "{u}"),
            Value::Double(d) => self.write_str(&double(*d)),
            Value::String(text) => self.write_str(text),
            Value::Bytes(bytes) => {
                let numbers: Vec<String> = bytes.iter().take(SHOWN).map(u8::to_string).collect();
                write!(self, "[{}]", numbers.join(" "))
            }
            Value::Duration(nanos) => self.write_str(&super::time::go_duration(*nanos)),
            Value::Timestamp(time) => write!(self, "{{{time}}}"),
            Value::List(list) => self.items(list),
            Value::Map(map) => self.entries(map),
            Value::Type(ty) => write!(self, "{ty}"),
            Value::Optional(None) => self.write_str("optional.none()"),
            Value::Optional(Some(value)) => {
                self.write_str("optional(")?;
                self.value(value)?;
                self.write_str(")")
            }
            Value::Opaque(value) => write!(self, "{value:?}"),
            Value::Object(object) => write!(self, "{}{{}}", object.name),
            Value::Preserved(_) => self.write_str("unknown"),
        }
    }

    fn items(&mut self, list: &List<'_>) -> fmt::Result {
        self.write_str("[")?;
        for (i, item) in list.iter().take(SHOWN).enumerate() {
            if self.left == 0 {
                break;
            }
            self.write_str(if i > 0 { ", " } else { "" })?;
            match item {
                Ok(item) => self.value(&item)?,
                Err(error) => write!(self, "{error}")?,
            }
        }
        self.write_str("]")
    }

    fn entries(&mut self, map: &Map<'_>) -> fmt::Result {
        self.write_str("{")?;
        for (i, (key, value)) in map.iter().take(SHOWN).enumerate() {
            if self.left == 0 {
                break;
            }
            self.write_str(if i > 0 { ", " } else { "" })?;
            self.value(&key)?;
            self.write_str(": ")?;
            match value {
                Ok(value) => self.value(&value)?,
                Err(error) => write!(self, "{error}")?,
            }
        }
        self.write_str("}")
    }
}

/// A double as Go's `%g` prints it: the shortest digits, with an exponent below 1e-4 and from 1e6.
pub(crate) fn double(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "+Inf".to_owned() } else { "-Inf".to_owned() };
    }
    let scientific = format!("{value:e}");
    let Some((mantissa, exponent)) = scientific.split_once('e') else { return scientific };
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if (-4..6).contains(&exponent) {
        return format!("{value}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.abs())
}
