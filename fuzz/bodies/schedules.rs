//! CronJob schedules, times and durations.

use corten_api::schedule::Schedule;
use corten_api::time;
use jiff::Timestamp;
use jiff::tz::TimeZone;

pub(crate) fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(schedule) = Schedule::parse(text) {
        let start = Timestamp::from_second(1_700_000_000).expect("a time of this century");
        for after in [Timestamp::MIN, start, Timestamp::MAX] {
            if let Some(next) = schedule.next(after, &TimeZone::UTC) {
                assert!(next >= after, "{text:?}: {next} is before {after}");
            }
        }
    }
    if let Ok(at) = time::parse(text) {
        let written = time::format(at);
        let again = time::parse(&written).expect("a time that was written is read");
        assert_eq!(time::format(again), written, "{text:?}");
    }
    if let Ok(at) = time::parse_micro(text) {
        let written = time::format_micro(at);
        let again = time::parse_micro(&written).expect("a time that was written is read");
        assert_eq!(time::format_micro(again), written, "{text:?}");
    }
    let _ = time::go_duration(text);
}
