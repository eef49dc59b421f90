//! Persistent volume claims. The data source of a claim is in two fields, an older
//! and a newer one, that are kept equal.

mod validate;

use corten_api::{Map, Value};

use crate::core::persistentvolumes::{access_modes, storage_class};
use crate::defaults::{fill_absent, fill_zero, made, resource_list, resources};
use crate::prepare::{copy, resets_spec_or_status, status_keeps_spec};
use crate::rules::{Request, RowContext, Rules};
use crate::table::{AGE, NAME, UNSET, age, cells, name, present, quantity, str_at, text, time_at};

pub(crate) const RULES: Rules = Rules {
    group: "",
    resource: "persistentvolumeclaims",
    prefix_on_update: true,
    storage_prefix: "persistentvolumeclaims",
    default,
    prepare_create,
    prepare_update,
    prepare_subresource: status_keeps_spec,
    reset_fields: resets_spec_or_status,
    validate_create: validate::create,
    validate_update: validate::update,
    validate_subresource: |_, claim, _, errors| validate::status(claim, errors),
    warnings: |claim, _| validate::warnings(claim),
    delete_returns_object: true,
    columns: &[
        NAME,
        text("Status", "Whether it is pending, bound or lost.")
            .of("core/v1.PersistentVolumeClaimStatus", "phase"),
        text("Volume", "The volume it is bound to.").of("core/v1.PersistentVolumeClaimSpec", "volumeName"),
        text("Capacity", "How much the volume holds.").of("core/v1.PersistentVolumeClaimStatus", "capacity"),
        text("Access Modes", "How the volume can be mounted.")
            .of("core/v1.PersistentVolumeClaimStatus", "accessModes"),
        text("StorageClass", "StorageClass of the pvc"),
        text("VolumeAttributesClass", "VolumeAttributesClass of the pvc"),
        AGE,
        text("VolumeMode", "File system or raw block device.")
            .of("core/v1.PersistentVolumeClaimSpec", "volumeMode")
            .wide(),
    ],
    row,
    ..Rules::DEFAULT
};

fn row(object: &Value, context: &RowContext<'_>) -> Vec<Value> {
    let phase = match time_at(object, &["metadata", "deletionTimestamp"]) {
        Some(_) => "Terminating",
        None => str_at(object, &["status", "phase"]),
    };
    let volume = str_at(object, &["spec", "volumeName"]);
    let (capacity, modes) = match volume {
        "" => (String::new(), String::new()),
        _ => (
            quantity(object, &["status", "capacity", "storage"]),
            access_modes(object, &["status", "accessModes"]),
        ),
    };
    cells![
        name(object),
        phase,
        volume,
        capacity,
        modes,
        storage_class(object),
        object.str_at(&["spec", "volumeAttributesClassName"]).unwrap_or(UNSET),
        age(object, context),
        object.str_at(&["spec", "volumeMode"]).unwrap_or(UNSET),
    ]
}

fn default(object: &mut Value) {
    let Some(object) = object.as_object_mut() else { return };
    default_claim(object);
}

pub(crate) fn default_claim(claim: &mut Map) {
    default_spec(made(claim, "spec"));
    let status = made(claim, "status");
    fill_zero(status, "phase", "Pending");
    resource_list(status, "capacity");
    resource_list(status, "allocatedResources");
}

pub(crate) fn default_spec(spec: &mut Map) {
    fill_absent(spec, "volumeMode", "Filesystem");
    resources(spec);
}

fn prepare_create(object: &mut Value, _: &Request<'_>) {
    object.set(&["status"], Value::object());
    object.set(&["status", "phase"], "Pending");
    drop_foreign_source(object);
    drop_odd_data_source(object);
    pair_data_sources(object);
}

fn prepare_update(object: &mut Value, old: &Value, _: &Request<'_>) {
    copy(object, old, &["status"]);
    if !present(old, SOURCE_REF) {
        drop_foreign_source(object);
    }
    if !present(old, SOURCE) && !present(old, SOURCE_REF) {
        drop_odd_data_source(object);
    }
    pair_data_sources(object);
}

const SOURCE: &[&str] = &["spec", "dataSource"];
const SOURCE_REF: &[&str] = &["spec", "dataSourceRef"];

/// Sources are in the claim's own namespace.
fn drop_foreign_source(object: &mut Value) {
    if !str_at(object, &["spec", "dataSourceRef", "namespace"]).is_empty() {
        object.remove(SOURCE_REF);
    }
}

/// The older field supports claims and snapshots, and has always ignored other kinds.
fn drop_odd_data_source(object: &mut Value) {
    if present(object, SOURCE_REF) {
        return;
    }
    let Some(source) = object.at(SOURCE) else { return };
    let known = [("PersistentVolumeClaim", ""), ("VolumeSnapshot", "snapshot.storage.k8s.io")];
    if !known.contains(&(str_at(source, &["kind"]), str_at(source, &["apiGroup"]))) {
        object.remove(SOURCE);
    }
}

/// The older and the newer field are equal, unless the newer one names a namespace.
fn pair_data_sources(object: &mut Value) {
    let (from, to) = match (present(object, SOURCE), present(object, SOURCE_REF)) {
        (true, false) => (SOURCE, SOURCE_REF),
        (false, true) if str_at(object, &["spec", "dataSourceRef", "namespace"]).is_empty() => {
            (SOURCE_REF, SOURCE)
        }
        _ => return,
    };
    let Some(from) = object.at(from) else { return };
    let mut same = Value::object();
    for key in ["apiGroup", "kind", "name"] {
        copy(&mut same, from, &[key]);
    }
    object.set(to, same);
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::*;

    #[test]
    fn data_sources_come_in_pairs() {
        let created = |spec: Value| {
            let mut claim = value!({"spec": spec});
            RULES.prepare_for_create(&mut claim, &Request { now: jiff::Timestamp::UNIX_EPOCH, user: None });
            claim.remove(&["spec"]).unwrap_or_default()
        };
        let claim = value!({"kind": "PersistentVolumeClaim", "name": "a"});
        let both = value!({"dataSource": (claim.clone()), "dataSourceRef": (claim.clone())});
        assert_eq!(created(value!({"dataSource": (claim.clone())})), both);
        assert_eq!(created(value!({"dataSourceRef": (claim.clone())})), both);
        let odd = value!({"apiGroup": "x.io", "kind": "Thing", "name": "a"});
        assert_eq!(created(value!({"dataSource": odd})), value!({}));
        let foreign = value!({"dataSourceRef": {"kind": "Thing", "name": "a", "namespace": "other"}});
        assert_eq!(created(foreign), value!({}));
    }
}
