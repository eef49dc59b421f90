//! TaintToleration: taints that forbid keep pods away unless tolerated; of those that discourage, fewer are better.

use crate::cluster::Cluster;
use crate::framework::event::ClusterEvent;
use crate::framework::{Plugin, Rejection, normalize, opens_up};
use crate::node::Node;
use crate::pod::Pod;
use crate::snapshot::NodeIx;
use crate::tolerations::{self, Toleration};

pub(crate) const NAME: &str = "TaintToleration";
const REASON: Rejection = Rejection::unresolvable("node(s) had untolerated taint(s)");

pub(crate) struct TaintToleration;

impl Plugin for TaintToleration {
    fn name(&self) -> &'static str {
        NAME
    }

    fn judge(&self, pod: &Pod, node: &Node) -> Option<Rejection> {
        (!tolerations::tolerates_all(&pod.shape.tolerations, &node.taints)).then_some(REASON)
    }

    fn score(&self, pod: &Pod, cluster: &mut Cluster, nodes: &[NodeIx], scores: &mut [i64]) -> bool {
        if !cluster.snapshot.is_discouraging() {
            return false;
        }
        let tolerations = pod.shape.tolerations.iter();
        let tolerations: Vec<&Toleration> = tolerations.filter(|t| t.concerns_preferences()).collect();
        for (at, score) in nodes.iter().zip(scores.iter_mut()) {
            let taints = cluster.snapshot.node(*at).taints.iter().filter(|taint| !taint.forbids());
            let untolerated = taints.filter(|taint| !tolerations.iter().any(|t| t.tolerates(taint)));
            *score = i64::try_from(untolerated.count()).unwrap_or(i64::MAX);
        }
        normalize(scores, true);
        true
    }

    fn may_help(&self, pod: &Pod, event: &ClusterEvent<'_>) -> bool {
        let changed = matches!(event, ClusterEvent::PodChanged { old, new } if old.shape.tolerations != new.shape.tolerations);
        changed || opens_up(self, pod, event)
    }
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use crate::testing::{Scene, node, pod};

    use super::*;

    #[test]
    fn forbidding_taints_must_be_tolerated() {
        let tainted = node("a").taint("gpu", "yes", "NoSchedule").node();
        let avoided = node("a").taint("gpu", "yes", "PreferNoSchedule").node();
        let plain = pod("p").build();
        assert_eq!(TaintToleration.judge(&plain, &tainted), Some(REASON));
        assert_eq!(TaintToleration.judge(&plain, &avoided), None);
        let tolerant = pod("p").spec("tolerations", value!([{"key": "gpu", "value": "yes"}])).build();
        assert_eq!(TaintToleration.judge(&tolerant, &tainted), None);
        let untainted = node("a").node();
        assert!(
            TaintToleration.may_help(&plain, &ClusterEvent::NodeChanged { old: &tainted, new: &untainted })
        );
        assert!(
            !TaintToleration
                .may_help(&plain, &ClusterEvent::NodeChanged { old: &untainted, new: &untainted })
        );
    }

    #[test]
    fn discouraging_taints_count() {
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
