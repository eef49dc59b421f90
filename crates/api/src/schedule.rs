//! Schedules in Cron's notation: five fields, or a word for common ones, optionally after a time zone. Errors have
//! upstream's texts.
//!
//! Times are local times of the time zone: a time that is skipped in spring does not occur, one that is
//! repeated in autumn occurs twice.

mod durations;

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use crate::status::quoted;

/// The allowed values of a field of a schedule.
struct Bounds {
    min: u64,
    max: u64,
    /// Names for numbers, from the least.
    names: &'static [&'static str],
}

const FIELDS: [Bounds; 5] = [
    Bounds { min: 0, max: 59, names: &[] },
    Bounds { min: 0, max: 23, names: &[] },
    Bounds { min: 1, max: 31, names: &[] },
    Bounds {
        min: 1,
        max: 12,
        names: &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"],
    },
    Bounds { min: 0, max: 6, names: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"] },
];

/// Names of the time zone database, in byte order.
const TIME_ZONES: &str = include_str!("schedule/time_zones.txt");

/// Maximum number of years until the next time of a schedule.
const MOST_YEARS: i16 = 5;

/// Returns true if there is a time zone of this name.
pub fn is_time_zone(name: &str) -> bool {
    matches!(name, "UTC" | "Local") || TIME_ZONES.lines().any(|zone| zone == name)
}

/// The time zone of a name. `Local` is unknown: there is no local time zone here.
pub fn time_zone(name: &str) -> Option<TimeZone> {
    match name {
        "" | "UTC" => Some(TimeZone::UTC),
        "Local" => None,
        name => is_time_zone(name).then(|| TimeZone::get(name).ok()).flatten(),
    }
}

/// A parsed schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Schedule {
    /// At these times, in this time zone if it names one.
    At(Times, Option<TimeZone>),
    /// In intervals of this duration.
    Every(SignedDuration),
}

/// Minutes, hours, days of the month, months and days of the week.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Times([Values; 5]);

/// The values of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Values {
    bits: u64,
    /// True if the field is `*`.
    all: bool,
}

impl Values {
    fn holds(self, number: i8) -> bool {
        self.bits >> number & 1 == 1
    }
}

impl Schedule {
    /// Parses a schedule that is not empty.
    pub fn parse(schedule: &str) -> Result<Schedule, String> {
        let (schedule, zone) =
            match schedule.strip_prefix("TZ=").or_else(|| schedule.strip_prefix("CRON_TZ=")) {
                None => (schedule, None),
                Some(rest) => parse_zone(rest)?,
            };
        if schedule.starts_with('@') {
            return parse_descriptor(schedule, zone);
        }
        let fields: Vec<&str> = schedule.split_whitespace().collect();
        if fields.len() != FIELDS.len() {
            let (wanted, found, shown) = (FIELDS.len(), fields.len(), fields.join(" "));
            return Err(format!("expected exactly {wanted} fields, found {found}: [{shown}]"));
        }
        let mut times = [Values { bits: 0, all: false }; 5];
        for ((values, field), bounds) in times.iter_mut().zip(fields).zip(&FIELDS) {
            *values = parse_field(field, bounds)?;
        }
        Ok(Schedule::At(Times(times), zone))
    }

    /// The same schedule in a time zone, unless it names one itself.
    #[must_use]
    pub fn in_zone(self, zone: TimeZone) -> Schedule {
        match self {
            Schedule::At(times, None) => Schedule::At(times, Some(zone)),
            other => other,
        }
    }

    /// The next time after a time, if any. A schedule without a time zone is in that of `here`.
    pub fn next(&self, after: Timestamp, here: &TimeZone) -> Option<Timestamp> {
        let whole = Timestamp::from_second(after.as_second()).ok()?;
        match self {
            Schedule::Every(delay) => whole.checked_add(*delay).ok(),
            Schedule::At(times, zone) => {
                let next = whole.checked_add(SignedDuration::from_secs(1)).ok()?;
                times.first_from(next, zone.as_ref().unwrap_or(here))
            }
        }
    }
}

impl Times {
    /// Returns the first matching time at or after `at`. Skips months, days and hours that cannot match.
    fn first_from(&self, mut at: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        let Times([minutes, hours, _, months, _]) = self;
        let last_year = zone.to_datetime(at).year().saturating_add(MOST_YEARS);
        loop {
            let shown = zone.to_datetime(at);
            let to_next_hour = 60 - i64::from(shown.minute());
            at = match () {
                () if shown.year() > last_year => return None,
                () if !months.holds(shown.month()) => {
                    start_of(shown.date().last_of_month().tomorrow().ok()?.into(), zone)?
                }
                () if !self.holds_day(shown) => start_of(shown.date().tomorrow().ok()?.into(), zone)?,
                () if shown.second() != 0 => {
                    at.checked_add(SignedDuration::from_secs(60 - i64::from(shown.second()))).ok()?
                }
                () if !hours.holds(shown.hour()) => {
                    at.checked_add(SignedDuration::from_mins(to_next_hour)).ok()?
                }
                () if !minutes.holds(shown.minute()) => at.checked_add(SignedDuration::from_mins(1)).ok()?,
                () => return Some(at),
            };
        }
    }

    /// A day must match both the day of the month and the day of the week only if one of them is `*`.
    fn holds_day(&self, at: DateTime) -> bool {
        let Times([_, _, of_month, _, of_week]) = self;
        let in_month = of_month.holds(at.day());
        let in_week = of_week.holds(at.weekday().to_sunday_zero_offset());
        if of_month.all || of_week.all { in_month && in_week } else { in_month || in_week }
    }
}

/// The first moment of a local time, or of the time that it is skipped to.
fn start_of(shown: DateTime, zone: &TimeZone) -> Option<Timestamp> {
    zone.to_ambiguous_timestamp(shown).compatible().ok()
}

fn parse_zone(schedule: &str) -> Result<(&str, Option<TimeZone>), String> {
    let Some((name, rest)) = schedule.split_once(' ') else {
        return Err("invalid schedule format: runtime error: slice bounds out of range [:-1]".to_owned());
    };
    let zone = time_zone(name);
    if zone.is_none() && name != "Local" {
        return Err(format!("provided bad location {name}: unknown time zone {name}"));
    }
    Ok((rest.trim(), zone))
}

fn parse_descriptor(descriptor: &str, zone: Option<TimeZone>) -> Result<Schedule, String> {
    let fields = match descriptor {
        "@yearly" | "@annually" => "0 0 1 1 *",
        "@monthly" => "0 0 1 * *",
        "@weekly" => "0 0 * * 0",
        "@daily" | "@midnight" => "0 0 * * *",
        "@hourly" => "0 * * * *",
        _ => {
            let Some(duration) = descriptor.strip_prefix("@every ") else {
                return Err(format!("unrecognized descriptor: {descriptor}"));
            };
            let delay = durations::parse(duration)
                .map_err(|why| format!("failed to parse duration {descriptor}: {why}"))?;
            return Ok(Schedule::Every(SignedDuration::from_secs(delay.as_secs().max(1))));
        }
    };
    Schedule::parse(fields).map(|schedule| match zone {
        Some(zone) => schedule.in_zone(zone),
        None => schedule,
    })
}

fn parse_field(field: &str, bounds: &Bounds) -> Result<Values, String> {
    let mut values = Values { bits: 0, all: false };
    for range in field.split(',').filter(|range| !range.is_empty()) {
        let more = parse_range(range, bounds)?;
        values = Values { bits: values.bits | more.bits, all: values.all || more.all };
    }
    Ok(values)
}

/// `5`, `1-5`, `*`, each perhaps with a step: `*/2`.
fn parse_range(range: &str, bounds: &Bounds) -> Result<Values, String> {
    let mut steps = range.split('/');
    let mut limits = steps.next().unwrap_or_default().split('-');
    let (low, high) = (limits.next().unwrap_or_default(), limits.next());
    let all = matches!(low, "*" | "?");
    let (start, mut end) = if all {
        (bounds.min, bounds.max)
    } else {
        let start = parse_number_or_name(low, bounds)?;
        let end = high.map(|high| parse_number_or_name(high, bounds)).transpose()?.unwrap_or(start);
        if limits.next().is_some() {
            return Err(format!("too many hyphens: {range}"));
        }
        (start, end)
    };
    let step = steps.next().map(parse_number).transpose()?;
    if steps.next().is_some() {
        return Err(format!("too many slashes: {range}"));
    }
    // A single number with a step extends to the end.
    if step.is_some() && high.is_none() {
        end = bounds.max;
    }
    let Bounds { min, max, .. } = bounds;
    let step = step.unwrap_or(1);
    match () {
        () if start < *min => Err(format!("beginning of range ({start}) below minimum ({min}): {range}")),
        () if end > *max => Err(format!("end of range ({end}) above maximum ({max}): {range}")),
        () if start > end => {
            Err(format!("beginning of range ({start}) beyond end of range ({end}): {range}"))
        }
        () if step == 0 => Err(format!("step of range should be a positive number: {range}")),
        () => {
            let stride = usize::try_from(step).unwrap_or(usize::MAX);
            let bits = (start..=end).step_by(stride).fold(0, |bits, number| bits | 1 << number);
            Ok(Values { bits, all: all && step == 1 })
        }
    }
}

fn parse_number_or_name(text: &str, bounds: &Bounds) -> Result<u64, String> {
    match (bounds.min..).zip(bounds.names).find(|(_, name)| name.eq_ignore_ascii_case(text)) {
        Some((number, _)) => Ok(number),
        None => parse_number(text),
    }
}

fn parse_number(text: &str) -> Result<u64, String> {
    let number: i64 = text.parse().map_err(|error: std::num::ParseIntError| {
        let why = match error.kind() {
            std::num::IntErrorKind::PosOverflow | std::num::IntErrorKind::NegOverflow => "value out of range",
            _ => "invalid syntax",
        };
        format!("failed to parse int from {text}: strconv.Atoi: parsing {}: {why}", quoted(text))
    })?;
    u64::try_from(number).map_err(|_| format!("negative number ({number}) not allowed: {text}"))
}

#[cfg(test)]
mod tests;
