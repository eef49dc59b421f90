//! Points in time as users write and read them.

use std::fmt;

use anyhow::{Context, bail};
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp};

use crate::table;

/// A time, or a revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Moment {
    Time(Timestamp),
    Revision(u64),
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Moment::Time(time) => time.fmt(f),
            Moment::Revision(revision) => revision.fmt(f),
        }
    }
}

/// Reads `10 minutes ago`, `2h`, a local or an absolute time, or a revision.
pub(super) fn parse(text: &str, now: Timestamp) -> anyhow::Result<Moment> {
    let text = text.trim();
    if let Ok(revision) = text.parse() {
        return Ok(Moment::Revision(revision));
    }
    let time = match (text, text.parse::<Timestamp>(), text.parse::<DateTime>(), text.parse::<Span>()) {
        ("now", ..) => now,
        (_, Ok(time), ..) => time,
        (_, _, Ok(local), _) => local.to_zoned(TimeZone::system()).context("no such local time")?.timestamp(),
        (.., Ok(span)) => {
            // `2h` and `2h ago` are the same: history has no future.
            let here = now.to_zoned(TimeZone::system());
            here.checked_sub(span.abs()).context("that is too long ago")?.timestamp()
        }
        _ => bail!("{text:?} is no time: give '10 minutes ago', 2h, '2026-11-19 21:30', or a revision"),
    };
    Ok(Moment::Time(time))
}

/// A time with its age.
pub(super) fn shown(time: Timestamp, now: Timestamp) -> String {
    let age = now.duration_since(time).as_secs().max(0);
    let local = time.to_zoned(TimeZone::system());
    format!("{} ago ({})", table::short(age), local.strftime("%Y-%m-%d %H:%M:%S"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_users_write_them() {
        let now: Timestamp = "2026-11-19T21:30:00Z".parse().unwrap();
        let at = |text: &str| parse(text, now).map(|moment| moment.to_string());
        for (text, expected) in [
            ("10 minutes ago", "2026-11-19T21:20:00Z"),
            ("2h", "2026-11-19T19:30:00Z"),
            ("1 day 2 hours ago", "2026-11-18T19:30:00Z"),
            ("2026-11-19T21:00:00+01:00", "2026-11-19T20:00:00Z"),
            ("now", "2026-11-19T21:30:00Z"),
            (" 1042 ", "1042"),
        ] {
            assert_eq!(at(text).unwrap(), expected, "{text}");
        }
        assert!(at("2026-11-19 20:00").is_ok());
        for bad in ["", "soon", "-5"] {
            assert!(at(bad).is_err(), "{bad:?}");
        }
    }
}
