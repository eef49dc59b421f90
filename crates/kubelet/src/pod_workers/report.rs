//! Reports a pod's status to the API server, and provides the facts for `actions`.

use corten_container::ContainerStatus;

use super::actions::{Knowledge, Probed};
use super::worker::{Snapshot, SyncError, Worker};
use crate::containers::labels;
use crate::errors::chain;
use crate::pod::{Container, Pod};
use crate::resources::allocation::needs_restart;
use crate::status::{self, Readiness, StatusFacts};

impl Worker {
    /// Computes and reports the pod's status. `over` once no container of it will run again.
    pub(super) async fn report_status(&self, snapshot: &Snapshot, over: bool) -> Result<(), SyncError> {
        let probed = snapshot.observed.running().map(|status| {
            let readiness = self.readiness(&snapshot.pod, status);
            (status.id.clone(), readiness)
        });
        let facts = StatusFacts {
            waiting: self.waiting.clone(),
            probed: probed.collect(),
            host_ips: self.kubelet.node.addresses.clone(),
            runtime: self.kubelet.containers.runtime_name.clone(),
            ended: self.work.state().ended().cloned(),
            resizing: self.kubelet.resources.allocations.review(
                &self.kubelet,
                &snapshot.pod,
                &snapshot.observed,
            ),
            actuated: Some(self.kubelet.resources.allocations.actuated(snapshot.pod.uid())),
        };
        let status = status::status(&snapshot.pod, &snapshot.observed, &facts, over, snapshot.now);
        let reported = self.kubelet.status.report(&self.kubelet.api, &snapshot.pod, &status).await;
        reported.map_err(SyncError::Status)
    }

    /// Reports the status of a pod whose containers do not wait for the report: the API server may be away, or reject it.
    /// Returns false if it failed; it is retried with the next sync.
    pub(super) async fn try_report_status(&self, snapshot: &Snapshot) -> bool {
        let reported = self.report_status(snapshot, false).await;
        if let Err(err) = &reported {
            tracing::warn!(pod = %snapshot.pod.key(), err = chain(err), "cannot report pod status; retrying");
        }
        reported.is_ok()
    }

    /// The readiness of a running container; one without probes is ready.
    fn readiness(&self, pod: &Pod, status: &ContainerStatus) -> Readiness {
        let probes = |name: &str| {
            pod.container(&status.metadata.name).is_some_and(|container| container.tree.get(name).is_some())
        };
        let facts = self.kubelet.probes.of(&status.id);
        let started = !probes("startupProbe") || facts.started == Some(true);
        Readiness { started, ready: started && (!probes("readinessProbe") || facts.ready) }
    }
}

impl Knowledge for Worker {
    fn probed(&self, container: &Container, status: &ContainerStatus) -> Probed {
        let facts = self.kubelet.probes.of(&status.id);
        let asks = container.tree.get("startupProbe").is_some();
        Probed {
            started: if asks { facts.started } else { Some(true) },
            startup_failed: facts.startup_failed,
            liveness_failed: facts.liveness_failed,
        }
    }

    fn changed(&self, container: &Container, status: &ContainerStatus) -> bool {
        labels::is_changed(container, status)
    }

    fn resized(&self, pod: &Pod, container: &Container) -> bool {
        needs_restart(pod, container, &self.kubelet.resources.allocations.actuated(pod.uid()))
    }
}
