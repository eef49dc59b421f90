//! What the volumes of a pod hold.

use std::path::Path;

use corten_api::Value;

use super::{FsStats, Measured, VolumeStats, disk, file_system};
use crate::machine::Machine;
use crate::pod::Pod;

/// Every volume of a pod that is here and can be measured.
pub(super) async fn of_pod(machine: &Machine, pod: &Pod) -> Vec<VolumeStats> {
    let mut found = Vec::new();
    for volume in pod.tree().items_at(&["spec", "volumes"]) {
        let Some(name) = volume.str_at(&["name"]) else { continue };
        let claim = claim(pod, volume, name);
        let stats = match &claim {
            Some(claim) => of_claim(machine, pod, claim).await,
            None => of_folder(machine, pod, name),
        };
        let ephemeral = claim.is_none() && volume.str_at(&["emptyDir", "medium"]) != Some("Memory");
        found.extend(stats.map(|fs| VolumeStats { name: name.to_owned(), claim, ephemeral, fs }));
    }
    found
}

/// The claim that a volume stands for.
fn claim(pod: &Pod, volume: &Value, name: &str) -> Option<String> {
    let claimed = volume.str_at(&["persistentVolumeClaim", "claimName"]).map(str::to_owned);
    claimed.or_else(|| volume.get("ephemeral").map(|_| format!("{}-{name}", pod.name())))
}

/// A volume that is a folder of the pod's.
fn of_folder(machine: &Machine, pod: &Pod, name: &str) -> Option<FsStats> {
    let folder = machine.volumes.find(pod, name)?;
    let now = machine.clock.now();
    let used = measured(machine, &folder);
    Some(file_system(&folder, now)?.with_used(used))
}

/// A volume that was claimed: its whole file system, as a disk of its own would be.
async fn of_claim(machine: &Machine, pod: &Pod, claim: &str) -> Option<FsStats> {
    let folder = machine.volumes.claimed(machine, pod, claim).await?;
    file_system(&folder, machine.clock.now())
}

fn measured(machine: &Machine, folder: &Path) -> Measured {
    let now = machine.clock.now();
    if let Some(known) = machine.stats.folders.lock().known(folder, now) {
        return known;
    }
    let measured = disk::measure(folder);
    machine.stats.folders.lock().learn(folder.to_owned(), now, measured);
    measured
}
