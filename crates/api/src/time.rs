//! The two time formats of Kubernetes: `Time` with seconds and `MicroTime` with microseconds,
//! both RFC 3339 in UTC.

use std::ops::RangeInclusive;

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::fmt::temporal::DateTimePrinter;
use jiff::tz::Offset;

use crate::value::Str;

/// A `Time`: `2006-01-02T15:04:05Z`.
pub fn format(at: Timestamp) -> Str {
    print(at, 0)
}

/// A `MicroTime`: `2006-01-02T15:04:05.000000Z`.
pub fn format_micro(at: Timestamp) -> Str {
    print(at, 6)
}

fn print(at: Timestamp, decimals: u8) -> Str {
    let mut text = String::with_capacity(32);
    let printer = DateTimePrinter::new().precision(Some(decimals));
    // Cannot fail: the target is a string.
    let _ = printer.print_timestamp(&at, &mut text);
    Str::from(text)
}

/// Parses a `Time`: any offset, any number of decimals. The error is worded as Go's.
pub fn parse(text: &str) -> Result<Timestamp, String> {
    Reader::new(text, "2006-01-02T15:04:05Z07:00").read(false)
}

/// Parses a `MicroTime`, which has exactly six decimals.
pub fn parse_micro(text: &str) -> Result<Timestamp, String> {
    Reader::new(text, "2006-01-02T15:04:05.000000Z07:00").read(true)
}

/// A text in quotes, as Go shows it in errors about times: other bytes than printable ASCII are escaped one by one.
fn quoted(text: &str) -> String {
    let mut shown = String::with_capacity(text.len() + 2);
    shown.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => shown.extend(['\\', c]),
            ' '..='\x7f' => shown.push(c),
            _ => {
                let mut buffer = [0; 4];
                let bytes = c.encode_utf8(&mut buffer).bytes();
                shown.extend(bytes.map(|byte| format!("\\x{byte:02x}")));
            }
        }
    }
    shown.push('"');
    shown
}

/// A duration in Go's notation (`1m30s`), or Go's error.
pub fn go_duration(text: &str) -> Result<f64, String> {
    let invalid = || format!("time: invalid duration {text:?}");
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let sign = if text.starts_with('-') { -1.0 } else { 1.0 };
    if unsigned == "0" {
        return Ok(0.0);
    }
    let mut rest = unsigned;
    let mut seconds = 0.0;
    while !rest.is_empty() || unsigned.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let number: f64 = rest[..digits].parse().map_err(|_| invalid())?;
        rest = &rest[digits..];
        let end = rest.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(rest.len());
        let unit = match &rest[..end] {
            "" => return Err(format!("time: missing unit in duration {text:?}")),
            "ns" => 1e-9,
            "us" | "µs" | "μs" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            unknown => return Err(format!("time: unknown unit {unknown:?} in duration {text:?}")),
        };
        seconds += number * unit;
        rest = &rest[end..];
    }
    Ok(sign * seconds)
}

/// A duration in nanoseconds as Go prints it.
pub fn format_duration(nanoseconds: i64) -> String {
    const SECOND: u64 = 1_000_000_000;
    let amount = nanoseconds.unsigned_abs();
    let text = match amount {
        0 => "0s".to_owned(),
        1..1_000 => format!("{amount}ns"),
        1_000..1_000_000 => format!("{}µs", decimal(amount, 1_000)),
        1_000_000..SECOND => format!("{}ms", decimal(amount, 1_000_000)),
        _ => {
            let (minutes, seconds) = (amount / (60 * SECOND), decimal(amount % (60 * SECOND), SECOND));
            match (minutes / 60, minutes % 60) {
                (0, 0) => format!("{seconds}s"),
                (0, minutes) => format!("{minutes}m{seconds}s"),
                (hours, minutes) => format!("{hours}h{minutes}m{seconds}s"),
            }
        }
    };
    if nanoseconds < 0 { format!("-{text}") } else { text }
}

/// An amount in a unit that is a power of ten, with as many decimals as it needs.
fn decimal(amount: u64, unit: u64) -> String {
    let (whole, rest) = (amount / unit, amount % unit);
    if rest == 0 {
        return whole.to_string();
    }
    let digits = unit.ilog10() as usize;
    format!("{whole}.{}", format!("{rest:0digits$}").trim_end_matches('0'))
}

/// A text that is parsed along a layout.
struct Reader<'t> {
    text: &'t str,
    rest: &'t str,
    layout: &'static str,
}

impl<'t> Reader<'t> {
    fn new(text: &'t str, layout: &'static str) -> Reader<'t> {
        Reader { text, rest: text, layout }
    }

    fn read(mut self, six_decimals: bool) -> Result<Timestamp, String> {
        let year = self.number("2006", 4, 4)?;
        self.literal("-")?;
        let month = self.in_range("month", "01", 2, 1..=12)?;
        self.literal("-")?;
        let day = self.number("02", 2, 2)?;
        self.literal("T")?;
        let hour = self.in_range("hour", "15", 1, 0..=23)?;
        self.literal(":")?;
        let minute = self.in_range("minute", "04", 2, 0..=59)?;
        self.literal(":")?;
        let second = self.in_range("second", "05", 2, 0..=59)?;
        let nanosecond = if six_decimals { self.six_decimals()? } else { self.decimals() };
        let offset = self.offset()?;
        if !self.rest.is_empty() {
            return Err(format!("parsing time {}: extra text: {}", quoted(self.text), quoted(self.rest)));
        }
        let date = Date::new(year as i16, month as i8, day as i8).map_err(|_| self.out_of_range("day"))?;
        let time = date.at(hour as i8, minute as i8, second as i8, nanosecond);
        let zoned = Offset::from_seconds(offset).and_then(|offset| offset.to_timestamp(time));
        zoned.map_err(|_| self.out_of_range("year"))
    }

    fn mismatch(&self, element: &str) -> String {
        let [text, layout, rest, element] = [self.text, self.layout, self.rest, element].map(quoted);
        format!("parsing time {text} as {layout}: cannot parse {rest} as {element}")
    }

    fn out_of_range(&self, what: &str) -> String {
        format!("parsing time {}: {what} out of range", quoted(self.text))
    }

    fn literal(&mut self, literal: &str) -> Result<(), String> {
        self.rest = self.rest.strip_prefix(literal).ok_or_else(|| self.mismatch(literal))?;
        Ok(())
    }

    fn number(&mut self, element: &str, least: usize, most: usize) -> Result<i32, String> {
        let digits = self.rest.bytes().take(most).take_while(u8::is_ascii_digit).count();
        if digits < least {
            return Err(self.mismatch(element));
        }
        let (number, rest) = self.rest.split_at(digits);
        self.rest = rest;
        Ok(number.bytes().fold(0, |sum, digit| sum * 10 + i32::from(digit - b'0')))
    }

    fn in_range(
        &mut self,
        what: &str,
        element: &str,
        least: usize,
        range: RangeInclusive<i32>,
    ) -> Result<i32, String> {
        let number = self.number(element, least, 2)?;
        if range.contains(&number) { Ok(number) } else { Err(self.out_of_range(what)) }
    }

    fn six_decimals(&mut self) -> Result<i32, String> {
        let digits = self.rest.strip_prefix('.').and_then(|rest| rest.get(..6));
        match digits {
            Some(digits) if digits.bytes().all(|b| b.is_ascii_digit()) => {
                self.rest = &self.rest[7..];
                Ok(digits.bytes().fold(0, |sum, digit| sum * 10 + i32::from(digit - b'0')) * 1000)
            }
            _ => Err(self.mismatch(".000000")),
        }
    }

    /// Decimals that the layout does not require; digits beyond nanoseconds are dropped.
    fn decimals(&mut self) -> i32 {
        let Some(after) = self.rest.strip_prefix(['.', ',']) else { return 0 };
        let count = after.bytes().take_while(u8::is_ascii_digit).count();
        if count == 0 {
            return 0;
        }
        let (digits, rest) = after.split_at(count);
        self.rest = rest;
        digits.bytes().chain(std::iter::repeat(b'0')).take(9).fold(0, |sum, d| sum * 10 + i32::from(d - b'0'))
    }

    fn offset(&mut self) -> Result<i32, String> {
        if let Some(rest) = self.rest.strip_prefix('Z') {
            self.rest = rest;
            return Ok(0);
        }
        let shape = self.rest.as_bytes();
        let fits = matches!(shape, [b'+' | b'-', h, hh, b':', m, mm, ..]
            if [h, hh, m, mm].iter().all(|b| b.is_ascii_digit()));
        if !fits {
            return Err(self.mismatch("Z07:00"));
        }
        let two = |at: usize| i32::from(shape[at] - b'0') * 10 + i32::from(shape[at + 1] - b'0');
        let (hours, minutes) = (two(1), two(4));
        let sign = if shape[0] == b'-' { -1 } else { 1 };
        if hours > 24 {
            return Err(self.out_of_range("time zone offset hour"));
        }
        if minutes > 60 {
            return Err(self.out_of_range("time zone offset minute"));
        }
        self.rest = &self.rest[6..];
        Ok(sign * (hours * 3600 + minutes * 60))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_and_any_offset() {
        let at = parse("2024-02-29T12:00:00.5+02:00").unwrap();
        assert_eq!(format(at), "2024-02-29T10:00:00Z");
        assert_eq!(format_micro(at), "2024-02-29T10:00:00.500000Z");
        assert_eq!(parse("0001-01-01T00:00:00Z").map(format).unwrap(), "0001-01-01T00:00:00Z");
        assert_eq!(parse("2026-01-01T0:00:00Z").map(format).unwrap(), "2026-01-01T00:00:00Z");
        assert!(parse_micro("2026-01-01T00:00:00.000001Z").is_ok());
    }

    #[test]
    fn refusals_are_worded_as_gos() {
        let check = |parse: fn(&str) -> Result<Timestamp, String>, text: &str, expected: &str| {
            let error = parse(text).unwrap_err();
            assert!(error.starts_with(&format!("parsing time {text:?}")), "{error}");
            assert!(error.ends_with(expected), "{error}");
        };
        check(parse, "yesterday", "cannot parse \"yesterday\" as \"2006\"");
        check(parse, "2026-01-01", "cannot parse \"\" as \"T\"");
        check(parse, "2026-01-01T00:00Z", "cannot parse \"Z\" as \":\"");
        check(parse, "2026-01-01T00:00:00.Z", "cannot parse \".Z\" as \"Z07:00\"");
        check(parse, "2026-01-01T00:00:00+0100", "cannot parse \"+0100\" as \"Z07:00\"");
        check(parse, "2026-01-01T00:00:60Z", ": second out of range");
        check(parse, "2026-02-30T00:00:00Z", ": day out of range");
        check(parse, "2026-01-01T00:00:00Zx", ": extra text: \"x\"");
        let escaped = r#"parsing time "\xc3\xa9\x0a\"" as "2006-01-02T15:04:05Z07:00": cannot parse "\xc3\xa9\x0a\"" as "2006""#;
        assert_eq!(parse("\u{e9}\n\"").unwrap_err(), escaped);
        check(parse_micro, "2026-01-01T00:00:00Z", "cannot parse \"Z\" as \".000000\"");
        check(parse_micro, "2026-01-01T00:00:00.1234567Z", "cannot parse \"7Z\" as \"Z07:00\"");
        check(parse_micro, "2026-01-01T00:00:00.000000+25:00", ": time zone offset hour out of range");
    }

    #[test]
    fn durations() {
        assert_eq!(go_duration("1m30s"), Ok(90.0));
        assert_eq!(go_duration("-1.5s"), Ok(-1.5));
        assert_eq!(go_duration("0"), Ok(0.0));
        assert_eq!(go_duration("5").unwrap_err(), "time: missing unit in duration \"5\"");
        assert_eq!(go_duration("5x").unwrap_err(), "time: unknown unit \"x\" in duration \"5x\"");
        for (nanoseconds, text) in [
            (0, "0s"),
            (17, "17ns"),
            (1_500, "1.5µs"),
            (-2_000_001, "-2.000001ms"),
            (15_000_000_000, "15s"),
            (90_500_000_000, "1m30.5s"),
            (3_600_000_000_000, "1h0m0s"),
        ] {
            assert_eq!(format_duration(nanoseconds), text);
            assert_eq!((go_duration(text).unwrap() * 1e9).round(), nanoseconds as f64);
        }
        for bad in ["", "s", ".s", "-"] {
            assert_eq!(go_duration(bad).unwrap_err(), format!("time: invalid duration {bad:?}"));
        }
    }
}
