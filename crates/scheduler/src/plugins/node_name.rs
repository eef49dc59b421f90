//! NodeName: a pod that names its node fits on no other.

use std::sync::Arc;

use crate::framework::event::ClusterEvent;
use crate::framework::registration::{Point, Registration};
use crate::framework::{Plugin, Rejection, makes_node_feasible};
use crate::node::Node;
use crate::pod::Pod;

pub(crate) const NAME: &str = "NodeName";
const REASON: Rejection = Rejection::unresolvable("node(s) didn't match the requested node name");

pub(crate) const REGISTRATION: Registration = Registration {
    name: NAME,
    weight: 0,
    points: &[Point::Filter],
    create: Some(|_| Ok(Arc::new(NodeName))),
};

pub(crate) struct NodeName;

impl Plugin for NodeName {
    fn name(&self) -> &'static str {
        NAME
    }

    fn filter_node(&self, pod: &Pod, node: &Node) -> Option<Rejection> {
        (!pod.node.is_empty() && pod.node != node.name).then_some(REASON)
    }

    fn queueing_hint(&self, pod: &Pod, event: &ClusterEvent<'_>) -> bool {
        makes_node_feasible(self, pod, event)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{node, pod};

    use super::*;

    #[test]
    fn only_the_named_node_is_feasible() {
        let mut named = pod("p").build();
        assert_eq!(NodeName.filter_node(&named, &node("a").node()), None);
        named.node = "a".into();
        assert_eq!(NodeName.filter_node(&named, &node("a").node()), None);
        assert_eq!(NodeName.filter_node(&named, &node("b").node()), Some(REASON));
    }
}
