//! Protection of volumes: one that is bound is not gone before its claim is.
//!
//! Owns the finalizer `kubernetes.io/pv-protection`. Watches volumes. Never deletes.

use corten_api::{Value, meta};
use corten_client::{Caches, Key, kinds};
use corten_reconcile::{Controller, Plan, Watch};
use jiff::Timestamp;

use super::{update, with_finalizer};

const FINALIZER: &str = "kubernetes.io/pv-protection";

pub(crate) struct VolumeProtection;

impl Controller for VolumeProtection {
    /// The volume, if it is there.
    type World = Option<Value>;

    fn name(&self) -> &'static str {
        "persistentvolume-protection-controller"
    }

    fn account(&self) -> &'static str {
        "pv-protection-controller"
    }

    fn watches(&self) -> Vec<Watch> {
        vec![Watch::own(&kinds::PERSISTENT_VOLUMES)]
    }

    fn observe(&self, caches: &Caches, key: &Key) -> Option<Value> {
        caches.of(&kinds::PERSISTENT_VOLUMES).get(key).map(|volume| volume.tree())
    }

    fn plan(&self, _: &Key, volume: &Option<Value>, _: Timestamp) -> Plan {
        let Some(volume) = volume else { return Plan::done() };
        let is_held = meta::finalizers(volume).any(|finalizer| finalizer == FINALIZER);
        let is_used = volume.str_at(&["status", "phase"]) == Some("Bound");
        let hold = match meta::is_deleting(volume) {
            true if is_held && !is_used => false,
            false if !is_held => true,
            _ => return Plan::done(),
        };
        Plan::done().then(update(&kinds::PERSISTENT_VOLUMES, with_finalizer(volume, FINALIZER, hold), ""))
    }
}
