//! DefaultPreemption: when a pod fits nowhere, the node where the least important pods would have to make way for it.
//!
//! Victims are tried on the snapshot itself: taken off, looked at, and put back, as many as can stay. Nobody is taken
//! away here; that is for whoever carries out what is decided.

use std::cmp::{Ordering, Reverse};
use std::sync::Arc;

use jiff::Timestamp;

use crate::cluster::Cluster;
use crate::cycle;
use crate::framework::diagnosis::Diagnosis;
use crate::framework::profile::{Filters, Profile};
use crate::framework::{Nomination, Plugin, PostFilter, Rejection};
use crate::pod::Pod;
use crate::random::Random;
use crate::snapshot::NodeIx;

pub(crate) const NAME: &str = "DefaultPreemption";
const NOBODY: Rejection = Rejection::unresolvable("No preemption victims found for incoming pod");
const NOT_HELPFUL: &str = "Preemption is not helpful for scheduling";

pub(crate) struct DefaultPreemption {
    /// How many nodes are tried at least: in per cent of those that come into question, and in all.
    pub(crate) least_percent: usize,
    pub(crate) least: usize,
}

impl Default for DefaultPreemption {
    fn default() -> DefaultPreemption {
        DefaultPreemption { least_percent: 10, least: 100 }
    }
}

/// A node, and who would have to go, the most important first.
struct Candidate {
    at: NodeIx,
    victims: Vec<Arc<Pod>>,
    /// How many of them a budget protects.
    violations: usize,
}

impl Candidate {
    /// Less is better.
    fn cost(&self) -> (usize, i32, i64, usize, Reverse<Timestamp>) {
        let highest = self.victims.first().map_or(i32::MIN, |pod| pod.shape.priority);
        // Shifted, so that more pods always cost more.
        let sum = self.victims.iter().map(|pod| i64::from(pod.shape.priority) + (1 << 31)).sum();
        let important = self.victims.iter().filter(|pod| pod.shape.priority == highest);
        let earliest = important.map(|pod| started(pod)).min().unwrap_or(Timestamp::MAX);
        (self.violations, highest, sum, self.victims.len(), Reverse(earliest))
    }
}

/// When it started; one that has not is as new as can be.
fn started(pod: &Pod) -> Timestamp {
    pod.started.unwrap_or(Timestamp::MAX)
}

/// The more important first: by priority, then by how long it has run.
fn by_importance(a: &Arc<Pod>, b: &Arc<Pod>) -> Ordering {
    (b.shape.priority.cmp(&a.shape.priority)).then_with(|| started(a).cmp(&started(b)))
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
        random: &mut Random,
    ) -> Option<PostFilter> {
        let said = |message: String, nomination| {
            Some(PostFilter { message: format!("preemption: {message}"), nomination, victims: Vec::new() })
        };
        if let Some(reason) = ineligible(pod, cluster, diagnosis) {
            return said(reason.to_owned(), Nomination::Keep);
        }
        let mut refused = Diagnosis::of(cluster.snapshot.len());
        let best = self.best(pod, cluster, profile, diagnosis, random, &mut refused);
        let Some(best) = best else {
            refused.say_of_unseen(NOT_HELPFUL);
            return said(refused.message(), Nomination::Clear);
        };
        let (node, count) = (cluster.snapshot.name(best.at).clone(), best.victims.len());
        let message = format!(
            "preemption: found a potential placement for pod on node {node}, preempting {count} victims"
        );
        Some(PostFilter { message, nomination: Nomination::Node(node), victims: best.victims })
    }
}

/// Why a pod may not have others make way.
fn ineligible(pod: &Pod, cluster: &Cluster, diagnosis: &Diagnosis) -> Option<&'static str> {
    if !pod.shape.preempts {
        return Some("not eligible due to preemptionPolicy=Never.");
    }
    let nominated = cluster.snapshot.nominated.node_of(&pod.uid).unwrap_or(&pod.nominated);
    let at = cluster.snapshot.find(nominated)?;
    if diagnosis.rejected.iter().any(|(rejected, resolvable)| *rejected == at && !resolvable) {
        return None;
    }
    let on_its_way = |other: &Arc<Pod>| other.preempted && other.shape.priority < pod.shape.priority;
    let waits = cluster.snapshot.place(at).pods.iter().any(on_its_way);
    waits.then_some("not eligible due to a terminating pod on the nominated node.")
}

impl DefaultPreemption {
    /// The cheapest of enough candidates, looked for from anywhere on.
    fn best(
        &self,
        pod: &Pod,
        cluster: &mut Cluster,
        profile: &Profile,
        diagnosis: &Diagnosis,
        random: &mut Random,
        refused: &mut Diagnosis,
    ) -> Option<Candidate> {
        let resolvable = diagnosis.rejected.iter().filter(|(_, resolvable)| *resolvable);
        let nodes: Vec<NodeIx> = resolvable.map(|(at, _)| *at).collect();
        if nodes.is_empty() || !diagnosis.is_resolvable() {
            return None;
        }
        let enough = (nodes.len() * self.least_percent / 100).max(self.least);
        let filters = profile.pre_filter(pod, cluster).ok()?;
        let offset = random.below(nodes.len());
        let mut found: Vec<Candidate> = Vec::new();
        for step in 0..nodes.len() {
            let at = nodes[(offset + step) % nodes.len()];
            let version = cluster.snapshot.version(at);
            let candidate = candidate(pod, cluster, profile, &filters, at);
            cluster.snapshot.is_again(at, version);
            match candidate {
                Ok(candidate) => found.push(candidate),
                Err(rejection) => refused.reject(at, NAME, &rejection),
            }
            // One that breaks a budget is only a last resort.
            let good = found.iter().any(|candidate| candidate.violations == 0);
            if good && found.len() >= enough {
                break;
            }
        }
        found.into_iter().min_by_key(Candidate::cost)
    }
}

/// Who would have to leave a node, or why nobody's leaving would help. The snapshot is left as it was.
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
        return Err(NOBODY);
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
