//! Which objects belong to a workload: those it owns and selects, those it takes in, those it lets go.

use std::sync::Arc;

use corten_api::selector::LabelSelector;
use corten_api::{Value, meta, value};
use corten_client::{Cache, Kind, Object, Patch};
use corten_reconcile::Action;

/// What a workload has, and what has to change about that.
#[derive(Debug, Clone, Default)]
pub(crate) struct Claims {
    /// Owned and selected, the adopted ones included.
    pub(crate) owned: Vec<Arc<Object>>,
    pub(crate) adopt: Vec<Arc<Object>>,
    pub(crate) release: Vec<Arc<Object>>,
}

/// Everything that a workload may have a claim on: what it owns, and what nobody does.
pub(crate) fn candidates(cache: &Cache, owner: &Value, selector: &LabelSelector) -> Vec<Arc<Object>> {
    let mut found = cache.owned_by(meta::uid(owner));
    let orphans = cache.select(meta::namespace(owner), selector);
    found.extend(orphans.into_iter().filter(|object| object.controller().is_none()));
    found.sort_by(|a, b| a.key.cmp(&b.key));
    found.dedup_by(|a, b| a.key == b.key);
    found
}

/// Decides about the candidates. What is being deleted neither takes in nor is taken in.
pub(crate) fn decide(owner: &Value, selector: &LabelSelector, candidates: &[Arc<Object>]) -> Claims {
    let mut claims = Claims::default();
    for object in candidates {
        let selected = object.is_selected_by(selector);
        match object.controller() {
            Some(controller) if controller.uid != meta::uid(owner) => {}
            Some(_) if selected => claims.owned.push(object.clone()),
            // A workload on its way out lets the garbage collector decide.
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
    /// The requests that make it so.
    pub(crate) fn actions(&self, kind: &'static Kind, owner: &Value) -> Vec<Action> {
        self.actions_with_finalizer(kind, owner, None)
    }

    /// The same, where what belongs to an owner has its finalizer.
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

/// The reference by which an owner manages what it has.
pub(crate) fn reference(owner: &Value) -> Value {
    value!({
        "apiVersion": (meta::api_version(owner)), "kind": (meta::kind(owner)),
        "name": (meta::name(owner)), "uid": (meta::uid(owner)),
        "controller": true, "blockOwnerDeletion": true,
    })
}
