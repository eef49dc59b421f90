//! NodeAffinity: required nodes by labels or name, those that the profile requires for all pods, and preferred ones.

use std::sync::Arc;

use corten_api::{Str, Value};

use crate::cluster::Cluster;
use crate::framework::event::ClusterEvent;
use crate::framework::registration::{Point, Registration};
use crate::framework::{Plugin, PreFilter, Rejection, makes_node_feasible, normalize};
use crate::node::Node;
use crate::node_selector::{PreferredTerm, RequiredNodes};
use crate::pod::Pod;
use crate::snapshot::NodeIx;

pub(crate) const NAME: &str = "NodeAffinity";
const REASON: Rejection = Rejection::unresolvable("node(s) didn't match Pod's node affinity/selector");
const ENFORCED: Rejection = Rejection::unresolvable("node(s) didn't match scheduler-enforced node affinity");
const CONFLICT: Rejection = Rejection::unresolvable("pod affinity terms conflict");

pub(crate) const REGISTRATION: Registration = Registration {
    name: NAME,
    weight: 2,
    points: &[Point::Filter, Point::Score],
    create: Some(|args| Ok(Arc::new(NodeAffinity::with_args(args)))),
};

/// The affinity that the profile adds to every pod's own.
#[derive(Default)]
pub(crate) struct NodeAffinity {
    pub(crate) added: RequiredNodes,
    pub(crate) added_preferred: Vec<PreferredTerm>,
}

impl NodeAffinity {
    /// Reads the plugin's arguments from a profile.
    fn with_args(args: &Value) -> NodeAffinity {
        let required = args.at(&["addedAffinity", "requiredDuringSchedulingIgnoredDuringExecution"]);
        let preferred = args.items_at(&["addedAffinity", "preferredDuringSchedulingIgnoredDuringExecution"]);
        NodeAffinity {
            added: required.map(RequiredNodes::of_selector).unwrap_or_default(),
            added_preferred: PreferredTerm::all(preferred),
        }
    }
}

impl Plugin for NodeAffinity {
    fn name(&self) -> &'static str {
        NAME
    }

    fn narrow(&self, pod: &Pod) -> Option<Vec<Str>> {
        pod.shape.nodes.named().filter(|names| !names.is_empty())
    }

    fn filter_node(&self, pod: &Pod, node: &Node) -> Option<Rejection> {
        if !self.added.matches(node) {
            return Some(ENFORCED);
        }
        (!pod.shape.nodes.matches(node)).then_some(REASON)
    }

    /// Terms that name disjoint sets of nodes allow none.
    fn pre_filter(&self, pod: &Pod, _: &mut Cluster) -> PreFilter {
        match pod.shape.nodes.named() {
            Some(names) if names.is_empty() => PreFilter::Reject(CONFLICT),
            _ => PreFilter::Skip,
        }
    }

    fn score(&self, pod: &Pod, cluster: &mut Cluster, nodes: &[NodeIx], scores: &mut [i64]) -> bool {
        let preferred = &pod.shape.preferred_nodes;
        if preferred.is_empty() && self.added_preferred.is_empty() {
            return false;
        }
        for (at, score) in nodes.iter().zip(scores.iter_mut()) {
            let node = cluster.snapshot.node(*at);
            let matched = preferred.iter().chain(&self.added_preferred).filter(|p| p.term.matches(node));
            *score = matched.map(|preferred| preferred.weight).sum();
        }
        normalize(scores, false);
        true
    }

    fn queueing_hint(&self, pod: &Pod, event: &ClusterEvent<'_>) -> bool {
        let changed =
            matches!(event, ClusterEvent::PodChanged { old, new } if old.shape.nodes != new.shape.nodes);
        changed || makes_node_feasible(self, pod, event)
    }
}

#[cfg(test)]
mod tests {
    use corten_api::{Value, value};

    use crate::testing::{Scene, node, pod};

    use super::*;

    fn preferring(weights: &[(i64, &str)]) -> Value {
        let term = |(weight, disk): &(i64, &str)| {
            value!({"weight": (*weight), "preference": {"matchExpressions": [
                {"key": "disk", "operator": "In", "values": [(*disk)]}]}})
        };
        let terms: Vec<Value> = weights.iter().map(term).collect();
        value!({"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": (Value::Array(terms))}})
    }

    #[test]
    fn selectors_and_added_affinity_must_match() {
        let plugin = NodeAffinity::default();
        let ssd = node("a").label("disk", "ssd").node();
        let selecting = pod("p").spec("nodeSelector", value!({"disk": "ssd"})).build();
        assert_eq!(plugin.filter_node(&selecting, &ssd), None);
        assert_eq!(plugin.filter_node(&selecting, &node("b").node()), Some(REASON));
        let added = RequiredNodes::of_selector(&value!({"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "disk", "operator": "Exists"}]}]}));
        let strict = NodeAffinity { added, ..NodeAffinity::default() };
        assert_eq!(strict.filter_node(&pod("p").build(), &node("b").node()), Some(ENFORCED));
        assert_eq!(strict.filter_node(&pod("p").build(), &ssd), None);
    }

    #[test]
    fn preferences_add_up() {
        let plugin = NodeAffinity::default();
        let mut scene =
            Scene::new([node("a").label("disk", "ssd"), node("b").label("disk", "hdd"), node("c")]);
        assert_eq!(scene.scores(&plugin, &pod("p").build()), None);
        let one = pod("p").spec("affinity", preferring(&[(80, "ssd"), (20, "hdd")])).build();
        assert_eq!(scene.scores(&plugin, &one), Some(vec![100, 25, 0]));
    }
}
