//! VolumeAttributesClass protection: a class is not deleted while claims or volumes use it.
//!
//! Owns the finalizer `kubernetes.io/vac-protection`. Watches these classes, claims and volumes. Never deletes.

use std::collections::BTreeSet;

use corten_api::{Str, Value, meta};
use corten_client::{Caches, Change, Index, Key, Object, kinds};
use corten_reconcile::{Controller, Manager, Plan, Watch};
use jiff::Timestamp;

use super::{ClaimView, VolumeView, update, with_finalizer};

const FINALIZER: &str = "kubernetes.io/vac-protection";

/// The claims that use a class.
static CLAIMS_BY_ATTRIBUTES: Index = Index {
    kind: &kinds::PERSISTENT_VOLUME_CLAIMS,
    name: "claims-by-attributes",
    names: |claim| named_by_claim(claim).into_iter().collect(),
};

/// The volumes that use a class.
static VOLUMES_BY_ATTRIBUTES: Index = Index {
    kind: &kinds::PERSISTENT_VOLUMES,
    name: "volumes-by-attributes",
    names: |volume| named_by_volume(volume).into_iter().collect(),
};

pub(crate) struct AttributesProtection;

impl AttributesProtection {
    pub(crate) fn new(manager: &Manager) -> AttributesProtection {
        manager.caches().index(&CLAIMS_BY_ATTRIBUTES);
        manager.caches().index(&VOLUMES_BY_ATTRIBUTES);
        AttributesProtection
    }
}

#[derive(Debug, Default)]
pub(crate) struct World {
    /// `None` if it does not exist.
    class: Option<Value>,
    is_used: bool,
}

impl Controller for AttributesProtection {
    type World = World;

    fn name(&self) -> &'static str {
        "volumeattributesclass-protection-controller"
    }

    fn watches(&self) -> Vec<Watch> {
        vec![
            Watch::own(&kinds::VOLUME_ATTRIBUTES_CLASSES),
            Watch { kind: &kinds::PERSISTENT_VOLUME_CLAIMS, keys: claim_changed },
            Watch { kind: &kinds::PERSISTENT_VOLUMES, keys: volume_changed },
        ]
    }

    fn observe(&self, caches: &Caches, key: &Key) -> World {
        let names_it = |index| !caches.keys_by(index, key).is_empty();
        World {
            class: caches.of(&kinds::VOLUME_ATTRIBUTES_CLASSES).get(key).map(|class| class.tree()),
            is_used: names_it(&CLAIMS_BY_ATTRIBUTES) || names_it(&VOLUMES_BY_ATTRIBUTES),
        }
    }

    fn plan(&self, _: &Key, world: &World, _: Timestamp) -> Plan {
        let Some(class) = &world.class else { return Plan::done() };
        let is_held = meta::finalizers(class).any(|finalizer| finalizer == FINALIZER);
        let hold = match meta::is_deleting(class) {
            true if is_held && !world.is_used => false,
            false if !is_held => true,
            _ => return Plan::done(),
        };
        let class = with_finalizer(class, FINALIZER, hold);
        Plan::done().then(update(&kinds::VOLUME_ATTRIBUTES_CLASSES, class, ""))
    }
}

fn named_by_claim(claim: &Object) -> BTreeSet<Key> {
    let view = claim.view::<ClaimView>();
    view.attributes_classes.iter().map(|name| Key::new("", name.clone())).collect()
}

fn named_by_volume(volume: &Object) -> BTreeSet<Key> {
    let name: Str = volume.view::<VolumeView>().attributes_class.clone();
    (!name.is_empty()).then(|| Key::new("", name)).into_iter().collect()
}

fn claim_changed(_: &Caches, change: &Change, keys: &mut Vec<Key>) {
    keys.extend(released_classes(change, named_by_claim));
}

fn volume_changed(_: &Caches, change: &Change, keys: &mut Vec<Key>) {
    keys.extend(released_classes(change, named_by_volume));
}

/// The classes that an object used before a change, and no longer does.
fn released_classes(change: &Change, named: fn(&Object) -> BTreeSet<Key>) -> Vec<Key> {
    let before = change.old.as_deref().map(named).unwrap_or_default();
    let now = change.new.as_deref().map(named).unwrap_or_default();
    before.difference(&now).cloned().collect()
}

#[cfg(test)]
mod tests {
    use corten_api::value;
    use corten_reconcile::Action;

    use super::*;
    use crate::testing::{at, cached};

    #[test]
    fn classes_in_use_are_held() {
        let (none, ours) = (value!([]), value!([FINALIZER]));
        for (is_used, going, before, after) in [
            (false, false, none.clone(), Some(ours.clone())),
            (true, false, ours.clone(), None),
            (true, true, ours.clone(), None),
            (false, true, value!([FINALIZER, "x"]), Some(value!(["x"]))),
            (false, true, ours.clone(), Some(none.clone())),
            (false, true, none.clone(), None),
        ] {
            let mut class = value!({"metadata": {"name": "gold", "finalizers": (before.clone())}});
            if going {
                class.set(&["metadata", "deletionTimestamp"], "2026-01-01T00:00:00Z");
            }
            let world = World { class: Some(class), is_used };
            let plan = AttributesProtection.plan(&Key::default(), &world, at(0));
            let found = plan.actions().next().map(|action| match action {
                Action::Update { object, .. } => {
                    object.at(&["metadata", "finalizers"]).cloned().unwrap_or_else(|| none.clone())
                }
                other => panic!("{other:?}"),
            });
            assert_eq!(found, after, "{is_used} {going} {before:?}");
        }
        assert!(AttributesProtection.plan(&Key::default(), &World::default(), at(0)).is_done());
    }

    #[test]
    fn a_class_that_is_no_longer_used_is_reconciled() {
        let claim = |asked: &str, has: &str, target: &str| {
            cached(&value!({
                "metadata": {"name": "c", "namespace": "n"}, "spec": {"volumeAttributesClassName": asked},
                "status": {
                    "currentVolumeAttributesClassName": has,
                    "modifyVolumeStatus": {"targetVolumeAttributesClassName": target},
                },
            }))
        };
        let names = |old, new| {
            let keys = released_classes(&Change { old, new }, named_by_claim);
            keys.iter().map(|key| key.name.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(names(None, Some(claim("a", "", ""))), Vec::<String>::new());
        assert_eq!(names(Some(claim("a", "", "")), Some(claim("b", "a", "b"))), Vec::<String>::new());
        assert_eq!(names(Some(claim("b", "a", "b")), Some(claim("b", "b", ""))), ["a"]);
        assert_eq!(names(Some(claim("b", "a", "c")), None), ["a", "b", "c"]);
    }
}
