//! Resource claims: requested and allocated devices. Drivers' reports on a device are removed with it.

mod validate;

use std::collections::HashSet;

use corten_api::{Map, Str, Value};

use crate::defaults::{child, fill_zero, items, made, text_of};
use crate::prepare::{
    drop_status, keep_status, resets_spec_and_metadata_or_status, status_keeps_spec_and_metadata,
};
use crate::rules::{Request, RowContext, Rules};
use crate::table::{AGE, NAME, age, cells, count, name, present, text};

pub(crate) const RULES: Rules = Rules {
    group: "resource.k8s.io",
    resource: "resourceclaims",
    prefix_on_update: true,
    storage_prefix: "resourceclaims",
    default,
    prepare_create: drop_status,
    prepare_update: keep_status,
    prepare_subresource,
    reset_fields: resets_spec_and_metadata_or_status,
    validate_create: validate::create,
    validate_update: validate::update,
    validate_subresource: validate::subresource,
    delete_returns_object: true,
    status_table: false,
    columns: &[
        NAME,
        text("State", "A summary of the current state (allocated, pending, reserved, etc.)."),
        AGE,
    ],
    row,
    ..Rules::DEFAULT
};

fn row(object: &Value, context: &RowContext<'_>) -> Vec<Value> {
    cells![name(object), state(object), age(object, context)]
}

fn default(object: &mut Value) {
    let Some(object) = object.as_object_mut() else { return };
    default_spec(made(object, "spec"));
}

pub(super) fn default_spec(spec: &mut Map) {
    for request in items(made(spec, "devices"), "requests") {
        if let Some(exactly) = child(request, "exactly") {
            allocation(exactly);
        }
        items(request, "firstAvailable").for_each(allocation);
    }
}

/// One device by default.
fn allocation(request: &mut Map) {
    fill_zero(request, "allocationMode", "ExactCount");
    if text_of(request, "allocationMode") == "ExactCount" {
        fill_zero(request, "count", 1);
    }
}

fn state(object: &Value) -> String {
    let deleted = present(object, &["metadata", "deletionTimestamp"]);
    let allocated = present(object, &["status", "allocation"]);
    let states = [
        (deleted, "deleted"),
        (!deleted && !allocated, "pending"),
        (allocated, "allocated"),
        (allocated && count(object, &["status", "reservedFor"]) > 0, "reserved"),
    ];
    states.iter().filter(|(is, _)| *is).map(|(_, state)| *state).collect::<Vec<_>>().join(",")
}

fn prepare_subresource(sub: &str, object: &mut Value, old: &Value, request: &Request<'_>) {
    status_keeps_spec_and_metadata(sub, object, old, request);
    if sub == "status" {
        forget_lost_devices(object, old);
    }
}

/// The reports of drivers are removed when the device is no longer allocated.
fn forget_lost_devices(object: &mut Value, old: &Value) {
    const RESULTS: &[&str] = &["status", "allocation", "devices", "results"];
    type Device = [Option<Str>; 4];
    let device = |result: &Value| -> Device {
        ["driver", "pool", "device", "shareID"].map(|key| result.str_at(&[key]).map(Str::new))
    };
    let kept: HashSet<Device> = object.items_at(RESULTS).iter().map(device).collect();
    let lost: HashSet<Device> =
        old.items_at(RESULTS).iter().map(device).filter(|was| !kept.contains(was)).collect();
    let Some(status) = object.get_mut("status").and_then(Value::as_object_mut) else { return };
    let Some(devices) = status.get_mut("devices").and_then(Value::as_array_mut) else { return };
    devices.retain(|status| !lost.contains(&device(status)));
    if devices.is_empty() {
        status.remove("devices");
    }
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::*;

    #[test]
    fn lost_devices_are_forgotten() {
        let request = Request { now: jiff::Timestamp::UNIX_EPOCH, user: None };
        let device = |name: &str| value!({"driver": "d", "pool": "p", "device": name});
        let old = value!({"status": {
            "allocation": {"devices": {"results": [(device("a")), (device("b"))]}},
        }});
        let mut new = value!({"status": {
            "allocation": {"devices": {"results": [(device("b"))]}},
            "devices": [(device("a")), (device("b")), (device("c"))],
        }});
        RULES.prepare_for_update("status", &mut new, &old, &request);
        assert_eq!(new.at(&["status", "devices"]), Some(&value!([(device("b")), (device("c"))])));
    }
}
