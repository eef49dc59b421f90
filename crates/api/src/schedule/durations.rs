//! Durations in Go's notation: `1h30m`.

use jiff::SignedDuration;

use crate::status::quoted;

/// Parses a duration, with nanosecond precision.
pub(super) fn parse(text: &str) -> Result<SignedDuration, String> {
    let invalid = || format!("time: invalid duration {}", quoted(text));
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let mut rest = unsigned;
    if rest == "0" {
        return Ok(SignedDuration::ZERO);
    }
    let mut seconds = 0.0;
    while !rest.is_empty() || unsigned.is_empty() {
        let (number, after) = split_at(rest, |c| !c.is_ascii_digit() && c != '.');
        let Ok(number) = number.parse::<f64>() else { return Err(invalid()) };
        let (unit, after) = split_at(after, |c| c.is_ascii_digit() || c == '.');
        seconds += number
            * match unit {
                "ns" => 1e-9,
                "us" | "µs" | "μs" => 1e-6,
                "ms" => 1e-3,
                "s" => 1.0,
                "m" => 60.0,
                "h" => 3600.0,
                "" => return Err(format!("time: missing unit in duration {}", quoted(text))),
                other => {
                    return Err(format!("time: unknown unit {} in duration {}", quoted(other), quoted(text)));
                }
            };
        rest = after;
    }
    let duration = SignedDuration::try_from_secs_f64(seconds).map_err(|_| invalid())?;
    Ok(if text.starts_with('-') { -duration } else { duration })
}

fn split_at(text: &str, end: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(end).unwrap_or(text.len()))
}
