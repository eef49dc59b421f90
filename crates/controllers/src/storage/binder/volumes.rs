//! The reconcile of a volume: available, bound, or released and reclaimed by its policy.

use std::collections::BTreeSet;

use corten_api::{Str, Value, meta};
use corten_client::{Caches, Key, View, kinds};
use corten_reconcile::{Event, Plan};

use super::{COMPONENT, binding};
use crate::pods::Pod;
use crate::storage::{
    Asked, MIGRATED_TO, PODS_BY_CLAIM, PROVISIONED_BY, VolumeView, annotation, is_block, migration, update,
    with_finalizer,
};

/// The finalizer of volumes of in-tree plugins, until their storage is deleted.
const IN_TREE_PROTECTION: &str = "kubernetes.io/pv-controller";
/// The same for external provisioners.
const EXTERNAL_PROTECTION: &str = "external-provisioner.volume.kubernetes.io/finalizer";

/// The state of one volume.
#[derive(Debug, Default)]
pub(crate) struct VolumeWorld {
    pub(super) volume: Value,
    pub(super) view: VolumeView,
    /// The claim of the name in its claim reference.
    pub(super) claim: Option<Value>,
    pub(super) asked: Asked,
    /// The unfinished pods that use the claim of that name.
    pub(super) users: Vec<Str>,
}

pub(super) fn observe(caches: &Caches, key: &Key) -> Option<VolumeWorld> {
    let volume = caches.of(&kinds::PERSISTENT_VOLUMES).get(key)?.tree();
    let view = VolumeView::of(&volume);
    let mut world = VolumeWorld { volume, view, ..VolumeWorld::default() };
    if let Some((claim, _)) = &world.view.claim {
        world.claim = caches.of(&kinds::PERSISTENT_VOLUME_CLAIMS).get(claim).map(|claim| claim.tree());
        let pods = caches.by(&PODS_BY_CLAIM, claim).into_iter().map(Pod::from);
        world.users =
            pods.filter(|pod| !pod.is_finished()).map(|pod| pod.object.key.to_string().into()).collect();
    }
    Some(world)
}

impl VolumeWorld {
    /// The path of the claim to be read from the API server: the claim may be newer than the cache, and releasing its
    /// volume would lose data.
    pub(super) fn question(&self) -> Option<String> {
        let (key, uid) = self.view.claim.as_ref()?;
        if uid.is_empty() {
            return None;
        }
        let doubtful = match &self.claim {
            Some(claim) => meta::uid(claim) != uid,
            None => !matches!(self.view.phase.as_str(), "Released" | "Failed"),
        };
        let path = || kinds::PERSISTENT_VOLUME_CLAIMS.path(&key.namespace, &key.name, "");
        (doubtful && self.asked == Asked::NotYet).then(path)
    }
}

pub(super) fn plan(world: &VolumeWorld) -> Plan {
    let volume = &world.volume;
    if world.asked == Asked::Failed {
        return Plan::done().retry();
    }
    if let Some(amended) = amended(volume) {
        return Plan::done().then(update(&kinds::PERSISTENT_VOLUMES, amended, ""));
    }
    let Some((_, uid)) = world.view.claim.as_ref().filter(|(_, uid)| !uid.is_empty()) else {
        return phase(volume, "Available");
    };
    let Some(claim) = world.claim.as_ref().filter(|claim| meta::uid(claim) == uid) else {
        return release(world);
    };
    match claim.str_at(&["spec", "volumeName"]).unwrap_or_default() {
        "" if is_block(claim) != world.view.block => mismatch(volume, claim),
        // The claim is reconciled for the same reasons as its volume, and completes the binding.
        "" => Plan::done(),
        name if name == meta::name(volume) => phase(volume, "Bound"),
        // It was provisioned for the claim, and the claim has another.
        _ if annotation(volume, PROVISIONED_BY).is_some() && policy(volume) == "Delete" => release(world),
        _ => binding::unbind(volume).into_iter().fold(Plan::done(), Plan::then),
    }
}

fn phase(volume: &Value, phase: &str) -> Plan {
    binding::volume_phase(volume, phase, "").into_iter().fold(Plan::done(), Plan::then)
}

fn policy(volume: &Value) -> &str {
    volume.str_at(&["spec", "persistentVolumeReclaimPolicy"]).unwrap_or_default()
}

fn mismatch(volume: &Value, claim: &Value) -> Plan {
    let about_volume = format!(
        "Cannot bind PersistentVolume to requested PersistentVolumeClaim \"{}\" due to incompatible volumeMode.",
        meta::name(claim)
    );
    let about_claim = format!(
        "Cannot bind PersistentVolume \"{}\" to requested PersistentVolumeClaim due to incompatible volumeMode.",
        meta::name(volume)
    );
    Plan::done()
        .event(Event::warning(COMPONENT, volume, "VolumeMismatch", about_volume))
        .event(Event::warning(COMPONENT, claim, "VolumeMismatch", about_claim))
}

/// Releases a volume without a claim, and reclaims it by its policy. A failed one stays failed for users to see.
fn release(world: &VolumeWorld) -> Plan {
    let mut volume = world.volume.clone();
    let mut plan = Plan::done();
    if !matches!(world.view.phase.as_str(), "Released" | "Failed") {
        plan = phase(&volume, "Released");
        volume.set(&["status", "phase"], "Released");
    }
    if annotation(&volume, MIGRATED_TO).is_some_and(|driver| !driver.is_empty()) {
        return plan;
    }
    match policy(&volume) {
        "Retain" => plan,
        "Recycle" => recycle(world, &volume, plan),
        "Delete" => match missing_deleter(&volume) {
            Some(error) => fail(&volume, plan, "VolumeFailedDelete", &error),
            // The provisioner deletes it.
            None => plan,
        },
        _ => {
            let message = "Volume has unrecognized PersistentVolumeReclaimPolicy";
            fail(&volume, plan, "VolumeUnknownReclaimPolicy", message)
        }
    }
}

fn recycle(world: &VolumeWorld, volume: &Value, plan: Plan) -> Plan {
    if !world.users.is_empty() && world.claim.is_none() {
        let users: BTreeSet<&str> = world.users.iter().map(Str::as_str).collect();
        let users = users.into_iter().collect::<Vec<_>>().join(",");
        let message = format!("Volume is used by pods: {users}");
        return plan.event(Event::normal(COMPONENT, volume, "VolumeFailedRecycle", message));
    }
    fail(volume, plan, "VolumeFailedRecycle", "No recycler plugin found for the volume!")
}

/// The reason why the storage of a volume cannot be deleted.
fn missing_deleter(volume: &Value) -> Option<String> {
    match annotation(volume, PROVISIONED_BY).filter(|name| !name.is_empty()) {
        Some(plugin) if plugin.starts_with("kubernetes.io/") => {
            Some(format!("no volume plugin matched name: {plugin}"))
        }
        Some(_) => None,
        None if volume.at(&["spec", "csi"]).is_some() => None,
        None => {
            let name = meta::name(volume);
            Some(format!(
                "error getting deleter volume plugin for volume \"{name}\": no deletable volume plugin matched"
            ))
        }
    }
}

/// A failure, reported once.
fn fail(volume: &Value, plan: Plan, reason: &'static str, message: &str) -> Plan {
    match binding::volume_phase(volume, "Failed", message) {
        Some(action) => plan.then(action).event(Event::warning(COMPONENT, volume, reason, message)),
        None => plan,
    }
}

/// The volume with the annotation of its migrated provisioner; `None` if it has it.
fn amended(volume: &Value) -> Option<Value> {
    let migrated = migration::of_volume(volume);
    let protected = protected(migrated.as_ref().unwrap_or(volume));
    protected.or(migrated)
}

/// The volume with the finalizers that its provisioner needs.
fn protected(volume: &Value) -> Option<Value> {
    let provisioner = annotation(volume, PROVISIONED_BY)?;
    let holds = |finalizer: &str| meta::finalizers(volume).any(|held| held == finalizer);
    if migration::driver(provisioner).is_some() {
        return holds(IN_TREE_PROTECTION).then(|| with_finalizer(volume, IN_TREE_PROTECTION, false));
    }
    if !provisioner.starts_with("kubernetes.io/") {
        return None;
    }
    let wanted = match policy(volume) {
        "Delete" => true,
        "Retain" | "Recycle" => false,
        _ => holds(IN_TREE_PROTECTION),
    };
    if holds(IN_TREE_PROTECTION) == wanted && !holds(EXTERNAL_PROTECTION) {
        return None;
    }
    let mut volume = volume.clone();
    if meta::finalizers(&volume).any(|held| held == IN_TREE_PROTECTION) != wanted {
        volume = with_finalizer(&volume, IN_TREE_PROTECTION, wanted);
    }
    Some(with_finalizer(&volume, EXTERNAL_PROTECTION, false))
}
