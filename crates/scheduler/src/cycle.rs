//! One decision: which node a pod goes to, or why it goes nowhere. Nothing is written and nothing waits.
//!
//! Nodes are looked at from where the last search ended, until enough fit; the best of those is taken, and of equals
//! any.

use std::borrow::Cow;
use std::sync::Arc;

use corten_api::Str;

use crate::cluster::Cluster;
use crate::framework::Filter;
use crate::framework::diagnosis::Diagnosis;
use crate::framework::opinions::Opinions;
use crate::framework::profile::{Filters, Profile};
use crate::framework::verdicts::Rejected;
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
    rejected: Vec<(NodeIx, Rejected)>,
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

    /// Decides for one pod, with what is known about nodes for pods of its shape.
    pub(crate) fn decide(
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
        let own = match nominated(profile, cluster, &filters, pod) {
            Some((at, None)) => return Decision::Node(at),
            Some((at, Some(rejected))) => Some((at, rejected)),
            None => None,
        };
        let narrowed = profile.narrow(pod);
        let lasts = narrowed.is_none() && filters.are_local();
        let anybody = anybody(cluster, pod);
        let look = |cluster: &mut Cluster, at| check(None, profile, cluster, &filters, &anybody, at);
        if lasts && opinions.verdicts.still_reject_all(cluster, look) {
            opinions.verdicts.tell(&mut diagnosis, own.as_ref());
            return Decision::Unschedulable(diagnosis);
        }
        let narrowed = narrowed.map(|(names, plugins)| {
            diagnosis.narrow(&plugins);
            names.iter().filter_map(|name| cluster.snapshot.find(name)).collect::<Vec<_>>()
        });
        self.find(opinions, profile, cluster, &filters, pod, narrowed.as_deref());
        match self.feasible.as_slice() {
            [only] => return Decision::Node(*only),
            [_, ..] => return Decision::Node(self.best(opinions, profile, cluster, pod)),
            [] => {}
        }
        opinions.verdicts.set_all(&cluster.snapshot, std::mem::take(&mut self.rejected), lasts);
        opinions.verdicts.tell(&mut diagnosis, None);
        if lasts && let Some((at, _)) = own {
            let rejected = look(cluster, at);
            opinions.verdicts.set(at, cluster.snapshot.version(at), rejected);
        }
        Decision::Unschedulable(diagnosis)
    }

    /// Collects nodes that fit, and why others do not.
    fn find(
        &mut self,
        opinions: &mut Opinions,
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
            // What is known of a few nodes is not worth keeping.
            let known = narrowed.is_none().then_some(&mut *opinions);
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

/// The node that was made ready for a pod, and why it will not do.
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

/// A pod like this one that waits for no node: what is so for it is so for all of its shape.
fn anybody<'p>(cluster: &Cluster, pod: &'p Pod) -> Cow<'p, Pod> {
    match cluster.snapshot.nominated().node_of(&pod.uid) {
        None => Cow::Borrowed(pod),
        Some(_) => Cow::Owned(Pod { uid: Str::default(), ..pod.clone() }),
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
) -> Option<Rejected> {
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
) -> Option<Rejected> {
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
) -> Option<Rejected> {
    with_those_ahead(cluster, pod, at, |cluster| profile.check_again(filters, pod, cluster, at))?
}

/// Whether a filter that looks at nothing but a node would let a pod have it, whoever else waits for it.
pub(crate) fn lets(filter: &dyn Filter, cluster: &mut Cluster, pod: &Pod, at: NodeIx) -> bool {
    let lets = |cluster: &mut Cluster| filter.check(cluster, at).is_none();
    lets(cluster) && with_those_ahead(cluster, pod, at, lets).unwrap_or(true)
}

/// How things would be if the pods that wait for a node and come before this one were there; `None` if there are none.
fn with_those_ahead<T>(
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
