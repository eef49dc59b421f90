//! Ownership of objects by workloads: those they own and select, those they adopt, those they release.

use std::sync::Arc;

use corten_api::selector::LabelSelector;
use corten_api::{Value, meta, value};
use corten_client::{Cache, Caches, Change, Key, Kind, Object, Patch};
use corten_reconcile::Action;

use crate::selectors;

/// The objects of a workload, and the changes of ownership.
#[derive(Debug, Clone, Default)]
pub(crate) struct Claims {
    /// Owned and selected objects, the adopted ones included.
    pub(crate) owned: Vec<Arc<Object>>,
    pub(crate) adopt: Vec<Arc<Object>>,
    pub(crate) release: Vec<Arc<Object>>,
}

/// The objects that a workload may claim: those it owns, and those without a controller.
pub(crate) fn candidates(cache: &Cache, owner: &Value, selector: &LabelSelector) -> Vec<Arc<Object>> {
    let mut found = cache.owned_by(meta::uid(owner));
    let orphans = cache.unmanaged(meta::namespace(owner));
    found.extend(orphans.into_iter().filter(|object| object.is_selected_by(selector)));
    found.sort_by(|a, b| a.key.cmp(&b.key));
    found.dedup_by(|a, b| a.key == b.key);
    found
}

/// Decides about the candidates. A terminating owner adopts nothing, and a terminating object is not adopted.
pub(crate) fn decide(owner: &Value, selector: &LabelSelector, candidates: &[Arc<Object>]) -> Claims {
    decide_by(owner, candidates, |object| object.is_selected_by(selector))
}

/// The same for owners that select by more than labels.
pub(crate) fn decide_by(
    owner: &Value,
    candidates: &[Arc<Object>],
    is_selected: impl Fn(&Object) -> bool,
) -> Claims {
    let mut claims = Claims::default();
    for object in candidates {
        let selected = is_selected(object);
        match object.controller() {
            Some(controller) if controller.uid != meta::uid(owner) => {}
            Some(_) if selected => claims.owned.push(object.clone()),
            // A terminating owner leaves its dependents to the garbage collector.
            Some(_) if meta::is_deleting(owner) => {}
            Some(_) => claims.release.push(object.clone()),
            None if selected && !meta::is_deleting(owner) && !object.deleting => {
                claims.adopt.push(object.clone());
                claims.owned.push(object.clone());
            }
            None => {}
        }
    }
    claims
}

impl Claims {
    /// The requests that adopt and release.
    pub(crate) fn actions(&self, kind: &'static Kind, owner: &Value) -> Vec<Action> {
        self.actions_with_finalizer(kind, owner, None)
    }

    /// The same for owners whose dependents have a finalizer.
    pub(crate) fn actions_with_finalizer(
        &self,
        kind: &'static Kind,
        owner: &Value,
        finalizer: Option<&str>,
    ) -> Vec<Action> {
        let finalizer = |patch: &mut Value, field: &str| {
            if let Some(finalizer) = finalizer {
                patch.set(&["metadata", field], value!([finalizer]));
            }
        };
        let adopt = self.adopt.iter().map(|object| {
            let mut patch =
                value!({"metadata": {"uid": (object.uid.clone()), "ownerReferences": [(reference(owner))]}});
            finalizer(&mut patch, "finalizers");
            Action::Patch { kind, key: object.key.clone(), patch: Patch::Strategic(patch), subresource: "" }
        });
        let release = self.release.iter().map(|object| {
            let gone = value!({"$patch": "delete", "uid": (meta::uid(owner))});
            let mut patch = value!({"metadata": {"uid": (object.uid.clone()), "ownerReferences": [(gone)]}});
            finalizer(&mut patch, "$deleteFromPrimitiveList/finalizers");
            Action::Patch { kind, key: object.key.clone(), patch: Patch::Strategic(patch), subresource: "" }
        });
        adopt.chain(release).collect()
    }
}

/// The workload of a kind that controls a changed object; for an object without a controller, every workload of that
/// kind that may adopt it.
pub(crate) fn claimants(kind: &Kind, caches: &Caches, change: &Change, keys: &mut Vec<Key>) {
    for object in change.states() {
        match object.controller() {
            Some(owner) if owner.kind == kind.kind => {
                keys.push(Key::new(object.key.namespace.clone(), owner.name.clone()));
            }
            Some(_) => {}
            None if change.new.is_some() => {
                let takes = |workload: &Object| {
                    selectors::of(&workload.tree()).is_some_and(|selector| object.is_selected_by(&selector))
                };
                let workloads = caches.of(kind).list(&object.key.namespace);
                keys.extend(workloads.iter().filter(|w| takes(w)).map(|workload| workload.key.clone()));
            }
            None => {}
        }
    }
}

/// The owner reference of a controller.
pub(crate) fn reference(owner: &Value) -> Value {
    value!({
        "apiVersion": (meta::api_version(owner)), "kind": (meta::kind(owner)),
        "name": (meta::name(owner)), "uid": (meta::uid(owner)),
        "controller": true, "blockOwnerDeletion": true,
    })
}
