//! Which times of a schedule a cron job has missed, and when to look at it again.

use std::time::Duration;

use corten_api::schedule::Schedule;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

/// A look a little late finds what is due even if clocks differ a little.
const LATE: Duration = Duration::from_millis(100);
/// From so many on, something must be wrong.
const MANY: i64 = 100;

/// A schedule, and since when its times count.
#[derive(Debug)]
pub(super) struct Times<'a> {
    pub(super) schedule: &'a Schedule,
    /// Where schedules without a time zone are.
    pub(super) here: &'a TimeZone,
    /// The last time something was started, or when the cron job came.
    pub(super) since: Timestamp,
    pub(super) now: Timestamp,
}

/// The times up to now.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Missed {
    /// The last of them.
    pub(super) last: Option<Timestamp>,
    pub(super) any: bool,
    pub(super) many: bool,
}

/// The schedule says something that never happens.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Never;

pub(super) const NEVER: &str = "time difference between two schedules is less than 1 second";

impl Times<'_> {
    fn next(&self, after: Timestamp) -> Option<Timestamp> {
        self.schedule.next(after, self.here)
    }

    /// What was missed. With a deadline, what is older is not asked for.
    pub(super) fn missed(&self, deadline: Option<SignedDuration>) -> Result<Missed, Never> {
        let oldest = deadline.and_then(|deadline| self.now.checked_sub(deadline).ok());
        let since = oldest.map_or(self.since, |oldest| oldest.max(self.since));
        let first = self.next(since).ok_or(Never)?;
        if self.now < first {
            return Ok(Missed::default());
        }
        let second = self.next(first).ok_or(Never)?;
        if self.now < second {
            return Ok(Missed { last: Some(first), ..Missed::default() });
        }
        self.missed_from(first, second)
    }

    /// Schedules are taken to be about as regular as their first two times, so that most can be skipped; the last
    /// few are looked at one by one. Where that is wrong, as on weekends without any, nothing is found.
    fn missed_from(&self, first: Timestamp, second: Timestamp) -> Result<Missed, Never> {
        let interval = second.duration_since(first).as_secs();
        if interval < 1 {
            return Err(Never);
        }
        let count = self.now.duration_since(first).as_secs() / interval + 1;
        let skipped = SignedDuration::from_secs((count - 2).saturating_mul(interval));
        let mut last = None;
        let mut at = first.checked_add(skipped).ok().and_then(|from| self.next(from));
        while let Some(due) = at.filter(|due| *due <= self.now) {
            last = Some(due);
            at = self.next(due);
        }
        Ok(Missed { last, any: true, many: count > MANY })
    }

    /// How long until the next time.
    pub(super) fn wait(&self) -> Duration {
        let from = match self.missed(None) {
            Ok(Missed { last: Some(last), .. }) => last,
            Ok(Missed { any: false, .. }) => self.since,
            _ => self.now,
        };
        let Some(next) = self.next(from) else { return Duration::MAX };
        Duration::try_from(next.duration_since(self.now)).unwrap_or_default() + LATE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        format!("2026-{text}Z").parse().unwrap()
    }

    #[test]
    fn what_was_missed() {
        let hourly = "0 * * * *";
        let cases = [
            ("nothing yet", hourly, "05-19T09:00:00", "05-19T09:58:00", None, Some(None), false),
            ("one", hourly, "05-19T09:00:00", "05-19T10:00:01", None, Some(Some("05-19T10:00:00")), false),
            (
                "the last of two",
                hourly,
                "05-19T09:00:00",
                "05-19T11:30:00",
                None,
                Some(Some("05-19T11:00:00")),
                false,
            ),
            (
                "very many",
                hourly,
                "05-01T09:00:00",
                "05-19T11:30:00",
                None,
                Some(Some("05-19T11:00:00")),
                true,
            ),
            (
                "within a deadline",
                hourly,
                "05-01T09:00:00",
                "05-19T11:30:00",
                Some(3600),
                Some(Some("05-19T11:00:00")),
                false,
            ),
            (
                "all before the deadline",
                hourly,
                "05-01T09:00:00",
                "05-19T11:30:00",
                Some(60),
                Some(None),
                false,
            ),
            (
                "irregular",
                "30 6-16/4 * * 1-5",
                "09-10T12:00:00",
                "09-11T00:00:00",
                None,
                Some(Some("09-10T14:30:00")),
                false,
            ),
            (
                "irregular, over a weekend",
                "30 6-16/4 * * 1-5",
                "09-11T05:00:00",
                "09-13T00:00:00",
                None,
                Some(None),
                false,
            ),
            (
                "from where it began",
                "@every 1h",
                "05-19T09:20:00",
                "05-19T12:30:00",
                None,
                Some(Some("05-19T12:20:00")),
                false,
            ),
            ("never", "59 23 31 2 *", "01-01T00:00:00", "05-19T11:30:00", None, None, false),
        ];
        for (why, schedule, since, now, deadline, expected, many) in cases {
            let schedule = Schedule::parse(schedule).unwrap();
            let times = Times { schedule: &schedule, here: &TimeZone::UTC, since: at(since), now: at(now) };
            let found = times.missed(deadline.map(SignedDuration::from_secs));
            assert_eq!(
                found.as_ref().ok().map(|missed| missed.last),
                expected.map(|last| last.map(at)),
                "{why}"
            );
            assert_eq!(found.is_ok_and(|missed| missed.many), many, "{why}");
        }
    }

    #[test]
    fn when_to_look_again() {
        for (why, schedule, since, now, wait) in [
            ("before the first", "0 * * * *", "05-19T09:00:00", "05-19T09:58:00", 120),
            ("after the first", "0 * * * *", "05-19T09:00:00", "05-19T10:01:00", 3540),
            ("after many", "0 * * * *", "05-01T09:00:00", "05-19T10:59:00", 60),
            ("twice a year", "0 0 1 1,7 *", "01-01T00:00:00", "06-30T00:00:00", 86_400),
            ("steps", "@every 1h", "05-19T09:20:00", "05-19T12:30:00", 3000),
        ] {
            let schedule = Schedule::parse(schedule).unwrap();
            let times = Times { schedule: &schedule, here: &TimeZone::UTC, since: at(since), now: at(now) };
            assert_eq!(times.wait(), Duration::from_secs(wait) + LATE, "{why}");
        }
    }
}
