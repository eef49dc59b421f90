//! One decision: which node a pod goes to, or why it goes nowhere. Nothing is written and nothing waits.
//!
//! Nodes are looked at from where the last search ended, until enough fit; the best of those is taken, and of equals
//! any.

use std::sync::Arc;

use crate::cluster::Cluster;
use crate::framework::Rejection;
use crate::framework::diagnosis::Diagnosis;
use crate::framework::opinions::Opinions;
use crate::framework::profile::{Filters, Profile};
use crate::pod::Pod;
use crate::random::Random;
use crate::snapshot::NodeIx;

/// Fewer nodes than this are all looked at.
const FEW: usize = 100;
const LEAST_PERCENT: usize = 5;

/// What a decision leaves behind for the next.
pub(crate) struct Search {
    /// Where to begin.
    start: usize,
    pub(crate) random: Random,
    /// How many nodes to find in per cent, unless a profile says otherwise; 0 leaves it to the size of the cluster.
    percentage: usize,
    /// Kept so that nothing has to be made anew for every pod.
    feasible: Vec<NodeIx>,
    totals: Vec<i64>,
    scores: Vec<i64>,
}

pub(crate) enum Decision {
    Node(NodeIx),
    /// There are no nodes at all.
    NoNodes,
    Unschedulable(Diagnosis),
}

impl Search {
    pub(crate) fn new(percentage: usize, random: Random) -> Search {
        let (feasible, totals, scores) = (Vec::new(), Vec::new(), Vec::new());
        Search { start: 0, random, percentage, feasible, totals, scores }
    }

    /// Decides for one pod.
    pub(crate) fn decide(&mut self, profile: &mut Profile, cluster: &mut Cluster, pod: &Pod) -> Decision {
        let mut opinions = profile.recall(pod);
        let decision = self.decide_knowing(&mut opinions, profile, cluster, pod);
        profile.remember(pod, opinions);
        decision
    }

    fn decide_knowing(
        &mut self,
        opinions: &mut Opinions,
        profile: &Profile,
        cluster: &mut Cluster,
        pod: &Pod,
    ) -> Decision {
        if cluster.snapshot.len() == 0 {
            return Decision::NoNodes;
        }
        let mut diagnosis = Diagnosis::of(cluster.snapshot.len());
        let filters = match profile.pre_filter(pod, cluster) {
            Ok(filters) => filters,
            Err((plugin, rejection)) => {
                diagnosis.reject_all(plugin, &rejection);
                return Decision::Unschedulable(diagnosis);
            }
        };
        if let Some(at) = self.nominated(profile, cluster, &filters, pod) {
            return Decision::Node(at);
        }
        self.find(opinions, profile, cluster, &filters, pod, &mut diagnosis);
        match self.feasible.as_slice() {
            [] => Decision::Unschedulable(diagnosis),
            [only] => Decision::Node(*only),
            _ => Decision::Node(self.best(opinions, profile, cluster, pod)),
        }
    }

    /// The node that was made ready for the pod, if it will do.
    fn nominated(
        &self,
        profile: &Profile,
        cluster: &mut Cluster,
        filters: &Filters,
        pod: &Pod,
    ) -> Option<NodeIx> {
        let name = cluster.snapshot.nominated.node_of(&pod.uid).unwrap_or(&pod.nominated);
        let at = cluster.snapshot.find(name)?;
        check(None, profile, cluster, filters, pod, at).is_none().then_some(at)
    }

    /// Collects nodes that fit, and why others do not.
    fn find(
        &mut self,
        opinions: &mut Opinions,
        profile: &Profile,
        cluster: &mut Cluster,
        filters: &Filters,
        pod: &Pod,
        diagnosis: &mut Diagnosis,
    ) {
        self.feasible.clear();
        let all = cluster.snapshot.len();
        let narrowed = profile.narrow(pod).map(|(names, plugins)| {
            diagnosis.narrow(&plugins);
            names.iter().filter_map(|name| cluster.snapshot.find(name)).collect::<Vec<_>>()
        });
        let count = narrowed.as_ref().map_or(all, Vec::len);
        let enough = self.enough(profile, count);
        for step in 0..count {
            let turn = (self.start + step) % count;
            let at = narrowed.as_ref().map_or_else(|| cluster.snapshot.order()[turn], |nodes| nodes[turn]);
            // What is known of a few nodes is not worth keeping.
            let known = narrowed.is_none().then_some(&mut *opinions);
            match check(known, profile, cluster, filters, pod, at) {
                None => self.feasible.push(at),
                Some((plugin, rejection)) => diagnosis.reject(at, plugin, &rejection),
            }
            if self.feasible.len() >= enough {
                break;
            }
        }
        self.start = (self.start + self.feasible.len() + diagnosis.rejected.len()) % all;
    }

    /// How many nodes are enough to choose from.
    fn enough(&self, profile: &Profile, all: usize) -> usize {
        if profile.scores.is_empty() {
            return 1;
        }
        if all < FEW {
            return all;
        }
        let wanted = profile.percentage.and_then(|percent| usize::try_from(percent).ok());
        let percent = match wanted.unwrap_or(self.percentage) {
            0 => 50usize.saturating_sub(all / 125).max(LEAST_PERCENT),
            said => said,
        };
        (all * percent / 100).clamp(FEW, all)
    }

    /// The best of the nodes that fit.
    fn best(
        &mut self,
        opinions: &mut Opinions,
        profile: &Profile,
        cluster: &mut Cluster,
        pod: &Pod,
    ) -> NodeIx {
        let nodes = &self.feasible;
        self.totals.clear();
        self.totals.resize(nodes.len(), 0);
        profile.rate_all(opinions, pod, cluster, nodes, &mut self.totals);
        self.scores.clear();
        self.scores.resize(nodes.len(), 0);
        for (plugin, weight) in &profile.scores {
            if plugin.score(pod, cluster, nodes, &mut self.scores) {
                for (total, score) in self.totals.iter_mut().zip(&self.scores) {
                    *total += weight * score;
                }
            }
        }
        let most = self.totals.iter().copied().max().unwrap_or(0);
        let best = || nodes.iter().zip(&self.totals).filter(|(_, total)| **total == most);
        let chosen = self.random.below(best().count());
        best().nth(chosen).map_or(nodes[0], |(at, _)| *at)
    }
}

/// Why a pod cannot have a node.
fn check(
    opinions: Option<&mut Opinions>,
    profile: &Profile,
    cluster: &mut Cluster,
    filters: &Filters,
    pod: &Pod,
    at: NodeIx,
) -> Option<(&'static str, Rejection)> {
    // Most nodes that cannot be had cannot be had even so.
    let alone = match opinions {
        Some(opinions) => profile.check_knowing(opinions, filters, pod, cluster, at),
        None => profile.check(filters, pod, cluster, at),
    };
    alone.or_else(|| refused_for_others(profile, cluster, filters, pod, at))
}

/// Why a pod cannot have a node on which pods came or went since the filters were made.
pub(crate) fn on_node(
    profile: &Profile,
    cluster: &mut Cluster,
    filters: &Filters,
    pod: &Pod,
    at: NodeIx,
) -> Option<(&'static str, Rejection)> {
    let alone = profile.check_again(filters, pod, cluster, at);
    alone.or_else(|| refused_for_others(profile, cluster, filters, pod, at))
}

/// Pods that wait for the node and come before this one count as there, and as not there: it has to fit either way.
fn refused_for_others(
    profile: &Profile,
    cluster: &mut Cluster,
    filters: &Filters,
    pod: &Pod,
    at: NodeIx,
) -> Option<(&'static str, Rejection)> {
    if cluster.snapshot.nominated.is_empty() {
        return None;
    }
    let waiting = cluster.snapshot.nominated.ahead_of(pod, cluster.snapshot.name(at));
    if waiting.is_empty() {
        return None;
    }
    let version = cluster.snapshot.version(at);
    waiting.iter().for_each(|other| cluster.snapshot.put(other.clone(), at));
    let rejected = profile.check_again(filters, pod, cluster, at);
    waiting.iter().for_each(|other: &Arc<Pod>| drop(cluster.snapshot.take(&other.uid, at)));
    cluster.snapshot.is_again(at, version);
    rejected
}

#[cfg(test)]
mod tests;
