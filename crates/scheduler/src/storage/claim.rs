//! A PersistentVolumeClaim.

use corten_api::selector::LabelSelector;
use corten_api::{Str, Value, meta};

use crate::pod::terms::read;
use crate::resources::amount;

const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
pub(crate) const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
const OLD_CLASS: &str = "volume.beta.kubernetes.io/storage-class";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Claim {
    pub(crate) uid: Str,
    /// The volume it is or will be bound to.
    pub(crate) volume: Str,
    /// True if it is fully bound.
    pub(crate) bound: bool,
    pub(crate) class: Str,
    /// The requested size.
    pub(crate) asked: Option<i64>,
    pub(crate) modes: Vec<Str>,
    pub(crate) block: bool,
    pub(crate) selector: Option<LabelSelector>,
    /// The node its volume is provisioned for.
    pub(crate) selected_node: Str,
    pub(crate) deleting: bool,
    pub(crate) lost: bool,
    /// The pod of an ephemeral volume's claim.
    pub(crate) owner: Str,
}

impl Claim {
    pub(crate) fn of(claim: &Value) -> Claim {
        let text = |path: &[&str]| Str::new(claim.str_at(path).unwrap_or_default());
        let annotation = |name: &str| text(&["metadata", "annotations", name]);
        let volume = text(&["spec", "volumeName"]);
        let old = annotation(OLD_CLASS);
        let selector = claim.at(&["spec", "selector"]).filter(|selector| !selector.is_null());
        let size = claim.at(&["spec", "resources", "requests", "storage"]);
        let owners = claim.items_at(&["metadata", "ownerReferences"]);
        let owner = owners.iter().find(|owner| owner.bool_at(&["controller"]) == Some(true));
        Claim {
            uid: Str::new(meta::uid(claim)),
            bound: !volume.is_empty() && !annotation(BIND_COMPLETED).is_empty(),
            volume,
            class: if old.is_empty() { text(&["spec", "storageClassName"]) } else { old },
            asked: size.map(|quantity| amount("storage", quantity)),
            modes: modes(claim),
            block: text(&["spec", "volumeMode"]) == "Block",
            selector: selector.map(|selector| read(Some(selector))),
            selected_node: annotation(SELECTED_NODE),
            deleting: meta::is_deleting(claim),
            lost: text(&["status", "phase"]) == "Lost",
            owner: owner.and_then(|owner| owner.str_at(&["uid"])).map(Str::new).unwrap_or_default(),
        }
    }

    pub(crate) fn size(&self) -> i64 {
        self.asked.unwrap_or(0)
    }

    /// True for ReadWriteOncePod.
    pub(crate) fn is_for_one_pod(&self) -> bool {
        self.modes.iter().any(|mode| mode == "ReadWriteOncePod")
    }
}

pub(super) fn modes(object: &Value) -> Vec<Str> {
    object.items_at(&["spec", "accessModes"]).iter().filter_map(Value::as_str).map(Str::new).collect()
}
