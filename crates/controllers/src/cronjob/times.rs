//! The missed times of a schedule, and the delay until its next time.

use std::time::Duration;

use corten_api::schedule::Schedule;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

/// A reconcile slightly late finds a due time even if clocks differ a little.
const LATE: Duration = Duration::from_millis(100);
/// From this number on, upstream warns about too many missed times.
const MANY: i64 = 100;

/// A schedule, and the time from which it counts.
#[derive(Debug)]
pub(super) struct Times<'a> {
    pub(super) schedule: &'a Schedule,
    /// The time zone of schedules without one.
    pub(super) here: &'a TimeZone,
    /// The time of the last job, or else of the cron job's creation.
    pub(super) since: Timestamp,
    pub(super) now: Timestamp,
}

/// The missed times up to now.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Missed {
    /// The most recent one.
    pub(super) last: Option<Timestamp>,
    pub(super) any: bool,
    pub(super) many: bool,
}

/// The schedule has no times at all.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Never;

pub(super) const NEVER: &str = "time difference between two schedules is less than 1 second";

impl Times<'_> {
    fn next(&self, after: Timestamp) -> Option<Timestamp> {
        self.schedule.next(after, self.here)
    }

    /// The missed times. Those before the deadline are ignored.
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

    /// Assumes that a schedule is about as regular as its first two times, so that most can be skipped; the last few
    /// are enumerated. Where the assumption is wrong, as on weekends without any, nothing is found. Upstream does the
    /// same.
    fn missed_from(&self, first: Timestamp, second: Timestamp) -> Result<Missed, Never> {
        let interval = second.duration_since(first).as_secs();
        if interval < 1 {
            return Err(Never);
        }
        let count = self.now.duration_since(first).as_secs() / interval + 1;
        let skipped = SignedDuration::from_secs((count - 2).saturating_mul(interval));
        let last = first.checked_add(skipped).ok().and_then(|from| self.last_after(from));
        Ok(Missed { last, any: true, many: count > MANY })
    }

    /// The last time after `from` that is not in the future. A schedule whose first two times are half a year apart may have
    /// hundreds of thousands since, so after some steps the rest is searched by bisection.
    fn last_after(&self, from: Timestamp) -> Option<Timestamp> {
        const STEPS: usize = 1_000;
        let over = |after: Timestamp| self.next(after).filter(|due| *due <= self.now);
        let mut last = over(from)?;
        for _ in 0..STEPS {
            match over(last) {
                Some(due) => last = due,
                None => return Some(last),
            }
        }
        let (mut low, mut high) = (last.as_second(), self.now.as_second());
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            match Timestamp::from_second(middle).ok().and_then(over) {
                Some(due) => (last, low) = (due, middle),
                None => high = middle,
            }
        }
        Some(last)
    }

    /// The delay until the next time.
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

    /// An attack: the first two times are half a year apart, and then there is one each minute.
    #[test]
    fn very_many_missed_times_are_not_gone_through_one_by_one() {
        let schedule = Schedule::parse("* * * 1-6 *").unwrap();
        let started = std::time::Instant::now();
        for _ in 0..20 {
            let (since, now) = (at("06-30T23:58:30"), "2028-06-15T12:00:30Z".parse().unwrap());
            let times = Times { schedule: &schedule, here: &TimeZone::UTC, since, now };
            let missed = times.missed(None).unwrap();
            assert_eq!(missed.last, Some("2028-06-15T12:00:00Z".parse().unwrap()));
        }
        assert!(started.elapsed() < Duration::from_secs(4), "{:?}", started.elapsed());
    }

    #[test]
    fn missed_times() {
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
    fn delay_until_the_next_time() {
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
