//! NodeUnschedulable: a cordoned node takes only pods that tolerate it.

use crate::framework::event::ClusterEvent;
use crate::framework::{Plugin, Rejection, opens_up};
use crate::node::Node;
use crate::pod::Pod;
use crate::tolerations::{Taint, tolerates_all};

pub(crate) const NAME: &str = "NodeUnschedulable";
const REASON: Rejection = Rejection::unresolvable("node(s) were unschedulable");

pub(crate) struct NodeUnschedulable;

impl Plugin for NodeUnschedulable {
    fn name(&self) -> &'static str {
        NAME
    }

    fn judge(&self, pod: &Pod, node: &Node) -> Option<Rejection> {
        let tolerated = || tolerates_all(&pod.shape.tolerations, &[Taint::unschedulable()]);
        (node.unschedulable && !tolerated()).then_some(REASON)
    }

    fn may_help(&self, pod: &Pod, event: &ClusterEvent<'_>) -> bool {
        let changed = matches!(event, ClusterEvent::PodChanged { old, new } if old.shape.tolerations != new.shape.tolerations);
        changed || opens_up(self, pod, event)
    }
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use crate::testing::{node, pod};

    use super::*;

    #[test]
    fn cordoned_nodes_take_only_who_tolerates_it() {
        let (open, closed) = (node("a").node(), node("b").cordoned().node());
        let plain = pod("p").build();
        assert_eq!(NodeUnschedulable.judge(&plain, &open), None);
        assert_eq!(NodeUnschedulable.judge(&plain, &closed), Some(REASON));
        let tolerant =
            pod("p").spec("tolerations", value!([{"operator": "Exists", "effect": "NoSchedule"}])).build();
        assert_eq!(NodeUnschedulable.judge(&tolerant, &closed), None);
        let opened = ClusterEvent::NodeChanged { old: &closed, new: &open };
        assert!(NodeUnschedulable.may_help(&plain, &opened));
        assert!(!NodeUnschedulable.may_help(&plain, &ClusterEvent::NodeAdded(&closed)));
    }
}
