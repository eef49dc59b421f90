//! Volumes and claims: the fields that storage controllers read, and the indexes between them.

pub(crate) mod attach;
pub(crate) mod attributes_protection;
pub(crate) mod binder;
pub(crate) mod claim_protection;
pub(crate) mod ephemeral;
pub(crate) mod expand;
pub(crate) mod local_path;
mod migration;
mod usage;
pub(crate) mod volume_protection;

use std::collections::BTreeSet;

use corten_api::quantity::Quantity;
use corten_api::{Str, Value};
use corten_client::{Error, Index, Key, Kind, Object, View, kinds};
use corten_reconcile::Action;

use crate::pods::PodView;

pub(crate) const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
pub(crate) const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
pub(crate) const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
pub(crate) const MIGRATED_TO: &str = "pv.kubernetes.io/migrated-to";
pub(crate) const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
pub(crate) const STORAGE_PROVISIONER: &str = "volume.kubernetes.io/storage-provisioner";
pub(crate) const BETA_STORAGE_PROVISIONER: &str = "volume.beta.kubernetes.io/storage-provisioner";
const BETA_CLASS: &str = "volume.beta.kubernetes.io/storage-class";
const DEFAULT_CLASS: [&str; 2] =
    ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];

/// The fields of a volume that are read often.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct VolumeView {
    pub(crate) class: Str,
    pub(crate) attributes_class: Str,
    pub(crate) capacity: Option<Quantity>,
    pub(crate) access_modes: BTreeSet<Str>,
    pub(crate) block: bool,
    pub(crate) phase: Str,
    /// The CSI driver and the volume handle.
    pub(crate) csi: Option<(Str, Str)>,
    /// The claim it is bound to, with the claim's uid, which is empty for a pre-bound volume.
    pub(crate) claim: Option<(Key, Str)>,
}

impl View for VolumeView {
    fn of(volume: &Value) -> VolumeView {
        let text = |path: &[&str]| Str::new(volume.str_at(path).unwrap_or_default());
        let claim = volume.at(&["spec", "claimRef"]).map(|claim| {
            let text = |key: &str| Str::new(claim.str_at(&[key]).unwrap_or_default());
            (Key::new(text("namespace"), text("name")), text("uid"))
        });
        let csi = volume.at(&["spec", "csi"]).map(|csi| {
            let text = |key: &str| Str::new(csi.str_at(&[key]).unwrap_or_default());
            (text("driver"), text("volumeHandle"))
        });
        VolumeView {
            csi,
            class: annotation(volume, BETA_CLASS)
                .map_or_else(|| text(&["spec", "storageClassName"]), Str::new),
            attributes_class: text(&["spec", "volumeAttributesClassName"]),
            capacity: quantity(volume, &["spec", "capacity", "storage"]),
            access_modes: access_modes(volume),
            block: is_block(volume),
            phase: text(&["status", "phase"]),
            claim,
        }
    }
}

/// The fields of a claim that are read often.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ClaimView {
    /// Its storage class; `None` if it names none.
    pub(crate) class: Option<Str>,
    /// The volume it is bound to or names.
    pub(crate) volume: Str,
    /// True if it has been bound once.
    pub(crate) bound: bool,
    /// The VolumeAttributesClasses that it requests, has, or is being modified to.
    pub(crate) attributes_classes: BTreeSet<Str>,
}

impl View for ClaimView {
    fn of(claim: &Value) -> ClaimView {
        ClaimView {
            class: class_of_claim(claim).map(Str::new),
            volume: Str::new(claim.str_at(&["spec", "volumeName"]).unwrap_or_default()),
            bound: annotation(claim, BIND_COMPLETED).is_some(),
            attributes_classes: attributes_classes(claim),
        }
    }
}

/// The pods that use a claim, through ephemeral volumes too.
pub(crate) static PODS_BY_CLAIM: Index =
    Index { kind: &kinds::PODS, name: "pods-by-claim", names: |pod| claims_of_pod(pod).collect() };

/// The volumes that are bound to a claim.
pub(crate) static VOLUMES_BY_CLAIM: Index = Index {
    kind: &kinds::PERSISTENT_VOLUMES,
    name: "volumes-by-claim",
    names: |volume| volume.view::<VolumeView>().claim.iter().map(|(key, _)| key.clone()).collect(),
};

/// The claims that are bound to a volume or name it.
pub(crate) static CLAIMS_BY_VOLUME: Index = Index {
    kind: &kinds::PERSISTENT_VOLUME_CLAIMS,
    name: "claims-by-volume",
    names: |claim| {
        let volume = claim.view::<ClaimView>().volume.clone();
        if volume.is_empty() { Vec::new() } else { vec![Key::new("", volume)] }
    },
};

/// A fact that only the API server knows for certain.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Asked {
    #[default]
    NotYet,
    Answered,
    /// The request failed: nothing irreversible may be done.
    Failed,
}

impl Asked {
    /// Stores a response; null stands for an absent object.
    pub(crate) fn answer(&mut self, answer: Result<Value, Error>) -> Option<Value> {
        let answer = match answer {
            Err(error) if error.is_not_found() => Ok(Value::Null),
            answer => answer,
        };
        *self = match &answer {
            Ok(_) if *self != Asked::Failed => Asked::Answered,
            _ => Asked::Failed,
        };
        answer.ok()
    }
}

/// The claims a pod uses.
pub(crate) fn claims_of_pod(pod: &Object) -> impl Iterator<Item = Key> {
    let (view, namespace) = (pod.view::<PodView>(), pod.key.namespace.clone());
    let names: Vec<Str> = view.claims.iter().map(|(_, claim)| claim.clone()).collect();
    names.into_iter().map(move |name| Key::new(namespace.clone(), name))
}

pub(crate) fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object.str_at(&["metadata", "annotations", key])
}

/// The class of a claim; `None` if it names none.
pub(crate) fn class_of_claim(claim: &Value) -> Option<&str> {
    annotation(claim, BETA_CLASS).or_else(|| claim.str_at(&["spec", "storageClassName"]))
}

pub(crate) fn access_modes(object: &Value) -> BTreeSet<Str> {
    object.items_at(&["spec", "accessModes"]).iter().filter_map(Value::as_str).map(Str::new).collect()
}

pub(crate) fn is_block(object: &Value) -> bool {
    object.str_at(&["spec", "volumeMode"]) == Some("Block")
}

pub(crate) fn quantity(object: &Value, path: &[&str]) -> Option<Quantity> {
    Quantity::parse(object.str_at(path)?).ok()
}

fn attributes_classes(claim: &Value) -> BTreeSet<Str> {
    let named: [&[&str]; 3] = [
        &["spec", "volumeAttributesClassName"],
        &["status", "currentVolumeAttributesClassName"],
        &["status", "modifyVolumeStatus", "targetVolumeAttributesClassName"],
    ];
    named.iter().filter_map(|path| claim.str_at(path)).filter(|name| !name.is_empty()).map(Str::new).collect()
}

/// True if a class is a default one.
pub(crate) fn is_default_class(class: &Value) -> bool {
    DEFAULT_CLASS.iter().any(|key| annotation(class, key) == Some("true"))
}

/// True if volumes of a class are bound only after their pod is scheduled.
pub(crate) fn waits_for_consumer(class: &Value) -> bool {
    class.str_at(&["volumeBindingMode"]) == Some("WaitForFirstConsumer")
}

pub(crate) fn update(kind: &'static Kind, object: Value, subresource: &'static str) -> Action {
    Action::Update { kind, object, subresource }
}

/// The object with or without a finalizer.
pub(crate) fn with_finalizer(object: &Value, finalizer: &str, held: bool) -> Value {
    let mut object = object.clone();
    let list = corten_api::meta::of(&mut object).entry("finalizers").make_array();
    list.retain(|known| known.as_str() != Some(finalizer));
    if held {
        list.push(finalizer.into());
    } else if list.is_empty() {
        object.remove(&["metadata", "finalizers"]);
    }
    object
}
