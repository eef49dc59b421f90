//! The owners of the claims of a stateful set's pods. A claim is deleted with its owner, so owners implement the
//! retention policy: the set itself where claims are deleted with it, a condemned pod where they are deleted on scaling
//! down, none where they are retained.
//!
//! Never touches claims of other controllers, except to remove its own references.

use corten_api::{Value, meta, value};
use corten_client::{Object, Owner, kinds};
use corten_reconcile::Action;

use super::identity;

/// A set and one of its pods; a pod that is not created yet has no uid.
pub(super) struct Owners<'a> {
    pub(super) set: &'a Value,
    pub(super) pod_name: &'a str,
    pub(super) pod_uid: &'a str,
}

/// The object of a reference, by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Named {
    Set,
    Pod,
    Other,
}

impl Owners<'_> {
    fn named(&self, owner: &Owner) -> Named {
        if owner.api_version == "apps/v1" && owner.kind == "StatefulSet" && owner.name == meta::name(self.set)
        {
            Named::Set
        } else if owner.api_version == "v1" && owner.kind == "Pod" && owner.name == self.pod_name {
            Named::Pod
        } else {
            Named::Other
        }
    }

    fn uid(&self, named: Named) -> &str {
        match named {
            Named::Set => meta::uid(self.set),
            Named::Pod => self.pod_uid,
            Named::Other => "",
        }
    }

    /// True if the claim belongs to an earlier object of the same name.
    fn has_stale(&self, claim: &Object, named: Named) -> bool {
        let first = claim.owners.iter().find(|owner| self.named(owner) == named);
        first.is_some_and(|owner| owner.uid != self.uid(named))
    }

    fn has(&self, claim: &Object, named: Named) -> bool {
        claim.owners.iter().any(|owner| owner.uid == self.uid(named))
    }

    /// True if a pod must not be created yet, because its claim is about to be deleted with an earlier pod.
    pub(super) fn blocks_creation(&self, claim: &Object) -> bool {
        deletes(self.set, "whenScaled") && self.has_stale(claim, Named::Pod)
    }

    /// True if a claim has another controller.
    pub(super) fn conflicts(&self, claim: &Object) -> bool {
        if !deletes(self.set, "whenScaled") && !deletes(self.set, "whenDeleted") {
            return false;
        }
        claim.owners.iter().any(|owner| match self.named(owner) {
            Named::Other => owner.controller,
            named => owner.uid != self.uid(named),
        })
    }

    /// The owner that the claim should have: the set, the pod or none.
    fn wanted(&self) -> Option<Named> {
        let is_surplus = !identity::ordinal(self.pod_name)
            .is_some_and(|ordinal| identity::ordinals(self.set).contains(&ordinal));
        match (deletes(self.set, "whenScaled"), deletes(self.set, "whenDeleted")) {
            (true, _) if is_surplus => Some(Named::Pod),
            (_, true) => Some(Named::Set),
            _ => None,
        }
    }

    /// True if the claim has the owners it should have.
    pub(super) fn is_settled(&self, claim: &Object) -> bool {
        if self.has_stale(claim, Named::Set) || self.has_stale(claim, Named::Pod) {
            // The garbage collector decides about claims of deleted owners.
            return true;
        }
        let owned = [Named::Set, Named::Pod].map(|named| self.has(claim, named));
        if self.conflicts(claim) {
            return owned == [false, false];
        }
        let is_ours = |owner: &&Owner| owner.uid == meta::uid(self.set) || owner.uid == self.pod_uid;
        if claim.owners.iter().filter(is_ours).any(|owner| !owner.controller) {
            return false;
        }
        let wanted = self.wanted();
        owned == [wanted == Some(Named::Set), wanted == Some(Named::Pod)]
    }

    /// Sets the owners of the claim.
    pub(super) fn settle(&self, claim: &Object) -> Action {
        let mut object = claim.tree();
        let references = object.items_at(&["metadata", "ownerReferences"]).iter().zip(&claim.owners);
        let mut kept: Vec<Value> = references
            .filter(|(_, owner)| self.named(owner) == Named::Other)
            .map(|(reference, _)| reference.clone())
            .collect();
        if !self.conflicts(claim) {
            kept.extend(self.wanted().map(|named| self.reference(named)));
        }
        if kept.is_empty() {
            object.remove(&["metadata", "ownerReferences"]);
        } else {
            object.set(&["metadata", "ownerReferences"], kept);
        }
        Action::Update { kind: &kinds::PERSISTENT_VOLUME_CLAIMS, object, subresource: "" }
    }

    fn reference(&self, named: Named) -> Value {
        let (api_version, kind, name) = match named {
            Named::Pod => ("v1", "Pod", self.pod_name),
            _ => ("apps/v1", "StatefulSet", meta::name(self.set)),
        };
        value!({
            "apiVersion": (api_version), "kind": (kind), "name": (name), "uid": (self.uid(named)),
            "controller": true, "blockOwnerDeletion": true,
        })
    }
}

/// True if the policy deletes claims on an occasion.
fn deletes(set: &Value, occasion: &str) -> bool {
    set.str_at(&["spec", "persistentVolumeClaimRetentionPolicy", occasion]) == Some("Delete")
}
