//! Asks the runtime what it has of a pod.

use corten_container::{ContainerFilter, ContainerState, PodSandboxFilter, Runtime};

use crate::names;
use crate::observed::{Found, Observed};

/// Everything of a pod that the runtime knows. What goes while it is asked is left out.
pub(crate) async fn observe(runtime: &dyn Runtime, uid: &str) -> corten_container::Result<Observed> {
    let labels = names::of_pod(uid);
    let filter = PodSandboxFilter { labels: labels.clone(), ..PodSandboxFilter::default() };
    let mut sandboxes = Vec::new();
    for sandbox in runtime.list_pod_sandboxes(&filter).await? {
        match runtime.pod_sandbox_status(&sandbox.id).await {
            Ok(status) => sandboxes.push(status),
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error),
        }
    }
    let filter = ContainerFilter { labels, ..ContainerFilter::default() };
    let mut containers = Vec::new();
    for container in runtime.list_containers(&filter).await? {
        let mut status = match runtime.container_status(&container.id).await {
            Ok(status) => status,
            Err(error) if error.is_not_found() => continue,
            Err(error) => return Err(error),
        };
        if status.state == ContainerState::Exited {
            status.message = crate::termination::message(&status);
        }
        containers.push(Found { sandbox_id: container.pod_sandbox_id, status });
    }
    Ok(Observed::new(sandboxes, containers))
}
