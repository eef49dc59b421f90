//! One pod's worker: a task that syncs the pod until nothing of it is left.
//!
//! The worker's state (`state`) says which of `sync_pod`, `sync_terminating_pod` and `sync_terminated_pod` runs. A worker
//! syncs when the pod, its containers, its volumes or its probes change, and every [`RESYNC`].

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::state::{Facts, PodWorkerState};
use super::work::PodWork;
use crate::admission::{self, Rejection};
use crate::containers::backoff::Backoffs;
use crate::containers::observed::{Observed, observe};
use crate::errors::chain;
use crate::kubelet::Kubelet;
use crate::pod::Pod;
use crate::pod_sources::mirror_pods;
use crate::status::{Ended, Waiting};

const FIRST_BACKOFF: Duration = Duration::from_secs(10);
const MAX_BACKOFF: Duration = Duration::from_secs(300);
/// The time between syncs of a pod to which nothing happens.
pub(super) const RESYNC: Duration = Duration::from_secs(60);
/// The time before a failed sync is retried.
pub(super) const RETRY: Duration = Duration::from_secs(5);

pub(super) struct Worker {
    pub(super) kubelet: Arc<Kubelet>,
    pub(super) work: Arc<PodWork>,
    pub(super) backoffs: Backoffs,
    /// The reasons why containers wait, by container name.
    pub(super) waiting: HashMap<String, Waiting>,
    /// The end of the run whose backoff was logged, by container name.
    pub(super) backoff_logged: HashMap<String, Timestamp>,
    /// The time when the pod's volumes were last written.
    pub(super) volumes_written: Timestamp,
}

/// The outcome of a sync.
pub(super) enum Next {
    /// Sync on the next change, or after this long.
    After(Duration),
    /// Nothing of the pod is left: the worker ends.
    Done,
}

/// A pod's desired and actual state at one time.
pub(super) struct Snapshot {
    pub(super) pod: Pod,
    pub(super) observed: Observed,
    pub(super) now: Timestamp,
}

/// An operation of a sync that failed. The sync is retried.
#[derive(Debug, thiserror::Error)]
pub(super) enum SyncError {
    #[error("cannot observe the pod's containers")]
    Observe(#[source] corten_container::Error),
    #[error("cannot stop the pod's containers")]
    Kill(#[source] corten_container::Error),
    #[error("cannot remove the pod's sandbox")]
    RemoveSandbox(#[source] corten_container::Error),
    #[error("cannot remove the pod's cgroup")]
    RemoveCgroup(#[source] std::io::Error),
    #[error("cannot remove the pod's volumes and logs")]
    RemoveFiles(#[source] std::io::Error),
    #[error("cannot report the pod's status")]
    Status(#[source] corten_client::Error),
    #[error("cannot delete the pod's object")]
    Delete(#[source] corten_client::Error),
}

impl Worker {
    pub(super) fn new(kubelet: Arc<Kubelet>, work: Arc<PodWork>) -> Worker {
        let backoffs = Backoffs::new(FIRST_BACKOFF, MAX_BACKOFF);
        let volumes_written = kubelet.clock.now();
        Worker {
            kubelet,
            work,
            backoffs,
            waiting: HashMap::new(),
            backoff_logged: HashMap::new(),
            volumes_written,
        }
    }

    /// Syncs until nothing of the pod is left.
    pub(super) async fn run(mut self) {
        loop {
            let wait = match self.sync().await {
                Ok(Next::Done) => return,
                Ok(Next::After(wait)) => wait,
                Err(err) => {
                    let pod = self.work.pod();
                    tracing::warn!(pod = %pod.key(), err = chain(&err), "pod sync failed; retrying");
                    RETRY
                }
            };
            let clock = self.kubelet.clock.clone();
            let _ = clock.timeout(wait, self.work.changed()).await;
        }
    }

    /// Observes the pod, takes a step in the state machine, and does the work of the state.
    async fn sync(&mut self) -> Result<Next, SyncError> {
        let kubelet = self.kubelet.clone();
        let pod = kubelet.resources.allocations.update(&kubelet, &self.desired_pod().await);
        if pod.is_static() && kubelet.pod_workers.is_blocked_by_terminating_pod(&pod) {
            return Ok(Next::After(RESYNC));
        }
        let observed = self.observe(&pod).await?;
        kubelet.probes.update(&kubelet, &pod, &observed, &self.work);
        let mut snapshot = Snapshot { pod, observed, now: kubelet.clock.now() };
        let mut facts = Facts {
            deleted: snapshot.pod.deleted_at().is_some() || self.work.is_removed(),
            evicted: self.work.evicted().is_some(),
            ended: self.work.state().ended().cloned(),
            finished: is_finished(&snapshot.pod),
            alive: snapshot.observed.is_alive(),
        };
        if facts.ended.is_none() {
            facts.ended = self.check_deadline(&snapshot).or_else(|| self.work.evicted());
        }
        if self.work.begin_admission() && facts.ended.is_none() {
            facts.ended = self.admit(&snapshot).await;
            // Admission can take as long as the victims of preemption take to terminate.
            facts.deleted |= self.work.is_removed();
            facts.evicted |= self.work.evicted().is_some();
        }
        match self.work.advance(&facts) {
            PodWorkerState::Syncing { .. } => self.sync_pod(&mut snapshot).await,
            PodWorkerState::Terminating(_) => self.sync_terminating_pod(&mut snapshot).await,
            PodWorkerState::Terminated(_) => self.sync_terminated_pod(&mut snapshot).await,
        }
    }

    /// Reads the pod's actual state.
    pub(super) async fn observe(&self, pod: &Pod) -> Result<Observed, SyncError> {
        let kubelet = &self.kubelet;
        let observed = observe(kubelet.containers.runtime.as_ref(), pod.uid()).await;
        let observed = observed.map_err(SyncError::Observe)?;
        kubelet.pod_workers.note_sandboxes(pod, &observed);
        Ok(observed)
    }

    /// The pod as it is to run. A static pod gets its mirror pod, and the status that was reported last.
    async fn desired_pod(&self) -> Pod {
        let pod = self.work.pod();
        if !pod.is_static() {
            return pod;
        }
        let api = &self.kubelet.api;
        if !self.work.is_removed()
            && let Err(err) = mirror_pods::ensure(api, &pod).await
        {
            tracing::debug!(pod = %pod.key(), %err, "cannot create or delete mirror pod; retrying");
        }
        let mirrored = || mirror_pods::of(api, &pod).and_then(|mirror| mirror.tree().get("status").cloned());
        let status = self.kubelet.status.last(pod.uid()).or_else(mirrored);
        status.map_or_else(|| pod.clone(), |status| pod.with_status(status))
    }

    /// Decides admission, also of a pod that has started: the node may have changed while no kubelet ran. Returns the
    /// reason of a rejection.
    async fn admit(&self, snapshot: &Snapshot) -> Option<Ended> {
        let (kubelet, pod) = (&self.kubelet, &snapshot.pod);
        if is_finished(pod) || pod.deleted_at().is_some() {
            let _ = kubelet.resources.allocations.admit(kubelet, pod, |_| Ok::<(), Infallible>(()));
            return None;
        }
        if !pod.is_static() {
            // Admission counts all pods of the node, and needs the node's labels and taints.
            kubelet.api.bound_pods().synced().await;
            kubelet.api.own_nodes().synced().await;
        }
        let has_started = pod.has_started() || !snapshot.observed.sandboxes.is_empty();
        let Rejection { reason, message } = admission::admit(kubelet, pod, has_started).await.err()?;
        kubelet.api.pod_events(pod).warning(reason.clone(), message.as_str());
        let message = format!("Pod was rejected: {message}");
        Some(Ended { reason, message, rejected: true, ..Ended::default() })
    }

    /// Checks `activeDeadlineSeconds`.
    fn check_deadline(&self, snapshot: &Snapshot) -> Option<Ended> {
        // A pod that has finished stays as it ended.
        time_left(snapshot).filter(|left| left.is_zero() && !is_finished(&snapshot.pod))?;
        let message = "Pod was active on the node longer than the specified deadline";
        self.kubelet.api.pod_events(&snapshot.pod).normal("DeadlineExceeded", message);
        let reason = "DeadlineExceeded".to_owned();
        Some(Ended { reason, message: message.into(), ..Ended::default() })
    }
}

/// Returns true if the phase in the pod's status is final.
fn is_finished(pod: &Pod) -> bool {
    matches!(pod.tree().str_at(&["status", "phase"]), Some("Succeeded" | "Failed"))
}

/// The time before the pod's `activeDeadlineSeconds` are over, if it has any.
pub(super) fn time_left(snapshot: &Snapshot) -> Option<Duration> {
    let limit = snapshot.pod.tree().int_at(&["spec", "activeDeadlineSeconds"])?;
    let started: Timestamp = snapshot.pod.tree().str_at(&["status", "startTime"])?.parse().ok()?;
    let limit = Duration::from_secs(u64::try_from(limit).unwrap_or(0));
    let end = started.checked_add(limit).unwrap_or(Timestamp::MAX);
    Some(Duration::try_from(end.duration_since(snapshot.now)).unwrap_or(Duration::ZERO))
}
