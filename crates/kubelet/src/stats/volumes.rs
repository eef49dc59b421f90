//! The usage of a pod's volumes.

use std::path::Path;

use corten_api::Value;

use super::{FsStats, Measured, VolumeStats, disk, file_system};
use crate::kubelet::Kubelet;
use crate::pod::Pod;

/// The usage of every volume of a pod that can be measured.
pub(super) async fn of_pod(kubelet: &Kubelet, pod: &Pod) -> Vec<VolumeStats> {
    let mut found = Vec::new();
    for volume in pod.tree().items_at(&["spec", "volumes"]) {
        let Some(name) = volume.str_at(&["name"]) else { continue };
        let claim = claim(pod, volume, name);
        let stats = match &claim {
            Some(claim) => of_claim(kubelet, pod, claim).await,
            None => of_folder(kubelet, pod, name),
        };
        let ephemeral = claim.is_none() && volume.str_at(&["emptyDir", "medium"]) != Some("Memory");
        found.extend(stats.map(|fs| VolumeStats { name: name.to_owned(), claim, ephemeral, fs }));
    }
    found
}

/// The claim of a volume.
fn claim(pod: &Pod, volume: &Value, name: &str) -> Option<String> {
    let claimed = volume.str_at(&["persistentVolumeClaim", "claimName"]).map(str::to_owned);
    claimed.or_else(|| volume.get("ephemeral").map(|_| format!("{}-{name}", pod.name())))
}

/// The usage of a volume in the pod's directory.
fn of_folder(kubelet: &Kubelet, pod: &Pod, name: &str) -> Option<FsStats> {
    let folder = kubelet.volumes.find(pod, name)?;
    let now = kubelet.clock.now();
    let used = measured(kubelet, &folder);
    Some(file_system(&folder, now)?.with_used(used))
}

/// The usage of a claimed volume: that of its whole file system.
async fn of_claim(kubelet: &Kubelet, pod: &Pod, claim: &str) -> Option<FsStats> {
    let folder = kubelet.volumes.claimed(&kubelet.api, pod, claim).await?;
    file_system(&folder, kubelet.clock.now())
}

fn measured(kubelet: &Kubelet, folder: &Path) -> Measured {
    let now = kubelet.clock.now();
    if let Some(known) = kubelet.stats.folders.lock().known(folder, now) {
        return known;
    }
    let measured = disk::measure(folder);
    kubelet.stats.folders.lock().learn(folder.to_owned(), now, measured);
    measured
}
