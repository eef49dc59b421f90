//! Values as texts that keep their types: `5`, `5u`, `"a"`, `[1,2]`, `some(1)`, `ip(::1)`.

use corten_cel::Value;
use corten_cel::library::cidr::Prefix;
use corten_cel::library::ip::Ip;
use corten_cel::library::semver::Version;
use corten_cel::library::url::Url;
use corten_cel::value::Timestamp;

/// The text of a value.
pub(crate) fn show(value: &Value<'_>) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Int(value) => value.to_string(),
        Value::Uint(value) => format!("{value}u"),
        // All numbers that are none are the same.
        Value::Double(value) if value.is_nan() => "double(0x7ff8000000000001)".to_owned(),
        Value::Double(value) => format!("double(0x{:016x})", value.to_bits()),
        Value::String(text) => quoted(text),
        Value::Bytes(bytes) => {
            format!("bytes({})", bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
        }
        Value::Duration(nanos) => format!("duration({nanos})"),
        Value::Timestamp(time) => format!("timestamp({})", Timestamp { offset: 0, ..*time }),
        Value::List(list) => {
            let items: Vec<String> =
                list.iter().map(|item| item.map_or_else(|e| e.to_string(), |v| show(&v))).collect();
            format!("[{}]", items.join(","))
        }
        Value::Map(map) => {
            let entry = |(key, value): (Value<'_>, corten_cel::Result<Value<'_>>)| {
                format!(
                    "{}:{}",
                    show(&key),
                    value.map_or_else(|error| error.to_string(), |value| show(&value))
                )
            };
            let mut entries: Vec<String> = map.iter().map(entry).collect();
            entries.sort();
            format!("{{{}}}", entries.join(","))
        }
        Value::Type(ty) => format!("type({})", ty.name()),
        Value::Optional(None) => "none".to_owned(),
        Value::Optional(Some(value)) => format!("some({})", show(value)),
        Value::Object(object) => format!("{}{{..}}", object.name),
        Value::Opaque(_) => opaque(value),
        Value::Preserved(_) => "unknown".to_owned(),
    }
}

fn opaque(value: &Value<'_>) -> String {
    if let Some(ip) = value.as_opaque::<Ip>() {
        return format!("ip({})", ip.0);
    }
    if let Some(prefix) = value.as_opaque::<Prefix>() {
        return format!("cidr({prefix})");
    }
    if let Some(url) = value.as_opaque::<Url>() {
        return format!("url({url})");
    }
    if let Some(version) = value.as_opaque::<Version>() {
        return format!("semver({}.{}.{})", version.major, version.minor, version.patch);
    }
    format!("opaque({})", value.type_name())
}

/// A text as Go's JSON encoder writes it.
fn quoted(text: &str) -> String {
    let mut out = "\"".to_owned();
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\0'..' ' | '\u{2028}' | '\u{2029}' => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out + "\""
}
