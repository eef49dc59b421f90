//! Who has to go so that a pod the cluster cannot do without has room. Pure; upstream's choice.
//!
//! As few as possible of those that are served best, then of the next; among them the ones that come closest to
//! what is missing.

use std::fmt::Write;

use crate::allocation::{Asked, Lack};
use crate::eviction::is_critical;
use crate::pod::Pod;
use crate::resources::Qos;

/// What is missing still: of what, and how much.
type Needs = Vec<(String, i64)>;

/// Somebody who could go, and what would become free.
struct Candidate {
    pod: Pod,
    asked: Asked,
}

/// Who of the others goes for a pod that lacks something; why that cannot be if there is nobody.
pub(super) fn victims(pod: &Pod, others: &[Pod], lacks: &[Lack]) -> Result<Vec<Pod>, String> {
    let needs: Needs = lacks.iter().map(|lack| (lack.resource.clone(), lack.missing())).collect();
    let of = |class: Qos| -> Vec<Candidate> {
        let serves = others.iter().filter(|other| may_preempt(pod, other) && Qos::of(other) == class);
        serves.map(|other| Candidate { pod: other.clone(), asked: Asked::of(other) }).collect()
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

/// What is missing still once these have gone.
fn left(needs: &Needs, gone: &[Candidate]) -> Needs {
    let freed = |resource: &str| gone.iter().map(|candidate| candidate.asked.amount(resource)).sum::<i64>();
    let rest = needs.iter().map(|(resource, amount)| (resource.clone(), amount - freed(resource)));
    rest.filter(|(_, amount)| *amount > 0).collect()
}

/// One after the other, who comes closest to what is missing.
fn closest(mut candidates: Vec<Candidate>, mut needs: Needs) -> Result<Vec<Candidate>, String> {
    let mut chosen = Vec::new();
    while !needs.is_empty() {
        let by_fit = |(_, a): &(usize, &Candidate), (_, b): &(usize, &Candidate)| {
            let fit = distance(&needs, &a.asked).total_cmp(&distance(&needs, &b.asked));
            fit.then_with(|| size(&a.asked).cmp(&size(&b.asked)))
        };
        // The last one among equals.
        let Some((index, _)) = candidates.iter().enumerate().rev().min_by(by_fit) else {
            return Err(format!("no set of running pods found to reclaim resources: {}", told(&needs)));
        };
        let next = candidates.swap_remove(index);
        needs = left(&needs, std::slice::from_ref(&next));
        chosen.push(next);
    }
    Ok(chosen)
}

/// How much of what is missing would still be, every resource counted alike.
fn distance(needs: &Needs, asked: &Asked) -> f64 {
    let share = |(resource, amount): &(String, i64)| {
        let rest = (amount - asked.amount(resource)).max(0);
        (rest as f64 / *amount as f64).powi(2)
    };
    needs.iter().map(share).sum()
}

fn size(asked: &Asked) -> (i64, i64) {
    (asked.amount("memory"), asked.amount("cpu"))
}

fn told(needs: &Needs) -> String {
    let mut text = String::from("[");
    for (resource, amount) in needs {
        // Writing to a string cannot fail.
        let _ = write!(text, "(res: {resource}, q: {amount}), ");
    }
    text + "]"
}
