//! The updates that bind a claim and a volume, and that set their phases. Each is left out if it would change nothing.

use corten_api::quantity::canonical;
use corten_api::{Value, meta, value};
use corten_client::{Key, kinds};
use corten_reconcile::Action;

use crate::storage::{BIND_COMPLETED, BOUND_BY_CONTROLLER, VolumeView, annotation, quantity, update};

/// The capacity of the claim's file system before the volume was expanded.
const PRE_RESIZE_CAPACITY: &str = "volume.alpha.kubernetes.io/pre-resize-capacity";

/// True if a volume is bound or pre-bound to a claim.
pub(super) fn is_for(volume: &VolumeView, claim: &Value) -> bool {
    let Some((key, uid)) = &volume.claim else { return false };
    *key == Key::of(claim) && (uid.is_empty() || uid == meta::uid(claim))
}

/// Binds both, the volume first: an interrupted binding is found again by the volume.
pub(super) fn bind(volume: &Value, view: &VolumeView, claim: &Value) -> Vec<Action> {
    let volume_spec = volume_to_claim(volume, view, claim);
    let volume_now = volume_spec.as_ref().unwrap_or(volume);
    let volume_status = volume_phase(volume_now, "Bound", "");
    let claim_spec = claim_to_volume(claim, meta::name(volume));
    let claim_now = claim_spec.as_ref().unwrap_or(claim);
    let claim_status = claim_phase(claim_now, "Bound", Some(volume));
    let spec = |kind, object: Option<Value>| object.map(|object| update(kind, object, ""));
    [
        spec(&kinds::PERSISTENT_VOLUMES, volume_spec.clone()),
        volume_status,
        spec(&kinds::PERSISTENT_VOLUME_CLAIMS, claim_spec.clone()),
        claim_status,
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The volume, bound to the claim.
fn volume_to_claim(volume: &Value, view: &VolumeView, claim: &Value) -> Option<Value> {
    let mut bound = volume.clone();
    if view.claim != Some((Key::of(claim), meta::uid(claim).into())) {
        let reference = value!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "namespace": (meta::namespace(claim)), "name": (meta::name(claim)),
            "uid": (meta::uid(claim)), "resourceVersion": (meta::resource_version(claim)),
        });
        bound.set(&["spec", "claimRef"], reference);
    }
    // A volume that was pre-bound to the claim was not bound by the controller.
    if !is_for(view, claim) && annotation(volume, BOUND_BY_CONTROLLER).is_none() {
        bound.set(&["metadata", "annotations", BOUND_BY_CONTROLLER], "yes");
    }
    (bound != *volume).then_some(bound)
}

/// The claim, bound to the volume.
fn claim_to_volume(claim: &Value, volume: &str) -> Option<Value> {
    let mut bound = claim.clone();
    if claim.str_at(&["spec", "volumeName"]) != Some(volume) {
        bound.set(&["spec", "volumeName"], volume);
        bound.set(&["metadata", "annotations", BOUND_BY_CONTROLLER], "yes");
    }
    if annotation(claim, BIND_COMPLETED).is_none() {
        bound.set(&["metadata", "annotations", BIND_COMPLETED], "yes");
    }
    (bound != *claim).then_some(bound)
}

/// Unbinds a volume from its claim. A pre-bound volume stays pre-bound.
pub(super) fn unbind(volume: &Value) -> Vec<Action> {
    let mut free = volume.clone();
    if annotation(volume, BOUND_BY_CONTROLLER).is_some() {
        free.remove(&["spec", "claimRef"]);
        free.remove(&["metadata", "annotations", BOUND_BY_CONTROLLER]);
    } else {
        free.remove(&["spec", "claimRef", "uid"]);
    }
    let available = volume_phase(&free, "Available", "");
    [Some(update(&kinds::PERSISTENT_VOLUMES, free, ""))].into_iter().chain([available]).flatten().collect()
}

/// The update of a volume's phase.
pub(super) fn volume_phase(volume: &Value, phase: &str, message: &str) -> Option<Action> {
    if volume.str_at(&["status", "phase"]) == Some(phase) {
        return None;
    }
    let mut volume = volume.clone();
    volume.set(&["status", "phase"], phase);
    match message {
        "" => drop(volume.remove(&["status", "message"])),
        message => volume.set(&["status", "message"], message),
    }
    Some(update(&kinds::PERSISTENT_VOLUMES, volume, "status"))
}

/// The update of a claim's phase, with the capacity and access modes of its volume.
pub(super) fn claim_phase(claim: &Value, phase: &str, volume: Option<&Value>) -> Option<Action> {
    let before = claim.str_at(&["status", "phase"]).unwrap_or_default();
    let mut object = claim.clone();
    object.set(&["status", "phase"], phase);
    match volume {
        None => {
            for field in ["accessModes", "capacity", "currentVolumeAttributesClassName"] {
                object.remove(&["status", field]);
            }
        }
        Some(volume) => {
            set_or_remove(&mut object, &["status", "accessModes"], volume.at(&["spec", "accessModes"]));
            // The capacity of a claim that was bound before may deliberately differ from its volume's.
            if before != phase {
                set_capacity(&mut object, volume);
            }
            if before == "Pending" && phase == "Bound" {
                let class = volume.at(&["spec", "volumeAttributesClassName"]);
                set_or_remove(&mut object, &["status", "currentVolumeAttributesClassName"], class);
            }
        }
    }
    (object != *claim).then(|| update(&kinds::PERSISTENT_VOLUME_CLAIMS, object, "status"))
}

fn set_capacity(claim: &mut Value, volume: &Value) {
    let resized = annotation(volume, PRE_RESIZE_CAPACITY).and_then(|text| canonical(text).ok());
    let has = quantity(claim, &["status", "capacity", "storage"]);
    if let Some(before) = resized {
        claim.set(&["status", "capacity", "storage"], before);
    } else if has.is_none() || has != quantity(volume, &["spec", "capacity", "storage"]) {
        set_or_remove(claim, &["status", "capacity"], volume.at(&["spec", "capacity"]));
    }
}

fn set_or_remove(object: &mut Value, path: &[&str], value: Option<&Value>) {
    match value {
        Some(value) => object.set(path, value.clone()),
        None => drop(object.remove(path)),
    }
}
