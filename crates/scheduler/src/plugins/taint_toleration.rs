//! TaintToleration: NoSchedule and NoExecute taints reject pods that do not tolerate them; nodes with fewer untolerated
//! PreferNoSchedule taints are preferred.

use std::sync::Arc;

use crate::cluster::Cluster;
use crate::framework::event::ClusterEvent;
use crate::framework::registration::{Point, Registration};
use crate::framework::{Plugin, Rejection, makes_node_feasible, normalize};
use crate::node::Node;
use crate::pod::Pod;
use crate::snapshot::NodeIx;
use crate::tolerations::{self, Toleration};

pub(crate) const NAME: &str = "TaintToleration";
const REASON: Rejection = Rejection::unresolvable("node(s) had untolerated taint(s)");

pub(crate) const REGISTRATION: Registration = Registration {
    name: NAME,
    weight: 3,
    points: &[Point::Filter, Point::Score],
    create: Some(|_| Ok(Arc::new(TaintToleration))),
};

pub(crate) struct TaintToleration;

impl Plugin for TaintToleration {
    fn name(&self) -> &'static str {
        NAME
    }

    fn filter_node(&self, pod: &Pod, node: &Node) -> Option<Rejection> {
        (!tolerations::tolerates_all(&pod.shape.tolerations, &node.taints)).then_some(REASON)
    }

    fn score(&self, pod: &Pod, cluster: &mut Cluster, nodes: &[NodeIx], scores: &mut [i64]) -> bool {
        if !cluster.snapshot.has_prefer_no_schedule() {
            return false;
        }
        let tolerations = pod.shape.tolerations.iter();
        let tolerations: Vec<&Toleration> = tolerations.filter(|t| t.applies_to_preferences()).collect();
        for (at, score) in nodes.iter().zip(scores.iter_mut()) {
            let taints = cluster.snapshot.node(*at).taints.iter().filter(|taint| !taint.rejects_pods());
            let untolerated = taints.filter(|taint| !tolerations.iter().any(|t| t.tolerates(taint)));
            *score = i64::try_from(untolerated.count()).unwrap_or(i64::MAX);
        }
        normalize(scores, true);
        true
    }

    fn queueing_hint(&self, pod: &Pod, event: &ClusterEvent<'_>) -> bool {
        let changed = matches!(event, ClusterEvent::PodChanged { old, new } if old.shape.tolerations != new.shape.tolerations);
        changed || makes_node_feasible(self, pod, event)
    }
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use crate::testing::{Scene, node, pod};

    use super::*;

    #[test]
    fn no_schedule_taints_must_be_tolerated() {
        let tainted = node("a").taint("gpu", "yes", "NoSchedule").node();
        let avoided = node("a").taint("gpu", "yes", "PreferNoSchedule").node();
        let plain = pod("p").build();
        assert_eq!(TaintToleration.filter_node(&plain, &tainted), Some(REASON));
        assert_eq!(TaintToleration.filter_node(&plain, &avoided), None);
        let tolerant = pod("p").spec("tolerations", value!([{"key": "gpu", "value": "yes"}])).build();
        assert_eq!(TaintToleration.filter_node(&tolerant, &tainted), None);
        let untainted = node("a").node();
        assert!(
            TaintToleration
                .queueing_hint(&plain, &ClusterEvent::NodeChanged { old: &tainted, new: &untainted })
        );
        assert!(
            !TaintToleration
                .queueing_hint(&plain, &ClusterEvent::NodeChanged { old: &untainted, new: &untainted })
        );
    }

    #[test]
    fn prefer_no_schedule_taints_lower_the_score() {
        let avoid = "PreferNoSchedule";
        let mut scene = Scene::new([
            node("none"),
            node("one").taint("a", "1", avoid),
            node("two").taint("a", "1", avoid).taint("b", "1", avoid),
        ]);
        assert_eq!(scene.scores(&TaintToleration, &pod("p").build()), Some(vec![100, 50, 0]));
        let tolerant = pod("p").spec("tolerations", value!([{"key": "a", "operator": "Exists"}])).build();
        assert_eq!(scene.scores(&TaintToleration, &tolerant), Some(vec![100, 100, 0]));
        let other =
            pod("p").spec("tolerations", value!([{"key": "a", "operator": "Exists", "effect": "NoExecute"}]));
        assert_eq!(scene.scores(&TaintToleration, &other.build()), Some(vec![100, 50, 0]));
    }
}
