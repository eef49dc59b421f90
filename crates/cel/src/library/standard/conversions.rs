//! Conversions between types.

use std::sync::Arc;

use super::operator;
use crate::declare::{Declaration, Function, Implementation};
use crate::error::{Error, Result};
use crate::value::time::{NANOS, parse_duration};
use crate::value::{Text, Timestamp, Value, format_double, in_int_range, in_uint_range};

const fn convert(
    function: &'static str,
    overload: &'static str,
    signature: &'static str,
    implementation: Function,
) -> Declaration {
    Declaration::new(function, overload, signature, Implementation::Values(implementation))
}

pub(super) const DECLARATIONS: &[Declaration] = &[
    operator("type", "type", "(A) type(A)", to_type),
    convert("bool", "bool_to_bool", "(bool) bool", identity),
    convert("bool", "string_to_bool", "(string) bool", to_bool),
    convert("bytes", "bytes_to_bytes", "(bytes) bytes", identity),
    convert("bytes", "string_to_bytes", "(string) bytes", to_bytes),
    convert("double", "double_to_double", "(double) double", identity),
    convert("double", "int64_to_double", "(int) double", to_double),
    convert("double", "string_to_double", "(string) double", to_double),
    convert("double", "uint64_to_double", "(uint) double", to_double),
    convert("duration", "duration_to_duration", "(duration) duration", identity),
    convert("duration", "string_to_duration", "(string) duration", to_duration),
    operator("dyn", "to_dyn", "(A) dyn", identity),
    convert("int", "int64_to_int64", "(int) int", identity),
    convert("int", "double_to_int64", "(double) int", to_int),
    convert("int", "duration_to_int64", "(duration) int", to_int),
    convert("int", "string_to_int64", "(string) int", to_int),
    convert("int", "timestamp_to_int64", "(timestamp) int", to_int),
    convert("int", "uint64_to_int64", "(uint) int", to_int),
    convert("string", "string_to_string", "(string) string", identity),
    convert("string", "bool_to_string", "(bool) string", to_string),
    convert("string", "bytes_to_string", "(bytes) string", to_string),
    convert("string", "double_to_string", "(double) string", to_string),
    convert("string", "duration_to_string", "(duration) string", to_string),
    convert("string", "int64_to_string", "(int) string", to_string),
    convert("string", "timestamp_to_string", "(timestamp) string", to_string),
    convert("string", "uint64_to_string", "(uint) string", to_string),
    convert("timestamp", "timestamp_to_timestamp", "(timestamp) timestamp", identity),
    convert("timestamp", "int64_to_timestamp", "(int) timestamp", to_timestamp),
    convert("timestamp", "string_to_timestamp", "(string) timestamp", to_timestamp),
    convert("uint", "uint64_to_uint64", "(uint) uint", identity),
    convert("uint", "double_to_uint64", "(double) uint", to_uint),
    convert("uint", "int64_to_uint64", "(int) uint", to_uint),
    convert("uint", "string_to_uint64", "(string) uint", to_uint),
];

const INT_OVERFLOW: Error = Error::new("integer overflow");
const UINT_OVERFLOW: Error = Error::new("unsigned integer overflow");
const TIMESTAMP_OVERFLOW: Error = Error::new("timestamp overflow");

/// The error of a value that cannot be converted.
fn inconvertible(arguments: &[Value<'_>], to: &str) -> Error {
    let from = arguments.first().map_or("", Value::type_name);
    format!("type conversion error from '{from}' to '{to}'").into()
}

fn identity<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    arguments.first().cloned().ok_or(Error::no_such_overload())
}

fn to_type<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    match arguments {
        [Value::Preserved(_)] => Err(Error::new(
            "type conversion to 'type' not supported for values preserved by x-kubernetes-preserve-unknown-fields",
        )),
        [value] => Ok(Value::Type(Arc::new(value.type_of()))),
        _ => Err(Error::no_such_overload()),
    }
}

fn to_bool<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    match arguments.first().and_then(Value::as_str) {
        Some("1" | "t" | "T" | "true" | "TRUE" | "True") => Ok(Value::Bool(true)),
        Some("0" | "f" | "F" | "false" | "FALSE" | "False") => Ok(Value::Bool(false)),
        _ => Err(inconvertible(arguments, "bool")),
    }
}

fn to_bytes<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    match arguments {
        [Value::String(Text::Borrowed(text))] => {
            Ok(Value::Bytes(crate::value::Bytes::Borrowed(text.as_bytes())))
        }
        [Value::String(text)] => Ok(Value::bytes(text.as_bytes())),
        _ => Err(inconvertible(arguments, "bytes")),
    }
}

fn to_double<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    match arguments {
        [Value::Int(i)] => Ok(Value::Double(*i as f64)),
        [Value::Uint(u)] => Ok(Value::Double(*u as f64)),
        [Value::String(text)] => {
            parse_double(text).map(Value::Double).ok_or_else(|| inconvertible(arguments, "double"))
        }
        _ => Err(inconvertible(arguments, "double")),
    }
}

/// Parses a double as Go does: also with hexadecimal digits, underscores only where Go's literals have a prefix, and
/// `inf` and `nan` in any case; out of range is an error.
fn parse_double(text: &str) -> Option<f64> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let sign = if text.starts_with('-') { -1.0 } else { 1.0 };
    if unsigned.eq_ignore_ascii_case("inf") || unsigned.eq_ignore_ascii_case("infinity") {
        return Some(sign * f64::INFINITY);
    }
    if unsigned.eq_ignore_ascii_case("nan") {
        return (text == unsigned).then_some(f64::NAN);
    }
    if let Some(hex) = unsigned.strip_prefix("0x").or_else(|| unsigned.strip_prefix("0X")) {
        return parse_hex_double(hex).map(|value| sign * value);
    }
    let first = unsigned.as_bytes().first()?;
    if !(first.is_ascii_digit() || *first == b'.') {
        return None;
    }
    text.parse().ok().filter(|value: &f64| value.is_finite())
}

/// A hexadecimal mantissa with a binary exponent, such as `1.8p3`.
fn parse_hex_double(text: &str) -> Option<f64> {
    let (mantissa, exponent) = text.split_once(['p', 'P'])?;
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if whole.is_empty() && fraction.is_empty() || whole.len() + fraction.len() > 13 {
        return None;
    }
    let digits = u64::from_str_radix(&[whole, fraction].concat(), 16).ok()?;
    let exponent: i32 = exponent.parse().ok()?;
    let value = digits as f64 * 2f64.powi(exponent.checked_sub(4 * fraction.len() as i32)?);
    value.is_finite().then_some(value)
}

fn to_duration<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    let duration = arguments.first().and_then(Value::as_str).and_then(parse_duration);
    duration.map(Value::Duration).ok_or_else(|| inconvertible(arguments, "google.protobuf.Duration"))
}

/// Digits with an optional sign, as Go's `ParseInt` reads them.
fn parse_int<T: std::str::FromStr>(text: &str) -> Option<T> {
    text.parse().ok()
}

fn to_int<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    let converted = match arguments {
        [Value::Double(d)] if in_int_range(*d) => Ok(*d as i64),
        [Value::Double(_)] => Err(INT_OVERFLOW),
        [Value::Uint(u)] => i64::try_from(*u).map_err(|_| INT_OVERFLOW),
        [Value::Duration(nanos)] => Ok(*nanos),
        [Value::Timestamp(time)] => Ok(time.seconds),
        [Value::String(text)] => parse_int(text).ok_or_else(|| inconvertible(arguments, "int")),
        _ => Err(inconvertible(arguments, "int")),
    };
    converted.map(Value::Int)
}

fn to_uint<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    let converted = match arguments {
        [Value::Double(d)] if in_uint_range(*d) => Ok(*d as u64),
        [Value::Double(_)] => Err(UINT_OVERFLOW),
        [Value::Int(i)] => u64::try_from(*i).map_err(|_| UINT_OVERFLOW),
        // Go accepts no sign here.
        [Value::String(text)] if !text.starts_with('+') => {
            parse_int(text).ok_or_else(|| inconvertible(arguments, "uint"))
        }
        _ => Err(inconvertible(arguments, "uint")),
    };
    converted.map(Value::Uint)
}

fn to_string<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    match arguments {
        [Value::Bool(b)] => Ok(Value::text(b.to_string())),
        [Value::Int(i)] => Ok(Value::text(i.to_string())),
        [Value::Uint(u)] => Ok(Value::text(u.to_string())),
        [Value::Double(d)] => Ok(Value::text(format_double(*d))),
        [Value::Timestamp(time)] => Ok(Value::text(time.to_string())),
        [Value::Duration(nanos)] => Ok(Value::text(format!("{}s", seconds(*nanos)))),
        [Value::Bytes(bytes)] => match std::str::from_utf8(bytes) {
            Ok(text) => Ok(Value::text(text)),
            Err(_) => Err(Error::new("invalid UTF-8 in bytes, cannot convert to string")),
        },
        _ => Err(inconvertible(arguments, "string")),
    }
}

/// Seconds of a duration, as Go computes them in floating point.
fn seconds(nanos: i64) -> f64 {
    (nanos / NANOS) as f64 + (nanos % NANOS) as f64 / 1e9
}

fn to_timestamp<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    let time = match arguments {
        [Value::Int(seconds)] => Timestamp::new(*seconds, 0).ok_or(TIMESTAMP_OVERFLOW),
        [Value::String(text)] => match Timestamp::parse(text) {
            Some(time) if Timestamp::new(time.seconds, 0).is_some() => Ok(time),
            Some(_) => Err(TIMESTAMP_OVERFLOW),
            None => Err(inconvertible(arguments, "google.protobuf.Timestamp")),
        },
        _ => Err(inconvertible(arguments, "google.protobuf.Timestamp")),
    };
    time.map(Value::Timestamp)
}
