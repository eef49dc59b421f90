//! The strings extension: positions, parts, replacement, case, `join`, `strings.quote` and `format`.
//!
//! Positions count characters. Searches take linear time.

mod format;
pub(crate) mod format_check;
mod number;

use super::arguments::{check_list, check_text, declare, int, list, text};
use crate::declare::{Declaration, Library};
use crate::error::{Error, Result};
use crate::value::{Text, Value};

pub const LIBRARY: Library = Library { declarations: DECLARATIONS, types: &[] };

/// The library of older versions, without its last two functions.
pub const OLD_LIBRARY: Library =
    Library { declarations: DECLARATIONS.split_at(DECLARATIONS.len() - 2).0, types: &[] };

const DECLARATIONS: &[Declaration] = &[
    declare("charAt", "string_char_at_int", "string.(int) string", char_at),
    declare("indexOf", "string_index_of_string", "string.(string) int", index_of),
    declare("indexOf", "string_index_of_string_int", "string.(string, int) int", index_of),
    declare("lastIndexOf", "string_last_index_of_string", "string.(string) int", last_index_of),
    declare("lastIndexOf", "string_last_index_of_string_int", "string.(string, int) int", last_index_of),
    declare("lowerAscii", "string_lower_ascii", "string.() string", lower_ascii),
    declare("upperAscii", "string_upper_ascii", "string.() string", upper_ascii),
    declare("trim", "string_trim", "string.() string", trim),
    declare("substring", "string_substring_int", "string.(int) string", substring),
    declare("substring", "string_substring_int_int", "string.(int, int) string", substring),
    declare("replace", "string_replace_string_string", "string.(string, string) string", replace),
    declare("replace", "string_replace_string_string_int", "string.(string, string, int) string", replace),
    declare("split", "string_split_string", "string.(string) list(string)", split),
    declare("split", "string_split_string_int", "string.(string, int) list(string)", split),
    declare("join", "list_join", "list(string).() string", join),
    declare("join", "list_join_string", "list(string).(string) string", join),
    declare("strings.quote", "strings_quote", "(string) string", quote),
    declare("format", "string_format", "string.(list(dyn)) string", format::format),
];

fn out_of_range(index: i64) -> Error {
    format!("index out of range: {index}").into()
}

/// The byte where a character begins, or the end of the text; nothing beyond it.
fn byte_of(text: &str, index: i64) -> Option<usize> {
    let index = usize::try_from(index).ok()?;
    let mut starts = text.char_indices().map(|(at, _)| at).chain([text.len()]);
    starts.nth(index)
}

fn count(text: &str) -> i64 {
    i64::try_from(text.chars().count()).unwrap_or(i64::MAX)
}

fn receiver<'v, 'a>(arguments: &'v [Value<'a>]) -> Result<&'v Text<'a>> {
    match arguments.first() {
        Some(Value::String(text)) => Ok(text),
        _ => Err(Error::no_such_overload()),
    }
}

fn char_at<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    let (text, index) = (receiver(arguments)?, int(arguments, 1)?);
    let start = byte_of(text, index).ok_or_else(|| out_of_range(index))?;
    let end = text[start..].chars().next().map_or(start, |c| start + c.len_utf8());
    Ok(Value::String(text.slice(start..end)))
}

fn index_of<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    let (text, part) = (text(arguments, 0)?, text(arguments, 1)?);
    let offset = if arguments.len() > 2 { int(arguments, 2)? } else { 0 };
    if offset < 0 {
        return Err(out_of_range(offset));
    }
    let Some(start) = byte_of(text, offset) else {
        return Ok(Value::Int(if part.is_empty() { count(text) } else { -1 }));
    };
    Ok(Value::Int(text[start..].find(part).map_or(-1, |at| count(&text[..start + at]))))
}

fn last_index_of<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    let (text, part) = (text(arguments, 0)?, text(arguments, 1)?);
    let offset = if arguments.len() > 2 { Some(int(arguments, 2)?) } else { None };
    if let Some(offset) = offset.filter(|offset| *offset < 0) {
        return Err(out_of_range(offset));
    }
    let length = count(text);
    if part.is_empty() {
        return Ok(Value::Int(offset.unwrap_or(length).min(length)));
    }
    if offset.is_some_and(|offset| offset >= length) {
        return Ok(Value::Int(-1));
    }
    let end =
        offset.and_then(|offset| byte_of(text, offset.saturating_add(count(part)))).unwrap_or(text.len());
    Ok(Value::Int(text[..end].rfind(part).map_or(-1, |at| count(&text[..at]))))
}

fn lower_ascii<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    Ok(text(arguments, 0)?.to_ascii_lowercase().into())
}

fn upper_ascii<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    Ok(text(arguments, 0)?.to_ascii_uppercase().into())
}

fn trim<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    let text = receiver(arguments)?;
    let start = text.len() - text.trim_start().len();
    Ok(Value::String(text.slice(start..start + text.trim().len())))
}

fn substring<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    let (text, start) = (receiver(arguments)?, int(arguments, 1)?);
    let mut end_byte = text.len();
    let start_byte = byte_of(text, start).ok_or_else(|| out_of_range(start));
    if arguments.len() > 2 {
        let end = int(arguments, 2)?;
        if start > end {
            return Err(format!("invalid substring range. start: {start}, end: {end}").into());
        }
        start_byte.clone()?;
        end_byte = byte_of(text, end).ok_or_else(|| out_of_range(end))?;
    }
    Ok(Value::String(text.slice(start_byte?..end_byte)))
}

fn replace<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    let (text, part, replacement) = (text(arguments, 0)?, text(arguments, 1)?, text(arguments, 2)?);
    let limit = if arguments.len() > 3 { int(arguments, 3)? } else { -1 };
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let matches = text.matches(part).take(limit).count();
    check_text(text.len().saturating_add(matches.saturating_mul(replacement.len())))?;
    Ok(text.replacen(part, replacement, limit).into())
}

fn split<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    let (whole, separator) = (receiver(arguments)?, text(arguments, 1)?);
    let limit = if arguments.len() > 2 { int(arguments, 2)? } else { -1 };
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    if limit == 0 || (separator.is_empty() && whole.is_empty()) {
        return Ok(Value::list(Vec::new()));
    }
    let mut pieces = Vec::new();
    let mut start = 0;
    while pieces.len() + 1 < limit {
        // An empty separator splits into characters.
        let found = match separator.is_empty() {
            true => whole[start..]
                .chars()
                .next()
                .map(char::len_utf8)
                .filter(|length| start + length < whole.len()),
            false => whole[start..].find(separator),
        };
        let Some(length) = found else { break };
        check_list(pieces.len())?;
        pieces.push(Value::String(whole.slice(start..start + length)));
        start += length + separator.len();
    }
    pieces.push(Value::String(whole.slice(start..whole.len())));
    Ok(Value::list(pieces))
}

fn join<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    let separator = if arguments.len() > 1 { text(arguments, 1)? } else { "" };
    let mut joined = String::new();
    for (i, item) in list(arguments, 0)?.iter().enumerate() {
        match item? {
            Value::String(text) => {
                check_text(joined.len().saturating_add(separator.len()).saturating_add(text.len()))?;
                if i > 0 {
                    joined.push_str(separator);
                }
                joined.push_str(&text);
            }
            // Upstream shows the number behind null.
            Value::Null => return Err(Error::new("join: invalid input: 0")),
            other => return Err(format!("join: invalid input: {other}").into()),
        }
    }
    Ok(joined.into())
}

fn quote<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    let text = text(arguments, 0)?;
    check_text(text.len().saturating_mul(2))?;
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '\u{7}' => quoted.push_str(r"\a"),
            '\u{8}' => quoted.push_str(r"\b"),
            '\u{c}' => quoted.push_str(r"\f"),
            '\n' => quoted.push_str(r"\n"),
            '\r' => quoted.push_str(r"\r"),
            '\t' => quoted.push_str(r"\t"),
            '\u{b}' => quoted.push_str(r"\v"),
            '\\' | '"' => quoted.extend(['\\', c]),
            c => quoted.push(c),
        }
    }
    Ok((quoted + "\"").into())
}
