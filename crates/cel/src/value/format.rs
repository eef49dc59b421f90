//! The text of values in error messages and of numbers in conversions, as Go formats them.

use std::fmt;

use super::{List, Map, Value};

/// The text of a value in error messages, such as the key in `no such key: x`.
impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Null => f.write_str("NULL_VALUE"),
            Value::Bool(b) => write!(f, "{b}"),
            Value::Int(i) => write!(f, "{i}"),
            Value::Uint(u) => write!(f, "{u}"),
            Value::Double(d) => f.write_str(&double(*d)),
            Value::String(text) => f.write_str(text),
            Value::Bytes(bytes) => {
                let numbers: Vec<String> = bytes.iter().take(SHOWN).map(u8::to_string).collect();
                write!(f, "[{}]", numbers.join(" "))
            }
            Value::Duration(nanos) => f.write_str(&super::time::go_duration(*nanos)),
            Value::Timestamp(time) => write!(f, "{{{time}}}"),
            Value::List(list) => items(f, list),
            Value::Map(map) => entries(f, map),
            Value::Type(ty) => write!(f, "{ty}"),
            Value::Optional(None) => f.write_str("optional.none()"),
            Value::Optional(Some(value)) => write!(f, "optional({value})"),
            Value::Opaque(value) => write!(f, "{value:?}"),
            Value::Object(object) => write!(f, "{}{{}}", object.name),
            Value::Preserved(_) => f.write_str("unknown"),
        }
    }
}

/// Texts of aggregates stop after this many entries: they are only parts of messages.
const SHOWN: usize = 100;

fn items(f: &mut fmt::Formatter<'_>, list: &List<'_>) -> fmt::Result {
    f.write_str("[")?;
    for (i, item) in list.iter().take(SHOWN).enumerate() {
        let separator = if i > 0 { ", " } else { "" };
        match item {
            Ok(item) => write!(f, "{separator}{item}")?,
            Err(error) => write!(f, "{separator}{error}")?,
        }
    }
    f.write_str("]")
}

fn entries(f: &mut fmt::Formatter<'_>, map: &Map<'_>) -> fmt::Result {
    f.write_str("{")?;
    for (i, (key, value)) in map.iter().take(SHOWN).enumerate() {
        let separator = if i > 0 { ", " } else { "" };
        match value {
            Ok(value) => write!(f, "{separator}{key}: {value}")?,
            Err(error) => write!(f, "{separator}{key}: {error}")?,
        }
    }
    f.write_str("}")
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
