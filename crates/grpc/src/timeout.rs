//! The header `grpc-timeout`: at most eight digits and a unit.

use std::time::Duration;

pub(crate) const TIMEOUT: &str = "grpc-timeout";

const MAX_DIGITS: u128 = 99_999_999;
/// The units, finest first, and their nanoseconds.
const UNITS: [(char, u128); 6] = [
    ('n', 1),
    ('u', 1_000),
    ('m', 1_000_000),
    ('S', 1_000_000_000),
    ('M', 60_000_000_000),
    ('H', 3_600_000_000_000),
];

/// The timeout in the finest unit that fits, rounded up so that a short one is not none.
pub(crate) fn encode(timeout: Duration) -> String {
    let nanoseconds = timeout.as_nanos();
    let fitting = UNITS.iter().map(|(unit, length)| (unit, nanoseconds.div_ceil(*length)));
    let fitting = fitting.into_iter().find(|(_, count)| *count <= MAX_DIGITS);
    fitting.map_or_else(|| format!("{MAX_DIGITS}H"), |(unit, count)| format!("{count}{unit}"))
}

/// `None` if the text is not a timeout.
pub(crate) fn decode(text: &str) -> Option<Duration> {
    let unit = text.chars().next_back()?;
    let digits = &text[..text.len() - unit.len_utf8()];
    let (_, length) = UNITS.iter().find(|(known, _)| *known == unit)?;
    if digits.is_empty() || digits.len() > 8 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let nanoseconds = digits.parse::<u128>().ok()? * length;
    let seconds = u64::try_from(nanoseconds / 1_000_000_000).ok()?;
    Some(Duration::new(seconds, (nanoseconds % 1_000_000_000) as u32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_come_back_at_least_as_long() {
        let cases = [
            (Duration::from_millis(1), "1000000n"),
            (Duration::from_secs(5), "5000000u"),
            (Duration::from_secs(3600), "3600000m"),
            (Duration::from_secs(200_000), "200000S"),
            (Duration::MAX, "99999999H"),
        ];
        for (timeout, text) in cases {
            assert_eq!(encode(timeout), text);
            let decoded = decode(text).unwrap();
            assert!(decoded >= timeout.min(Duration::from_secs(99_999_999 * 3600)), "{decoded:?}");
        }
        for invalid in ["", "5", "S", "123456789S", "-1S", "+1S", "1s", "1ü", "0x1S"] {
            assert_eq!(decode(invalid), None, "{invalid}");
        }
    }
}
