//! Sizes, and functions of text.

use super::operator;
use crate::declare::{Declaration, Implementation};
use crate::error::{Error, Result};
use crate::library::regex::Pattern;
use crate::value::Value;

pub(super) const DECLARATIONS: &[Declaration] = &[
    operator("size", "size_bytes", "(bytes) int", size),
    operator("size", "bytes_size", "bytes.() int", size),
    operator("size", "size_list", "(list(A)) int", size),
    operator("size", "list_size", "list(A).() int", size),
    operator("size", "size_map", "(map(A, B)) int", size),
    operator("size", "map_size", "map(A, B).() int", size),
    operator("size", "size_string", "(string) int", size),
    operator("size", "string_size", "string.() int", size),
    operator("contains", "contains_string", "string.(string) bool", contains),
    operator("endsWith", "ends_with_string", "string.(string) bool", ends_with),
    operator("startsWith", "starts_with_string", "string.(string) bool", starts_with),
    Declaration::new("matches", "matches", "(string, string) bool", Implementation::Pattern(1, matches))
        .unguarded(),
    Declaration::new(
        "matches",
        "matches_string",
        "string.(string) bool",
        Implementation::Pattern(1, matches),
    )
    .unguarded(),
];

fn size<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    match arguments {
        [value @ (Value::String(_) | Value::Bytes(_) | Value::List(_) | Value::Map(_))] => {
            Ok(Value::Int(value.size().unwrap_or_default() as i64))
        }
        _ => Err(super::unsupported("size", arguments.first())),
    }
}

fn texts<'v, 'a>(arguments: &'v [Value<'a>]) -> Result<(&'v str, &'v str)> {
    match arguments {
        [Value::String(a), Value::String(b)] => Ok((a, b)),
        _ => Err(Error::no_such_overload()),
    }
}

fn contains<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    texts(arguments).map(|(text, part)| Value::Bool(text.contains(part)))
}

fn starts_with<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    texts(arguments).map(|(text, part)| Value::Bool(text.starts_with(part)))
}

fn ends_with<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    texts(arguments).map(|(text, part)| Value::Bool(text.ends_with(part)))
}

fn matches<'a>(regex: &Pattern, arguments: &[Value<'a>]) -> Result<Value<'a>> {
    texts(arguments).map(|(text, _)| Value::Bool(regex.is_match(text)))
}
