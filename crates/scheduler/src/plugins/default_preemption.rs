//! DefaultPreemption: for an unschedulable pod, finds the node with the lowest cost of preemption.
//!
//! Victims are tried on the snapshot itself: removed, filtered, and added back, as many as can stay. No pod is deleted
//! here; `run` carries out the preemption.

use std::cmp::{Ordering, Reverse};
use std::sync::Arc;

use corten_api::Value;
use jiff::Timestamp;

use crate::cluster::Cluster;
use crate::cycle;
use crate::framework::candidates::{Candidates, Cost};
use crate::framework::diagnosis::Diagnosis;
use crate::framework::profile::{Filters, Profile};
use crate::framework::registration::{Point, Registration};
use crate::framework::shape_cache::ShapeCache;
use crate::framework::{Nomination, Plugin, PostFilter, Rejection};
use crate::pod::Pod;
use crate::random::Random;
use crate::snapshot::NodeIx;

pub(crate) const NAME: &str = "DefaultPreemption";
const NO_VICTIMS: Rejection = Rejection::unresolvable("No preemption victims found for incoming pod");
const NOT_HELPFUL: &str = "Preemption is not helpful for scheduling";

pub(crate) const REGISTRATION: Registration = Registration {
    name: NAME,
    weight: 0,
    points: &[Point::PostFilter],
    create: Some(|args| Ok(Arc::new(DefaultPreemption::with_args(args)?))),
};

pub(crate) struct DefaultPreemption {
    /// The least number of candidate nodes: in percent of all candidates, and absolute.
    pub(crate) least_percent: usize,
    pub(crate) least: usize,
}

impl Default for DefaultPreemption {
    fn default() -> DefaultPreemption {
        DefaultPreemption { least_percent: 10, least: 100 }
    }
}

/// A node and its victims, the highest priority first.
struct Candidate {
    at: NodeIx,
    victims: Vec<Arc<Pod>>,
    /// The number of victims whose budgets are violated.
    violations: usize,
}

impl Candidate {
    fn cost(&self) -> Cost {
        let highest = self.victims.first().map_or(i32::MIN, |pod| pod.shape.priority);
        let important = self.victims.iter().filter(|pod| pod.shape.priority == highest);
        let earliest = important.map(|pod| started(pod)).min().unwrap_or(Timestamp::MAX);
        Cost {
            violations: self.violations,
            highest_priority: highest,
            // Shifted, so that more pods always cost more.
            sum_of_priorities: self.victims.iter().map(|pod| i64::from(pod.shape.priority) + (1 << 31)).sum(),
            victims: self.victims.len(),
            earliest_start: Reverse(earliest),
        }
    }
}

/// The start time of a pod; one that has not started counts as the newest.
fn started(pod: &Pod) -> Timestamp {
    pod.started.unwrap_or(Timestamp::MAX)
}

/// Higher priority first, then longer running.
fn by_importance(a: &Arc<Pod>, b: &Arc<Pod>) -> Ordering {
    (b.shape.priority.cmp(&a.shape.priority)).then_with(|| started(a).cmp(&started(b)))
}

impl DefaultPreemption {
    /// Reads the plugin's arguments from a profile.
    fn with_args(args: &Value) -> Result<DefaultPreemption, String> {
        let defaults = DefaultPreemption::default();
        let number = |key: &str, unless_said: usize| match args.int_at(&[key]) {
            None => Ok(unless_said),
            Some(said) => usize::try_from(said).map_err(|_| format!("{key}: not in the range [0, inf)")),
        };
        let least_percent = number("minCandidateNodesPercentage", defaults.least_percent)?;
        if least_percent > 100 {
            return Err("minCandidateNodesPercentage: not in valid range [0, 100]".to_owned());
        }
        Ok(DefaultPreemption { least_percent, least: number("minCandidateNodesAbsolute", defaults.least)? })
    }
}

impl Plugin for DefaultPreemption {
    fn name(&self) -> &'static str {
        NAME
    }

    fn post_filter(
        &self,
        pod: &Pod,
        cluster: &mut Cluster,
        profile: &Profile,
        diagnosis: &Diagnosis,
        shape_cache: &mut ShapeCache,
        random: &mut Random,
    ) -> Option<PostFilter> {
        let said = |message: String, nomination| {
            Some(PostFilter { message: format!("preemption: {message}"), nomination, victims: Vec::new() })
        };
        if let Some(reason) = ineligible(pod, cluster, diagnosis, shape_cache) {
            return said(reason.to_owned(), Nomination::Keep);
        }
        let best = match self.best(pod, cluster, profile, diagnosis, shape_cache, random) {
            Ok(best) => best,
            Err(refused) => return said(refused.message(), Nomination::Clear),
        };
        let (node, count) = (cluster.snapshot.name(best.at).clone(), best.victims.len());
        let message = format!(
            "preemption: found a potential placement for pod on node {node}, preempting {count} victims"
        );
        Some(PostFilter { message, nomination: Nomination::Node(node), victims: best.victims })
    }
}

/// The reason why a pod may not preempt others.
fn ineligible(
    pod: &Pod,
    cluster: &Cluster,
    diagnosis: &Diagnosis,
    shape_cache: &ShapeCache,
) -> Option<&'static str> {
    if !pod.shape.preempts {
        return Some("not eligible due to preemptionPolicy=Never.");
    }
    let nominated = cluster.snapshot.nominated().node_of(&pod.uid).unwrap_or(&pod.nominated);
    let at = cluster.snapshot.find(nominated)?;
    if diagnosis.is_by_node() && shape_cache.node_rejections.is_resolvable(at) == Some(false) {
        return None;
    }
    let on_its_way = |other: &Arc<Pod>| other.preempted && other.shape.priority < pod.shape.priority;
    let waits = cluster.snapshot.place(at).pods.iter().any(on_its_way);
    waits.then_some("not eligible due to a terminating pod on the nominated node.")
}

impl DefaultPreemption {
    /// The cheapest of enough candidates, searched from a random node on; or the reasons why there are none.
    fn best(
        &self,
        pod: &Pod,
        cluster: &mut Cluster,
        profile: &Profile,
        diagnosis: &Diagnosis,
        shape_cache: &mut ShapeCache,
        random: &mut Random,
    ) -> Result<Candidate, Diagnosis> {
        let all = cluster.snapshot.len();
        let mut refused = Diagnosis::of(all);
        refused.say_of_unseen(NOT_HELPFUL);
        if !diagnosis.is_by_node() || diagnosis.resolvable() == 0 {
            return Err(refused);
        }
        let Ok(filters) = profile.pre_filter(pod, cluster) else { return Err(refused) };
        let ShapeCache { node_rejections, candidates, .. } = shape_cache;
        let mut passing = Candidates::default();
        let known = if filters.are_local() { candidates } else { &mut passing };
        let own = cluster.snapshot.nominated().node_of(&pod.uid).and_then(|name| cluster.snapshot.find(name));
        let mut trial = Trial { pod, own, cluster, profile, filters: &filters, known };
        trial.known.with_budgets(trial.cluster.budgets.version());
        let enough = (diagnosis.resolvable() * self.least_percent / 100).max(self.least);
        let offset = random.below(all);
        let (mut found, mut refusals) = (Best::default(), Vec::new());
        for step in 0..all {
            let at = trial.cluster.snapshot.order()[(offset + step) % all];
            if node_rejections.is_resolvable(at) != Some(true) {
                continue;
            }
            match trial.cost(at) {
                Ok(cost) => found.add(at, cost),
                Err(refusal) => count(&mut refusals, refusal),
            }
            // Candidates that violate a budget are a last resort.
            if found.without_violations && found.count >= enough {
                break;
            }
        }
        for (number, nodes) in refusals.into_iter().enumerate() {
            refused.reject(&(NAME, trial.known.refusal(number).clone()), nodes);
        }
        let candidate = found.cheapest.and_then(|(_, at)| trial.candidate(at).ok());
        candidate.ok_or(refused)
    }
}

/// The result of the candidates so far.
#[derive(Default)]
struct Best {
    cheapest: Option<(Cost, NodeIx)>,
    count: usize,
    without_violations: bool,
}

impl Best {
    fn add(&mut self, at: NodeIx, cost: Cost) {
        self.count += 1;
        self.without_violations |= cost.violations == 0;
        if self.cheapest.is_none_or(|(least, _)| cost < least) {
            self.cheapest = Some((cost, at));
        }
    }
}

fn count(counts: &mut Vec<usize>, number: usize) {
    if counts.len() <= number {
        counts.resize(number + 1, 0);
    }
    counts[number] += 1;
}

/// The trial of nodes for one pod.
struct Trial<'t> {
    pod: &'t Pod,
    /// The nominated node of the pod: its cached cost does not hold, as its own nomination is counted.
    own: Option<NodeIx>,
    cluster: &'t mut Cluster,
    profile: &'t Profile,
    filters: &'t Filters,
    known: &'t mut Candidates,
}

impl Trial<'_> {
    /// The cost of preemption on a node, or the index of the rejection.
    fn cost(&mut self, at: NodeIx) -> Result<Cost, usize> {
        let (version, is_own) = (self.cluster.snapshot.version(at), self.own == Some(at));
        if let Some(known) = self.known.get(at, version).filter(|_| !is_own) {
            return known;
        }
        let candidate = self.candidate(at);
        let found = candidate.map(|it| it.cost()).map_err(|refusal| self.known.number(refusal));
        if !is_own {
            self.known.set(at, version, found);
        }
        found
    }

    fn candidate(&mut self, at: NodeIx) -> Result<Candidate, Rejection> {
        let mark = self.cluster.snapshot.mark(at);
        let candidate = candidate(self.pod, self.cluster, self.profile, self.filters, at);
        self.cluster.snapshot.is_again(mark);
        candidate
    }
}

/// The victims on a node, or the reason why preemption does not help there. The snapshot is left unchanged.
fn candidate(
    pod: &Pod,
    cluster: &mut Cluster,
    profile: &Profile,
    filters: &Filters,
    at: NodeIx,
) -> Result<Candidate, Rejection> {
    let here = cluster.snapshot.place(at).pods.iter();
    let mut lesser: Vec<Arc<Pod>> =
        here.filter(|other| other.shape.priority < pod.shape.priority).cloned().collect();
    if lesser.is_empty() {
        return Err(NO_VICTIMS);
    }
    for other in &lesser {
        cluster.snapshot.take(&other.uid, at);
    }
    if let Some((_, rejection)) = cycle::on_node(profile, cluster, filters, pod, at) {
        lesser.into_iter().for_each(|other| cluster.snapshot.put(other, at));
        return Err(rejection);
    }
    lesser.sort_by(by_importance);
    let violating = cluster.budgets.violating(lesser.iter().map(Arc::as_ref));
    let (mut victims, mut violations) = (Vec::new(), 0);
    for protected in [true, false] {
        for (other, _) in lesser.iter().zip(&violating).filter(|(_, violates)| **violates == protected) {
            cluster.snapshot.put(other.clone(), at);
            if cycle::on_node(profile, cluster, filters, pod, at).is_some() {
                cluster.snapshot.take(&other.uid, at);
                victims.push(other.clone());
                violations += usize::from(protected);
            }
        }
    }
    for victim in &victims {
        cluster.snapshot.put(victim.clone(), at);
    }
    victims.sort_by(by_importance);
    Ok(Candidate { at, victims, violations })
}

#[cfg(test)]
mod tests;
