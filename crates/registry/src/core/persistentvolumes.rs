//! Persistent volumes. The status has the time of the last change of the phase.

mod sources;
pub(crate) mod validate;

use corten_api::{Value, time, value};

use crate::defaults::{fill_absent, fill_zero, host_path, made, resource_list};
use crate::prepare::{copy, keep_status, resets_spec_or_status, same};
use crate::rules::{Request, RowContext, Rules};
use crate::table::{AGE, NAME, UNSET, age, cells, name, present, quantity, str_at, text, time_at};

pub(crate) const RULES: Rules = Rules {
    group: "",
    resource: "persistentvolumes",
    prefix_on_update: true,
    storage_prefix: "persistentvolumes",
    default,
    prepare_create,
    prepare_update: keep_status,
    prepare_subresource,
    reset_fields: resets_spec_or_status,
    validate_create: validate::create,
    validate_update: validate::update,
    warnings: |volume, _| validate::warnings(volume),
    delete_returns_object: true,
    columns: &[
        NAME,
        text("Capacity", "How much it holds.").of("core/v1.PersistentVolumeSpec", "capacity"),
        text("Access Modes", "How it can be mounted.").of("core/v1.PersistentVolumeSpec", "accessModes"),
        text("Reclaim Policy", "What becomes of it when its claim goes.")
            .of("core/v1.PersistentVolumeSpec", "persistentVolumeReclaimPolicy"),
        text("Status", "Whether it is available, bound, released or failed.")
            .of("core/v1.PersistentVolumeStatus", "phase"),
        text("Claim", "The claim it is bound to.").of("core/v1.PersistentVolumeSpec", "claimRef"),
        text("StorageClass", "StorageClass of the pv"),
        text("VolumeAttributesClass", "VolumeAttributesClass of the pv"),
        text("Reason", "Why it is in its state.").of("core/v1.PersistentVolumeStatus", "reason"),
        AGE,
        text("VolumeMode", "File system or raw block device.")
            .of("core/v1.PersistentVolumeSpec", "volumeMode")
            .wide(),
    ],
    row,
    ..Rules::DEFAULT
};

fn row(object: &Value, context: &RowContext<'_>) -> Vec<Value> {
    let claim = object.at(&["spec", "claimRef"]).filter(|claim| !claim.is_null());
    let claim = claim.map(|c| format!("{}/{}", str_at(c, &["namespace"]), str_at(c, &["name"])));
    let phase = match time_at(object, &["metadata", "deletionTimestamp"]) {
        Some(_) => "Terminating",
        None => str_at(object, &["status", "phase"]),
    };
    cells![
        name(object),
        quantity(object, &["spec", "capacity", "storage"]),
        access_modes(object, &["spec", "accessModes"]),
        str_at(object, &["spec", "persistentVolumeReclaimPolicy"]),
        phase,
        claim.unwrap_or_default(),
        storage_class(object),
        object.str_at(&["spec", "volumeAttributesClassName"]).unwrap_or(UNSET),
        str_at(object, &["status", "reason"]),
        age(object, context),
        object.str_at(&["spec", "volumeMode"]).unwrap_or(UNSET),
    ]
}

fn default(object: &mut Value) {
    let Some(object) = object.as_object_mut() else { return };
    fill_zero(made(object, "status"), "phase", "Pending");
    let spec = made(object, "spec");
    fill_zero(spec, "persistentVolumeReclaimPolicy", "Retain");
    fill_absent(spec, "volumeMode", "Filesystem");
    resource_list(spec, "capacity");
    host_path(spec);
}

fn prepare_create(object: &mut Value, request: &Request<'_>) {
    let now = time::format(request.now);
    object.set(&["status"], value!({"phase": "Pending", "lastPhaseTransitionTime": now}));
}

/// The server sets the time of a change of the phase.
fn prepare_subresource(sub: &str, object: &mut Value, old: &Value, request: &Request<'_>) {
    if sub != "status" {
        return;
    }
    const SINCE: &[&str] = &["status", "lastPhaseTransitionTime"];
    copy(object, old, &["spec"]);
    let phase_is_old = same(object, old, &["status", "phase"]);
    if phase_is_old && !present(object, SINCE) {
        copy(object, old, SINCE);
    } else if !phase_is_old && (!present(object, SINCE) || same(object, old, SINCE)) {
        object.set(SINCE, time::format(request.now));
    }
}

/// Access modes in their short forms, in a fixed order.
pub(crate) fn access_modes(object: &Value, path: &[&str]) -> String {
    let modes = object.items_at(path);
    let short = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    let shown = short.iter().filter(|(mode, _)| modes.iter().any(|m| m.as_str() == Some(mode)));
    shown.map(|(_, short)| *short).collect::<Vec<_>>().join(",")
}

/// The class of a volume or claim; an old annotation wins over the field.
pub(crate) fn storage_class(object: &Value) -> &str {
    let annotated = object.str_at(&["metadata", "annotations", "volume.beta.kubernetes.io/storage-class"]);
    annotated.unwrap_or_else(|| str_at(object, &["spec", "storageClassName"]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_phase_change_is_kept_for_the_client() {
        let at = |seconds| Request { now: jiff::Timestamp::from_second(seconds).unwrap(), user: None };
        let mut old = value!({"metadata": {"name": "v"}, "spec": {}});
        RULES.prepare_for_create(&mut old, &at(10));
        assert_eq!(
            old.get("status"),
            Some(&value!({"phase": "Pending", "lastPhaseTransitionTime": "1970-01-01T00:00:10Z"}))
        );
        let after = |status: Value| {
            let mut new = value!({"metadata": {"name": "v"}, "spec": {}, "status": status});
            RULES.prepare_for_update("status", &mut new, &old, &at(20));
            new.str_at(&["status", "lastPhaseTransitionTime"]).map(str::to_owned)
        };
        assert_eq!(after(value!({"phase": "Pending"})).as_deref(), Some("1970-01-01T00:00:10Z"));
        assert_eq!(after(value!({"phase": "Bound"})).as_deref(), Some("1970-01-01T00:00:20Z"));
        let own = value!({"phase": "Bound", "lastPhaseTransitionTime": "1970-01-01T00:00:15Z"});
        assert_eq!(after(own).as_deref(), Some("1970-01-01T00:00:15Z"));
    }
}
