//! The meaning of plain scalars in YAML 1.1, as in upstream's library.

use std::borrow::Cow;

/// A scalar's meaning. Times are text, but must be quoted when they are written as text.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Meaning {
    Null,
    Bool(bool),
    Int(i64),
    /// Beyond `i64`.
    Large(u64),
    Float(f64),
    Time,
    Merge,
    Text,
}

impl Meaning {
    /// The tag, for errors.
    pub(super) fn tag(self) -> &'static str {
        match self {
            Meaning::Null => "!!null",
            Meaning::Bool(_) => "!!bool",
            Meaning::Int(_) | Meaning::Large(_) => "!!int",
            Meaning::Float(_) => "!!float",
            Meaning::Time => "!!timestamp",
            Meaning::Merge => "!!merge",
            Meaning::Text => "!!str",
        }
    }
}

/// The meaning of a plain scalar without a tag.
pub(super) fn plain(text: &str) -> Meaning {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Meaning::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            return Meaning::Bool(true);
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            return Meaning::Bool(false);
        }
        ".nan" | ".NaN" | ".NAN" => return Meaning::Float(f64::NAN),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => return Meaning::Float(f64::INFINITY),
        "-.inf" | "-.Inf" | "-.INF" => return Meaning::Float(f64::NEG_INFINITY),
        "<<" => return Meaning::Merge,
        _ => {}
    }
    match text.as_bytes().first() {
        Some(b'.') => float(text).map_or(Meaning::Text, Meaning::Float),
        Some(b'+' | b'-' | b'0'..=b'9') if is_time(text) => Meaning::Time,
        Some(b'+' | b'-' | b'0'..=b'9') => number(text),
        _ => Meaning::Text,
    }
}

fn number(text: &str) -> Meaning {
    let digits: Cow<'_, str> = if text.contains('_') { text.replace('_', "").into() } else { text.into() };
    match integer(&digits) {
        Some(int) => match i64::try_from(int) {
            Ok(int) => Meaning::Int(int),
            Err(_) => u64::try_from(int).map_or(Meaning::Text, Meaning::Large),
        },
        None => float(&digits).map_or(Meaning::Text, Meaning::Float),
    }
}

/// An integer that fits 64 bits, in any of Go's bases.
fn integer(text: &str) -> Option<i128> {
    let (negative, signed, unsigned) = match text.as_bytes().first()? {
        b'-' => (true, true, &text[1..]),
        b'+' => (false, true, &text[1..]),
        _ => (false, false, text),
    };
    let (digits, radix) = match unsigned.as_bytes() {
        [b'0', b'x' | b'X', ..] => (&unsigned[2..], 16),
        [b'0', b'b' | b'B', ..] => (&unsigned[2..], 2),
        [b'0', b'o' | b'O', ..] => (&unsigned[2..], 8),
        [b'0', _, ..] => (&unsigned[1..], 8),
        _ => (unsigned, 10),
    };
    if digits.is_empty() || !digits.chars().all(|c| c.is_digit(radix)) {
        return None;
    }
    let magnitude = i128::from(u64::from_str_radix(digits, radix).ok()?);
    let int = if negative { -magnitude } else { magnitude };
    // A number that needs the 64th bit is unsigned in Go.
    let fits = i64::try_from(int).is_ok() || (!signed && int > 0);
    fits.then_some(int)
}

/// A decimal float; one too large for 64 bits is text.
fn float(text: &str) -> Option<f64> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (unsigned, None),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    let exponent_ok = exponent.is_none_or(|e| {
        let e = e.strip_prefix(['+', '-']).unwrap_or(e);
        !e.is_empty() && digits(e)
    });
    let some_digit = !whole.is_empty() || !fraction.is_empty();
    if !(digits(whole) && digits(fraction) && some_digit && exponent_ok) {
        return None;
    }
    text.parse().ok().filter(|f: &f64| f.is_finite())
}

/// Returns true if text looks like one of the timestamps of YAML 1.1 that upstream supports.
fn is_time(text: &str) -> bool {
    let Some(rest) = date(text) else { return false };
    if rest.is_empty() {
        return true;
    }
    let zoned = match rest.as_bytes()[0] {
        b'T' | b't' => true,
        b' ' => false,
        _ => return false,
    };
    let Some(rest) = clock(&rest[1..]) else { return false };
    match (zoned, rest) {
        (true, "Z") | (false, "") => true,
        (true, zone) => is_offset(zone),
        (false, _) => false,
    }
}

/// The text after `2006-1-2`, if the date is valid.
fn date(text: &str) -> Option<&str> {
    let (year, rest) = text.split_at_checked(4)?;
    if !year.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let (month, rest) = one_or_two_digits(rest.strip_prefix('-')?)?;
    let (day, rest) = one_or_two_digits(rest.strip_prefix('-')?)?;
    jiff::civil::Date::new(year.parse().ok()?, month, day).ok()?;
    Some(rest)
}

/// The text after `15:4:5.999`, if the time is valid.
fn clock(text: &str) -> Option<&str> {
    let (hour, rest) = one_or_two_digits(text)?;
    let (minute, rest) = one_or_two_digits(rest.strip_prefix(':')?)?;
    let (second, rest) = one_or_two_digits(rest.strip_prefix(':')?)?;
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    match rest.strip_prefix(['.', ',']) {
        Some(fraction) if fraction.starts_with(|c: char| c.is_ascii_digit()) => {
            Some(fraction.trim_start_matches(|c: char| c.is_ascii_digit()))
        }
        Some(_) => None,
        None => Some(rest),
    }
}

fn is_offset(zone: &str) -> bool {
    match zone.as_bytes() {
        [b'+' | b'-', h1, h2, b':', m1, m2] => {
            let two = |a: &u8, b: &u8, limit: u8| {
                a.is_ascii_digit() && b.is_ascii_digit() && (a - b'0') * 10 + (b - b'0') <= limit
            };
            two(h1, h2, 24) && two(m1, m2, 60)
        }
        _ => false,
    }
}

fn one_or_two_digits(text: &str) -> Option<(i8, &str)> {
    let count = text.bytes().take(2).take_while(u8::is_ascii_digit).count();
    let (digits, rest) = text.split_at(count);
    Some((digits.parse().ok()?, rest))
}

/// YAML 1.1's numbers to the base 60, which other parsers would take for numbers.
pub(super) fn is_base_60(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let mut parts = unsigned.split(':');
    let first = parts.next().unwrap_or_default();
    let first_ok = first.starts_with(|c: char| c.is_ascii_digit())
        && first.bytes().all(|b| b.is_ascii_digit() || b == b'_');
    let rest: Vec<&str> = parts.collect();
    let Some((last, middle)) = rest.split_last() else { return false };
    let (last, fraction) = last.split_once('.').unwrap_or((last, ""));
    let sixty = |part: &str| match part.as_bytes() {
        [d] => d.is_ascii_digit(),
        [t, d] => (b'0'..=b'5').contains(t) && d.is_ascii_digit(),
        _ => false,
    };
    first_ok
        && middle.iter().all(|p| sixty(p))
        && sixty(last)
        && fraction.bytes().all(|b| b.is_ascii_digit() || b == b'_')
}
