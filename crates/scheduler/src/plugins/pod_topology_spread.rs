//! PodTopologySpread: spreads pods evenly over zones, nodes or other topology domains.
//!
//! Pods without constraints are spread by the profile's defaults, together with the pods that a service or controller
//! selects along with them.

use std::sync::Arc;

use corten_api::selector::LabelSelector;
use corten_api::{Map, Str, Value};

use crate::cluster::Cluster;
use crate::framework::event::ClusterEvent;
use crate::framework::registration::{Point, Registration};
use crate::framework::{Filter, MAX_SCORE, Plugin, PreFilter, Rejection};
use crate::node::{HOSTNAME, Node, ZONE};
use crate::pod::terms::{MOST_TERMS, PodSelector, Spread};
use crate::pod::{Pod, Shape};
use crate::snapshot::counters::{CounterKey, Counting, Eligible, Purpose};
use crate::snapshot::{EACH_NODE, NodeIx, Snapshot};
use crate::workloads::Workloads;

pub(crate) const NAME: &str = "PodTopologySpread";
const TOO_MANY: Rejection = Rejection::unresolvable("pod has too many topology spread constraints");
const SKEWED: Rejection = Rejection::unschedulable("node(s) didn't match pod topology spread constraints");
const UNLABELLED: Rejection =
    Rejection::unresolvable("node(s) didn't match pod topology spread constraints (missing required label)");

pub(crate) const REGISTRATION: Registration = Registration {
    name: NAME,
    weight: 2,
    points: &[Point::Filter, Point::Score],
    create: Some(|args| Ok(Arc::new(PodTopologySpread::with_args(args)?))),
};

pub(crate) struct PodTopologySpread {
    /// The constraints of pods without their own.
    pub(crate) defaults: Vec<Spread>,
    /// True for upstream's defaults, which also apply to nodes without the label.
    pub(crate) system_defaults: bool,
}

impl Default for PodTopologySpread {
    fn default() -> PodTopologySpread {
        let soft = |key: &'static str, max_skew| Spread {
            max_skew,
            topology_key: Str::new_static(key),
            selector: LabelSelector::nothing(),
            min_domains: 1,
            honors_affinity: true,
            honors_taints: false,
            soft: true,
        };
        PodTopologySpread { defaults: vec![soft(HOSTNAME, 3), soft(ZONE, 5)], system_defaults: true }
    }
}

/// The constraints of a pod.
struct Constraints<'s> {
    list: Vec<(usize, &'s Spread)>,
    /// The selector of default constraints; a pod's own have theirs.
    selector: Option<Arc<LabelSelector>>,
    /// The generation of the workloads that defaults were made from.
    grounds: u64,
    /// True if only nodes with every label count.
    needs_all_labels: bool,
}

impl PodTopologySpread {
    fn constraints<'s>(
        &'s self,
        shape: &'s Shape,
        workloads: &mut Workloads,
        soft: bool,
    ) -> Option<Constraints<'s>> {
        let own = !shape.spread.is_empty();
        let from = if own { &shape.spread } else { &self.defaults };
        if from.iter().all(|spread| spread.soft != soft) {
            return None;
        }
        let (selector, grounds) =
            if own { (None, 0) } else { (Some(workloads.selector(shape)?), workloads.generation() + 1) };
        let list = from.iter().enumerate().filter(|(_, spread)| spread.soft == soft).collect();
        Some(Constraints { list, selector, grounds, needs_all_labels: own || !self.system_defaults })
    }
}

impl Constraints<'_> {
    fn selector<'c>(&'c self, spread: &'c Spread) -> &'c LabelSelector {
        self.selector.as_deref().unwrap_or(&spread.selector)
    }

    fn counter(&self, cluster: &mut Cluster, shape: &Arc<Shape>, index: usize, spread: &Spread) -> usize {
        let key = CounterKey { shape: shape.serial, purpose: Purpose::Spread, index, grounds: self.grounds };
        let keys = || self.list.iter().map(|(_, spread)| spread.topology_key.clone()).collect();
        cluster.snapshot.counter(key, || Counting {
            pods: vec![selected(shape, self.selector(spread))],
            counts_deleting: false,
            topology_key: spread.topology_key.clone(),
            nodes: Some(Eligible {
                shape: shape.clone(),
                honors_affinity: spread.honors_affinity && !shape.nodes.is_anything(),
                honors_taints: spread.honors_taints,
                keys: if self.needs_all_labels { keys() } else { Vec::new() },
            }),
        })
    }

    /// The counter of each node alone.
    fn per_node(&self, cluster: &mut Cluster, shape: &Shape, index: usize, spread: &Spread) -> usize {
        let purpose = Purpose::SpreadPerNode;
        let key = CounterKey { shape: shape.serial, purpose, index, grounds: self.grounds };
        cluster.snapshot.counter(key, || Counting {
            pods: vec![selected(shape, self.selector(spread))],
            counts_deleting: false,
            topology_key: Str::new_static(EACH_NODE),
            nodes: None,
        })
    }

    /// The nodes that do not count because they lack a label.
    fn ignored(&self, snapshot: &mut Snapshot, nodes: &[NodeIx]) -> Vec<bool> {
        if !self.needs_all_labels {
            return vec![false; nodes.len()];
        }
        let keys = self.list.iter().map(|(_, spread)| spread.topology_key.as_str());
        let topologies: Vec<usize> = keys.map(|key| snapshot.topology(key)).collect();
        let lacks = |at: &NodeIx| topologies.iter().any(|t| snapshot.topologies().domain(*t, *at).is_none());
        nodes.iter().map(lacks).collect()
    }
}

/// The counted pods. An empty selector counts none.
fn selected(shape: &Shape, selector: &LabelSelector) -> PodSelector {
    let labels = if selector.is_everything() { LabelSelector::nothing() } else { selector.clone() };
    PodSelector { namespaces: vec![shape.namespace.clone()], namespace_selector: None, labels }
}

/// One constraint during Filter: the most pods that a domain may have besides the pod.
struct Limit {
    counter: usize,
    most: i64,
}

struct Limits(Vec<Limit>);

impl Filter for Limits {
    fn check(&self, cluster: &Cluster, at: NodeIx) -> Option<Rejection> {
        let snapshot = &cluster.snapshot;
        for limit in &self.0 {
            let counter = snapshot.counted(limit.counter);
            let Some(domain) = snapshot.domain(counter, at) else { return Some(UNLABELLED) };
            if counter.in_domain(domain) > limit.most {
                return Some(SKEWED);
            }
        }
        None
    }
}

impl PodTopologySpread {
    /// Reads the plugin's arguments from a profile.
    fn with_args(args: &Value) -> Result<PodTopologySpread, String> {
        let constraints = args.items_at(&["defaultConstraints"]);
        match args.str_at(&["defaultingType"]).unwrap_or("System") {
            "System" if constraints.is_empty() => Ok(PodTopologySpread::default()),
            "System" => Err("when .defaultingType is System, .defaultConstraints must be empty".to_owned()),
            "List" => {
                let defaults =
                    constraints.iter().map(|constraint| Spread::of(constraint, &Map::new())).collect();
                Ok(PodTopologySpread { defaults, system_defaults: false })
            }
            other => Err(format!("defaultingType: Unsupported value: {other:?}")),
        }
    }
}

impl Plugin for PodTopologySpread {
    fn name(&self) -> &'static str {
        NAME
    }

    fn pre_filter(&self, pod: &Pod, cluster: &mut Cluster) -> PreFilter {
        if pod.shape.spread.len() > MOST_TERMS {
            return PreFilter::Reject(TOO_MANY);
        }
        let Some(constraints) = self.constraints(&pod.shape, &mut cluster.workloads, false) else {
            return PreFilter::Skip;
        };
        let mut limits = Vec::with_capacity(constraints.list.len());
        for (index, spread) in &constraints.list {
            let counter = constraints.counter(cluster, &pod.shape, *index, spread);
            let (least, domains) = cluster.snapshot.counted(counter).least();
            let least = if domains < spread.min_domains { 0 } else { least };
            let itself = i64::from(constraints.selector(spread).matches(&pod.shape.labels));
            limits.push(Limit { counter, most: spread.max_skew.saturating_add(least) - itself });
        }
        PreFilter::Filter(Box::new(Limits(limits)))
    }

    fn score(&self, pod: &Pod, cluster: &mut Cluster, nodes: &[NodeIx], scores: &mut [i64]) -> bool {
        let Some(constraints) = self.constraints(&pod.shape, &mut cluster.workloads, true) else {
            return false;
        };
        let ignored = constraints.ignored(&mut cluster.snapshot, nodes);
        let hosts = cluster.snapshot.topology(HOSTNAME);
        let counted = ignored.iter().filter(|ignored| !**ignored).count();
        let mut sums = vec![0.0; nodes.len()];
        for (index, spread) in &constraints.list {
            let by_host = spread.topology_key == HOSTNAME;
            let counter = if by_host {
                constraints.per_node(cluster, &pod.shape, *index, spread)
            } else {
                constraints.counter(cluster, &pod.shape, *index, spread)
            };
            let snapshot = &cluster.snapshot;
            let counter = snapshot.counted(counter);
            let of = |at: &NodeIx| {
                let labelled = !by_host || snapshot.topologies().domain(hosts, *at).is_some();
                snapshot.domain(counter, *at).filter(|_| labelled)
            };
            let domains: Vec<Option<u32>> = nodes.iter().map(of).collect();
            let size = if by_host { counted } else { distinct(&domains, &ignored) };
            let weight = (size as f64 + 2.0).ln();
            for (sum, domain) in sums.iter_mut().zip(&domains) {
                if let Some(domain) = domain {
                    *sum += counter.in_domain(*domain) as f64 * weight + (spread.max_skew - 1) as f64;
                }
            }
        }
        for ((score, sum), ignored) in scores.iter_mut().zip(sums).zip(&ignored) {
            *score = if *ignored { 0 } else { sum.round() as i64 };
        }
        invert(scores, &ignored);
        true
    }

    fn queueing_hint(&self, pod: &Pod, event: &ClusterEvent<'_>) -> bool {
        let constraints = if pod.shape.spread.is_empty() { &self.defaults } else { &pod.shape.spread };
        let hard = || constraints.iter().filter(|spread| !spread.soft);
        let counts = |other: &Pod| {
            let ours = other.shape.namespace == pod.shape.namespace;
            ours && (pod.shape.spread.is_empty()
                || hard().any(|spread| other.is_selected_by(&spread.selector)))
        };
        let labelled = |node: &Node| hard().all(|spread| node.labels.contains_key(&spread.topology_key));
        match event {
            ClusterEvent::PodAssigned(other) | ClusterEvent::PodGone(other) => counts(other),
            ClusterEvent::AssignedPodChanged { old, new } => {
                counts(old) != counts(new) || (counts(new) && old.deleting != new.deleting)
            }
            ClusterEvent::PodChanged { old, new } => {
                old.shape.labels != new.shape.labels || old.shape.spread != new.shape.spread
            }
            ClusterEvent::NodeAdded(node) | ClusterEvent::NodeDeleted(node) => labelled(node),
            ClusterEvent::NodeChanged { old, new } => {
                let moved = hard().any(|s| old.label(&s.topology_key) != new.label(&s.topology_key));
                (moved || old.taints != new.taints) && (labelled(old) || labelled(new))
            }
            ClusterEvent::StorageChanged => false,
        }
    }
}

/// The number of domains of the counted nodes. Nodes without a domain form one together.
fn distinct(domains: &[Option<u32>], ignored: &[bool]) -> usize {
    let mut found: Vec<Option<u32>> =
        domains.iter().zip(ignored).filter(|(_, ignored)| !**ignored).map(|(domain, _)| *domain).collect();
    found.sort_unstable();
    found.dedup();
    found.len()
}

/// Inverts scores: fewer pods are better, the least becomes 100.
fn invert(scores: &mut [i64], ignored: &[bool]) {
    let counted = || scores.iter().zip(ignored).filter(|(_, ignored)| !**ignored).map(|(score, _)| *score);
    let (least, most) = (counted().min().unwrap_or(0), counted().max().unwrap_or(0));
    for (score, ignored) in scores.iter_mut().zip(ignored) {
        *score = match (ignored, most) {
            (true, _) => 0,
            (false, 0) => MAX_SCORE,
            (false, most) => MAX_SCORE * (most + least - *score) / most,
        };
    }
}

#[cfg(test)]
mod tests;
