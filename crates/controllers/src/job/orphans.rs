//! Pods that no job counts any more: their job is gone or has finished, or they have lost it. They are let go.
//!
//! Watches pods and jobs. Never touches pods of jobs that go on, or that others manage.

use std::sync::Arc;

use corten_base::Backoff;
use corten_client::{Caches, Change, Key, Object, Owner, kinds};
use corten_reconcile::{Controller, Plan, Watch};
use jiff::Timestamp;

use super::tracking::untrack;
use super::{NAME, RETRY};
use crate::jobs::JobView;
use crate::pods::PodView;

pub(crate) struct OrphanPods;

impl Controller for OrphanPods {
    /// The pod, if it is to be let go.
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

    fn observe(&self, caches: &Caches, key: &Key) -> Option<Arc<Object>> {
        let pod = caches.of(&kinds::PODS).get(key)?;
        let lost = is_tracked(&pod)
            && match pod.controller() {
                None => true,
                Some(owner) if !is_job(owner) => false,
                Some(owner) => job_of(caches, &pod, owner)
                    .is_none_or(|job| job.finished.is_some() && !job.managed_elsewhere),
            };
        lost.then_some(pod)
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

fn is_job(owner: &Owner) -> bool {
    owner.kind == kinds::JOBS.kind && owner.api_version == "batch/v1"
}

/// The very job a pod belongs to.
fn job_of(caches: &Caches, pod: &Object, owner: &Owner) -> Option<Arc<JobView>> {
    let job = caches.of(&kinds::JOBS).get(&Key::new(pod.key.namespace.clone(), owner.name.clone()))?;
    (job.uid == owner.uid).then(|| job.view())
}

/// A pod without a controller, or one that is on its way out and that its job may have forgotten.
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

/// The pods of a job that has finished or is gone.
fn pods_of_ended_job(caches: &Caches, change: &Change, keys: &mut Vec<Key>) {
    let job = change.object();
    if change.new.is_none() || job.view::<JobView>().finished.is_some() {
        let pods = caches.of(&kinds::PODS).owned_by(&job.uid);
        keys.extend(pods.iter().filter(|pod| is_tracked(pod)).map(|pod| pod.key.clone()));
    }
}
