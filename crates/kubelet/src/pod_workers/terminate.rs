//! Stops a pod's containers and removes what is left of the pod.
//!
//! *Invariants:* the volumes of a terminated pod are gone, also while its object stays. Sandboxes, cgroup and logs are gone
//! before the pod's object is deleted.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use corten_sys::removal::remove_tree;
use tokio::sync::Notify;

use super::PodWorkers;
use super::state::{Facts, PodWorkerState};
use super::worker::{Next, RESYNC, Snapshot, SyncError, Worker};
use crate::containers::{kill, labels};

impl Worker {
    /// Stops what runs; the pod is terminated then.
    pub(super) async fn sync_terminating_pod(&mut self, snapshot: &mut Snapshot) -> Result<Next, SyncError> {
        self.stop_pod(snapshot).await?;
        self.work.advance(&Facts {
            deleted: snapshot.pod.deleted_at().is_some() || self.work.is_removed(),
            evicted: self.work.evicted().is_some(),
            ..Facts::default()
        });
        self.report_and_clean_up(snapshot).await
    }

    /// Reports the final status, and cleans up after a pod that was deleted or evicted.
    pub(super) async fn sync_terminated_pod(&mut self, snapshot: &mut Snapshot) -> Result<Next, SyncError> {
        self.stop_pod(snapshot).await?;
        self.report_and_clean_up(snapshot).await
    }

    /// Reports the pod's status and stops its containers, if any run.
    async fn stop_pod(&mut self, snapshot: &mut Snapshot) -> Result<(), SyncError> {
        if snapshot.observed.is_alive() {
            self.try_report_status(snapshot).await;
            self.kill_pod(snapshot).await?;
            snapshot.observed = self.observe(&snapshot.pod).await?;
            self.kubelet.probes.update(&self.kubelet, &snapshot.pod, &snapshot.observed, &self.work);
        }
        Ok(())
    }

    async fn report_and_clean_up(&mut self, snapshot: &Snapshot) -> Result<Next, SyncError> {
        self.report_status(snapshot, true).await?;
        let state = self.work.state();
        let PodWorkerState::Terminated(termination) = state else { return Ok(Next::After(RESYNC)) };
        if termination.deleted || termination.evicted {
            for sandbox in &snapshot.observed.sandboxes {
                let removed = self.kubelet.containers.runtime.remove_pod_sandbox(&sandbox.id).await;
                removed.map_err(SyncError::RemoveSandbox)?;
            }
        }
        if !termination.deleted {
            self.remove_volumes(snapshot).await?;
            return Ok(Next::After(RESYNC));
        }
        self.cleanup_pod(snapshot).await
    }

    /// Removes the volumes of a pod that has ended: an evicted pod has to give its disk space back although its object
    /// stays.
    async fn remove_volumes(&self, snapshot: &Snapshot) -> Result<(), SyncError> {
        let (kubelet, uid) = (self.kubelet.clone(), snapshot.pod.uid().to_owned());
        // Blocking, because a pod can have created any number of files.
        let removed = tokio::task::spawn_blocking(move || kubelet.volumes.remove_volumes(&uid));
        removed.await.map_err(std::io::Error::other).flatten().map_err(SyncError::RemoveFiles)
    }

    /// Removes everything of a deleted pod: its cgroup, volumes and logs, then its object.
    async fn cleanup_pod(&self, snapshot: &Snapshot) -> Result<Next, SyncError> {
        let kubelet = self.kubelet.clone();
        kubelet.resources.cgroups.remove(snapshot.pod.uid()).map_err(SyncError::RemoveCgroup)?;
        let (removing, uid) = (kubelet.clone(), snapshot.pod.uid().to_owned());
        let logs = labels::log_directory(&kubelet.containers.config.log_root, &snapshot.pod);
        // Blocking, because a pod can have created any number of files.
        let removed = tokio::task::spawn_blocking(move || {
            removing.volumes.remove(&uid)?;
            remove_tree(Path::new(&logs))
        });
        removed.await.map_err(std::io::Error::other).flatten().map_err(SyncError::RemoveFiles)?;
        kubelet.status.delete_pod(&kubelet.api, &snapshot.pod).await.map_err(SyncError::Delete)?;
        kubelet.forget_pod(snapshot.pod.uid());
        if let Some(pod) = self.work.take_replacement() {
            PodWorkers::update_pod(&kubelet, pod);
        }
        Ok(Next::Done)
    }

    /// Stops the pod's containers and sandboxes. A later deletion with a shorter grace period shortens the wait.
    pub(super) async fn kill_pod(&self, snapshot: &Snapshot) -> Result<(), SyncError> {
        let mut grace = self.work.state().ended().and_then(|ended| ended.grace);
        let was_notified = AtomicBool::new(false);
        let killed = loop {
            match self.kill_within(snapshot, grace, &was_notified).await {
                Some(killed) => break killed,
                None => grace = Some(self.work.pod().grace()),
            }
        };
        if was_notified.into_inner() {
            // The requests that came meanwhile were consumed here; the worker has to see them.
            self.work.sync();
        }
        killed.map_err(|err| {
            let message = format!("error killing pod: {err}");
            self.kubelet.api.pod_events(&snapshot.pod).warning("FailedKillPod", message);
            SyncError::Kill(err)
        })
    }

    /// Stops the pod within a grace period; `None` if a shorter one was requested meanwhile. Readiness is reported on
    /// every change until then, because endpoints that terminate may still serve. Sets `was_notified` if a change came.
    async fn kill_within(
        &self,
        snapshot: &Snapshot,
        grace: Option<Duration>,
        was_notified: &AtomicBool,
    ) -> Option<corten_container::Result<()>> {
        let (over, shortened) = (Notify::new(), Notify::new());
        let killing = async {
            let killed = tokio::select! {
                killed = kill::kill_pod(&self.kubelet, &snapshot.pod, &snapshot.observed, grace) => Some(killed),
                () = shortened.notified() => None,
            };
            over.notify_one();
            killed
        };
        let allowed = grace.unwrap_or_else(|| snapshot.pod.grace());
        let reporting = async {
            loop {
                tokio::select! {
                    () = over.notified() => return,
                    () = self.work.changed() => was_notified.store(true, Ordering::Release),
                }
                if self.work.pod().grace() < allowed {
                    shortened.notify_one();
                }
                self.report_terminating(snapshot).await;
            }
        };
        // Joined, not dropped: a status report in flight must not arrive after the next one.
        let (killed, ()) = tokio::join!(killing, reporting);
        killed
    }

    async fn report_terminating(&self, snapshot: &Snapshot) {
        let (pod, observed) = (snapshot.pod.clone(), snapshot.observed.clone());
        let snapshot = Snapshot { pod, observed, now: self.kubelet.clock.now() };
        self.try_report_status(&snapshot).await;
    }
}
