//! Selects the pods to preempt for a critical pod. Pure; upstream's choice.
//!
//! As few pods as possible of the best QoS class, then of the next; among them those whose requests come closest to
//! what is lacking.

use std::fmt::Write;

use crate::eviction::is_critical;
use crate::pod::Pod;
use crate::resources::Qos;
use crate::resources::allocation::{Lack, Requests};

/// The resources that are still lacking, with their amounts.
type Needs = Vec<(String, i64)>;

/// A pod that could be preempted, and its requests.
struct Candidate {
    pod: Pod,
    asked: Requests,
}

/// No set of pods can be preempted to free enough.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no set of running pods found to reclaim resources: {0}")]
pub(super) struct NoVictims(String);

/// The pods to preempt for a pod that lacks resources.
pub(super) fn victims(pod: &Pod, others: &[Pod], lacks: &[Lack]) -> Result<Vec<Pod>, NoVictims> {
    let needs: Needs = lacks.iter().map(|lack| (lack.resource.clone(), lack.missing())).collect();
    let of = |class: Qos| -> Vec<Candidate> {
        let serves = others.iter().filter(|other| may_preempt(pod, other) && Qos::of(other) == class);
        serves.map(|other| Candidate { pod: other.clone(), asked: Requests::of(other) }).collect()
    };
    let (best_effort, burstable, guaranteed) = (of(Qos::BestEffort), of(Qos::Burstable), of(Qos::Guaranteed));

    let lower = left(&left(&needs, &best_effort), &burstable);
    let guaranteed = closest(guaranteed, lower)?;
    let lower = left(&left(&needs, &best_effort), &guaranteed);
    let burstable = closest(burstable, lower)?;
    let lower = left(&left(&needs, &burstable), &guaranteed);
    let best_effort = closest(best_effort, lower)?;
    Ok([best_effort, burstable, guaranteed].into_iter().flatten().map(|candidate| candidate.pod).collect())
}

fn may_preempt(pod: &Pod, other: &Pod) -> bool {
    if is_critical(pod) && !is_critical(other) {
        return true;
    }
    let priority = |pod: &Pod| pod.tree().int_at(&["spec", "priority"]);
    matches!((priority(pod), priority(other)), (Some(own), Some(others)) if own > others)
}

/// The resources that are still lacking after pods are preempted.
fn left(needs: &Needs, gone: &[Candidate]) -> Needs {
    let freed = |resource: &str| gone.iter().map(|candidate| candidate.asked.amount(resource)).sum::<i64>();
    let rest = needs.iter().map(|(resource, amount)| (resource.clone(), amount - freed(resource)));
    rest.filter(|(_, amount)| *amount > 0).collect()
}

/// Selects one candidate after the other, the one closest to the lacking amounts first.
fn closest(mut candidates: Vec<Candidate>, mut needs: Needs) -> Result<Vec<Candidate>, NoVictims> {
    let mut chosen = Vec::new();
    while !needs.is_empty() {
        let by_fit = |(_, a): &(usize, &Candidate), (_, b): &(usize, &Candidate)| {
            let fit = distance(&needs, &a.asked).total_cmp(&distance(&needs, &b.asked));
            fit.then_with(|| size(&a.asked).cmp(&size(&b.asked)))
        };
        // Among equals, the last one.
        let Some((index, _)) = candidates.iter().enumerate().rev().min_by(by_fit) else {
            return Err(NoVictims(describe(&needs)));
        };
        let next = candidates.swap_remove(index);
        needs = left(&needs, std::slice::from_ref(&next));
        chosen.push(next);
    }
    Ok(chosen)
}

/// The fraction of the lacking amounts that a candidate would not free, with equal weight for every resource.
fn distance(needs: &Needs, asked: &Requests) -> f64 {
    let share = |(resource, amount): &(String, i64)| {
        let rest = (amount - asked.amount(resource)).max(0);
        (rest as f64 / *amount as f64).powi(2)
    };
    needs.iter().map(share).sum()
}

fn size(asked: &Requests) -> (i64, i64) {
    (asked.amount("memory"), asked.amount("cpu"))
}

fn describe(needs: &Needs) -> String {
    let mut text = String::from("[");
    for (resource, amount) in needs {
        // Writing to a string cannot fail.
        let _ = write!(text, "(res: {resource}, q: {amount}), ");
    }
    text + "]"
}
