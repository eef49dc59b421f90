//! Tests of the binder: matching, phases and events.

use corten_api::value;
use corten_client::View;
use corten_reconcile::Action;

use super::*;
use crate::storage::{
    BIND_COMPLETED, BOUND_BY_CONTROLLER, MIGRATED_TO, PROVISIONED_BY, SELECTED_NODE, STORAGE_PROVISIONER,
};
use crate::testing::{at, cached};

mod claims;
mod matching;
mod volumes;

/// A claim of a gigabyte without a class.
fn claim() -> Value {
    value!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": "c", "namespace": "n", "uid": "claim", "resourceVersion": "5"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        "status": {"phase": "Pending"},
    })
}

/// An available volume of a gigabyte without a class.
fn volume(name: &str) -> Value {
    value!({
        "apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": {"name": name, "uid": name, "resourceVersion": "7"},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"},
            "persistentVolumeReclaimPolicy": "Retain",
        },
        "status": {"phase": "Available"},
    })
}

fn with(mut object: Value, path: &[&str], value: impl Into<Value>) -> Value {
    object.set(path, value);
    object
}

fn annotated(object: Value, keys: &[&str]) -> Value {
    keys.iter().fold(object, |object, key| with(object, &["metadata", "annotations", key], "yes"))
}

/// The volume with a claim reference, with its uid or without.
fn claimed(volume: Value, uid: &str) -> Value {
    let mut reference =
        value!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "n", "name": "c"});
    if !uid.is_empty() {
        reference.set(&["uid"], uid);
    }
    with(volume, &["spec", "claimRef"], reference)
}

fn phase(object: Value, phase: &str) -> Value {
    with(object, &["status", "phase"], phase)
}

/// The claim and the volume `v`, bound to each other by the controller.
fn bound_pair() -> (Value, Value) {
    let claim =
        annotated(with(claim(), &["spec", "volumeName"], "v"), &[BIND_COMPLETED, BOUND_BY_CONTROLLER]);
    let mut claim = phase(claim, "Bound");
    claim.set(&["status", "accessModes"], value!(["ReadWriteOnce"]));
    claim.set(&["status", "capacity"], value!({"storage": "1Gi"}));
    let volume = annotated(claimed(volume("v"), "claim"), &[BOUND_BY_CONTROLLER]);
    (claim, phase(volume, "Bound"))
}

fn binder() -> Binder {
    Binder { options: BinderOptions::default() }
}

fn plan(world: &World) -> Plan {
    binder().plan(&Key::default(), world, at(0))
}

/// The actions and events of a plan.
fn words(plan: &Plan) -> Vec<String> {
    let word = |action: &Action| match action {
        Action::Update { object, subresource: "status", .. } => {
            let phase = object.str_at(&["status", "phase"]).unwrap_or_default();
            format!("{} is {phase}", corten_api::meta::name(object))
        }
        Action::Update { object, .. } => format!("update {}", corten_api::meta::name(object)),
        other => format!("{other:?}"),
    };
    let events = plan.events.iter().map(|event| event.reason.to_string());
    plan.actions().map(word).chain(events).collect()
}

/// The object of the first update of a name that is not of its status.
fn updated<'a>(plan: &'a Plan, name: &str) -> &'a Value {
    let found = plan.actions().find_map(|action| match action {
        Action::Update { object, subresource: "", .. } if corten_api::meta::name(object) == name => {
            Some(object)
        }
        _ => None,
    });
    found.unwrap_or_else(|| panic!("{name} is not updated in {plan:?}"))
}
