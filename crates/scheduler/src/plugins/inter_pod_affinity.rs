//! InterPodAffinity: affinity and anti-affinity to other pods, by the pod's own terms and by those of the pods on
//! nodes.

use std::sync::Arc;

use corten_api::Value;

use crate::cluster::Cluster;
use crate::framework::event::ClusterEvent;
use crate::framework::registration::{Point, Registration};
use crate::framework::{Filter, MAX_SCORE, Plugin, PreFilter, Rejection};
use crate::pod::terms::{PodSelector, PodTerm};
use crate::pod::{Pod, Shape};
use crate::snapshot::counters::{CounterKey, Counting, Purpose};
use crate::snapshot::owned::Demand;
use crate::snapshot::{NodeIx, Snapshot};

pub(crate) const NAME: &str = "InterPodAffinity";
const AFFINITY: Rejection = Rejection::unresolvable("node(s) didn't match pod affinity rules");
const ANTI_AFFINITY: Rejection = Rejection::unschedulable("node(s) didn't match pod anti-affinity rules");
const TOO_MANY: Rejection = Rejection::unresolvable("pod has too many affinity terms");
const OTHERS: Rejection =
    Rejection::unschedulable("node(s) didn't satisfy existing pods anti-affinity rules");

pub(crate) const REGISTRATION: Registration = Registration {
    name: NAME,
    weight: 2,
    points: &[Point::Filter, Point::Score],
    create: Some(|args| Ok(Arc::new(InterPodAffinity::with_args(args)?))),
};

pub(crate) struct InterPodAffinity {
    /// The weight of a required term of a running pod as a preference of incoming pods.
    pub(crate) hard_weight: i64,
    /// True to ignore preferred terms of running pods for pods without terms.
    pub(crate) ignores_others: bool,
}

impl Default for InterPodAffinity {
    fn default() -> InterPodAffinity {
        InterPodAffinity { hard_weight: 1, ignores_others: false }
    }
}

/// The counter of the pods that all of some terms select, in the topology of one of them.
fn counter(
    snapshot: &mut Snapshot,
    shape: &Shape,
    purpose: Purpose,
    index: usize,
    term: &PodTerm,
    pods: impl FnOnce() -> Vec<PodSelector>,
) -> usize {
    let key = CounterKey { shape: shape.serial, purpose, index, grounds: 0 };
    let topology_key = term.topology_key.clone();
    snapshot.counter(key, || Counting { pods: pods(), counts_deleting: true, topology_key, nodes: None })
}

/// Counters of one term each.
fn counters<'t>(
    snapshot: &mut Snapshot,
    shape: &Shape,
    purpose: Purpose,
    terms: impl Iterator<Item = &'t PodTerm>,
) -> Vec<usize> {
    let one = |(index, term): (usize, &PodTerm)| {
        counter(snapshot, shape, purpose, index, term, || vec![term.pods.clone()])
    };
    terms.enumerate().map(one).collect()
}

struct Rules {
    affinity: Vec<usize>,
    /// No pod matches yet but the pod itself, which may therefore be the first.
    is_first: bool,
    anti_affinity: Vec<usize>,
    others: Vec<usize>,
}

impl Filter for Rules {
    fn check(&self, cluster: &Cluster, at: NodeIx) -> Option<Rejection> {
        let snapshot = &cluster.snapshot;
        let mut all_found = true;
        for counter in &self.affinity {
            let counter = snapshot.counted(*counter);
            let Some(domain) = snapshot.domain(counter, at) else { return Some(AFFINITY) };
            all_found &= counter.in_domain(domain) > 0;
        }
        if !all_found && !self.is_first {
            return Some(AFFINITY);
        }
        let near = |counter: &usize| {
            let counter = snapshot.counted(*counter);
            snapshot.domain(counter, at).is_some_and(|domain| counter.in_domain(domain) > 0)
        };
        if self.anti_affinity.iter().any(near) {
            return Some(ANTI_AFFINITY);
        }
        let refused = |term: &usize| {
            let term = snapshot.owned().get(*term)?;
            Some(term.in_domain(snapshot.topologies().domain(term.topology, at)?) > 0)
        };
        self.others.iter().any(|term| refused(term) == Some(true)).then_some(OTHERS)
    }
}

/// True if a pod matches its own terms.
fn selects_itself(snapshot: &Snapshot, shape: &Shape, terms: &[PodTerm]) -> bool {
    let labels = snapshot.namespace_labels(&shape.namespace);
    terms.iter().all(|term| term.pods.matches(&shape.namespace, labels, &shape.labels))
}

fn matches_all(terms: &[PodTerm], pod: &Pod) -> bool {
    !terms.is_empty() && terms.iter().all(|term| matches(term, pod))
}

/// True if a term may select a pod. Labels of namespaces are ignored; a superfluous event does no harm.
fn matches(term: &PodTerm, pod: &Pod) -> bool {
    if term.pods.namespace_selector.is_some() {
        return pod.is_selected_by(&term.pods.labels);
    }
    term.pods.matches(&pod.shape.namespace, None, &pod.shape.labels)
}

impl InterPodAffinity {
    /// Reads the plugin's arguments from a profile.
    fn with_args(args: &Value) -> Result<InterPodAffinity, String> {
        let hard_weight = args.int_at(&["hardPodAffinityWeight"]).unwrap_or(1);
        if !(0..=100).contains(&hard_weight) {
            return Err("hardPodAffinityWeight: not in valid range [0, 100]".to_owned());
        }
        let ignores_others = args.bool_at(&["ignorePreferredTermsOfExistingPods"]) == Some(true);
        Ok(InterPodAffinity { hard_weight, ignores_others })
    }
}

impl Plugin for InterPodAffinity {
    fn name(&self) -> &'static str {
        NAME
    }

    fn pre_filter(&self, pod: &Pod, cluster: &mut Cluster) -> PreFilter {
        let (shape, snapshot) = (&*pod.shape, &mut cluster.snapshot);
        if shape.affinity.too_many || shape.anti_affinity.too_many {
            return PreFilter::Reject(TOO_MANY);
        }
        let mut others = snapshot.terms_about(shape);
        let anti = |term: &usize| {
            snapshot.owned().get(*term).is_some_and(|term| term.demand == Demand::RequiredAnti)
        };
        others.retain(anti);
        let (near, apart) = (&shape.affinity.required, &shape.anti_affinity.required);
        if near.is_empty() && apart.is_empty() && others.is_empty() {
            return PreFilter::Skip;
        }
        let mut affinity = Vec::with_capacity(near.len());
        for (index, term) in near.iter().enumerate() {
            let all = || near.iter().map(|term| term.pods.clone()).collect();
            affinity.push(counter(snapshot, shape, Purpose::Affinity, index, term, all));
        }
        let no_pod_matches = affinity.iter().all(|counter| snapshot.counted(*counter).is_empty());
        let is_first = no_pod_matches && selects_itself(snapshot, shape, near);
        let anti_affinity = counters(snapshot, shape, Purpose::AntiAffinity, apart.iter());
        PreFilter::Filter(Box::new(Rules { affinity, is_first, anti_affinity, others }))
    }

    fn score(&self, pod: &Pod, cluster: &mut Cluster, nodes: &[NodeIx], scores: &mut [i64]) -> bool {
        let (shape, snapshot) = (&*pod.shape, &mut cluster.snapshot);
        let (near, apart) = (&shape.affinity.preferred, &shape.anti_affinity.preferred);
        let prefers = !near.is_empty() || !apart.is_empty();
        let mut others =
            if !prefers && self.ignores_others { Vec::new() } else { snapshot.terms_about(shape) };
        let weight = |demand: Demand| match demand {
            Demand::Preferred => 1,
            Demand::Required => self.hard_weight,
            Demand::RequiredAnti => 0,
        };
        others.retain(|term| snapshot.owned().get(*term).is_some_and(|term| weight(term.demand) != 0));
        if !prefers && others.is_empty() {
            return false;
        }
        let terms = near.iter().map(|preferred| &preferred.term);
        let own = counters(snapshot, shape, Purpose::PreferredAffinity, terms);
        let terms = apart.iter().map(|preferred| &preferred.term);
        let own_anti = counters(snapshot, shape, Purpose::PreferredAntiAffinity, terms);
        let weights = near.iter().map(|p| p.weight).chain(apart.iter().map(|p| -p.weight));
        let own: Vec<(usize, i64)> = own.into_iter().chain(own_anti).zip(weights).collect();
        for (at, score) in nodes.iter().zip(scores.iter_mut()) {
            *score = 0;
            for (counter, weight) in &own {
                let counter = snapshot.counted(*counter);
                let count = snapshot.domain(counter, *at).map_or(0, |domain| counter.in_domain(domain));
                *score += weight * count;
            }
            for term in others.iter().filter_map(|term| snapshot.owned().get(*term)) {
                let domain = snapshot.topologies().domain(term.topology, *at);
                *score += weight(term.demand) * domain.map_or(0, |domain| term.in_domain(domain));
            }
        }
        stretch(scores);
        true
    }

    fn queueing_hint(&self, pod: &Pod, event: &ClusterEvent<'_>) -> bool {
        let near = &pod.shape.affinity.required;
        let apart = &pod.shape.anti_affinity.required;
        let any = |terms: &[PodTerm], other: &Pod| terms.iter().any(|term| matches(term, other));
        match event {
            ClusterEvent::PodAssigned(new) => matches_all(near, new),
            ClusterEvent::AssignedPodChanged { old, new } => {
                (!matches_all(near, old) && matches_all(near, new)) || (any(apart, old) && !any(apart, new))
            }
            ClusterEvent::PodGone(old) => any(apart, old) || any(&old.shape.anti_affinity.required, pod),
            ClusterEvent::PodChanged { old, new } => old.shape.labels != new.shape.labels,
            ClusterEvent::NodeAdded(_) => true,
            // A node that changes its domain takes its pods along, and a deleted one removes them.
            ClusterEvent::NodeChanged { old, new } => old.labels != new.labels,
            ClusterEvent::NodeDeleted(_) => true,
            _ => false,
        }
    }
}

/// Scales scores: the lowest becomes 0, the highest 100.
fn stretch(scores: &mut [i64]) {
    let least = scores.iter().copied().min().unwrap_or(0);
    let range = scores.iter().copied().max().unwrap_or(0) - least;
    for score in scores {
        let share = if range > 0 { (*score - least) as f64 / range as f64 } else { 0.0 };
        *score = (MAX_SCORE as f64 * share) as i64;
    }
}

#[cfg(test)]
mod tests;
