//! What can happen in a cluster that may help a pod that fits nowhere.

use crate::node::Node;
use crate::pod::Pod;

pub(crate) enum ClusterEvent<'a> {
    NodeAdded(&'a Node),
    NodeChanged {
        old: &'a Node,
        new: &'a Node,
    },
    NodeDeleted(&'a Node),
    /// A pod came to a node.
    PodAssigned(&'a Pod),
    /// A pod on a node changed.
    AssignedPodChanged {
        old: &'a Pod,
        new: &'a Pod,
    },
    /// A pod left its node.
    PodGone(&'a Pod),
    /// The very pod that waits changed.
    PodChanged {
        old: &'a Pod,
        new: &'a Pod,
    },
    /// A claim, a volume, a class or what a node can attach changed.
    StorageChanged,
}
