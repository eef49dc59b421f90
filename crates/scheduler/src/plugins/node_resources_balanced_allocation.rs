//! NodeResourcesBalancedAllocation: prefers nodes on which the utilization of resources is balanced, so that none runs
//! out while another is idle. Scores the difference that the pod makes.

use std::sync::Arc;

use corten_api::Value;

use crate::allocation::{self, Amount, Taken, Weighed};
use crate::cluster::Cluster;
use crate::framework::registration::{Point, Registration};
use crate::framework::{MAX_SCORE, Plugin};
use crate::pod::Pod;
use crate::snapshot::NodeIx;

pub(crate) const NAME: &str = "NodeResourcesBalancedAllocation";

pub(crate) const REGISTRATION: Registration = Registration {
    name: NAME,
    weight: 1,
    points: &[Point::Score],
    create: Some(|args| Ok(Arc::new(BalancedAllocation::with_args(args)?))),
};

pub(crate) struct BalancedAllocation {
    pub(crate) resources: Vec<Weighed>,
}

impl Default for BalancedAllocation {
    fn default() -> BalancedAllocation {
        BalancedAllocation { resources: Weighed::defaults() }
    }
}

impl BalancedAllocation {
    /// Reads the plugin's arguments from a profile.
    fn with_args(args: &Value) -> Result<BalancedAllocation, String> {
        Ok(BalancedAllocation { resources: Weighed::of_list(args.items_at(&["resources"]))? })
    }
}

impl Plugin for BalancedAllocation {
    fn name(&self) -> &'static str {
        NAME
    }

    fn score_node(&self, pod: &Pod, cluster: &Cluster, at: NodeIx) -> Option<i64> {
        if self.resources.iter().all(|weighed| allocation::wanted(pod, weighed, Taken::Requested) == 0) {
            return None;
        }
        let amounts = allocation::amounts(cluster, at, pod, &self.resources, Taken::Requested);
        let with = balance(&amounts, |amount| amount.would_be);
        let without = balance(&amounts, |amount| amount.taken);
        Some(MAX_SCORE / 2 + (MAX_SCORE / 2 + with - without) / 2)
    }
}

/// From 50, if one resource is fully used and another not at all, to 100, if all are used equally.
fn balance(amounts: &[(Amount, i64)], used: impl Fn(&Amount) -> i64) -> i64 {
    let share = |amount: &Amount| (used(amount) as f64 / amount.allocatable as f64).min(1.0);
    let deviation = match amounts {
        [] | [_] => 0.0,
        [(a, _), (b, _)] => ((share(a) - share(b)) / 2.0).abs(),
        _ => {
            let count = amounts.len() as f64;
            let mean = amounts.iter().map(|(amount, _)| share(amount)).sum::<f64>() / count;
            let squares = amounts.iter().map(|(amount, _)| (share(amount) - mean).powi(2)).sum::<f64>();
            (squares / count).sqrt()
        }
    };
    ((1.0 - deviation) * MAX_SCORE as f64) as i64
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::*;
    use crate::testing::{Scene, node, pod};

    #[test]
    fn balanced_nodes_score_higher() {
        let sized = |name| node(name).allocatable(value!({"cpu": "10", "memory": "10000", "pods": "9"}));
        let mut scene = Scene::new([sized("empty"), sized("cpu is used"), sized("memory is used")]);
        scene.put(pod("c").requests(value!({"cpu": "5"})).build(), "cpu is used");
        scene.put(pod("m").requests(value!({"memory": "5000"})).build(), "memory is used");
        let plugin = BalancedAllocation::default();
        let of_cpu = pod("p").requests(value!({"cpu": "5"})).build();
        assert_eq!(scene.scores(&plugin, &of_cpu), Some(vec![62, 62, 87]));
        let of_both = pod("p").requests(value!({"cpu": "1", "memory": "1000"})).build();
        assert_eq!(scene.scores(&plugin, &of_both), Some(vec![75, 75, 75]));
        assert_eq!(scene.scores(&plugin, &pod("p").build()), None);
    }
}
