//! Job controller: runs pods until enough of them have succeeded.
//!
//! Owns the pods a job selects and the status of jobs; watches both. Every pod has a finalizer that is removed only
//! after the pod has been counted, so that no outcome is missed. Never touches jobs of other managers, nor finished
//! ones; `orphans` removes the finalizer of pods that no job counts any more.

mod failures;
mod indexes;
mod orphans;
mod pod_actions;
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
use pod_actions::PodAction;
use review::Review;
use spec::Job;
use status::{PodChanges, StatusUpdate};
use tracking::{FINALIZER, JobPod};

const NAME: &str = "job-controller";
/// The backoff of failed requests.
const RETRY: Backoff = Backoff { first: Duration::from_secs(1), longest: Duration::from_secs(60) };
/// The time for which changes of pods are collected: the pods of a job often change together.
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

/// The state of one job.
#[derive(Default)]
pub(crate) struct World {
    /// `None` if it does not exist, has finished or has another manager.
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

    /// The requests that adopt and release pods.
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
            // The pods keep their finalizers: their outcome is counted.
            let deletes: Vec<_> = review.active.iter().map(|pod| pods::delete(&pod.pod)).collect();
            if !deletes.is_empty() {
                plan.steps.push(Step::Together(deletes));
            }
            return plan;
        }
        if let Some(left) = review.time_left {
            plan = plan.requeue_after(left);
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
            // Without the ownership of the pods there is no status.
            return Plan::done();
        }
        let outcomes = report.outcomes.get(claims..).unwrap_or_default();
        let review = Review::of(job, &world.pods, now);
        let pod_changes = PodChanges::of(outcomes, &review);
        let account = StatusUpdate::of(job, &world.pods, &review, pod_changes, now);
        let mut plan = Plan::done();
        if account.is_news() {
            plan = plan.then(account.update());
        }
        if !account.let_go.is_empty() {
            plan.steps.push(Step::Together(account.let_go.iter().map(|pod| pod.untrack()).collect()));
        }
        plan.events = outcomes.iter().filter_map(|outcome| pods::event(NAME, &job.0, outcome)).collect();
        plan.events.extend(account.events);
        plan
    }
}

/// The plan of a job that continues.
fn go_on(mut plan: Plan, job: &Job, review: &Review<'_>, failures: Failures, now: Timestamp) -> Plan {
    let create = |object| Action::Create { kind: &kinds::PODS, object };
    match pod_actions::decide(job, review, failures, now) {
        PodAction::Nothing => {}
        PodAction::Delete(pods) => {
            // Deleted surplus pods count neither as failed nor as succeeded.
            let untrack: Vec<_> = pods.iter().filter(|p| p.uncounted).map(|p| p.untrack()).collect();
            if !untrack.is_empty() {
                plan.steps.push(Step::Together(untrack));
            }
            plan.steps.push(Step::Together(pods.iter().map(|pod| pods::delete(&pod.pod)).collect()));
        }
        PodAction::Create(count) => {
            plan.steps.push(Step::SlowStart(vec![create(template::pod(job)); count]));
        }
        PodAction::CreateIndexes(indexes) => {
            let pod = |index: &i64| template::indexed_pod(job, *index, review.kept.get(index).copied());
            plan.steps.push(Step::SlowStart(indexes.iter().map(|index| create(pod(index))).collect()));
        }
        PodAction::Wait(delay) => plan = plan.requeue_after(delay),
    }
    plan
}

/// The job that controls a pod; for a changed pod without a controller, every job that may adopt it.
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
