//! Events: `events.k8s.io/v1` renames fields of `v1`.

use super::rename;
use crate::value::Value;

const NAMES: &[(&str, &str)] = &[
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

pub(super) fn core_to_events(event: &mut Value) {
    for (core, events) in NAMES {
        rename(event, &[core], &[events]);
    }
}

pub(super) fn events_to_core(event: &mut Value) {
    for (core, events) in NAMES {
        rename(event, &[events], &[core]);
    }
}
