//! What is to be done about the pods of a job that goes on.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::time::Duration;

use jiff::Timestamp;

use super::failures::Failures;
use super::review::Review;
use super::spec::Job;
use super::tracking::JobPod;

/// At most so many pods are made or deleted in one go.
const BURST: usize = 500;

/// Pods are either made or deleted in one go, never both.
#[derive(Debug)]
pub(super) enum Move<'a> {
    Nothing,
    /// The pods to delete, uncounted.
    Delete(Vec<&'a JobPod>),
    /// So many pods.
    Create(usize),
    /// A pod for each of these indexes.
    CreateIndexes(Vec<i64>),
    /// It is too early after a failure.
    Wait(Duration),
}

pub(super) fn decide<'a>(job: &Job, review: &Review<'a>, failures: Failures, now: Timestamp) -> Move<'a> {
    let active = review.active.len();
    if job.is_suspended() {
        return if active > 0 { Move::Delete(surplus(job, review, active)) } else { Move::Nothing };
    }
    let wanted = wanted(job, review);
    let mut surplus = surplus(job, review, active.saturating_sub(wanted));
    if !surplus.is_empty() {
        surplus.truncate(BURST);
        return Move::Delete(surplus);
    }
    let ending = if job.replaces_only_failed() { review.terminating } else { 0 };
    let missing = wanted.saturating_sub(active + usize::try_from(ending).unwrap_or(0));
    if missing == 0 {
        return Move::Nothing;
    }
    if job.backoff_limit_per_index().is_some() {
        return create_when_due(job, review, missing.min(BURST), now);
    }
    let wait = failures.wait(now);
    match () {
        () if !wait.is_zero() => Move::Wait(wait),
        () if job.is_indexed() => Move::CreateIndexes(pending(job, review, missing.min(BURST))),
        () => Move::Create(missing.min(BURST)),
    }
}

/// How many pods are to run.
fn wanted(job: &Job, review: &Review<'_>) -> usize {
    let wanted = match job.completions() {
        // Any success is enough: what still runs may end, nothing is begun.
        None if review.succeeded > 0 => return review.active.len(),
        None => job.parallelism(),
        Some(completions) => job.parallelism().min(completions - review.succeeded),
    };
    usize::try_from(wanted).unwrap_or(0)
}

/// The lowest indexes for which nothing runs and something should.
fn pending(job: &Job, review: &Review<'_>, count: usize) -> Vec<i64> {
    review.settled().union(&review.busy_indexes).missing(job.completions().unwrap_or(0)).take(count).collect()
}

/// Where each index waits for itself.
fn create_when_due<'a>(job: &Job, review: &Review<'a>, count: usize, now: Timestamp) -> Move<'a> {
    let pending = pending(job, review, count);
    let wait = |index: &i64| {
        let Some(failed) = review.kept.get(index) else { return Duration::ZERO };
        let count = u32::try_from(failed.all_failures() + 1).unwrap_or(u32::MAX);
        Failures { count, last: failed.tracking.ended }.wait(now)
    };
    match pending.iter().map(wait).min() {
        Some(shortest) if !shortest.is_zero() => Move::Wait(shortest),
        _ => Move::CreateIndexes(pending.into_iter().filter(|index| wait(index).is_zero()).collect()),
    }
}

/// At least so many pods to delete; of an indexed job always those whose index is taken, unknown or too high.
fn surplus<'a>(job: &Job, review: &Review<'a>, least: usize) -> Vec<&'a JobPod> {
    let mut active = review.active.clone();
    // Of several with one index the last in this order stays.
    active.sort_by_key(|pod| Reverse(worth(pod)));
    let (mut surplus, mut rest) = (Vec::new(), Vec::new());
    if job.is_indexed() {
        let mut taken = HashSet::new();
        for pod in active {
            let stays = pod.index_in(job).is_some_and(|index| taken.insert(index));
            if stays { rest.push(pod) } else { surplus.push(pod) }
        }
    } else {
        rest = active;
    }
    let more = least.saturating_sub(surplus.len());
    surplus.extend(rest.into_iter().rev().take(more));
    surplus
}

/// What orders pods by how far they have come: placed, running, ready, ready for long, seldom restarted, old.
fn worth(pod: &JobPod) -> impl Ord + use<> {
    let view = &pod.pod.view;
    let phase = match view.phase.as_str() {
        "Pending" => 0,
        "Unknown" => 1,
        _ => 2,
    };
    // Nothing known of a time is worth the least, an early time the most.
    let early = |at: Option<Timestamp>| at.map(Reverse);
    let ready = early(view.ready_since.filter(|_| view.ready));
    (!view.node.is_empty(), phase, view.ready, ready, Reverse(view.restarts), early(view.created))
}
