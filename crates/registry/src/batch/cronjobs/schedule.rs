//! Schedules in Cron's notation: five fields, or a word for common ones, perhaps after a time zone.
//!
//! Only whether a schedule makes sense is told here, in the words upstream has for those that do not.

use corten_api::status::quoted;

/// What a field of a schedule may hold.
struct Bounds {
    min: u64,
    max: u64,
    /// Words for numbers, from the least.
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
const TIME_ZONES: &str = include_str!("time_zones.txt");

/// Whether there is a time zone of this name.
pub(super) fn is_time_zone(name: &str) -> bool {
    matches!(name, "UTC" | "Local") || TIME_ZONES.lines().any(|zone| zone == name)
}

/// What is wrong with a schedule that is not empty.
pub(super) fn parse(schedule: &str) -> Result<(), String> {
    let schedule = match schedule.strip_prefix("TZ=").or_else(|| schedule.strip_prefix("CRON_TZ=")) {
        None => schedule,
        Some(rest) => {
            let Some((zone, rest)) = rest.split_once(' ') else {
                return Err(
                    "invalid schedule format: runtime error: slice bounds out of range [:-1]".to_owned()
                );
            };
            if !zone.is_empty() && !is_time_zone(zone) {
                return Err(format!("provided bad location {zone}: unknown time zone {zone}"));
            }
            rest.trim()
        }
    };
    if schedule.starts_with('@') {
        return parse_descriptor(schedule);
    }
    let fields: Vec<&str> = schedule.split_whitespace().collect();
    if fields.len() != FIELDS.len() {
        let shown = fields.join(" ");
        return Err(format!("expected exactly {} fields, found {}: [{shown}]", FIELDS.len(), fields.len()));
    }
    fields.iter().zip(&FIELDS).try_for_each(|(field, bounds)| {
        field.split(',').filter(|range| !range.is_empty()).try_for_each(|range| parse_range(range, bounds))
    })
}

fn parse_descriptor(descriptor: &str) -> Result<(), String> {
    match descriptor {
        "@yearly" | "@annually" | "@monthly" | "@weekly" | "@daily" | "@midnight" | "@hourly" => Ok(()),
        _ => match descriptor.strip_prefix("@every ") {
            Some(duration) => parse_duration(duration)
                .map_err(|why| format!("failed to parse duration {descriptor}: {why}")),
            None => Err(format!("unrecognized descriptor: {descriptor}")),
        },
    }
}

/// `5`, `1-5`, `*`, each perhaps with a step: `*/2`.
fn parse_range(range: &str, bounds: &Bounds) -> Result<(), String> {
    let mut steps = range.split('/');
    let mut limits = steps.next().unwrap_or_default().split('-');
    let (low, high) = (limits.next().unwrap_or_default(), limits.next());
    let (start, mut end) = if matches!(low, "*" | "?") {
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
    // A single number with a step goes on to the end.
    if step.is_some() && high.is_none() {
        end = bounds.max;
    }
    let Bounds { min, max, .. } = bounds;
    match () {
        () if start < *min => Err(format!("beginning of range ({start}) below minimum ({min}): {range}")),
        () if end > *max => Err(format!("end of range ({end}) above maximum ({max}): {range}")),
        () if start > end => {
            Err(format!("beginning of range ({start}) beyond end of range ({end}): {range}"))
        }
        () if step == Some(0) => Err(format!("step of range should be a positive number: {range}")),
        () => Ok(()),
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

/// `1h30m`, in Go's notation.
fn parse_duration(text: &str) -> Result<(), String> {
    let invalid = || format!("time: invalid duration {}", quoted(text));
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let mut rest = unsigned;
    if rest == "0" {
        return Ok(());
    }
    while !rest.is_empty() || unsigned.is_empty() {
        let (number, after) = split_at(rest, |c| !c.is_ascii_digit() && c != '.');
        if number.parse::<f64>().is_err() {
            return Err(invalid());
        }
        let (unit, after) = split_at(after, |c| c.is_ascii_digit() || c == '.');
        match unit {
            "ns" | "us" | "µs" | "μs" | "ms" | "s" | "m" | "h" => {}
            "" => return Err(format!("time: missing unit in duration {}", quoted(text))),
            other => {
                return Err(format!("time: unknown unit {} in duration {}", quoted(other), quoted(text)));
            }
        }
        rest = after;
    }
    Ok(())
}

fn split_at(text: &str, end: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(end).unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_that_make_sense() {
        for schedule in [
            "* * * * *",
            "*/5 0-6/2 1,15 jan-DEC sun",
            "5/15 ? * * 0-6",
            "@hourly",
            "@every 1h30m",
            "TZ=Europe/Berlin 0 0 * * *",
            ", * * * *",
        ] {
            assert_eq!(parse(schedule), Ok(()), "{schedule}");
        }
    }

    #[test]
    fn zones_are_sorted() {
        assert!(TIME_ZONES.lines().is_sorted());
        assert!(is_time_zone("America/New_York") && !is_time_zone("America/Old_York"));
    }
}
