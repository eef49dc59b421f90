//! Job: pods that run until enough of them have succeeded.
//!
//! Owns the pods a job selects and the status of jobs; watches both. Every pod has a finalizer that goes only when
//! the pod has been counted, so that no outcome is missed. Never touches jobs that others manage, nor those that
//! have finished; `orphans` lets go the pods that no job counts any more.

mod failures;
mod indexes;
mod moves;
mod orphans;
mod policies;
mod review;
mod spec;
mod status;
mod template;
mod tracking;

use std::sync::Arc;
use std::time::Duration;

use corten_api::selector::LabelSelector;
use corten_base::Backoff;
use corten_client::{Caches, Change, Key, Kind, Object, kinds};
use corten_reconcile::{Action, Controller, Event, Plan, Report, Step, Watch};
use jiff::Timestamp;

pub(crate) use orphans::OrphanPods;
pub(crate) use tracking::Tracking;

use crate::claims::{self, Claims};
use crate::jobs::{BatchOptions, JobView};
use crate::pods;
use failures::{Failures, Memory};
use moves::Move;
use review::Review;
use spec::Job;
use status::{Account, Deeds};
use tracking::{FINALIZER, JobPod};

const NAME: &str = "job-controller";
/// A request that fails is not tried again at once, nor too seldom.
const RETRY: Backoff = Backoff { first: Duration::from_secs(1), longest: Duration::from_secs(60) };
/// Pods of a job often change many at a time.
const SETTLE: Duration = Duration::from_millis(100);

#[derive(Default)]
pub(crate) struct Jobs {
    options: BatchOptions,
    memory: Memory,
}

impl Jobs {
    pub(crate) fn new(options: BatchOptions) -> Jobs {
        Jobs { options, memory: Memory::default() }
    }
}

/// What matters for one job.
#[derive(Default)]
pub(crate) struct World {
    /// `None` if it is gone, has finished or is managed by others.
    job: Option<Job>,
    claims: Claims,
    pods: Vec<JobPod>,
    failures: Failures,
}

impl World {
    fn of(job: Job, selector: &LabelSelector, candidates: &[Arc<Object>]) -> World {
        let claims = claims::decide(&job.0, selector, candidates);
        let pods = claims.owned.iter().map(JobPod::of).collect();
        World { job: Some(job), claims, pods, failures: Failures::default() }
    }

    /// The requests that take pods in and let them go.
    fn claims(&self, job: &Job) -> Vec<Action> {
        self.claims.actions_with_finalizer(&kinds::PODS, &job.0, Some(FINALIZER))
    }
}

impl Controller for Jobs {
    type World = World;

    fn name(&self) -> &'static str {
        NAME
    }

    fn watches(&self) -> Vec<Watch> {
        vec![Watch::own(&kinds::JOBS), Watch { kind: &kinds::PODS, keys: jobs_of_pod }]
    }

    fn retry(&self) -> Backoff {
        RETRY
    }

    fn workers(&self) -> usize {
        self.options.concurrent_job_syncs
    }

    fn settle(&self, kind: &Kind) -> Duration {
        if *kind == kinds::PODS { SETTLE } else { Duration::ZERO }
    }

    fn observe(&self, caches: &Caches, key: &Key) -> World {
        let unfinished = caches.of(&kinds::JOBS).get(key).filter(|job| {
            let view = job.view::<JobView>();
            view.finished.is_none() && !view.managed_elsewhere
        });
        let selector = unfinished.as_ref().and_then(|job| job.view::<JobView>().selector.clone());
        let (Some(object), Some(selector)) = (unfinished, selector) else {
            self.memory.forget(key);
            return World::default();
        };
        let job = Job(object.tree());
        let candidates = claims::candidates(&caches.of(&kinds::PODS), &job.0, &selector);
        let mut world = World::of(job, &selector, &candidates);
        if let Some(job) = &world.job {
            world.failures = self.memory.update(key, &object.uid, job, &world.pods);
        }
        world
    }

    fn plan(&self, _: &Key, world: &World, now: Timestamp) -> Plan {
        let Some(job) = &world.job else { return Plan::done() };
        if !job.mode_is_known() {
            let message = "Skipped Job sync because completion mode is unknown";
            return Plan::done().event(Event::warning(NAME, &job.0, "UnknownCompletionMode", message));
        }
        let mut plan = Plan::done();
        let claims = world.claims(job);
        if !claims.is_empty() {
            plan.steps.push(Step::Together(claims));
        }
        let review = Review::of(job, &world.pods, now);
        if review.ending.is_some() {
            // They keep their finalizers: how they end is counted.
            let deletes: Vec<_> = review.active.iter().map(|pod| pods::delete(&pod.pod)).collect();
            if !deletes.is_empty() {
                plan.steps.push(Step::Together(deletes));
            }
            return plan;
        }
        if let Some(left) = review.time_left {
            plan = plan.again_after(left);
        }
        if !job.is_deleting() {
            plan = go_on(plan, job, &review, world.failures, now);
        }
        plan
    }

    fn conclude(&self, _: &Key, world: &World, report: &Report, now: Timestamp) -> Plan {
        let Some(job) = world.job.as_ref().filter(|job| job.mode_is_known()) else { return Plan::done() };
        let claims = world.claims(job).len();
        let claimed = report.outcomes.get(..claims).unwrap_or_default();
        if claimed.len() < claims || claimed.iter().any(|outcome| outcome.result.is_err()) {
            // Nothing can be said while it is not known whose the pods are.
            return Plan::done();
        }
        let outcomes = report.outcomes.get(claims..).unwrap_or_default();
        let review = Review::of(job, &world.pods, now);
        let deeds = Deeds::of(outcomes, &review);
        let account = Account::of(job, &world.pods, &review, deeds, now);
        let mut plan = Plan::done();
        if account.is_news() {
            plan = plan.then(account.update());
        }
        if !account.let_go.is_empty() {
            plan.steps.push(Step::Together(account.let_go.iter().map(|pod| pod.untrack()).collect()));
        }
        plan.events = outcomes.iter().filter_map(|outcome| pods::told(NAME, &job.0, outcome)).collect();
        plan.events.extend(account.events);
        plan
    }
}

/// What a job that goes on needs.
fn go_on(mut plan: Plan, job: &Job, review: &Review<'_>, failures: Failures, now: Timestamp) -> Plan {
    let create = |object| Action::Create { kind: &kinds::PODS, object };
    match moves::decide(job, review, failures, now) {
        Move::Nothing => {}
        Move::Delete(pods) => {
            // They do not count, neither as failed nor as succeeded.
            let untrack: Vec<_> = pods.iter().filter(|p| p.uncounted).map(|p| p.untrack()).collect();
            if !untrack.is_empty() {
                plan.steps.push(Step::Together(untrack));
            }
            plan.steps.push(Step::Together(pods.iter().map(|pod| pods::delete(&pod.pod)).collect()));
        }
        Move::Create(count) => {
            plan.steps.push(Step::SlowStart(vec![create(template::pod(job)); count]));
        }
        Move::CreateIndexes(indexes) => {
            let pod = |index: &i64| template::indexed_pod(job, *index, review.kept.get(index).copied());
            plan.steps.push(Step::SlowStart(indexes.iter().map(|index| create(pod(index))).collect()));
        }
        Move::Wait(delay) => plan = plan.again_after(delay),
    }
    plan
}

/// The job that manages a pod; for a pod that changed and has none, every job that might take it in.
fn jobs_of_pod(caches: &Caches, change: &Change, keys: &mut Vec<Key>) {
    for pod in change.states() {
        match pod.controller() {
            Some(owner) if owner.kind == kinds::JOBS.kind => {
                keys.push(Key::new(pod.key.namespace.clone(), owner.name.clone()));
            }
            _ => {}
        }
    }
    let Some(pod) = change.new.as_ref().filter(|pod| pod.controller().is_none()) else { return };
    let is_same = |old: &Arc<Object>| old.labels == pod.labels && old.controller().is_none();
    if change.old.as_ref().is_some_and(is_same) {
        return;
    }
    let jobs = caches.of(&kinds::JOBS).list(&pod.key.namespace);
    let takes =
        |job: &Arc<Object>| job.view::<JobView>().selector.as_ref().is_some_and(|s| pod.is_selected_by(s));
    keys.extend(jobs.iter().filter(|job| takes(job)).map(|job| job.key.clone()));
}

#[cfg(test)]
mod tests;
