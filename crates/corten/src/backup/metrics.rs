//! The metrics of schedules, in the API server's `/metrics`.

use corten_serving::metrics::{Exposition, Kind};
use jiff::Timestamp;

use super::schedule::Schedules;

const LAST: &str = "corten_backup_last_success_timestamp_seconds";
const NEXT: &str = "corten_backup_next_timestamp_seconds";
const FAILURES: &str = "corten_backup_failures_total";

/// Writes nothing if there is no schedule.
pub(super) fn render(schedules: &Schedules, out: &mut Exposition) {
    if schedules.is_empty() {
        return;
    }
    let seconds = |time: &str| time.parse::<Timestamp>().ok().map(Timestamp::as_second);
    out.family(LAST, Kind::Gauge, "Time of the last backup of a schedule; absent before the first.");
    for (name, (_, state)) in schedules {
        if let Some(last) = state.last_success.as_deref().and_then(seconds) {
            out.sample(LAST, &[("schedule", name)], last);
        }
    }
    out.family(NEXT, Kind::Gauge, "Time of the next backup of a schedule.");
    for (name, (schedule, state)) in schedules {
        if let Some(next) = state.since.parse().ok().and_then(|since| schedule.next(since)) {
            out.sample(NEXT, &[("schedule", name)], next.as_second());
        }
    }
    out.family(FAILURES, Kind::Counter, "Failed backups of a schedule.");
    for (name, (_, state)) in schedules {
        out.sample(FAILURES, &[("schedule", name)], state.failures);
    }
}
