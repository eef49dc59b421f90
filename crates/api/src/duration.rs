//! Durations for display: `45s`, `3m20s`, `5d`, two or three significant figures at most.

use jiff::{SignedDuration, Timestamp};

/// A duration in few characters. A clock skew of a second or two is ignored; a longer
/// negative duration is `<invalid>`.
pub fn human_duration(span: SignedDuration) -> String {
    let seconds = span.as_secs();
    if seconds < -1 {
        return "<invalid>".to_owned();
    }
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let days = hours / 24;
    match () {
        () if seconds < 0 => "0s".to_owned(),
        () if seconds < 120 => format!("{seconds}s"),
        () if minutes < 10 => pair(minutes, "m", seconds % 60, "s"),
        () if minutes < 180 => format!("{minutes}m"),
        () if hours < 8 => pair(hours, "h", minutes % 60, "m"),
        () if hours < 48 => format!("{hours}h"),
        () if days < 8 => pair(days, "d", hours % 24, "h"),
        () if days < 365 * 2 => format!("{days}d"),
        () if days < 365 * 8 => pair(days / 365, "y", days % 365, "d"),
        () => format!("{}y", days / 365),
    }
}

fn pair(major: i64, major_unit: &str, minor: i64, minor_unit: &str) -> String {
    if minor == 0 {
        format!("{major}{major_unit}")
    } else {
        format!("{major}{major_unit}{minor}{minor_unit}")
    }
}

/// The time since `then`, for display.
pub fn human_since(then: Timestamp, now: Timestamp) -> String {
    human_duration(now.duration_since(then))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_shrink_as_spans_grow() {
        const HOUR: i64 = 3600;
        const DAY: i64 = 24 * HOUR;
        const YEAR: i64 = 365 * DAY;
        let table = [
            (-2, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (1, "1s"),
            (70, "70s"),
            (119, "119s"),
            (120, "2m"),
            (190, "3m10s"),
            (599, "9m59s"),
            (600, "10m"),
            (629, "10m"),
            (179 * 60 + 59, "179m"),
            (3 * HOUR, "3h"),
            (3 * HOUR + 60, "3h1m"),
            (7 * HOUR + 59 * 60 + 59, "7h59m"),
            (8 * HOUR, "8h"),
            (47 * HOUR + 59 * 60, "47h"),
            (48 * HOUR, "2d"),
            (49 * HOUR, "2d1h"),
            (8 * DAY - HOUR, "7d23h"),
            (8 * DAY, "8d"),
            (2 * YEAR - DAY, "729d"),
            (2 * YEAR, "2y"),
            (2 * YEAR + DAY, "2y1d"),
            (8 * YEAR - DAY, "7y364d"),
            (8 * YEAR + 300 * DAY, "8y"),
        ];
        for (seconds, expected) in table {
            assert_eq!(human_duration(SignedDuration::from_secs(seconds)), expected, "{seconds} s");
        }
        assert_eq!(human_duration(SignedDuration::from_millis(-1900)), "0s");
    }
}
