//! The fields of a job's pod that matter: its tracking finalizer, its index, its failure counts and its end.

use std::collections::HashSet;
use std::sync::Arc;

use corten_api::{Value, meta, time, value};
use corten_client::{Key, Object, Patch, kinds};
use corten_reconcile::Action;
use jiff::{SignedDuration, Timestamp};

use super::policies::{self, Meaning};
use super::spec::Job;
use crate::conditions;
use crate::pods::Pod;

/// The finalizer that keeps a pod until it has been counted.
pub(crate) const FINALIZER: &str = "batch.kubernetes.io/job-tracking";
/// Annotations, the first also a label: the index of a pod, and the failure counts of that index.
pub(super) const INDEX: &str = "batch.kubernetes.io/job-completion-index";
pub(super) const FAILURES: &str = "batch.kubernetes.io/job-index-failure-count";
pub(super) const IGNORED_FAILURES: &str = "batch.kubernetes.io/job-index-ignored-failure-count";

/// The tracking fields of a job's pod.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Tracking {
    /// True if it has not been counted yet.
    pub(crate) uncounted: bool,
    pub(crate) index: Option<i64>,
    /// The earlier failures of its index, and the ignored ones.
    pub(crate) failures: i64,
    pub(crate) ignored_failures: i64,
    /// The number of restarts of all its containers.
    pub(crate) restarts: i64,
    pub(crate) ended: Option<Timestamp>,
}

impl Tracking {
    /// The tracking fields of a pod that belongs to a job.
    pub(crate) fn of_job_pod(pod: &Value) -> Option<Arc<Tracking>> {
        let of_job = |owner: &Value| {
            owner.bool_at(&["controller"]) == Some(true) && owner.str_at(&["kind"]) == Some("Job")
        };
        let owned = pod.items_at(&["metadata", "ownerReferences"]).iter().any(of_job);
        let tracked = meta::finalizers(pod).any(|finalizer| finalizer == FINALIZER);
        (owned || tracked).then(|| Arc::new(Tracking::of(pod)))
    }

    fn of(pod: &Value) -> Tracking {
        let number = |annotation: &str| {
            let text = pod.str_at(&["metadata", "annotations", annotation])?;
            text.parse::<i64>().ok().filter(|number| (0..=i64::from(i32::MAX)).contains(number))
        };
        let statuses = |list: &str| pod.items_at(&["status", list]).iter();
        let all = statuses("containerStatuses").chain(statuses("initContainerStatuses"));
        Tracking {
            uncounted: meta::finalizers(pod).any(|finalizer| finalizer == FINALIZER),
            index: number(INDEX),
            failures: number(FAILURES).unwrap_or(0),
            ignored_failures: number(IGNORED_FAILURES).unwrap_or(0),
            restarts: all.filter_map(|status| status.int_at(&["restartCount"])).sum(),
            ended: ended(pod),
        }
    }
}

fn moment(text: Option<&str>) -> Option<Timestamp> {
    text.and_then(|text| time::parse(text).ok())
}

/// The time at which a pod finished, as well as it is known: of its last container, else when it stopped being ready,
/// else of its deletion, else of its start.
fn ended(pod: &Value) -> Option<Timestamp> {
    let not_ready = || {
        let ready = conditions::condition(pod, "Ready").filter(|c| c.str_at(&["status"]) == Some("False"));
        moment(ready.and_then(|c| c.str_at(&["lastTransitionTime"])))
    };
    let deleted = || {
        let at = moment(pod.str_at(&["metadata", "deletionTimestamp"]))?;
        let grace = pod.int_at(&["metadata", "deletionGracePeriodSeconds"]).unwrap_or(0);
        at.checked_sub(SignedDuration::from_secs(grace)).ok()
    };
    let created = || moment(pod.str_at(&["metadata", "creationTimestamp"]));
    containers_ended(pod).or_else(not_ready).or_else(deleted).or_else(created)
}

/// The time at which the last container terminated; `None` if one has not. Sidecars terminate last and count.
fn containers_ended(pod: &Value) -> Option<Timestamp> {
    let sidecars: HashSet<&str> = pod
        .items_at(&["spec", "initContainers"])
        .iter()
        .filter(|container| container.str_at(&["restartPolicy"]) == Some("Always"))
        .filter_map(|container| container.str_at(&["name"]))
        .collect();
    let is_sidecar = |status: &&Value| status.str_at(&["name"]).is_some_and(|name| sidecars.contains(name));
    let statuses = pod.items_at(&["status", "containerStatuses"]).iter();
    let statuses =
        statuses.chain(pod.items_at(&["status", "initContainerStatuses"]).iter().filter(is_sidecar));
    let ends = statuses.map(|status| moment(status.str_at(&["state", "terminated", "finishedAt"])));
    ends.collect::<Option<Vec<_>>>()?.into_iter().max()
}

/// A pod of a job.
#[derive(Debug, Clone)]
pub(super) struct JobPod {
    pub(super) pod: Pod,
    pub(super) tracking: Arc<Tracking>,
    /// True if it still has to be counted.
    pub(super) uncounted: bool,
}

impl JobPod {
    /// An adopted pod has the finalizer by the time it matters.
    pub(super) fn of(object: &Arc<Object>) -> JobPod {
        let pod = Pod::from(object.clone());
        let tracking = pod.view.tracking.clone().unwrap_or_else(|| Arc::new(Tracking::of(&object.tree())));
        let uncounted = tracking.uncounted || object.controller().is_none();
        JobPod { pod, tracking, uncounted }
    }

    /// The meaning of its failure, if it has failed. Computed only until it has been counted.
    pub(super) fn meaning(&self, job: &Job) -> Meaning {
        let policy = job.pod_failure_policy();
        policy.map(|policy| policies::meaning(policy, &self.pod.object.tree())).unwrap_or_default()
    }

    pub(super) fn uid(&self) -> &str {
        &self.pod.object.uid
    }

    pub(super) fn has_succeeded(&self) -> bool {
        self.pod.view.phase == "Succeeded"
    }

    /// True if it failed, or is terminating before it could finish: it may never report an outcome.
    pub(super) fn has_failed(&self, job: &Job) -> bool {
        let gone = self.pod.object.deleting && !self.has_succeeded() && !job.replaces_only_failed();
        self.pod.view.phase == "Failed" || gone
    }

    /// Its index, if it is within the job's completions.
    pub(super) fn index_in(&self, job: &Job) -> Option<i64> {
        self.tracking.index.filter(|index| *index < job.completions().unwrap_or(0))
    }

    /// True if it counts for the job at all.
    pub(super) fn is_valid(&self, job: &Job) -> bool {
        !job.is_indexed() || self.index_in(job).is_some()
    }

    /// The earlier failures of its index, ignored or not.
    pub(super) fn all_failures(&self) -> i64 {
        self.tracking.failures + self.tracking.ignored_failures
    }

    /// Removes the finalizer, once it has been counted.
    pub(super) fn untrack(&self) -> Action {
        untrack(&self.pod.object.key, self.uid())
    }
}

/// Removes the finalizer of a pod.
pub(super) fn untrack(key: &Key, uid: &str) -> Action {
    let patch = value!({"metadata": {"uid": uid, "$deleteFromPrimitiveList/finalizers": [(FINALIZER)]}});
    Action::Patch { kind: &kinds::PODS, key: key.clone(), patch: Patch::Strategic(patch), subresource: "" }
}
