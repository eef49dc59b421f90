//! The state of a job: its pod counts, and whether it is about to finish.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use corten_api::Value;
use jiff::Timestamp;

use super::indexes::Indexes;
use super::policies::{self, Meaning};
use super::spec::Job;
use super::tracking::JobPod;

/// The reason why a job finishes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ending {
    pub(super) success: bool,
    pub(super) reason: String,
    pub(super) message: String,
}

impl Ending {
    pub(super) fn success(reason: &str, message: impl Into<String>) -> Ending {
        Ending { success: true, reason: reason.to_owned(), message: message.into() }
    }

    fn failure(reason: &str, message: impl Into<String>) -> Ending {
        Ending { success: false, reason: reason.to_owned(), message: message.into() }
    }

    /// The condition while pods are still running.
    pub(super) fn interim(&self) -> &'static str {
        if self.success { "SuccessCriteriaMet" } else { "FailureTarget" }
    }

    /// The final condition.
    pub(super) fn last(&self) -> &'static str {
        if self.success { "Complete" } else { "Failed" }
    }

    /// The ending that an earlier reconcile has decided.
    fn known(job: &Job) -> Option<Ending> {
        let of = |success: bool, condition: &Value| {
            let text = |key: &str| condition.str_at(&[key]).unwrap_or_default().to_owned();
            Ending { success, reason: text("reason"), message: text("message") }
        };
        let success = job.condition("SuccessCriteriaMet").map(|condition| of(true, condition));
        success.or_else(|| job.condition("FailureTarget").map(|condition| of(false, condition)))
    }
}

/// The state of a job.
#[derive(Debug)]
pub(super) struct Review<'a> {
    pub(super) active: Vec<&'a JobPod>,
    pub(super) ready: i64,
    pub(super) terminating: i64,
    pub(super) succeeded: i64,
    /// The indexes recorded as succeeded, and those that have succeeded by now.
    pub(super) known_indexes: Indexes,
    pub(super) succeeded_indexes: Indexes,
    /// For a job with backoff per index.
    pub(super) failed_indexes: Option<Indexes>,
    /// The indexes with a running pod, or one that has to terminate before it is replaced.
    pub(super) busy_indexes: Indexes,
    /// Failed pods that are kept until their index is retried, because they hold its failure count.
    pub(super) kept: BTreeMap<i64, &'a JobPod>,
    pub(super) ending: Option<Ending>,
    /// The time left before the active deadline, if there is one.
    pub(super) time_left: Option<Duration>,
}

impl<'a> Review<'a> {
    pub(super) fn of(job: &Job, pods: &'a [JobPod], now: Timestamp) -> Review<'a> {
        let active: Vec<_> = pods.iter().filter(|pod| pod.pod.is_active()).collect();
        let mut review = Review {
            ready: active.iter().filter(|pod| pod.pod.view.ready).count() as i64,
            active,
            terminating: pods.iter().filter(|pod| pod.pod.is_terminating()).count() as i64,
            succeeded: count(job, pods, "succeeded", |pod| pod.has_succeeded()),
            known_indexes: Indexes::default(),
            succeeded_indexes: Indexes::default(),
            failed_indexes: None,
            busy_indexes: Indexes::default(),
            kept: BTreeMap::new(),
            ending: Ending::known(job),
            time_left: job.time_left(now),
        };
        review.ending = review.ending.take().or_else(|| review.failure(job, pods));
        if job.is_indexed() {
            review.review_indexes(job, pods);
        }
        review
    }

    /// Failures that do not depend on indexes.
    fn failure(&self, job: &Job, pods: &[JobPod]) -> Option<Ending> {
        let failed = pods.iter().filter(|pod| pod.uncounted && pod.has_failed(job));
        let verdict = |pod: &JobPod| match pod.meaning(job) {
            Meaning::FailsJob(why) => Some(why),
            _ => None,
        };
        if let Some(why) = failed.clone().find_map(verdict) {
            return Some(Ending::failure("PodFailurePolicy", why));
        }
        let counts = |pod: &JobPod| pod.has_failed(job) && pod.meaning(job) != Meaning::Ignored;
        if count(job, pods, "failed", counts) > job.backoff_limit() || restarts_exceeded(job, pods) {
            let why = "Job has reached the specified backoff limit";
            return Some(Ending::failure("BackoffLimitExceeded", why));
        }
        let over = self.time_left.is_some_and(|left| left.is_zero());
        let why = "Job was active longer than specified deadline";
        over.then(|| Ending::failure("DeadlineExceeded", why))
    }

    fn review_indexes(&mut self, job: &Job, pods: &'a [JobPod]) {
        let indexes_of = |is_one: &dyn Fn(&JobPod) -> bool| -> Indexes {
            let found = pods.iter().filter(|pod| pod.uncounted && is_one(pod));
            found.filter_map(|pod| pod.index_in(job)).collect()
        };
        self.known_indexes = job.indexes("completedIndexes");
        self.succeeded_indexes = self.known_indexes.union(&indexes_of(&JobPod::has_succeeded));
        self.succeeded = self.succeeded_indexes.count();
        let is_busy =
            |pod: &&JobPod| pod.pod.is_active() || (job.replaces_only_failed() && pod.pod.is_terminating());
        self.busy_indexes = pods.iter().filter(is_busy).filter_map(|pod| pod.tracking.index).collect();
        let completions = job.completions().unwrap_or(0);
        if let Some(limit) = job.backoff_limit_per_index() {
            let failed = indexes_of(&|pod: &JobPod| index_failed(job, pod, limit));
            let failed = job.indexes("failedIndexes").union(&failed);
            if self.ending.is_none() {
                self.ending = failed_indexes(job, failed.count(), self.succeeded);
            }
            self.failed_indexes = Some(failed);
            self.kept = self.kept_pods(job, pods);
        }
        if self.ending.is_none() {
            let met = policies::success(job.success_policy(), completions, &self.succeeded_indexes);
            self.ending = met.map(|rule| Ending::success("SuccessPolicy", rule));
        }
    }

    /// The last failed pod of each index that can be retried and has not been yet.
    fn kept_pods(&self, job: &Job, pods: &'a [JobPod]) -> BTreeMap<i64, &'a JobPod> {
        let running: Indexes = self.active.iter().filter_map(|pod| pod.tracking.index).collect();
        let settled = self.settled().union(&running);
        let mut kept: BTreeMap<i64, &JobPod> = BTreeMap::new();
        for pod in pods.iter().filter(|pod| pod.uncounted && pod.has_failed(job)) {
            let Some(index) = pod.index_in(job).filter(|index| !settled.contains(*index)) else { continue };
            let is_later = kept.get(&index).is_none_or(|known| {
                known.all_failures() <= pod.all_failures() && known.tracking.ended <= pod.tracking.ended
            });
            if is_later {
                kept.insert(index, pod);
            }
        }
        kept
    }

    /// The indexes that need no more pods.
    pub(super) fn settled(&self) -> Indexes {
        self.succeeded_indexes.union(self.failed_indexes.as_ref().unwrap_or(&Indexes::default()))
    }
}

/// The number of pods with an outcome: counted, recorded as uncounted, and new.
fn count(job: &Job, pods: &[JobPod], outcome: &str, is_one: impl Fn(&JobPod) -> bool) -> i64 {
    let about: HashSet<_> = job.uncounted(outcome).iter().filter_map(Value::as_str).collect();
    let is_new =
        |pod: &&JobPod| pod.uncounted && !about.contains(pod.uid()) && pod.is_valid(job) && is_one(pod);
    job.count(outcome) + about.len() as i64 + pods.iter().filter(is_new).count() as i64
}

/// Container restarts in place count towards the backoff limit as pod failures do.
fn restarts_exceeded(job: &Job, pods: &[JobPod]) -> bool {
    if !job.restarts_in_place() {
        return false;
    }
    let running = pods.iter().filter(|pod| matches!(pod.pod.view.phase.as_str(), "Running" | "Pending"));
    let restarts: i64 = running.map(|pod| pod.tracking.restarts).sum();
    restarts > 0 && restarts >= job.backoff_limit()
}

fn index_failed(job: &Job, pod: &JobPod, limit: i64) -> bool {
    pod.has_failed(job)
        && match pod.meaning(job) {
            Meaning::FailsIndex => true,
            Meaning::Ignored => false,
            Meaning::Counts | Meaning::FailsJob(_) => pod.tracking.failures >= limit,
        }
}

fn failed_indexes(job: &Job, failed: i64, succeeded: i64) -> Option<Ending> {
    if job.max_failed_indexes().is_some_and(|most| failed > most) {
        let why = "Job has exceeded the specified maximal number of failed indexes";
        return Some(Ending::failure("MaxFailedIndexesExceeded", why));
    }
    let all = failed > 0 && failed + succeeded >= job.completions().unwrap_or(0);
    all.then(|| Ending::failure("FailedIndexes", "Job has failed indexes"))
}
