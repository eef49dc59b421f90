//! Measures the eviction signals of the node. Only signals with thresholds are measured, and never single pods.

use std::path::Path;

use super::Options;
use super::pressure::{Observation, Observations};
use super::thresholds::Signal;
use crate::kubelet::Kubelet;
use crate::stats::{self, FsStats};

/// The observations of all signals that have thresholds.
pub(super) async fn measure(kubelet: &Kubelet, options: &Options) -> Observations {
    let asked = |signal: Signal| options.thresholds.iter().any(|threshold| threshold.signal == signal);
    let now = kubelet.clock.now();
    let mut seen = Observations::new();
    let mut add = |signal: Signal, available: u64, capacity: u64| {
        let whole = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        let observation = Observation { available: whole(available), capacity: whole(capacity), at: now };
        if asked(signal) {
            seen.insert(signal, observation);
        }
    };
    let (node, pods) = stats::memory(kubelet);
    if let Some((available, used)) = node {
        add(Signal::MemoryAvailable, available, available + used);
    }
    if let Some((available, used)) = pods {
        add(Signal::AllocatableMemoryAvailable, available, available + used);
    }
    let disk = |fs: &FsStats| (fs.available, fs.capacity);
    let inodes = |fs: &FsStats| (fs.inodes_free, fs.inodes);
    if let Some(fs) = stats::file_system(kubelet.volumes.root(), now) {
        add(Signal::NodeFsAvailable, disk(&fs).0, disk(&fs).1);
        add_inodes(&mut add, Signal::NodeFsInodesFree, inodes(&fs));
    }
    if let Some(fs) =
        image_folder(kubelet).await.and_then(|folder| stats::file_system(Path::new(&folder), now))
    {
        add(Signal::ImageFsAvailable, disk(&fs).0, disk(&fs).1);
        add(Signal::ContainerFsAvailable, disk(&fs).0, disk(&fs).1);
        add_inodes(&mut add, Signal::ImageFsInodesFree, inodes(&fs));
        add_inodes(&mut add, Signal::ContainerFsInodesFree, inodes(&fs));
    }
    if let Some(processes) = stats::processes_of_node(now) {
        let left = processes.most.saturating_sub(processes.running);
        let count = |number: i64| u64::try_from(number).unwrap_or(0);
        add(Signal::PidAvailable, count(left), count(processes.most));
    }
    seen
}

/// Adds a signal about inodes, except for file systems without a fixed number of them.
fn add_inodes(add: &mut impl FnMut(Signal, u64, u64), signal: Signal, (free, all): (u64, u64)) {
    if all > 0 {
        add(signal, free, all);
    }
}

/// The directory of images, which does not change.
async fn image_folder(kubelet: &Kubelet) -> Option<String> {
    if let Some(known) = kubelet.stats.image_folder() {
        return Some(known);
    }
    let found = kubelet.containers.images.fs_info().await.ok()?;
    let folder = found.image_filesystems.first()?.mountpoint.clone();
    kubelet.stats.set_image_folder(&folder);
    Some(folder)
}

/// Returns true if images are on a file system of their own.
pub(super) async fn has_dedicated_image_fs(kubelet: &Kubelet) -> bool {
    use std::os::unix::fs::MetadataExt;
    let device = |path: &Path| std::fs::metadata(path).map(|metadata| metadata.dev()).ok();
    let images = image_folder(kubelet).await.and_then(|folder| device(Path::new(&folder)));
    images.is_some() && images != device(kubelet.volumes.root())
}
