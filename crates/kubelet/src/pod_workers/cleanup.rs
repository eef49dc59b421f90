//! Removes what is left on the node of pods that no source names.

use corten_container::PodSandboxFilter;

use crate::kubelet::Kubelet;

/// Removes the sandboxes and volumes of pods that have no worker.
pub(crate) async fn remove_orphaned_pods(kubelet: &Kubelet) -> corten_container::Result<()> {
    let known = kubelet.pod_workers.uids();
    let runtime = kubelet.containers.runtime.as_ref();
    for sandbox in runtime.list_pod_sandboxes(&PodSandboxFilter::default()).await? {
        let uid = &sandbox.metadata.uid;
        if known.contains(uid) {
            continue;
        }
        tracing::info!(pod = sandbox.metadata.name, uid, "removing orphaned pod sandbox");
        runtime.stop_pod_sandbox(&sandbox.id).await?;
        runtime.remove_pod_sandbox(&sandbox.id).await?;
        remove_files(kubelet, uid);
    }
    for uid in kubelet.volumes.pods().iter().filter(|uid| !known.contains(uid)) {
        tracing::info!(uid, "removing orphaned pod volumes");
        remove_files(kubelet, uid);
    }
    Ok(())
}

/// Removes a pod's cgroup and volumes. A removal that fails is retried when the kubelet starts next.
fn remove_files(kubelet: &Kubelet, uid: &str) {
    let removed = kubelet.resources.cgroups.remove(uid).and_then(|()| kubelet.volumes.remove(uid));
    if let Err(err) = removed {
        tracing::warn!(uid, %err, "cannot remove the cgroup or volumes of an orphaned pod");
    }
}
