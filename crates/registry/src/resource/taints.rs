//! When a device got its taint. Upstream's defaulter says so; here it is part of preparation, as that is
//! what knows the time.

use corten_api::{Map, time};

use crate::defaults::fill_absent;
use crate::rules::Request;

/// Dates a taint that does not say when it was added.
pub(super) fn date(taint: &mut Map, request: &Request<'_>) {
    fill_absent(taint, "timeAdded", time::format(request.now));
}
