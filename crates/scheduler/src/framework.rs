//! The scheduling framework: what a plugin can have a say in, and how it says it.
//!
//! Plugins have upstream's names and extension points. Each is one file with the same parts in the same order. A plugin
//! decides from the cluster's state and nothing else; it never waits, writes or remembers.

pub(crate) mod candidates;
pub(crate) mod diagnosis;
pub(crate) mod event;
pub(crate) mod opinions;
pub(crate) mod profile;
pub(crate) mod verdicts;

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
use opinions::Opinions;
use profile::Profile;

/// The best a node can score with one plugin.
pub(crate) const MAX_SCORE: i64 = 100;

/// Why a pod cannot have a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rejection {
    /// Taking other pods away would not help.
    pub(crate) unresolvable: bool,
    pub(crate) reasons: Reasons,
}

/// One reason mostly.
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
    /// Other pods may be in the way.
    pub(crate) const fn unschedulable(reason: &'static str) -> Rejection {
        Rejection { unresolvable: false, reasons: Reasons::One(Str::new_static(reason)) }
    }

    /// The node is not for this pod, whoever is on it.
    pub(crate) const fn unresolvable(reason: &'static str) -> Rejection {
        Rejection { unresolvable: true, reasons: Reasons::One(Str::new_static(reason)) }
    }

    pub(crate) fn message(&self) -> String {
        let reasons: Vec<&str> = self.reasons.iter().map(Str::as_str).collect();
        reasons.join(", ")
    }
}

/// What a plugin makes of a pod before it looks at nodes.
pub(crate) enum PreFilter {
    /// It has nothing to say about this pod.
    Skip,
    /// It wants to see each node.
    Filter(Box<dyn Filter>),
    /// No node can be had.
    Reject(Rejection),
}

/// Looks at nodes for one pod.
pub(crate) trait Filter {
    fn check(&self, cluster: &Cluster, at: NodeIx) -> Option<Rejection>;

    /// Whether it may still be asked when pods came or went meanwhile.
    fn outlasts_pods(&self) -> bool {
        self.is_local()
    }

    /// Whether it looks at nothing but the node and the pods on it.
    fn is_local(&self) -> bool {
        false
    }
}

/// What has to be done about a volume before a pod is bound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum VolumeStep {
    /// Give a volume to a claim.
    Bind { volume: Str, claim: Key, uid: Str },
    /// Have a volume made for a claim where the pod is going to be.
    Provision { claim: Key, node: Str },
}

/// What has to be done about a pod's volumes before it is bound, and how long that may take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Volumes {
    pub(crate) steps: Vec<VolumeStep>,
    pub(crate) patience: Duration,
}

/// What a plugin can do for a pod that fits nowhere.
pub(crate) struct PostFilter {
    pub(crate) message: String,
    pub(crate) nomination: Nomination,
    /// Who has to make way.
    pub(crate) victims: Vec<Arc<Pod>>,
}

/// Which node a pod that fits nowhere waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Nomination {
    /// The one it waits for already, if any.
    Keep,
    Clear,
    Node(Str),
}

/// One plugin. What it does not speak about it leaves as it is here.
pub(crate) trait Plugin: Send + Sync {
    fn name(&self) -> &'static str;

    /// PreEnqueue: why a pod must not even be tried.
    fn holds_back(&self, _pod: &Pod) -> Option<String> {
        None
    }

    /// PreFilter: the only nodes that come into question, if few do.
    fn narrow(&self, _pod: &Pod) -> Option<Vec<Str>> {
        None
    }

    /// Filter, by nothing but what the node says of itself: asked once per shape and node.
    fn judge(&self, _pod: &Pod, _node: &Node) -> Option<Rejection> {
        None
    }

    /// PreFilter and Filter, by what is on the nodes.
    fn pre_filter(&self, _pod: &Pod, _cluster: &mut Cluster) -> PreFilter {
        PreFilter::Skip
    }

    /// PostFilter: what can be done for a pod that fits nowhere.
    fn post_filter(
        &self,
        _pod: &Pod,
        _cluster: &mut Cluster,
        _profile: &Profile,
        _diagnosis: &Diagnosis,
        _opinions: &mut Opinions,
        _random: &mut Random,
    ) -> Option<PostFilter> {
        None
    }

    /// Score, by nothing but a node and what is taken of it: asked once per shape until that changes. From 0 to 100;
    /// `None` if it does not care.
    fn rate(&self, _pod: &Pod, _cluster: &Cluster, _at: NodeIx) -> Option<i64> {
        None
    }

    /// PreScore, Score and NormalizeScore, by more than that: how good each node is, from 0 to 100; `false` if it does not care.
    fn score(&self, _pod: &Pod, _cluster: &mut Cluster, _nodes: &[NodeIx], _scores: &mut [i64]) -> bool {
        false
    }

    /// Reserve: what has to be done about volumes now that a pod has a node; it counts as done.
    fn reserve(&self, _pod: &Pod, _cluster: &mut Cluster, _at: NodeIx) -> Option<Volumes> {
        None
    }

    /// Unreserve: nothing came of it.
    fn unreserve(&self, _pod: &Pod, _cluster: &mut Cluster) {}

    /// Whether an event may help a pod that this plugin rejected.
    fn may_help(&self, _pod: &Pod, _event: &ClusterEvent<'_>) -> bool {
        false
    }
}

/// Whether a node came that a plugin would let a pod have, or one became so.
pub(crate) fn opens_up(plugin: &dyn Plugin, pod: &Pod, event: &ClusterEvent<'_>) -> bool {
    match event {
        ClusterEvent::NodeAdded(node) => plugin.judge(pod, node).is_none(),
        ClusterEvent::NodeChanged { old, new } => {
            plugin.judge(pod, old).is_some() && plugin.judge(pod, new).is_none()
        }
        _ => false,
    }
}

/// Brings scores to 0 to 100: the highest is best, or worst if reversed.
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
