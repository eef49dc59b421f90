//! PersistentVolume binder: binds every claim to the smallest matching volume or requests one from a provisioner, and
//! reclaims the volumes of deleted claims by their policy.
//!
//! Owns the binding of claims and volumes: a volume's `claimRef`, a claim's `volumeName`, the phases of both. Watches
//! claims, volumes, storage classes and pods. A key with a namespace is a claim, one without a volume. There is one
//! worker: two could bind one volume to two claims, and one binding would have to be undone. Never touches the data of
//! a volume: provisioners create and delete storage.

mod binding;
mod claims;
mod matching;
#[cfg(test)]
mod tests;
mod volumes;

use corten_api::{Str, Value};
use corten_client::{Caches, Change, Error, Index, Key, kinds};
use corten_reconcile::{Controller, Manager, Plan, Watch};
use jiff::Timestamp;

use super::{CLAIMS_BY_VOLUME, ClaimView, PODS_BY_CLAIM, VOLUMES_BY_CLAIM, VolumeView};
use crate::pods::Pod;
use claims::ClaimWorld;
use volumes::VolumeWorld;

/// The component of its events, as upstream's.
const COMPONENT: &str = "persistentvolume-controller";

#[derive(Debug, Clone)]
pub struct BinderOptions {
    /// True if volumes are requested from provisioners.
    pub enable_dynamic_provisioning: bool,
}

impl Default for BinderOptions {
    fn default() -> BinderOptions {
        BinderOptions { enable_dynamic_provisioning: true }
    }
}

pub(crate) struct Binder {
    options: BinderOptions,
}

impl Binder {
    pub(crate) fn new(manager: &Manager, options: BinderOptions) -> Binder {
        for index in [
            &CLAIMS_BY_VOLUME,
            &FREE_VOLUMES_BY_CLASS,
            &PODS_BY_CLAIM,
            &UNBOUND_CLAIMS_BY_CLASS,
            &VOLUMES_BY_CLAIM,
        ] {
            manager.caches().index(index);
        }
        Binder { options }
    }
}

pub(crate) enum World {
    Nothing,
    Claim(Box<ClaimWorld>),
    Volume(Box<VolumeWorld>),
}

/// The unbound claims without a volume name.
static UNBOUND_CLAIMS_BY_CLASS: Index = Index {
    kind: &kinds::PERSISTENT_VOLUME_CLAIMS,
    name: "unbound-claims-by-class",
    names: |claim| {
        let view = claim.view::<ClaimView>();
        if view.bound || !view.volume.is_empty() {
            return Vec::new();
        }
        vec![Key::new("", view.class.clone().unwrap_or_default())]
    },
};

/// The volumes without a claim.
static FREE_VOLUMES_BY_CLASS: Index = Index {
    kind: &kinds::PERSISTENT_VOLUMES,
    name: "free-volumes-by-class",
    names: |volume| {
        let view = volume.view::<VolumeView>();
        if view.claim.is_some() { Vec::new() } else { vec![Key::new("", view.class.clone())] }
    },
};

impl Controller for Binder {
    type World = World;

    fn name(&self) -> &'static str {
        "persistentvolume-binder-controller"
    }

    fn account(&self) -> &'static str {
        "persistent-volume-binder"
    }

    fn watches(&self) -> Vec<Watch> {
        vec![
            Watch { kind: &kinds::PERSISTENT_VOLUME_CLAIMS, keys: claim_changed },
            Watch { kind: &kinds::PERSISTENT_VOLUMES, keys: volume_changed },
            Watch { kind: &kinds::STORAGE_CLASSES, keys: class_changed },
            Watch { kind: &kinds::PODS, keys: pod_changed },
        ]
    }

    fn observe(&self, caches: &Caches, key: &Key) -> World {
        if key.namespace.is_empty() {
            volumes::observe(caches, key).map_or(World::Nothing, |world| World::Volume(Box::new(world)))
        } else {
            claims::observe(caches, key).map_or(World::Nothing, |world| World::Claim(Box::new(world)))
        }
    }

    fn ask(&self, world: &World) -> Vec<String> {
        match world {
            World::Volume(world) => world.question().into_iter().collect(),
            _ => Vec::new(),
        }
    }

    fn learn(&self, world: &mut World, _: &str, answer: Result<Value, Error>) {
        if let World::Volume(world) = world {
            world.claim = world.asked.answer(answer).filter(|claim| !claim.is_null());
        }
    }

    fn plan(&self, _: &Key, world: &World, _: Timestamp) -> Plan {
        match world {
            World::Nothing => Plan::done(),
            World::Claim(world) => claims::plan(world, &self.options),
            World::Volume(world) => volumes::plan(world),
        }
    }

    fn workers(&self) -> usize {
        1
    }
}

/// A claim concerns its volume and those that are bound to it when it is added or deleted, or changes its volume.
fn claim_changed(caches: &Caches, change: &Change, keys: &mut Vec<Key>) {
    let key = &change.object().key;
    keys.push(key.clone());
    let volumes: Vec<Str> = change.states().map(|claim| claim.view::<ClaimView>().volume.clone()).collect();
    if volumes.len() == 2 && volumes[0] == volumes[1] {
        return;
    }
    keys.extend(volumes.into_iter().filter(|volume| !volume.is_empty()).map(|volume| Key::new("", volume)));
    keys.extend(caches.keys_by(&VOLUMES_BY_CLAIM, key));
}

/// A volume concerns its claim and those that name it; a free one concerns every claim of its class.
fn volume_changed(caches: &Caches, change: &Change, keys: &mut Vec<Key>) {
    let key = &change.object().key;
    keys.push(key.clone());
    for volume in change.states() {
        keys.extend(volume.view::<VolumeView>().claim.iter().map(|(claim, _)| claim.clone()));
    }
    keys.extend(caches.keys_by(&CLAIMS_BY_VOLUME, key));
    if let Some(new) = &change.new {
        let view = new.view::<VolumeView>();
        if view.claim.is_none() && view.phase == "Available" && !new.deleting {
            keys.extend(caches.keys_by(&UNBOUND_CLAIMS_BY_CLASS, &Key::new("", view.class.clone())));
        }
    }
}

/// A class concerns its claims; a default one concerns those without a class.
fn class_changed(caches: &Caches, change: &Change, keys: &mut Vec<Key>) {
    let Some(class) = &change.new else { return };
    keys.extend(caches.keys_by(&UNBOUND_CLAIMS_BY_CLASS, &Key::new("", class.key.name.clone())));
    if super::is_default_class(&class.tree()) {
        keys.extend(caches.keys_by(&UNBOUND_CLAIMS_BY_CLASS, &Key::default()));
    }
}

/// An unbound pod may be what a claim waits for.
fn pod_changed(caches: &Caches, change: &Change, keys: &mut Vec<Key>) {
    let waits = |pod: &std::sync::Arc<corten_client::Object>| {
        let pod = Pod::from(pod.clone());
        pod.view.node.is_empty() && !pod.is_finished()
    };
    if change.old.as_ref().map(waits) == change.new.as_ref().map(waits) {
        return;
    }
    let claims = caches.of(&kinds::PERSISTENT_VOLUME_CLAIMS);
    let is_unbound = |key: &Key| {
        claims.get(key).is_some_and(|claim| {
            let view = claim.view::<ClaimView>();
            !view.bound && view.volume.is_empty()
        })
    };
    keys.extend(super::claims_of_pod(change.object()).filter(is_unbound));
}
