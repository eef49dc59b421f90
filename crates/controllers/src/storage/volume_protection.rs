//! PersistentVolume protection: a bound volume is not deleted before its claim.
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
    /// The volume, if it exists.
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

#[cfg(test)]
mod tests {
    use corten_api::value;
    use corten_reconcile::Action;

    use super::*;
    use crate::testing::at;

    #[test]
    fn bound_volumes_are_held() {
        let volume = |phase: &str, going: bool, finalizers: Value| {
            let mut volume =
                value!({"metadata": {"name": "v", "finalizers": finalizers}, "status": {"phase": phase}});
            if going {
                volume.set(&["metadata", "deletionTimestamp"], "2026-01-01T00:00:00Z");
            }
            volume
        };
        let (none, ours) = (value!([]), value!([FINALIZER]));
        for (phase, going, before, after) in [
            ("Available", false, none.clone(), Some(ours.clone())),
            ("Available", false, value!(["x"]), Some(value!(["x", FINALIZER]))),
            ("Bound", false, ours.clone(), None),
            ("Bound", true, ours.clone(), None),
            ("Released", true, ours.clone(), Some(none.clone())),
            ("Available", true, value!([FINALIZER, "x"]), Some(value!(["x"]))),
            ("Available", true, none.clone(), None),
        ] {
            let plan =
                VolumeProtection.plan(&Key::default(), &Some(volume(phase, going, before.clone())), at(0));
            let found = plan.actions().next().map(|action| match action {
                Action::Update { object, .. } => {
                    object.at(&["metadata", "finalizers"]).cloned().unwrap_or_else(|| none.clone())
                }
                other => panic!("{other:?}"),
            });
            assert_eq!(found, after, "{phase} {going} {before:?}");
        }
        assert!(VolumeProtection.plan(&Key::default(), &None, at(0)).is_done());
    }
}
