//! Resource slices: devices of a driver.

mod capacity;
mod devices;
mod validate;

use corten_api::Value;
use jiff::Timestamp;

use super::taints;
use crate::defaults::{items, made};
use crate::rules::{Generation, RowContext, Rules, Selectable};
use crate::table::{AGE, NAME, age, cells, field, name, str_at, text};

pub(crate) const RULES: Rules = Rules {
    group: "resource.k8s.io",
    resource: "resourceslices",
    storage_prefix: "resourceslices",
    generation: Generation::SPEC,
    counts_disabled_fields: true,
    default_times: date_taints,
    validate_create: |object, errors| validate::validate(object, None, errors),
    validate_update: |object, old, errors| validate::validate(object, Some(old), errors),
    warnings: |object, _| validate::warnings(object),
    delete_returns_object: true,
    selectable: &[
        Selectable { label: "spec.nodeName", value: |o| field(o, &["spec", "nodeName"]) },
        Selectable { label: "spec.driver", value: |o| field(o, &["spec", "driver"]) },
        Selectable { label: "spec.pool.name", value: |o| field(o, &["spec", "pool", "name"]) },
    ],
    columns: &[
        NAME,
        text("Node", "The node that has the devices.").of("resource/v1.ResourceSliceSpec", "nodeName"),
        text("Driver", "The driver that manages them.").of("resource/v1.ResourceSliceSpec", "driver"),
        text("Pool", "The pool they belong to.").of("resource/v1.ResourcePool", "name"),
        AGE,
    ],
    row,
    ..Rules::DEFAULT
};

fn row(object: &Value, context: &RowContext<'_>) -> Vec<Value> {
    cells![
        name(object),
        str_at(object, &["spec", "nodeName"]),
        str_at(object, &["spec", "driver"]),
        str_at(object, &["spec", "pool", "name"]),
        age(object, context),
    ]
}

fn date_taints(object: &mut Value, now: Timestamp) {
    let Some(object) = object.as_object_mut() else { return };
    let devices = items(made(object, "spec"), "devices");
    for taint in devices.flat_map(|device| items(device, "taints")) {
        taints::date(taint, now);
    }
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::*;

    #[test]
    fn taints_are_dated() {
        let mut slice = value!({"spec": {"devices": [{"name": "d"}, {"taints": [{"key": "k"}]}]}});
        (RULES.default_times)(&mut slice, Timestamp::UNIX_EPOCH);
        let taint = &slice.items_at(&["spec", "devices"])[1].items_at(&["taints"])[0];
        assert_eq!(taint.str_at(&["timeAdded"]), Some("1970-01-01T00:00:00Z"));
    }
}
