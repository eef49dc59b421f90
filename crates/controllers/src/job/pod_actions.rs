//! The actions on the pods of a job that continues.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::time::Duration;

use jiff::Timestamp;

use super::failures::Failures;
use super::review::Review;
use super::spec::Job;
use super::tracking::JobPod;

/// The most pods that are created or deleted in one reconcile.
const BURST: usize = 500;

/// One reconcile either creates or deletes pods, never both.
#[derive(Debug)]
pub(super) enum PodAction<'a> {
    Nothing,
    /// The pods to delete, which are not counted.
    Delete(Vec<&'a JobPod>),
    /// The number of pods to create.
    Create(usize),
    /// The indexes to create a pod for.
    CreateIndexes(Vec<i64>),
    /// The backoff after a failure has not passed yet.
    Wait(Duration),
}

pub(super) fn decide<'a>(
    job: &Job,
    review: &Review<'a>,
    failures: Failures,
    now: Timestamp,
) -> PodAction<'a> {
    let active = review.active.len();
    if job.is_suspended() {
        return if active > 0 { PodAction::Delete(surplus(job, review, active)) } else { PodAction::Nothing };
    }
    let wanted = wanted(job, review);
    let mut surplus = surplus(job, review, active.saturating_sub(wanted));
    if !surplus.is_empty() {
        surplus.truncate(BURST);
        return PodAction::Delete(surplus);
    }
    let ending = if job.replaces_only_failed() { review.terminating } else { 0 };
    let missing = wanted.saturating_sub(active + usize::try_from(ending).unwrap_or(0));
    if missing == 0 {
        return PodAction::Nothing;
    }
    if job.backoff_limit_per_index().is_some() {
        return create_when_due(job, review, missing.min(BURST), now);
    }
    let wait = failures.wait(now);
    match () {
        () if !wait.is_zero() => PodAction::Wait(wait),
        () if job.is_indexed() => PodAction::CreateIndexes(pending(job, review, missing.min(BURST))),
        () => PodAction::Create(missing.min(BURST)),
    }
}

/// The desired number of running pods.
fn wanted(job: &Job, review: &Review<'_>) -> usize {
    let wanted = match job.completions() {
        // Any success is enough: running pods may finish, none is created.
        None if review.succeeded > 0 => return review.active.len(),
        None => job.parallelism(),
        Some(completions) => job.parallelism().min(completions - review.succeeded),
    };
    usize::try_from(wanted).unwrap_or(0)
}

/// The lowest indexes without a running pod that need one.
fn pending(job: &Job, review: &Review<'_>, count: usize) -> Vec<i64> {
    review.settled().union(&review.busy_indexes).missing(job.completions().unwrap_or(0)).take(count).collect()
}

/// With backoff per index, each index waits for its own.
fn create_when_due<'a>(job: &Job, review: &Review<'a>, count: usize, now: Timestamp) -> PodAction<'a> {
    let pending = pending(job, review, count);
    let wait = |index: &i64| {
        let Some(failed) = review.kept.get(index) else { return Duration::ZERO };
        let count = u32::try_from(failed.all_failures() + 1).unwrap_or(u32::MAX);
        Failures { count, last: failed.tracking.ended }.wait(now)
    };
    match pending.iter().map(wait).min() {
        Some(shortest) if !shortest.is_zero() => PodAction::Wait(shortest),
        _ => PodAction::CreateIndexes(pending.into_iter().filter(|index| wait(index).is_zero()).collect()),
    }
}

/// At least `least` pods to delete; for an indexed job always those with a duplicate, invalid or out-of-range index.
fn surplus<'a>(job: &Job, review: &Review<'a>, least: usize) -> Vec<&'a JobPod> {
    let mut active = review.active.clone();
    // Of several pods with one index, the last in this order stays.
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

/// The rank of a pod by its progress: bound, running, ready, ready for long, few restarts, old.
fn worth(pod: &JobPod) -> impl Ord + use<> {
    let view = &pod.pod.view;
    let phase = match view.phase.as_str() {
        "Pending" => 0,
        "Unknown" => 1,
        _ => 2,
    };
    // An unknown time ranks lowest, an early one highest.
    let early = |at: Option<Timestamp>| at.map(Reverse);
    let ready = early(view.ready_since.filter(|_| view.ready));
    (!view.node.is_empty(), phase, view.ready, ready, Reverse(view.restarts), early(view.created))
}
