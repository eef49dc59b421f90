//! Removes the tracking finalizer of pods that no job counts any more: their job does not exist or has finished, or
//! they were released.
//!
//! Watches pods and jobs. Never touches pods of unfinished jobs, or of jobs with another manager.

use std::sync::Arc;

use corten_base::Backoff;
use corten_client::{Caches, Change, Key, Object, Owner, kinds};
use corten_reconcile::{Controller, Plan, Watch};
use jiff::Timestamp;

use super::tracking::untrack;
use super::{NAME, RETRY};
use crate::jobs::{BatchOptions, JobView};
use crate::pods::PodView;

pub(crate) struct OrphanPods {
    pub(crate) options: BatchOptions,
}

impl Controller for OrphanPods {
    /// The pod, if its finalizer is to be removed.
    type World = Option<Arc<Object>>;

    fn name(&self) -> &'static str {
        NAME
    }

    fn queue(&self) -> &'static str {
        "job_orphan_pod"
    }

    fn watches(&self) -> Vec<Watch> {
        vec![
            Watch { kind: &kinds::PODS, keys: lost_pod },
            Watch { kind: &kinds::JOBS, keys: pods_of_ended_job },
        ]
    }

    fn retry(&self) -> Backoff {
        RETRY
    }

    fn workers(&self) -> usize {
        self.options.concurrent_job_syncs
    }

    fn observe(&self, caches: &Caches, key: &Key) -> Option<Arc<Object>> {
        let pod = caches.of(&kinds::PODS).get(key)?;
        let job = pod.controller().and_then(|owner| job_of(caches, &pod, owner));
        is_lost(&pod, job.as_deref()).then_some(pod)
    }

    fn plan(&self, key: &Key, pod: &Option<Arc<Object>>, _: Timestamp) -> Plan {
        match pod {
            Some(pod) => Plan::done().then(untrack(key, &pod.uid)),
            None => Plan::done(),
        }
    }
}

fn is_tracked(pod: &Object) -> bool {
    pod.view::<PodView>().tracking.as_ref().is_some_and(|tracking| tracking.uncounted)
}

/// True if no job counts a pod, given the job it belongs to.
fn is_lost(pod: &Object, job: Option<&JobView>) -> bool {
    is_tracked(pod)
        && match (pod.controller(), job) {
            (None, _) => true,
            (Some(owner), _) if !is_job(owner) => false,
            (Some(_), job) => job.is_none_or(|job| job.finished.is_some() && !job.managed_elsewhere),
        }
}

fn is_job(owner: &Owner) -> bool {
    owner.kind == kinds::JOBS.kind && owner.api_version == "batch/v1"
}

/// The job that controls a pod, by uid.
fn job_of(caches: &Caches, pod: &Object, owner: &Owner) -> Option<Arc<JobView>> {
    let job = caches.of(&kinds::JOBS).get(&Key::new(pod.key.namespace.clone(), owner.name.clone()))?;
    (job.uid == owner.uid).then(|| job.view())
}

/// A pod without a controller, or a terminating one that its job may no longer track.
fn lost_pod(caches: &Caches, change: &Change, keys: &mut Vec<Key>) {
    let Some(pod) = change.new.as_ref().filter(|pod| is_tracked(pod)) else { return };
    let is_lost = match pod.controller() {
        None => true,
        Some(owner) => pod.deleting && job_of(caches, pod, owner).is_none_or(|job| job.finished.is_some()),
    };
    if is_lost {
        keys.push(pod.key.clone());
    }
}

/// The pods of a job that has finished or was deleted.
fn pods_of_ended_job(caches: &Caches, change: &Change, keys: &mut Vec<Key>) {
    let job = change.object();
    if change.new.is_none() || job.view::<JobView>().finished.is_some() {
        let pods = caches.of(&kinds::PODS).owned_by(&job.uid);
        keys.extend(pods.iter().filter(|pod| is_tracked(pod)).map(|pod| pod.key.clone()));
    }
}

#[cfg(test)]
mod tests {
    use corten_api::{Value, value};

    use super::*;
    use crate::job::tracking::FINALIZER;
    use crate::testing::cached;

    fn pod(owner: Option<Value>, finalizer: &str) -> Arc<Object> {
        let owners: Vec<Value> = owner.into_iter().collect();
        cached(&value!({
            "metadata": {
                "name": "p", "namespace": "default", "finalizers": [finalizer],
                "ownerReferences": (Value::Array(owners)),
            },
        }))
    }

    #[test]
    fn finalizers_of_orphaned_pods_are_removed() {
        let owner = |version: &str, kind: &str| {
            Some(value!({"apiVersion": version, "kind": kind, "name": "j", "uid": "u", "controller": true}))
        };
        let job = |finished: Option<&'static str>, managed_elsewhere: bool| {
            Some(JobView { finished, managed_elsewhere, ..JobView::default() })
        };
        let of_job = || owner("batch/v1", "Job");
        for (why, owner, finalizer, job, lost) in [
            ("without an owner", None, FINALIZER, None, true),
            ("counted", None, "other", None, false),
            ("of a job that is gone", of_job(), FINALIZER, None, true),
            ("of a job that goes on", of_job(), FINALIZER, job(None, false), false),
            ("of a job that has finished", of_job(), FINALIZER, job(Some("Failed"), false), true),
            ("of a job of others", of_job(), FINALIZER, job(Some("Complete"), true), false),
            ("of another kind", owner("apps/v1", "ReplicaSet"), FINALIZER, None, false),
            ("of another kind of job", owner("example.com/v1", "Job"), FINALIZER, None, false),
        ] {
            assert_eq!(is_lost(&pod(owner, finalizer), job.as_ref()), lost, "{why}");
        }
    }
}
