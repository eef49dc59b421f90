//! The scheduling cycle: the node for a pod, or the reasons why it is unschedulable. Nothing is written and nothing
//! waits.
//!
//! Nodes are filtered from where the last cycle ended, until enough are feasible; the one with the best score is
//! chosen, at random among equals.

use std::borrow::Cow;
use std::sync::Arc;

use corten_api::Str;

use crate::cluster::Cluster;
use crate::framework::Filter;
use crate::framework::diagnosis::Diagnosis;
use crate::framework::node_rejections::Rejected;
use crate::framework::profile::{Filters, Profile};
use crate::framework::shape_cache::ShapeCache;
use crate::pod::Pod;
use crate::random::Random;
use crate::snapshot::NodeIx;

/// In clusters with fewer nodes, all are filtered.
const MIN_FEASIBLE: usize = 100;
const MIN_PERCENTAGE: usize = 5;

/// The state between cycles.
pub(crate) struct Search {
    /// The position of the next node.
    start: usize,
    pub(crate) random: Random,
    /// The percentage of nodes to find, unless a profile sets it; 0 adapts it to the size of the cluster.
    percentage: usize,
    /// Buffers, reused for every pod.
    feasible: Vec<NodeIx>,
    rejected: Vec<(NodeIx, Rejected)>,
    totals: Vec<i64>,
    scores: Vec<i64>,
}

pub(crate) enum Decision {
    Node(NodeIx),
    /// The cluster has no nodes.
    NoNodes,
    Unschedulable(Diagnosis),
}

impl Search {
    pub(crate) fn new(percentage: usize, random: Random) -> Search {
        Search {
            start: 0,
            random,
            percentage,
            feasible: Vec::new(),
            rejected: Vec::new(),
            totals: Vec::new(),
            scores: Vec::new(),
        }
    }

    /// Decides for one pod, with the cached results for its shape.
    pub(crate) fn decide(
        &mut self,
        shape_cache: &mut ShapeCache,
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
        let own = match nominated(profile, cluster, &filters, pod) {
            Some((at, None)) => return Decision::Node(at),
            Some((at, Some(rejected))) => Some((at, rejected)),
            None => None,
        };
        let narrowed = profile.narrow(pod);
        let lasts = narrowed.is_none() && filters.are_local();
        let without_nomination = without_nomination(cluster, pod);
        let look =
            |cluster: &mut Cluster, at| check(None, profile, cluster, &filters, &without_nomination, at);
        if lasts && shape_cache.node_rejections.still_reject_all(cluster, look) {
            shape_cache.node_rejections.add_to(&mut diagnosis, own.as_ref());
            return Decision::Unschedulable(diagnosis);
        }
        let narrowed = narrowed.map(|(names, plugins)| {
            diagnosis.narrow(&plugins);
            names.iter().filter_map(|name| cluster.snapshot.find(name)).collect::<Vec<_>>()
        });
        self.find(shape_cache, profile, cluster, &filters, pod, narrowed.as_deref());
        match self.feasible.as_slice() {
            [only] => return Decision::Node(*only),
            [_, ..] => return Decision::Node(self.best(shape_cache, profile, cluster, pod)),
            [] => {}
        }
        shape_cache.node_rejections.set_all(&cluster.snapshot, std::mem::take(&mut self.rejected), lasts);
        shape_cache.node_rejections.add_to(&mut diagnosis, None);
        if lasts && let Some((at, _)) = own {
            let rejected = look(cluster, at);
            shape_cache.node_rejections.set(at, cluster.snapshot.version(at), rejected);
        }
        Decision::Unschedulable(diagnosis)
    }

    /// Collects feasible nodes, and the rejections of the others.
    fn find(
        &mut self,
        shape_cache: &mut ShapeCache,
        profile: &Profile,
        cluster: &mut Cluster,
        filters: &Filters,
        pod: &Pod,
        narrowed: Option<&[NodeIx]>,
    ) {
        self.feasible.clear();
        self.rejected.clear();
        let all = cluster.snapshot.len();
        let count = narrowed.map_or(all, <[NodeIx]>::len);
        let enough = self.enough(profile, count);
        for step in 0..count {
            let turn = (self.start + step) % count;
            let at = narrowed.map_or_else(|| cluster.snapshot.order()[turn], |nodes| nodes[turn]);
            // Results for a few preselected nodes are not worth caching.
            let known = narrowed.is_none().then_some(&mut *shape_cache);
            match check(known, profile, cluster, filters, pod, at) {
                None => self.feasible.push(at),
                Some(rejected) => self.rejected.push((at, rejected)),
            }
            if self.feasible.len() >= enough {
                break;
            }
        }
        self.start = (self.start + self.feasible.len() + self.rejected.len()) % all;
    }

    /// The number of feasible nodes that are enough to choose from.
    fn enough(&self, profile: &Profile, all: usize) -> usize {
        if profile.scores.is_empty() {
            return 1;
        }
        if all < MIN_FEASIBLE {
            return all;
        }
        let wanted = profile.percentage.and_then(|percent| usize::try_from(percent).ok());
        let percent = match wanted.unwrap_or(self.percentage) {
            0 => 50usize.saturating_sub(all / 125).max(MIN_PERCENTAGE),
            said => said,
        };
        (all * percent / 100).clamp(MIN_FEASIBLE, all)
    }

    /// The feasible node with the best score.
    fn best(
        &mut self,
        shape_cache: &mut ShapeCache,
        profile: &Profile,
        cluster: &mut Cluster,
        pod: &Pod,
    ) -> NodeIx {
        let nodes = &self.feasible;
        self.totals.clear();
        self.totals.resize(nodes.len(), 0);
        profile.add_node_scores(shape_cache, pod, cluster, nodes, &mut self.totals);
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

/// The nominated node of a pod, and its rejection if it is not feasible.
fn nominated(
    profile: &Profile,
    cluster: &mut Cluster,
    filters: &Filters,
    pod: &Pod,
) -> Option<(NodeIx, Option<Rejected>)> {
    let name = cluster.snapshot.nominated().node_of(&pod.uid).unwrap_or(&pod.nominated);
    let at = cluster.snapshot.find(name)?;
    Some((at, check(None, profile, cluster, filters, pod, at)))
}

/// The pod without its nomination: results for it hold for all pods of its shape.
fn without_nomination<'p>(cluster: &Cluster, pod: &'p Pod) -> Cow<'p, Pod> {
    match cluster.snapshot.nominated().node_of(&pod.uid) {
        None => Cow::Borrowed(pod),
        Some(_) => Cow::Owned(Pod { uid: Str::default(), ..pod.clone() }),
    }
}

/// The rejection of a pod by a node.
fn check(
    shape_cache: Option<&mut ShapeCache>,
    profile: &Profile,
    cluster: &mut Cluster,
    filters: &Filters,
    pod: &Pod,
    at: NodeIx,
) -> Option<Rejected> {
    // Most rejections do not depend on nominated pods.
    let alone = match shape_cache {
        Some(shape_cache) => profile.check_cached(shape_cache, filters, pod, cluster, at),
        None => profile.check(filters, pod, cluster, at),
    };
    alone.or_else(|| rejected_with_nominated(profile, cluster, filters, pod, at))
}

/// The rejection of a pod by a node whose pods changed since PreFilter.
pub(crate) fn on_node(
    profile: &Profile,
    cluster: &mut Cluster,
    filters: &Filters,
    pod: &Pod,
    at: NodeIx,
) -> Option<Rejected> {
    let alone = profile.recheck(filters, pod, cluster, at);
    alone.or_else(|| rejected_with_nominated(profile, cluster, filters, pod, at))
}

/// Nominated pods with at least the pod's priority count as running and as absent: the pod has to fit either way.
fn rejected_with_nominated(
    profile: &Profile,
    cluster: &mut Cluster,
    filters: &Filters,
    pod: &Pod,
    at: NodeIx,
) -> Option<Rejected> {
    with_nominated(cluster, pod, at, |cluster| profile.recheck(filters, pod, cluster, at))?
}

/// True if a filter that depends on the node alone accepts a pod, with nominated pods of higher priority counted.
pub(crate) fn accepts(filter: &dyn Filter, cluster: &mut Cluster, pod: &Pod, at: NodeIx) -> bool {
    let accepts = |cluster: &mut Cluster| filter.check(cluster, at).is_none();
    accepts(cluster) && with_nominated(cluster, pod, at, accepts).unwrap_or(true)
}

/// The result of `look` with the nominated pods of at least equal priority on the node; `None` if there are none.
fn with_nominated<T>(
    cluster: &mut Cluster,
    pod: &Pod,
    at: NodeIx,
    look: impl FnOnce(&mut Cluster) -> T,
) -> Option<T> {
    if cluster.snapshot.nominated().is_empty() {
        return None;
    }
    let waiting = cluster.snapshot.nominated().ahead_of(pod, cluster.snapshot.name(at));
    if waiting.is_empty() {
        return None;
    }
    let mark = cluster.snapshot.mark(at);
    waiting.iter().for_each(|other| cluster.snapshot.put(other.clone(), at));
    let found = look(cluster);
    waiting.iter().for_each(|other: &Arc<Pod>| drop(cluster.snapshot.take(&other.uid, at)));
    cluster.snapshot.is_again(mark);
    Some(found)
}

#[cfg(test)]
mod tests;
