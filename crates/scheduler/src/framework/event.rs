//! Cluster events that may make a pod schedulable.

use crate::node::Node;
use crate::pod::Pod;

pub(crate) enum ClusterEvent<'a> {
    NodeAdded(&'a Node),
    NodeChanged {
        old: &'a Node,
        new: &'a Node,
    },
    NodeDeleted(&'a Node),
    /// A pod was bound to a node.
    PodAssigned(&'a Pod),
    /// A bound pod changed.
    AssignedPodChanged {
        old: &'a Pod,
        new: &'a Pod,
    },
    /// A bound pod was deleted or finished.
    PodGone(&'a Pod),
    /// The unschedulable pod itself changed.
    PodChanged {
        old: &'a Pod,
        new: &'a Pod,
    },
    /// A claim, a volume, a class or the attach limits of a node changed.
    StorageChanged,
}
