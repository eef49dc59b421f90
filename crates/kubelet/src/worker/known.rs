//! What a worker knows of its pod, for those who decide and for the API server.

use corten_container::ContainerStatus;

use super::{Look, Worker};
use crate::actions::{Knowledge, Probed};
use crate::allocation::needs_restart;
use crate::names;
use crate::pod::{Container, Pod};
use crate::status::{self, Known, Readiness};

impl Worker {
    /// Tells the API server how the pod is. `over` once nothing of it will run again.
    pub(super) async fn tell(&self, look: &Look, over: bool) -> Result<(), String> {
        let probed = look.observed.running().map(|status| {
            let readiness = self.readiness(&look.pod, status);
            (status.id.clone(), readiness)
        });
        let known = Known {
            waiting: self.waiting.clone(),
            probed: probed.collect(),
            host_ips: self.machine.host_ips.clone(),
            runtime: self.machine.runtime_name.clone(),
            ended: self.ended.clone(),
            resizing: self.machine.allocations.review(&self.machine, &look.pod, &look.observed),
            actuated: Some(self.machine.allocations.actuated(look.pod.uid())),
        };
        let status = status::status(&look.pod, &look.observed, &known, over, look.now);
        let told = self.machine.statuses.tell(&self.machine, &look.pod, &status).await;
        told.map_err(|e| e.to_string())
    }

    /// What probes say of a running container; one without probes is as ready as it runs.
    fn readiness(&self, pod: &Pod, status: &ContainerStatus) -> Readiness {
        let probes = |name: &str| {
            pod.container(&status.metadata.name).is_some_and(|container| container.tree.get(name).is_some())
        };
        let known = self.machine.probes.of(&status.id);
        let started = !probes("startupProbe") || known.started == Some(true);
        Readiness { started, ready: started && (!probes("readinessProbe") || known.ready) }
    }
}

impl Knowledge for Worker {
    fn probed(&self, container: &Container, status: &ContainerStatus) -> Probed {
        let known = self.machine.probes.of(&status.id);
        let asks = container.tree.get("startupProbe").is_some();
        Probed {
            started: if asks { known.started } else { Some(true) },
            startup_failed: known.startup_failed,
            liveness_failed: known.liveness_failed,
        }
    }

    fn changed(&self, container: &Container, status: &ContainerStatus) -> bool {
        names::is_changed(container, status)
    }

    fn resized(&self, pod: &Pod, container: &Container) -> bool {
        needs_restart(pod, container, &self.machine.allocations.actuated(pod.uid()))
    }
}
