//! CSIStorageCapacity: the capacity for new volumes of a class, and the nodes it is for.

use corten_api::selector::LabelSelector;
use corten_api::{Str, Value};

use crate::node::Node;
use crate::pod::terms::read;
use crate::resources::amount;

pub(super) struct Capacity {
    class: Str,
    /// The size of the largest volume that can be provisioned, if it is known.
    largest: Option<i64>,
    /// `None` matches no node.
    nodes: Option<LabelSelector>,
}

impl Capacity {
    pub(super) fn of(capacity: &Value) -> Capacity {
        let size = |field: &str| capacity.get(field).filter(|size| !size.is_null());
        let largest = size("maximumVolumeSize").or_else(|| size("capacity"));
        let nodes = capacity.get("nodeTopology").filter(|selector| !selector.is_null());
        Capacity {
            class: Str::new(capacity.str_at(&["storageClassName"]).unwrap_or_default()),
            largest: largest.map(|quantity| amount("storage", quantity)),
            nodes: nodes.map(|selector| read(Some(selector))),
        }
    }

    /// True if a volume of a class and size can be provisioned for a node.
    pub(super) fn suffices(&self, class: &str, size: i64, node: &Node) -> bool {
        self.class == class
            && self.largest.is_some_and(|largest| largest >= size)
            && self.nodes.as_ref().is_some_and(|nodes| nodes.matches(&node.labels))
    }
}
