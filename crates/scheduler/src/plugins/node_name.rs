//! NodeName: a pod that names its node goes there or nowhere.

use crate::framework::event::ClusterEvent;
use crate::framework::{Plugin, Rejection, opens_up};
use crate::node::Node;
use crate::pod::Pod;

pub(crate) const NAME: &str = "NodeName";
const REASON: Rejection = Rejection::unresolvable("node(s) didn't match the requested node name");

pub(crate) struct NodeName;

impl Plugin for NodeName {
    fn name(&self) -> &'static str {
        NAME
    }

    fn judge(&self, pod: &Pod, node: &Node) -> Option<Rejection> {
        (!pod.node.is_empty() && pod.node != node.name).then_some(REASON)
    }

    fn may_help(&self, pod: &Pod, event: &ClusterEvent<'_>) -> bool {
        opens_up(self, pod, event)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{node, pod};

    use super::*;

    #[test]
    fn only_the_named_node() {
        let mut named = pod("p").build();
        assert_eq!(NodeName.judge(&named, &node("a").node()), None);
        named.node = "a".into();
        assert_eq!(NodeName.judge(&named, &node("a").node()), None);
        assert_eq!(NodeName.judge(&named, &node("b").node()), Some(REASON));
    }
}
