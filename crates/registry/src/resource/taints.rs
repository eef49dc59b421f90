//! The time of a device's taint.

use corten_api::{Map, time};
use jiff::Timestamp;

use crate::defaults::fill_absent;

/// Sets the time of a taint without one.
pub(super) fn date(taint: &mut Map, now: Timestamp) {
    fill_absent(taint, "timeAdded", time::format(now));
}
