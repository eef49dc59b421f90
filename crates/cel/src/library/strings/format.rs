//! `format`: clauses of a format string, and the text of each value.
//!
//! `interpolate` reads the clauses for evaluation and for the check of literals (`format_check`), so that both report
//! the same errors. Nested values are printed to a bounded depth.

use corten_api::status::quoted;

use super::super::arguments::{check_text, list, text};
use super::number;
use crate::error::{Error, Result};
use crate::value::{List, Map, Value};
use crate::work;

/// Lists and maps inside each other.
const MAX_DEPTH: usize = 500;
/// Decimals where a clause does not say.
const DEFAULT_PRECISION: usize = 6;

/// A clause after `%`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Clause {
    String,
    Decimal,
    Fixed(usize),
    Scientific(usize),
    Binary,
    Hex { upper: bool },
    Octal,
}

impl Clause {
    /// The error for an argument of a wrong type.
    pub(super) fn mismatch(self, type_name: &str) -> String {
        let rule = match self {
            Clause::String => {
                "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, \
                 durations, and timestamps"
            }
            Clause::Decimal => "decimal clause can only be used on integers",
            Clause::Fixed(_) => "fixed-point clause can only be used on doubles",
            Clause::Scientific(_) => "scientific clause can only be used on doubles",
            Clause::Binary => "only integers and bools can be formatted as binary",
            Clause::Hex { .. } => "only integers, byte buffers, and strings can be formatted as hex",
            Clause::Octal => "octal clause can only be used on integers",
        };
        format!("{rule}, was given {type_name}")
    }
}

/// Replaces the clauses of a format string by what `print` gives for the argument at an index. `request` is asked for
/// each argument before its clause is read. Returns the text and the number of clauses.
pub(super) fn interpolate<E: From<String>>(
    format: &str,
    arguments: usize,
    request: impl Fn(usize) -> Result<(), E>,
    mut print: impl FnMut(usize, Clause) -> Result<String, E>,
) -> Result<(String, usize), E> {
    let (mut out, mut rest, mut index) = (String::new(), format, 0);
    while let Some((literal, after)) = rest.split_once('%') {
        out.push_str(literal);
        if let Some(after) = after.strip_prefix('%') {
            out.push('%');
            rest = after;
            continue;
        }
        request(index)?;
        if after.is_empty() {
            return Err(E::from("unexpected end of string".to_owned()));
        }
        if index >= arguments {
            return Err(E::from(format!("index {index} out of range")));
        }
        let clause;
        (clause, rest) = parse_clause(after)
            .map_err(|error| E::from(format!("could not parse formatting clause: {error}")))?;
        out.push_str(&print(index, clause)?);
        index += 1;
    }
    out.push_str(rest);
    Ok((out, index))
}

/// The clause at the start of a text, and the rest.
fn parse_clause(text: &str) -> Result<(Clause, &str), String> {
    let (precision, rest) = match text.strip_prefix('.') {
        Some(text) => {
            parse_precision(text).map_err(|error| format!("error while parsing precision: {error}"))?
        }
        None => (DEFAULT_PRECISION, text),
    };
    let letter = rest.as_bytes().first().copied().unwrap_or_default();
    let clause = match letter {
        b's' => Clause::String,
        b'd' => Clause::Decimal,
        b'f' => Clause::Fixed(precision),
        b'e' => Clause::Scientific(precision),
        b'b' => Clause::Binary,
        b'x' | b'X' => Clause::Hex { upper: letter == b'X' },
        b'o' => Clause::Octal,
        // Upstream shows one byte, also of a longer character.
        other => return Err(format!("unrecognized formatting clause \"{}\"", char::from(other))),
    };
    Ok((clause, &rest[1..]))
}

fn parse_precision(text: &str) -> Result<(usize, &str), String> {
    let rest = text.trim_start_matches(|c: char| c.is_ascii_digit());
    if rest.is_empty() {
        return Err("could not find end of precision specifier".to_owned());
    }
    let digits = &text[..text.len() - rest.len()];
    let reason = if digits.is_empty() { "invalid syntax" } else { "value out of range" };
    let number: i64 = digits.parse().map_err(|_| {
        format!(
            "error while converting precision to integer: strconv.Atoi: parsing {}: {reason}",
            quoted(digits)
        )
    })?;
    Ok((usize::try_from(number).unwrap_or(usize::MAX), rest))
}

pub(super) fn format<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    let (template, values) = (text(arguments, 0)?, list(arguments, 1)?);
    let mut total = template.len();
    let (text, _) = interpolate(
        template,
        values.len(),
        |index| match index < values.len() {
            true => Ok(()),
            false => Err(Error::from(format!("index {index} out of range"))),
        },
        |index, clause| {
            let value = values.get(index).unwrap_or(Ok(Value::Null))?;
            let text = print(clause, &value)?;
            total = total.saturating_add(text.len());
            check_text(total)?;
            Ok(text)
        },
    )?;
    Ok(text.into())
}

/// The text of an argument.
fn print(clause: Clause, value: &Value<'_>) -> Result<String> {
    let printed = match clause {
        Clause::String => return string(value, MAX_DEPTH).map_err(during_formatting),
        Clause::Decimal => decimal(value),
        Clause::Fixed(precision) => double(value).map(|double| number::fixed(double, precision)),
        Clause::Scientific(precision) => double(value).map(|double| number::scientific(double, precision)),
        Clause::Binary => binary(value),
        Clause::Hex { upper } => hex(value).map(|text| if upper { text.to_ascii_uppercase() } else { text }),
        Clause::Octal => octal(value),
    };
    printed.ok_or_else(|| during_formatting(clause.mismatch(value.type_name()).into()))
}

fn during_formatting(error: Error) -> Error {
    match error {
        Error::Value(message) => format!("error during formatting: {message}").into(),
        Error::Cancelled => Error::Cancelled,
    }
}

fn string(value: &Value<'_>, depth: usize) -> Result<String> {
    work::spend(1)?;
    match value {
        Value::List(list) => items(list, depth),
        Value::Map(map) => entries(map, depth),
        Value::Null => Ok("null".to_owned()),
        Value::Duration(nanos) => Ok(seconds(*nanos)),
        Value::Timestamp(time) => Ok(time.to_string()),
        Value::Bytes(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => Ok(text.to_owned()),
            Err(_) => {
                let reason = "invalid UTF-8 in bytes, cannot convert to string";
                Err(format!("could not convert argument {} to string", quoted(reason)).into())
            }
        },
        Value::Type(ty) => Ok(ty.name().to_owned()),
        Value::Bool(_) | Value::Int(_) | Value::Uint(_) | Value::Double(_) | Value::String(_) => {
            Ok(value.to_string())
        }
        other => Err(Clause::String.mismatch(other.type_name()).into()),
    }
}

/// A duration in seconds.
fn seconds(nanos: i64) -> String {
    const NANOS: i64 = 1_000_000_000;
    format!("{}s", (nanos / NANOS) as f64 + (nanos % NANOS) as f64 / NANOS as f64)
}

fn items(list: &List<'_>, depth: usize) -> Result<String> {
    let mut out = "[".to_owned();
    for (i, item) in list.iter().enumerate() {
        if i > 0 {
            out.push_str(", ");
        }
        out.push_str(&nested(&item?, depth)?);
        check_text(out.len())?;
    }
    Ok(out + "]")
}

fn entries(map: &Map<'_>, depth: usize) -> Result<String> {
    let mut pairs = Vec::with_capacity(map.len());
    let mut total = 0usize;
    for (key, value) in map.iter() {
        let key = match &key {
            Value::String(_) | Value::Bool(_) | Value::Int(_) | Value::Uint(_) => nested(&key, depth)?,
            other => {
                return Err(
                    format!("no formatting function for map key of type {}", other.type_name()).into()
                );
            }
        };
        let value = nested(&value?, depth)?;
        total = total.saturating_add(key.len()).saturating_add(value.len());
        check_text(total)?;
        pairs.push((key, value));
    }
    pairs.sort_by(|(a, _), (b, _)| a.cmp(b));
    let pairs: Vec<String> = pairs.into_iter().map(|(key, value)| format!("{key}:{value}")).collect();
    Ok(format!("{{{}}}", pairs.join(", ")))
}

/// A value inside a list or map, as a literal of the language.
fn nested(value: &Value<'_>, depth: usize) -> Result<String> {
    let depth = depth.checked_sub(1).ok_or(Error::Cancelled)?;
    Ok(match value {
        Value::String(text) => quoted(text),
        Value::Bytes(_) => format!("b{}", quoted(&string(value, depth)?)),
        Value::Timestamp(_) => format!("timestamp({})", quoted(&string(value, depth)?)),
        Value::Duration(_) => format!("duration({})", quoted(&string(value, depth)?)),
        Value::Double(double) if double.is_nan() => "\"NaN\"".to_owned(),
        Value::Double(f64::INFINITY) => "\"+Inf\"".to_owned(),
        Value::Double(f64::NEG_INFINITY) => "\"-Inf\"".to_owned(),
        Value::Double(double) => format!("{double:.DEFAULT_PRECISION$}"),
        Value::List(_)
        | Value::Map(_)
        | Value::Null
        | Value::Bool(_)
        | Value::Int(_)
        | Value::Uint(_)
        | Value::Type(_) => string(value, depth)?,
        other => return Err(format!("no formatting function for {}", other.type_name()).into()),
    })
}

fn decimal(value: &Value<'_>) -> Option<String> {
    match value {
        Value::Int(_) | Value::Uint(_) => Some(value.to_string()),
        _ => None,
    }
}

/// A double, or a text that stands for one without digits.
fn double(value: &Value<'_>) -> Option<f64> {
    match value {
        Value::Double(double) => Some(*double),
        Value::String(text) => match &**text {
            "NaN" => Some(f64::NAN),
            "Infinity" => Some(f64::INFINITY),
            "-Infinity" => Some(f64::NEG_INFINITY),
            _ => None,
        },
        _ => None,
    }
}

fn signed(value: i64, digits: &str) -> String {
    format!("{}{digits}", if value < 0 { "-" } else { "" })
}

fn binary(value: &Value<'_>) -> Option<String> {
    match value {
        Value::Int(int) => Some(signed(*int, &format!("{:b}", int.unsigned_abs()))),
        Value::Uint(uint) => Some(format!("{uint:b}")),
        Value::Bool(bool) => Some(u8::from(*bool).to_string()),
        _ => None,
    }
}

fn octal(value: &Value<'_>) -> Option<String> {
    match value {
        Value::Int(int) => Some(signed(*int, &format!("{:o}", int.unsigned_abs()))),
        Value::Uint(uint) => Some(format!("{uint:o}")),
        _ => None,
    }
}

fn hex(value: &Value<'_>) -> Option<String> {
    let digits = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    match value {
        Value::Int(int) => Some(signed(*int, &format!("{:x}", int.unsigned_abs()))),
        Value::Uint(uint) => Some(format!("{uint:x}")),
        Value::String(text) => Some(digits(text.as_bytes())),
        Value::Bytes(bytes) => Some(digits(bytes)),
        _ => None,
    }
}
