//! Formats of dates, times and durations.

use corten_api::time;

/// `2006-01-02`, a day that exists.
pub(super) fn is_date(text: &str) -> bool {
    let bytes = text.as_bytes();
    let digits = |range: std::ops::Range<usize>| {
        let part = text.get(range)?;
        part.bytes().all(|byte| byte.is_ascii_digit()).then(|| part.parse::<u32>().ok())?
    };
    if bytes.len() != 10 || bytes[4] != b'-' || bytes[7] != b'-' {
        return false;
    }
    let (Some(year), Some(month), Some(day)) = (digits(0..4), digits(5..7), digits(8..10)) else {
        return false;
    };
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        2 => 28 + u32::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return false,
    };
    (1..=days).contains(&day)
}

/// A date and a time with a zone, by upstream's expression: only the text up to a second `t` counts, and any
/// character may begin the fraction.
pub(super) fn is_date_time(text: &str) -> bool {
    let lower = text.to_lowercase();
    let mut parts = lower.split('t');
    let (Some(date), Some(time)) = (parts.next(), parts.next()) else { return false };
    is_date(date) && is_time(time)
}

fn is_time(text: &str) -> bool {
    let Some((clock, rest)) = text.split_at_checked(8) else { return false };
    let bytes = clock.as_bytes();
    let limits = ["23", "59", "59"];
    let fits = |(i, limit): (usize, &str)| {
        let part = &bytes[3 * i..3 * i + 2];
        part.iter().all(u8::is_ascii_digit) && part <= limit.as_bytes()
    };
    bytes[2] == b':'
        && bytes[5] == b':'
        && limits.into_iter().enumerate().all(fits)
        && (is_zone(rest) || is_fraction_and_zone(rest))
}

fn is_fraction_and_zone(text: &str) -> bool {
    let mut rest = text.chars();
    if rest.next().is_none_or(|separator| separator == '\n') {
        return false;
    }
    let digits = rest.as_str();
    let zone = digits.trim_start_matches(|c: char| c.is_ascii_digit());
    digits.len() > zone.len() && is_zone(zone)
}

/// `z`, or a sign, hours and minutes.
fn is_zone(text: &str) -> bool {
    match text.as_bytes() {
        [b'z'] => true,
        [b'+' | b'-', hours @ .., b':', m, n] => {
            hours.len() == 2 && hours.iter().chain([m, n]).all(u8::is_ascii_digit)
        }
        _ => false,
    }
}

/// A duration in Go's notation, or a text with at least one number and unit in it: `2 days`.
pub(super) fn is_duration(text: &str) -> bool {
    time::go_duration(text).is_ok() || has_number_with_unit(text).unwrap_or(false)
}

/// None if a number is too large.
fn has_number_with_unit(text: &str) -> Option<bool> {
    let mut found = false;
    let mut rest = text;
    while let Some(at) = rest.find(|c: char| c.is_ascii_digit()) {
        let digits_on = &rest[at..];
        let after_digits = digits_on.trim_start_matches(|c: char| c.is_ascii_digit());
        let digits = &digits_on[..digits_on.len() - after_digits.len()];
        let unit_on = after_digits.trim_start_matches(['\t', '\n', '\u{c}', '\r', ' ']);
        let end = unit_on.find(|c: char| !(c.is_ascii_alphabetic() || c == 'µ')).unwrap_or(unit_on.len());
        if end > 0 {
            let too_large = digits.parse::<i64>().is_err();
            if too_large {
                return None;
            }
            found |= is_unit(&unit_on[..end].to_lowercase());
        }
        rest = &unit_on[end..];
    }
    Some(found)
}

fn is_unit(unit: &str) -> bool {
    const EXACT: [&str; 15] =
        ["ns", "us", "µs", "ms", "s", "m", "h", "hr", "d", "w", "wk", "nano", "micro", "milli", "sec"];
    const PREFIXES: [&str; 8] = ["nano", "micro", "milli", "sec", "min", "hour", "day", "week"];
    EXACT.contains(&unit) || PREFIXES.iter().any(|prefix| unit.starts_with(prefix))
}
