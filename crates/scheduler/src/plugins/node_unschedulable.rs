//! NodeUnschedulable: a cordoned node takes only pods that tolerate it.

use std::sync::Arc;

use crate::framework::event::ClusterEvent;
use crate::framework::registration::{Point, Registration};
use crate::framework::{Plugin, Rejection, makes_node_feasible};
use crate::node::Node;
use crate::pod::Pod;
use crate::tolerations::{Taint, tolerates_all};

pub(crate) const NAME: &str = "NodeUnschedulable";
const REASON: Rejection = Rejection::unresolvable("node(s) were unschedulable");

pub(crate) const REGISTRATION: Registration = Registration {
    name: NAME,
    weight: 0,
    points: &[Point::Filter],
    create: Some(|_| Ok(Arc::new(NodeUnschedulable))),
};

pub(crate) struct NodeUnschedulable;

impl Plugin for NodeUnschedulable {
    fn name(&self) -> &'static str {
        NAME
    }

    fn filter_node(&self, pod: &Pod, node: &Node) -> Option<Rejection> {
        let tolerated = || tolerates_all(&pod.shape.tolerations, &[Taint::unschedulable()]);
        (node.unschedulable && !tolerated()).then_some(REASON)
    }

    fn queueing_hint(&self, pod: &Pod, event: &ClusterEvent<'_>) -> bool {
        let changed = matches!(event, ClusterEvent::PodChanged { old, new } if old.shape.tolerations != new.shape.tolerations);
        changed || makes_node_feasible(self, pod, event)
    }
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use crate::testing::{node, pod};

    use super::*;

    #[test]
    fn cordoned_nodes_accept_only_pods_that_tolerate_it() {
        let (open, closed) = (node("a").node(), node("b").cordoned().node());
        let plain = pod("p").build();
        assert_eq!(NodeUnschedulable.filter_node(&plain, &open), None);
        assert_eq!(NodeUnschedulable.filter_node(&plain, &closed), Some(REASON));
        let tolerant =
            pod("p").spec("tolerations", value!([{"operator": "Exists", "effect": "NoSchedule"}])).build();
        assert_eq!(NodeUnschedulable.filter_node(&tolerant, &closed), None);
        let opened = ClusterEvent::NodeChanged { old: &closed, new: &open };
        assert!(NodeUnschedulable.queueing_hint(&plain, &opened));
        assert!(!NodeUnschedulable.queueing_hint(&plain, &ClusterEvent::NodeAdded(&closed)));
    }
}
