//! A PersistentVolume.

use corten_api::{Map, Str, Value, meta};
use corten_client::Key;

use super::claim::{Claim, modes};
use crate::node::Node;
use crate::node_selector::RequiredNodes;
use crate::resources::amount;

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Volume {
    pub(crate) labels: Map,
    pub(crate) class: Str,
    pub(crate) size: i64,
    modes: Vec<Str>,
    block: bool,
    /// Its node affinity; any node if it has none.
    nodes: RequiredNodes,
    /// The claim it is bound to, with its uid if it is set.
    pub(crate) claim: Option<(Key, Str)>,
    available: bool,
    deleting: bool,
    pub(crate) attachable: Option<Attachable>,
}

/// An attachable volume: driver and handle.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Attachable {
    pub(crate) driver: Str,
    pub(crate) handle: Str,
}

impl Volume {
    pub(crate) fn of(volume: &Value) -> Volume {
        let text = |path: &[&str]| Str::new(volume.str_at(path).unwrap_or_default());
        let affinity = volume.at(&["spec", "nodeAffinity", "required"]).filter(|value| !value.is_null());
        let size = volume.at(&["spec", "capacity", "storage"]);
        let claim = volume.at(&["spec", "claimRef"]).filter(|claim| !claim.is_null()).map(|claim| {
            let text = |key: &str| Str::new(claim.str_at(&[key]).unwrap_or_default());
            (Key::new(text("namespace"), text("name")), text("uid"))
        });
        let driver = volume.str_at(&["spec", "csi", "driver"]);
        Volume {
            labels: meta::labels(volume).cloned().unwrap_or_default(),
            class: text(&["spec", "storageClassName"]),
            size: size.map_or(0, |quantity| amount("storage", quantity)),
            modes: modes(volume),
            block: text(&["spec", "volumeMode"]) == "Block",
            nodes: affinity.map(RequiredNodes::of_selector).unwrap_or_default(),
            claim,
            available: text(&["status", "phase"]) == "Available",
            deleting: meta::is_deleting(volume),
            attachable: driver.map(|driver| Attachable {
                driver: driver.into(),
                handle: text(&["spec", "csi", "volumeHandle"]),
            }),
        }
    }

    /// True if it is available on a node.
    pub(crate) fn is_available_on(&self, node: &Node) -> bool {
        self.nodes.matches(node)
    }

    /// True if it is available on every node.
    pub(crate) fn is_available_everywhere(&self) -> bool {
        self.nodes.is_anything()
    }

    /// True if it matches a claim, on whichever node.
    pub(super) fn matches(&self, claim: &Claim) -> bool {
        !self.deleting
            && self.block == claim.block
            && self.size >= claim.size()
            && claim.modes.iter().all(|mode| self.modes.contains(mode))
            && claim.selector.as_ref().is_none_or(|selector| selector.matches(&self.labels))
    }

    /// True if it is pre-bound to a claim.
    pub(super) fn is_reserved_for(&self, key: &Key, claim: &Claim) -> bool {
        self.claim.as_ref().is_some_and(|(to, uid)| to == key && (uid.is_empty() || *uid == claim.uid))
    }

    pub(super) fn is_free(&self) -> bool {
        self.claim.is_none() && self.available
    }
}
