//! Tokens of an expression: the longest match wins, as in upstream's generated lexer.
//!
//! Characters that begin no token are reported and skipped up to and including the one at which the match failed.

use std::ops::Range;

use super::tokens::Kind;

#[derive(Clone, Debug)]
pub(super) struct Token {
    pub(super) kind: Kind,
    /// Bytes in the text.
    pub(super) range: Range<usize>,
    /// Code points before it.
    pub(super) offset: u32,
}

/// A part of the text that is no token: bytes, and code points before it.
pub(super) struct Unrecognized {
    pub(super) range: Range<usize>,
    pub(super) offset: u32,
}

/// Splits a text into tokens; the last is `Kind::End`.
pub(super) fn tokenize(text: &str) -> (Vec<Token>, Vec<Unrecognized>) {
    let (mut tokens, mut errors) = (Vec::new(), Vec::new());
    let (mut at, mut offset) = (0, 0u32);
    while at < text.len() {
        let (kind, length) = match scan(&text[at..]) {
            Scan::Token(kind, length) => (Some(kind), length),
            Scan::Hidden(length) => (None, length),
            Scan::Failed(length) => {
                errors.push(Unrecognized { range: at..at + length, offset });
                (None, length)
            }
        };
        if let Some(kind) = kind {
            tokens.push(Token { kind, range: at..at + length, offset });
        }
        offset += text[at..at + length].chars().count() as u32;
        at += length;
    }
    tokens.push(Token { kind: Kind::End, range: at..at, offset });
    (tokens, errors)
}

enum Scan {
    Token(Kind, usize),
    /// White space or a comment.
    Hidden(usize),
    /// No token; the length includes the character at which the match failed.
    Failed(usize),
}

/// Scans the token at the start of a text that is not empty.
fn scan(text: &str) -> Scan {
    let bytes = text.as_bytes();
    let first = bytes[0];
    match first {
        b'\t' | b' ' | b'\r' | b'\n' | 0x0c => {
            Scan::Hidden(count(bytes, |byte| matches!(byte, b'\t' | b' ' | b'\r' | b'\n' | 0x0c)))
        }
        b'/' if bytes.get(1) == Some(&b'/') => Scan::Hidden(text.find('\n').unwrap_or(text.len())),
        b'0'..=b'9' => number(bytes),
        b'.' if bytes.get(1).is_some_and(u8::is_ascii_digit) => fraction(bytes, 0),
        b'"' | b'\'' => string(text, 0, Kind::String),
        b'`' => escaped_identifier(text),
        b'a'..=b'z' | b'A'..=b'Z' | b'_' => word(text),
        _ => match Kind::of_symbol(bytes) {
            Some((kind, length)) => Scan::Token(kind, length),
            // `=`, `&` and `|` begin a token that the next character does not continue.
            None if matches!(first, b'=' | b'&' | b'|') => Scan::Failed(through(text, 1)),
            None => Scan::Failed(through(text, 0)),
        },
    }
}

/// The length of a prefix whose bytes all satisfy a condition.
fn count(bytes: &[u8], condition: impl Fn(u8) -> bool) -> usize {
    bytes.iter().take_while(|byte| condition(**byte)).count()
}

/// The length of a text up to and including the character at `at`, or to its end.
fn through(text: &str, at: usize) -> usize {
    text[at..].chars().next().map_or(text.len(), |c| at + c.len_utf8())
}

fn number(bytes: &[u8]) -> Scan {
    let unsigned = |length: usize| match bytes.get(length) {
        Some(b'u' | b'U') => Scan::Token(Kind::Uint, length + 1),
        _ => Scan::Token(Kind::Int, length),
    };
    if bytes.starts_with(b"0x") {
        let digits = count(&bytes[2..], |byte| byte.is_ascii_hexdigit());
        if digits > 0 {
            return unsigned(2 + digits);
        }
    }
    let digits = count(bytes, |byte| byte.is_ascii_digit());
    match bytes[digits..] {
        [b'.', next, ..] if next.is_ascii_digit() => fraction(bytes, digits),
        _ => match exponent(&bytes[digits..]) {
            0 => unsigned(digits),
            length => Scan::Token(Kind::Float, digits + length),
        },
    }
}

/// A number whose point is at `at`.
fn fraction(bytes: &[u8], at: usize) -> Scan {
    let end = at + 1 + count(&bytes[at + 1..], |byte| byte.is_ascii_digit());
    Scan::Token(Kind::Float, end + exponent(&bytes[end..]))
}

/// The length of an exponent, 0 if there is none.
fn exponent(bytes: &[u8]) -> usize {
    let sign = match bytes {
        [b'e' | b'E', b'+' | b'-', ..] => 2,
        [b'e' | b'E', ..] => 1,
        _ => return 0,
    };
    match count(&bytes[sign..], |byte| byte.is_ascii_digit()) {
        0 => 0,
        digits => sign + digits,
    }
}

fn word(text: &str) -> Scan {
    let bytes = text.as_bytes();
    let length = count(bytes, |byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let prefixed = match &bytes[..length] {
        b"r" | b"R" => Some(Kind::String),
        b"b" | b"B" | b"br" | b"bR" | b"Br" | b"BR" => Some(Kind::Bytes),
        _ => None,
    };
    // Where the string does not end, its prefix is an identifier.
    if let Some(kind) = prefixed
        && matches!(bytes.get(length), Some(b'"' | b'\''))
        && let Scan::Token(kind, length) = string(text, length, kind)
    {
        return Scan::Token(kind, length);
    }
    let kind = match &text[..length] {
        "in" => Kind::In,
        "true" => Kind::True,
        "false" => Kind::False,
        "null" => Kind::Null,
        _ => Kind::Identifier,
    };
    Scan::Token(kind, length)
}

fn escaped_identifier(text: &str) -> Scan {
    let bytes = text.as_bytes();
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-' | b'/' | b' ');
    let end = 1 + count(&bytes[1..], allowed);
    match bytes.get(end) {
        Some(b'`') if end > 1 => Scan::Token(Kind::EscapedIdentifier, end + 1),
        _ => Scan::Failed(through(text, end)),
    }
}

/// A string whose quote is at `quote`, after its prefix.
fn string(text: &str, quote: usize, kind: Kind) -> Scan {
    let bytes = text.as_bytes();
    let mark = bytes[quote];
    let raw = text[..quote].ends_with(['r', 'R']);
    if bytes[quote..].starts_with(&[mark; 3]) {
        return match quoted(text, quote + 3, &[mark; 3], raw) {
            Ok(end) => Scan::Token(kind, end),
            // The first two quotes are an empty string.
            Err(_) => Scan::Token(kind, quote + 2),
        };
    }
    match quoted(text, quote + 1, &[mark], raw) {
        Ok(end) => Scan::Token(kind, end),
        Err(failed) => Scan::Failed(through(text, failed)),
    }
}

/// The end of a string, or the position at which it fails.
fn quoted(text: &str, start: usize, marks: &[u8], raw: bool) -> Result<usize, usize> {
    let bytes = text.as_bytes();
    let mut at = start;
    while at < bytes.len() {
        if bytes[at..].starts_with(marks) {
            return Ok(at + marks.len());
        }
        match bytes[at] {
            b'\n' | b'\r' if marks.len() == 1 => return Err(at),
            b'\\' if !raw => at = escape(bytes, at)?,
            _ => at += 1,
        }
    }
    Err(text.len())
}

/// The end of the escape at a position, or the position at which it fails.
fn escape(bytes: &[u8], at: usize) -> Result<usize, usize> {
    let digits = |from: usize, length: usize, valid: fn(u8) -> bool| match bytes
        .iter()
        .skip(from)
        .take(length)
        .position(|byte| !valid(*byte))
    {
        Some(wrong) => Err(from + wrong),
        None if from + length > bytes.len() => Err(bytes.len()),
        None => Ok(from + length),
    };
    let hex = |byte: u8| byte.is_ascii_hexdigit();
    match bytes.get(at + 1) {
        Some(b'a' | b'b' | b'f' | b'n' | b'r' | b't' | b'v' | b'"' | b'\'' | b'\\' | b'?' | b'`') => {
            Ok(at + 2)
        }
        Some(b'0'..=b'3') => digits(at + 2, 2, |byte| matches!(byte, b'0'..=b'7')),
        Some(b'x' | b'X') => digits(at + 2, 2, hex),
        Some(b'u') => digits(at + 2, 4, hex),
        Some(b'U') => digits(at + 2, 8, hex),
        Some(_) => Err(at + 1),
        None => Err(bytes.len()),
    }
}
