//! Timestamps and durations: calendar arithmetic, and the texts that Go's time package parses and prints.
//!
//! A timestamp keeps the offset it was written with, because its text shows it; it is compared by instant. Invariant:
//! the year is between 1 and 9999.

use std::cmp::Ordering;
use std::fmt;

use jiff::tz::TimeZone;

pub const NANOS: i64 = 1_000_000_000;
/// Seconds of the first and the last second of the years 1 to 9999.
pub const MIN_SECONDS: i64 = -62_135_596_800;
pub const MAX_SECONDS: i64 = 253_402_300_799;

#[derive(Clone, Copy, Debug)]
pub struct Timestamp {
    /// Seconds since 1970.
    pub seconds: i64,
    pub nanos: u32,
    /// Seconds east of UTC.
    pub offset: i32,
}

/// Calendar fields of a timestamp in some time zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Civil {
    pub year: i64,
    pub month: u32,
    pub day: u32,
    pub hour: u32,
    pub minute: u32,
    pub second: u32,
    /// Days since the first of January.
    pub year_day: u32,
    /// Days since Sunday.
    pub week_day: u32,
}

impl Timestamp {
    /// A timestamp in UTC; `None` outside the years 1 to 9999.
    pub fn new(seconds: i64, nanos: u32) -> Option<Timestamp> {
        (MIN_SECONDS..=MAX_SECONDS).contains(&seconds).then_some(Timestamp { seconds, nanos, offset: 0 })
    }

    pub fn same_instant(self, other: Timestamp) -> bool {
        self.cmp_instant(other) == Ordering::Equal
    }

    pub fn cmp_instant(self, other: Timestamp) -> Ordering {
        (self.seconds, self.nanos).cmp(&(other.seconds, other.nanos))
    }

    /// True for the first second of the year 1.
    pub fn is_zero(self) -> bool {
        self.seconds == MIN_SECONDS && self.nanos == 0
    }

    /// This time plus nanoseconds.
    pub fn plus(self, duration: i64) -> Result<Timestamp, &'static str> {
        let total =
            i128::from(self.seconds) * i128::from(NANOS) + i128::from(self.nanos) + i128::from(duration);
        let seconds = total.div_euclid(i128::from(NANOS));
        let nanos = total.rem_euclid(i128::from(NANOS)) as u32;
        match i64::try_from(seconds) {
            Ok(seconds) if (MIN_SECONDS..=MAX_SECONDS).contains(&seconds) => {
                Ok(Timestamp { seconds, nanos, offset: self.offset })
            }
            _ => Err("timestamp overflow"),
        }
    }

    /// Nanoseconds from another time to this one.
    pub fn since(self, other: Timestamp) -> Result<i64, &'static str> {
        let difference = i128::from(self.seconds - other.seconds) * i128::from(NANOS)
            + i128::from(self.nanos)
            - i128::from(other.nanos);
        i64::try_from(difference).map_err(|_| "integer overflow")
    }

    /// Calendar fields with an offset in seconds east of UTC.
    pub fn civil(self, offset: i64) -> Civil {
        let local = self.seconds.saturating_add(offset);
        let (days, second) = (local.div_euclid(86_400), local.rem_euclid(86_400));
        let (year, month, day) = civil_from_days(days);
        Civil {
            year,
            month,
            day,
            hour: (second / 3600) as u32,
            minute: (second / 60 % 60) as u32,
            second: (second % 60) as u32,
            year_day: (days - days_from_civil(year, 1, 1)) as u32,
            week_day: (days + 4).rem_euclid(7) as u32,
        }
    }

    /// The offset of a named time zone at this time, or of a zone like `-08:30`.
    pub fn offset_in(self, zone: &str) -> Result<i64, String> {
        if let Some((hours, minutes)) = zone.split_once(':') {
            let hours_value = atoi(hours)?;
            let minutes_value = atoi(minutes)?;
            let minutes = if zone.starts_with('-') {
                hours_value * 60 - minutes_value
            } else {
                hours_value * 60 + minutes_value
            };
            return Ok(minutes.saturating_mul(60));
        }
        if matches!(zone, "" | "UTC") {
            return Ok(0);
        }
        let unknown = || format!("unknown time zone {zone}");
        if zone == "Local" {
            return Ok(0);
        }
        let zone = TimeZone::get(zone).map_err(|_| unknown())?;
        let instant = jiff::Timestamp::new(self.seconds, 0).map_err(|_| unknown())?;
        Ok(i64::from(zone.to_offset(instant).seconds()))
    }

    /// Parses RFC 3339 as Go does: fractions of any length, `,` before a fraction, one digit for the hour.
    pub fn parse(text: &str) -> Option<Timestamp> {
        parse_at(text, true)
    }

    /// Parses a `date-time` of a schema: RFC 3339, or a local time, which is UTC.
    pub(super) fn parse_schema(text: &str) -> Result<Timestamp, String> {
        if text.is_empty() {
            return Ok(Timestamp { seconds: 0, nanos: 0, offset: 0 });
        }
        parse_at(text, true).or_else(|| parse_at(text, false)).ok_or_else(|| {
            format!("parsing time {text:?} as \"2006-01-02T15:04:05\": cannot parse {text:?} as \"2006\"")
        })
    }

    /// Parses a `date` of a schema.
    pub(super) fn parse_date(text: &str) -> Result<Timestamp, String> {
        let mut reader = Reader(text.as_bytes());
        let day = reader.date().filter(|_| reader.0.is_empty());
        day.map(|days| Timestamp { seconds: days * 86_400, nanos: 0, offset: 0 }).ok_or_else(|| {
            format!("parsing time {text:?} as \"2006-01-02\": cannot parse {text:?} as \"2006\"")
        })
    }
}

/// RFC 3339 with nanoseconds, as Go prints it.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let civil = self.civil(self.offset.into());
        let Civil { year, month, day, hour, minute, second, .. } = civil;
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")?;
        if self.nanos != 0 {
            let fraction = format!("{:09}", self.nanos);
            write!(f, ".{}", fraction.trim_end_matches('0'))?;
        }
        if self.offset == 0 {
            return f.write_str("Z");
        }
        let (sign, minutes) = (if self.offset < 0 { '-' } else { '+' }, self.offset.abs() / 60);
        write!(f, "{sign}{:02}:{:02}", minutes / 60, minutes % 60)
    }
}

/// Go's `strconv.Atoi` with its message.
fn atoi(text: &str) -> Result<i64, String> {
    text.parse::<i32>().map(i64::from).map_err(|_| format!("strconv.Atoi: parsing {text:?}: invalid syntax"))
}

struct Reader<'t>(&'t [u8]);

impl Reader<'_> {
    /// A number of exactly `digits` digits.
    fn number(&mut self, digits: usize) -> Option<i64> {
        let (head, rest) = self.0.split_at_checked(digits)?;
        let value = head.iter().try_fold(0, |value, byte| match byte {
            b'0'..=b'9' => Some(value * 10 + i64::from(byte - b'0')),
            _ => None,
        })?;
        self.0 = rest;
        Some(value)
    }

    fn skip(&mut self, byte: u8) -> Option<()> {
        self.0 = self.0.strip_prefix(&[byte])?;
        Some(())
    }

    /// Days since 1970.
    fn date(&mut self) -> Option<i64> {
        let year = self.number(4)?;
        self.skip(b'-')?;
        let month = self.number(2)?;
        self.skip(b'-')?;
        let day = self.number(2)?;
        let valid = (1..=12).contains(&month) && (1..=days_in_month(year, month)).contains(&day);
        valid.then(|| days_from_civil(year, month as u32, day as u32))
    }

    /// Seconds of the day, and nanoseconds.
    fn time(&mut self) -> Option<(i64, u32)> {
        let hour = self.number(2).or_else(|| self.number(1))?;
        self.skip(b':')?;
        let minute = self.number(2)?;
        self.skip(b':')?;
        let second = self.number(2)?;
        if hour > 23 || minute > 59 || second > 59 {
            return None;
        }
        let mut nanos = 0;
        if let [b'.' | b',', b'0'..=b'9', ..] = self.0 {
            let digits = self.0[1..].iter().take_while(|byte| byte.is_ascii_digit()).count();
            nanos =
                self.0[1..=digits.min(9)].iter().fold(0, |value, byte| value * 10 + u32::from(byte - b'0'));
            nanos *= 10u32.pow(9 - digits.min(9) as u32);
            self.0 = &self.0[1 + digits..];
        }
        Some((hour * 3600 + minute * 60 + second, nanos))
    }

    /// Seconds east of UTC.
    fn zone(&mut self) -> Option<i64> {
        if self.skip(b'Z').is_some() {
            return Some(0);
        }
        let sign = match self.0.first()? {
            b'+' => 1,
            b'-' => -1,
            _ => return None,
        };
        self.0 = &self.0[1..];
        let hours = self.number(2)?;
        self.skip(b':')?;
        let minutes = self.number(2)?;
        (hours <= 24 && minutes <= 60).then_some(sign * (hours * 3600 + minutes * 60))
    }
}

fn parse_at(text: &str, zoned: bool) -> Option<Timestamp> {
    let mut reader = Reader(text.as_bytes());
    let days = reader.date()?;
    reader.skip(b'T')?;
    let (second, nanos) = reader.time()?;
    let offset = if zoned { reader.zone()? } else { 0 };
    if !reader.0.is_empty() {
        return None;
    }
    Some(Timestamp { seconds: days * 86_400 + second - offset, nanos, offset: offset as i32 })
}

fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days since 1970 of a date of the Gregorian calendar.
fn days_from_civil(year: i64, month: u32, day: u32) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let month_index = i64::from((month + 9) % 12);
    let day_of_year = (153 * month_index + 2) / 5 + i64::from(day) - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

fn civil_from_days(days: i64) -> (i64, u32, u32) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_index = (5 * day_of_year + 2) / 153;
    let day = (day_of_year - (153 * month_index + 2) / 5 + 1) as u32;
    let month = if month_index < 10 { month_index + 3 } else { month_index - 9 } as u32;
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

/// Parses a duration as Go's `time.ParseDuration` does: nanoseconds.
pub fn parse_duration(text: &str) -> Option<i64> {
    let (negative, mut rest) = match text.as_bytes() {
        [b'-', ..] => (true, &text[1..]),
        [b'+', ..] => (false, &text[1..]),
        _ => (false, text),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    // One more than the largest positive duration, for the smallest negative one.
    const LIMIT: u64 = 1 << 63;
    let mut total = 0u64;
    while !rest.is_empty() {
        let whole = rest.bytes().take_while(u8::is_ascii_digit).count();
        let mut value = match whole {
            0 => 0,
            _ => rest[..whole].parse::<u64>().ok().filter(|value| *value <= LIMIT)?,
        };
        rest = &rest[whole..];
        let (mut fraction, mut scale, mut decimals) = (0u64, 1f64, 0);
        if let Some(after) = rest.strip_prefix('.') {
            decimals = after.bytes().take_while(u8::is_ascii_digit).count();
            for byte in after[..decimals].bytes() {
                let next = fraction.checked_mul(10).and_then(|f| f.checked_add(u64::from(byte - b'0')));
                match next.filter(|next| *next < LIMIT) {
                    Some(next) => (fraction, scale) = (next, scale * 10.0),
                    None => break,
                }
            }
            rest = &after[decimals..];
        }
        if whole == 0 && decimals == 0 {
            return None;
        }
        let end = rest.bytes().position(|byte| byte == b'.' || byte.is_ascii_digit()).unwrap_or(rest.len());
        let unit = match &rest[..end] {
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return None,
        };
        rest = &rest[end..];
        value = value.checked_mul(unit).filter(|value| *value <= LIMIT)?;
        value = value
            .checked_add((fraction as f64 * (unit as f64 / scale)) as u64)
            .filter(|value| *value <= LIMIT)?;
        total = total.checked_add(value).filter(|total| *total <= LIMIT)?;
    }
    match negative {
        true => Some((total as i64).wrapping_neg()),
        false => i64::try_from(total).ok(),
    }
}

/// Parses a `duration` of a schema: Go's syntax, or numbers with units up to weeks.
pub(super) fn parse_schema_duration(text: &str) -> Result<i64, String> {
    if let Some(nanos) = parse_duration(text) {
        return Ok(nanos);
    }
    const UNITS: [(&[&str], i64); 8] = [
        (&["ns", "nano"], 1),
        (&["us", "µs", "micro"], 1_000),
        (&["ms", "milli"], 1_000_000),
        (&["s", "sec"], NANOS),
        (&["m", "min"], 60 * NANOS),
        (&["h", "hr", "hour"], 3600 * NANOS),
        (&["d", "day"], 86_400 * NANOS),
        (&["w", "wk", "week"], 604_800 * NANOS),
    ];
    let (mut total, mut found, mut rest) = (0i64, false, text);
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        rest = &rest[start..];
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let after = rest[digits..].trim_start_matches([' ', '\t', '\n', '\r', '\u{c}']);
        let end = after.find(|c: char| !(c.is_ascii_alphabetic() || c == 'µ')).unwrap_or(after.len());
        if end > 0 {
            let number = &rest[..digits];
            let factor: i64 = number
                .parse()
                .map_err(|_| format!("strconv.Atoi: parsing {number:?}: value out of range"))?;
            let unit = after[..end].to_lowercase();
            for (names, multiplier) in UNITS {
                let matches = names.iter().filter(|name| unit == **name).count()
                    + usize::from(names.last().is_some_and(|last| unit.starts_with(last) && unit != *last));
                for _ in 0..matches {
                    found = true;
                    total = total.wrapping_add(factor.wrapping_mul(multiplier));
                }
            }
        }
        rest = if end > 0 { &after[end..] } else { &rest[digits..] };
    }
    match found {
        true => Ok(total),
        false => Err(format!("unable to parse {text} as duration")),
    }
}

/// A duration as Go's `String` method prints it.
pub fn go_duration(nanos: i64) -> String {
    let (sign, total) = (if nanos < 0 { "-" } else { "" }, nanos.unsigned_abs());
    let fraction = |value: u64, unit: u64| {
        let text = format!("{}.{:0width$}", value / unit, value % unit, width = unit.ilog10() as usize);
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    };
    match total {
        0 => "0s".to_owned(),
        1..1_000 => format!("{sign}{total}ns"),
        1_000..1_000_000 => format!("{sign}{}µs", fraction(total, 1_000)),
        1_000_000..1_000_000_000 => format!("{sign}{}ms", fraction(total, 1_000_000)),
        _ => {
            let seconds = fraction(total % 60_000_000_000, 1_000_000_000);
            let minutes = total / 60_000_000_000;
            match (minutes / 60, minutes % 60) {
                (0, 0) => format!("{sign}{seconds}s"),
                (0, minutes) => format!("{sign}{minutes}m{seconds}s"),
                (hours, minutes) => format!("{sign}{hours}h{minutes}m{seconds}s"),
            }
        }
    }
}
