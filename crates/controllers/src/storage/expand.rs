//! Expand controller: reports that claims with a larger request wait for the resizer of their CSI driver.
//!
//! Watches claims and volumes. Owns only its events, and the annotation with the resizer of a migrated in-tree plugin.
//! Never resizes a volume: no in-tree plugin is left.

use corten_api::{Value, meta, value};
use corten_client::{Caches, Change, Key, Patch, kinds};
use corten_reconcile::{Action, Controller, Event, Plan, Watch};
use jiff::Timestamp;

use super::{ClaimView, annotation, migration, quantity};

const COMPONENT: &str = "volume_expand";
const RESIZER: &str = "volume.kubernetes.io/storage-resizer";
const PRE_RESIZE_CAPACITY: &str = "volume.alpha.kubernetes.io/pre-resize-capacity";

pub(crate) struct Expander;

#[derive(Debug, Default)]
pub(crate) struct World {
    claim: Option<Value>,
    volume: Option<Value>,
}

impl Controller for Expander {
    type World = World;

    fn name(&self) -> &'static str {
        "persistentvolume-expander-controller"
    }

    fn account(&self) -> &'static str {
        "expand-controller"
    }

    fn watches(&self) -> Vec<Watch> {
        vec![
            Watch { kind: &kinds::PERSISTENT_VOLUME_CLAIMS, keys: claim_changed },
            Watch::lookup(&kinds::PERSISTENT_VOLUMES),
        ]
    }

    fn observe(&self, caches: &Caches, key: &Key) -> World {
        let Some(claim) = caches.of(&kinds::PERSISTENT_VOLUME_CLAIMS).get(key) else {
            return World::default();
        };
        let volume = Key::new("", claim.view::<ClaimView>().volume.clone());
        let volume = caches.of(&kinds::PERSISTENT_VOLUMES).get(&volume).map(|volume| volume.tree());
        World { claim: Some(claim.tree()), volume }
    }

    fn plan(&self, key: &Key, world: &World, _: Timestamp) -> Plan {
        let (Some(claim), Some(volume)) = (&world.claim, &world.volume) else { return Plan::done() };
        let is_theirs = volume.str_at(&["spec", "claimRef", "uid"]) == Some(meta::uid(claim));
        let grows = requested(claim) > quantity(claim, &["status", "capacity", "storage"])
            || annotation(volume, PRE_RESIZE_CAPACITY).is_some();
        if !is_theirs || !grows {
            return Plan::done();
        }
        let reported = |message: String| {
            Plan::done().event(Event::normal(COMPONENT, claim, "ExternalExpanding", message))
        };
        let Some((plugin, driver)) = migration::of_source(volume) else {
            return reported("waiting for an external controller to expand this PVC".to_owned());
        };
        let plan = reported(format!(
            "CSI migration enabled for {plugin}; waiting for external resizer to expand the pvc"
        ));
        if annotation(claim, RESIZER) == Some(driver) {
            return plan;
        }
        let mut patch = value!({"metadata": {"uid": (meta::uid(claim))}});
        patch.set(&["metadata", "annotations", RESIZER], driver);
        plan.then(Action::Patch {
            kind: &kinds::PERSISTENT_VOLUME_CLAIMS,
            key: key.clone(),
            patch: Patch::Merge(patch),
            subresource: "status",
        })
    }
}

fn requested(claim: &Value) -> Option<corten_api::quantity::Quantity> {
    quantity(claim, &["spec", "resources", "requests", "storage"])
}

/// A bound claim is reconciled when it is added, and when its request or capacity changes.
fn claim_changed(_: &Caches, change: &Change, keys: &mut Vec<Key>) {
    let Some(new) = &change.new else { return };
    let size = |claim: &Value| (requested(claim), quantity(claim, &["status", "capacity", "storage"]));
    let claim = new.tree();
    let is_bound = claim.str_at(&["status", "phase"]) == Some("Bound");
    let grew = change.old.as_ref().is_none_or(|old| {
        let (before, after) = (size(&old.tree()), size(&claim));
        after.0 > before.0 || after.1 > before.1
    });
    if is_bound && grew {
        keys.push(new.key.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::at;

    fn world(asks: &str, has: &str, source: &str) -> World {
        let claim = value!({
            "metadata": {"name": "c", "namespace": "n", "uid": "claim"},
            "spec": {"volumeName": "v", "resources": {"requests": {"storage": asks}}},
            "status": {"phase": "Bound", "capacity": {"storage": has}},
        });
        let mut volume = value!({"metadata": {"name": "v"}, "spec": {"claimRef": {"uid": "claim"}}});
        volume.set(&["spec", source], value!({}));
        World { claim: Some(claim), volume: Some(volume) }
    }

    fn plan(world: &World) -> Plan {
        Expander.plan(&Key::new("n", "c"), world, at(0))
    }

    #[test]
    fn growing_is_for_the_drivers() {
        let grown = plan(&world("2Gi", "1Gi", "csi"));
        assert_eq!(grown.events[0].reason, "ExternalExpanding");
        assert_eq!(grown.events[0].message, "waiting for an external controller to expand this PVC");
        assert!(grown.actions().next().is_none());
        assert!(plan(&world("1Gi", "1Gi", "csi")).is_done(), "nothing more is asked for");
        assert!(plan(&world("1Gi", "2Gi", "csi")).is_done(), "it has more than it asks for");
        let mut resized = world("1Gi", "1Gi", "csi");
        let annotations = value!({"volume.alpha.kubernetes.io/pre-resize-capacity": "512Mi"});
        resized.volume.as_mut().unwrap().set(&["metadata", "annotations"], annotations);
        assert_eq!(plan(&resized).events.len(), 1, "the node has not seen it yet");
        let mut another = world("2Gi", "1Gi", "csi");
        another.volume.as_mut().unwrap().set(&["spec", "claimRef", "uid"], "other");
        assert!(plan(&another).is_done());
        assert!(plan(&World::default()).is_done());
    }

    #[test]
    fn drivers_that_stand_in_for_plugins_are_named() {
        let grown = plan(&world("2Gi", "1Gi", "gcePersistentDisk"));
        let message =
            "CSI migration enabled for kubernetes.io/gce-pd; waiting for external resizer to expand the pvc";
        assert_eq!(grown.events[0].message, message);
        let Some(Action::Patch { patch: Patch::Merge(patch), .. }) = grown.actions().next() else {
            panic!("{grown:?}")
        };
        let resizer = ["metadata", "annotations", "volume.kubernetes.io/storage-resizer"];
        assert_eq!(patch.str_at(&resizer), Some("pd.csi.storage.gke.io"));
        let mut named = world("2Gi", "1Gi", "gcePersistentDisk");
        named.claim.as_mut().unwrap().set(&resizer, "pd.csi.storage.gke.io");
        assert!(plan(&named).actions().next().is_none());
    }
}
