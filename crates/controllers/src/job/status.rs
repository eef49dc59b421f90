//! The status of a job, and the pods whose finalizers may be removed because they are counted.
//!
//! A pod is counted in two reconciles. The first writes its uid into the status and only then removes its finalizer;
//! the next observes that, increments the counter and drops the uid. Whatever is interrupted in between, no pod is
//! counted twice and none is missed.

use std::collections::HashSet;

use corten_api::{Value, time, value};
use corten_client::kinds;
use corten_reconcile::{Action, Event, Outcome};
use jiff::Timestamp;

use super::NAME;
use super::policies::Meaning;
use super::review::{Ending, Review};
use super::spec::Job;
use super::tracking::JobPod;
use crate::conditions;

/// The most uids in a status.
const MOST_UNCOUNTED: usize = 500;

/// The pods that were created and deleted in this reconcile.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct PodChanges {
    pub(super) created: i64,
    pub(super) deleted: i64,
    /// The number of deleted pods that were ready.
    pub(super) deleted_ready: i64,
}

impl PodChanges {
    pub(super) fn of(outcomes: &[Outcome], review: &Review<'_>) -> PodChanges {
        let ready = review.active.iter().filter(|pod| pod.pod.view.ready);
        let ready: HashSet<_> = ready.map(|pod| &pod.pod.object.key).collect();
        let mut pod_changes = PodChanges::default();
        for outcome in outcomes.iter().filter(|outcome| outcome.result.is_ok()) {
            match &outcome.action {
                Action::Create { .. } => pod_changes.created += 1,
                Action::Delete { key, .. } => {
                    pod_changes.deleted += 1;
                    pod_changes.deleted_ready += i64::from(ready.contains(key));
                }
                _ => {}
            }
        }
        pod_changes
    }
}

/// The next status of a job, its events, and the pods whose finalizers are removed after it is written.
pub(super) struct StatusUpdate<'a> {
    job: &'a Job,
    review: &'a Review<'a>,
    now: Timestamp,
    pub(super) status: Value,
    pub(super) events: Vec<Event>,
    pub(super) let_go: Vec<&'a JobPod>,
}

impl<'a> StatusUpdate<'a> {
    pub(super) fn of(
        job: &'a Job,
        pods: &'a [JobPod],
        review: &'a Review<'a>,
        pod_changes: PodChanges,
        now: Timestamp,
    ) -> StatusUpdate<'a> {
        let status = job.0.get("status").cloned().unwrap_or_else(Value::object);
        let mut account = StatusUpdate { job, review, now, status, events: Vec::new(), let_go: Vec::new() };
        let active = review.active.len() as i64 + pod_changes.created - pod_changes.deleted;
        let terminating = review.terminating + pod_changes.deleted;
        account.set_started();
        let ending = account.ending(active);
        account.set_suspended(ending.is_some());
        account.set_number("active", active);
        account.status.set(&["ready"], review.ready - pod_changes.deleted_ready);
        account.status.set(&["terminating"], terminating);
        let all_seen = account.count(pods, ending.as_ref());
        if let Some(ending) = ending {
            account.end(&ending, all_seen && terminating == 0);
        }
        account
    }

    /// True if the status differs from the recorded one.
    pub(super) fn is_news(&self) -> bool {
        self.job.0.get("status") != Some(&self.status)
    }

    /// The update with the next status.
    pub(super) fn update(&self) -> Action {
        let mut object = self.job.0.clone();
        object.set(&["status"], self.status.clone());
        Action::Update { kind: &kinds::JOBS, object, subresource: "status" }
    }

    /// The ending of the job: as decided once no pod runs any more, or because it is complete.
    fn ending(&self, active: i64) -> Option<Ending> {
        if self.review.ending.is_some() {
            return self.review.ending.clone().filter(|_| active == 0);
        }
        let done = match self.job.completions() {
            None => self.review.succeeded > 0,
            Some(completions) => self.review.succeeded >= completions,
        };
        let message = "Reached expected number of succeeded pods";
        (done && active == 0).then(|| Ending::success("CompletionsReached", message))
    }

    /// Sets a number; zero is left out, as the API server encodes it.
    fn set_number(&mut self, key: &str, number: i64) {
        match number {
            0 => drop(self.status.remove(&[key])),
            number => self.status.set(&[key], number),
        }
    }

    fn set_started(&mut self) {
        if self.status.get("startTime").is_none() && !self.job.is_suspended() {
            self.status.set(&["startTime"], time::format(self.now));
        }
    }

    fn record_event(&mut self, reason: &'static str, message: &str) {
        self.events.push(Event::normal(NAME, &self.job.0, reason, message));
    }

    /// A resumed job starts its deadline again.
    fn set_suspended(&mut self, ends: bool) {
        if ends || self.review.ending.is_some() || self.job.is_deleting() {
            return;
        }
        if self.job.is_suspended() {
            if self.set_condition("Suspended", "True", "JobSuspended", "Job suspended") {
                self.record_event("Suspended", "Job suspended");
                self.status.remove(&["startTime"]);
            }
        } else if conditions::condition(&self.job.0, "Suspended").is_some()
            && self.set_condition("Suspended", "False", "JobResumed", "Job resumed")
        {
            self.record_event("Resumed", "Job resumed");
            self.status.set(&["startTime"], time::format(self.now));
        }
    }

    /// Sets a condition. Returns true if that changes anything.
    fn set_condition(&mut self, kind: &str, status: &str, reason: &str, message: &str) -> bool {
        let mut new = conditions::new(kind, status, reason, message, self.now);
        new.set(&["lastProbeTime"], time::format(self.now));
        let list = self.status.make_object().entry("conditions").make_array();
        let Some(known) = list.iter_mut().find(|c| c.str_at(&["type"]) == Some(kind)) else {
            list.push(new);
            return true;
        };
        let same = ["status", "reason", "message"].iter().all(|key| known.get(key) == new.get(key));
        if !same {
            *known = new;
        }
        !same
    }

    /// Counts the pods whose finalizers were removed, and records those that may follow. Returns true if none of either
    /// is left.
    fn count(&mut self, pods: &'a [JobPod], ending: Option<&Ending>) -> bool {
        let held: HashSet<&str> = pods.iter().filter(|pod| pod.uncounted).map(JobPod::uid).collect();
        let mut succeeded = self.count_gone("succeeded", &held);
        let mut failed = self.count_gone("failed", &held);
        let known_succeeded: HashSet<&str> = succeeded.iter().copied().collect();
        let known_failed: HashSet<&str> = failed.iter().copied().collect();
        let mut new_indexes = 0;
        for pod in in_order(self.job, pods) {
            if !self.may_go(pod, ending) {
                continue;
            }
            self.let_go.push(pod);
            match () {
                () if known_failed.contains(pod.uid()) => {}
                () if pod.has_succeeded() && self.job.is_indexed() => {
                    // The index is enough for the count.
                    let is_new = |index: i64| !self.review.known_indexes.contains(index);
                    new_indexes += usize::from(pod.index_in(self.job).is_some_and(is_new));
                }
                () if pod.has_succeeded() => {
                    if !known_succeeded.contains(pod.uid()) {
                        succeeded.push(pod.uid());
                    }
                }
                () if self.fails(pod, ending) => failed.push(pod.uid()),
                () => {}
            }
            if new_indexes + succeeded.len() + failed.len() >= MOST_UNCOUNTED {
                break;
            }
        }
        self.set_uncounted(&succeeded, &failed);
        self.set_indexes();
        succeeded.is_empty() && failed.is_empty() && self.let_go.is_empty()
    }

    /// Counts the uids whose pods no longer have the finalizer; returns the others.
    fn count_gone(&mut self, outcome: &'static str, held: &HashSet<&str>) -> Vec<&'a str> {
        let uids = self.job.uncounted(outcome).iter().filter_map(Value::as_str);
        let (left, gone): (Vec<_>, Vec<_>) = uids.partition(|uid| held.contains(uid));
        self.set_number(outcome, self.job.count(outcome) + gone.len() as i64);
        left
    }

    /// True if a pod counts as failed. When a job fails, all its running pods do.
    fn fails(&self, pod: &JobPod, ending: Option<&Ending>) -> bool {
        let is_failure = pod.has_failed(self.job) || ending.is_some_and(|ending| !ending.success);
        is_failure && pod.is_valid(self.job) && pod.meaning(self.job) != Meaning::Ignored
    }

    /// True if the finalizer of a pod may be removed.
    fn may_go(&self, pod: &JobPod, ending: Option<&Ending>) -> bool {
        if !pod.uncounted {
            return false;
        }
        if self.job.is_deleting() || ending.is_some() || pod.has_succeeded() {
            return true;
        }
        let kept = pod.tracking.index.and_then(|index| self.review.kept.get(&index));
        pod.has_failed(self.job) && kept.is_none_or(|kept| kept.uid() != pod.uid())
    }

    fn set_uncounted(&mut self, succeeded: &[&str], failed: &[&str]) {
        let mut uncounted = value!({});
        for (key, uids) in [("succeeded", succeeded), ("failed", failed)] {
            if !uids.is_empty() {
                uncounted.set(&[key], uids.iter().map(|uid| Value::from(*uid)).collect::<Vec<_>>());
            }
        }
        self.status.set(&["uncountedTerminatedPods"], uncounted);
    }

    fn set_indexes(&mut self) {
        if !self.job.is_indexed() {
            return;
        }
        self.set_number("succeeded", self.review.succeeded);
        match self.review.succeeded_indexes.to_string() {
            none if none.is_empty() => drop(self.status.remove(&["completedIndexes"])),
            indexes => self.status.set(&["completedIndexes"], indexes),
        }
        match &self.review.failed_indexes {
            Some(indexes) => self.status.set(&["failedIndexes"], indexes.to_string()),
            None => drop(self.status.remove(&["failedIndexes"])),
        }
    }

    /// Adds the interim condition of an ending, and the final one once all pods are counted.
    fn end(&mut self, ending: &Ending, is_over: bool) {
        let Ending { reason, message, .. } = ending;
        if self.job.condition(ending.interim()).is_none() {
            self.set_condition(ending.interim(), "True", reason, message);
            return;
        }
        if !is_over {
            return;
        }
        self.set_condition(ending.last(), "True", reason, message);
        if !ending.success {
            let reason = reason_of(reason);
            self.events.push(Event::warning(NAME, &self.job.0, reason, message.clone()));
            return;
        }
        self.status.set(&["completionTime"], time::format(self.now));
        let succeeded = self.status.int_at(&["succeeded"]).unwrap_or(0);
        if self.job.completions().is_some_and(|completions| succeeded > completions) {
            let message = "Too many succeeded pods running after completion count reached";
            self.events.push(Event::warning(NAME, &self.job.0, "TooManySucceededPods", message));
        }
        self.record_event("Completed", "Job completed");
    }
}

/// The pods by index, so that indexes are recorded in order.
fn in_order<'a>(job: &Job, pods: &'a [JobPod]) -> Vec<&'a JobPod> {
    let mut pods: Vec<_> = pods.iter().collect();
    if job.is_indexed() {
        pods.sort_by_key(|pod| pod.tracking.index);
    }
    pods
}

/// The reasons for which jobs fail.
fn reason_of(reason: &str) -> &'static str {
    const REASONS: [&str; 5] = [
        "BackoffLimitExceeded",
        "DeadlineExceeded",
        "FailedIndexes",
        "MaxFailedIndexesExceeded",
        "PodFailurePolicy",
    ];
    REASONS.into_iter().find(|known| *known == reason).unwrap_or("Failed")
}
