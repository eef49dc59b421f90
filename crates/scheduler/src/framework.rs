//! The scheduling framework: the extension points of plugins.
//!
//! Plugins have upstream's names and extension points. Each is one file with the same parts in the same order. A plugin
//! decides from the cluster's state alone; it never waits, writes or keeps state.

pub(crate) mod candidates;
pub(crate) mod diagnosis;
pub(crate) mod event;
pub(crate) mod node_rejections;
pub(crate) mod profile;
pub(crate) mod registration;
pub(crate) mod shape_cache;

use std::sync::Arc;
use std::time::Duration;

use corten_api::Str;
use corten_client::Key;

use crate::cluster::Cluster;
use crate::node::Node;
use crate::pod::Pod;
use crate::random::Random;
use crate::snapshot::NodeIx;
use diagnosis::Diagnosis;
use event::ClusterEvent;
use profile::Profile;
use shape_cache::ShapeCache;

/// The highest score of a node by one plugin.
pub(crate) const MAX_SCORE: i64 = 100;

/// The rejection of a node for a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rejection {
    /// Preemption would not help.
    pub(crate) unresolvable: bool,
    pub(crate) reasons: Reasons,
}

/// The reasons of a rejection; mostly one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reasons {
    One(Str),
    Many(Vec<Str>),
}

impl Reasons {
    pub(crate) fn iter(&self) -> std::slice::Iter<'_, Str> {
        match self {
            Reasons::One(reason) => std::slice::from_ref(reason).iter(),
            Reasons::Many(reasons) => reasons.iter(),
        }
    }
}

impl Rejection {
    /// A rejection that preemption may resolve.
    pub(crate) const fn unschedulable(reason: &'static str) -> Rejection {
        Rejection { unresolvable: false, reasons: Reasons::One(Str::new_static(reason)) }
    }

    /// A rejection that does not depend on other pods.
    pub(crate) const fn unresolvable(reason: &'static str) -> Rejection {
        Rejection { unresolvable: true, reasons: Reasons::One(Str::new_static(reason)) }
    }

    pub(crate) fn message(&self) -> String {
        let reasons: Vec<&str> = self.reasons.iter().map(Str::as_str).collect();
        reasons.join(", ")
    }
}

/// The result of PreFilter.
pub(crate) enum PreFilter {
    /// The plugin does not filter this pod.
    Skip,
    /// The plugin filters each node.
    Filter(Box<dyn Filter>),
    /// No node is feasible.
    Reject(Rejection),
}

/// The Filter of one pod.
pub(crate) trait Filter {
    fn check(&self, cluster: &Cluster, at: NodeIx) -> Option<Rejection>;

    /// True if it stays valid when pods are added to or removed from nodes.
    fn outlasts_pods(&self) -> bool {
        self.is_local()
    }

    /// True if it depends only on the node and its pods.
    fn is_local(&self) -> bool {
        false
    }
}

/// A write to a volume or claim before a pod is bound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum VolumeStep {
    /// Bind a volume to a claim.
    Bind { volume: Str, claim: Key, uid: Str },
    /// Have a volume provisioned for a claim on the pod's node.
    Provision { claim: Key, node: Str },
}

/// The writes to a pod's volumes before it is bound, and the timeout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Volumes {
    pub(crate) steps: Vec<VolumeStep>,
    pub(crate) patience: Duration,
}

/// The result of PostFilter for an unschedulable pod.
pub(crate) struct PostFilter {
    pub(crate) message: String,
    pub(crate) nomination: Nomination,
    /// The pods to preempt.
    pub(crate) victims: Vec<Arc<Pod>>,
}

/// The nominated node of an unschedulable pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Nomination {
    /// Unchanged.
    Keep,
    Clear,
    Node(Str),
}

/// A plugin. The default methods do nothing.
pub(crate) trait Plugin: Send + Sync {
    fn name(&self) -> &'static str;

    /// PreEnqueue: the reason why a pod must not enter the active queue.
    fn pre_enqueue(&self, _pod: &Pod) -> Option<String> {
        None
    }

    /// PreFilter: the only nodes that may be feasible, if it is known.
    fn narrow(&self, _pod: &Pod) -> Option<Vec<Str>> {
        None
    }

    /// Filter by the node object alone: called once per shape and node.
    fn filter_node(&self, _pod: &Pod, _node: &Node) -> Option<Rejection> {
        None
    }

    /// PreFilter and Filter, by the pods on the nodes.
    fn pre_filter(&self, _pod: &Pod, _cluster: &mut Cluster) -> PreFilter {
        PreFilter::Skip
    }

    /// PostFilter: an attempt to make an unschedulable pod schedulable.
    fn post_filter(
        &self,
        _pod: &Pod,
        _cluster: &mut Cluster,
        _profile: &Profile,
        _diagnosis: &Diagnosis,
        _shape_cache: &mut ShapeCache,
        _random: &mut Random,
    ) -> Option<PostFilter> {
        None
    }

    /// Score by a node and its requested resources alone: called once per shape until they change. From 0 to 100;
    /// `None` to abstain.
    fn score_node(&self, _pod: &Pod, _cluster: &Cluster, _at: NodeIx) -> Option<i64> {
        None
    }

    /// PreScore, Score and NormalizeScore, by the whole cluster: the score of each node, from 0 to 100; `false` to
    /// abstain.
    fn score(&self, _pod: &Pod, _cluster: &mut Cluster, _nodes: &[NodeIx], _scores: &mut [i64]) -> bool {
        false
    }

    /// Reserve: assumes the volumes of a pod on its node, and returns the writes they need.
    fn reserve(&self, _pod: &Pod, _cluster: &mut Cluster, _at: NodeIx) -> Option<Volumes> {
        None
    }

    /// Unreserve: drops what Reserve has assumed.
    fn unreserve(&self, _pod: &Pod, _cluster: &mut Cluster) {}

    /// QueueingHint: true if an event may make a pod schedulable that this plugin rejected.
    fn queueing_hint(&self, _pod: &Pod, _event: &ClusterEvent<'_>) -> bool {
        false
    }
}

/// True if a node was added that a plugin accepts for a pod, or changed so that it does.
pub(crate) fn makes_node_feasible(plugin: &dyn Plugin, pod: &Pod, event: &ClusterEvent<'_>) -> bool {
    match event {
        ClusterEvent::NodeAdded(node) => plugin.filter_node(pod, node).is_none(),
        ClusterEvent::NodeChanged { old, new } => {
            plugin.filter_node(pod, old).is_some() && plugin.filter_node(pod, new).is_none()
        }
        _ => false,
    }
}

/// Scales scores to 0 to 100: the highest is best, or worst if reversed.
pub(crate) fn normalize(scores: &mut [i64], reverse: bool) {
    let highest = scores.iter().copied().max().unwrap_or(0);
    for score in scores {
        let share = if highest == 0 { 0 } else { MAX_SCORE * *score / highest };
        *score = if reverse { MAX_SCORE - share } else { share };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_are_normalized() {
        let check = |mut scores: Vec<i64>, reverse, expected: &[i64]| {
            normalize(&mut scores, reverse);
            assert_eq!(scores, expected);
        };
        check(vec![1, 2, 3, 4], false, &[25, 50, 75, 100]);
        check(vec![1, 2, 3, 4], true, &[75, 50, 25, 0]);
        check(vec![0, 0], false, &[0, 0]);
        check(vec![0, 0], true, &[100, 100]);
    }
}
