//! Looks at what of the node is left: only at what somebody asks about, and never at single pods.

use std::path::Path;

use super::Options;
use super::pressure::{Observation, Observations};
use super::thresholds::Signal;
use crate::machine::Machine;
use crate::stats::{self, FsStats};

/// How much is left of whatever there are thresholds for.
pub(super) async fn observe(machine: &Machine, options: &Options) -> Observations {
    let asked = |signal: Signal| options.thresholds.iter().any(|threshold| threshold.signal == signal);
    let now = machine.clock.now();
    let mut seen = Observations::new();
    let mut add = |signal: Signal, available: u64, capacity: u64| {
        let whole = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        let observation = Observation { available: whole(available), capacity: whole(capacity), at: now };
        if asked(signal) {
            seen.insert(signal, observation);
        }
    };
    let (node, pods) = stats::memory(machine);
    if let Some((available, used)) = node {
        add(Signal::MemoryAvailable, available, available + used);
    }
    if let Some((available, used)) = pods {
        add(Signal::AllocatableMemoryAvailable, available, available + used);
    }
    let disk = |fs: &FsStats| (fs.available, fs.capacity);
    let inodes = |fs: &FsStats| (fs.inodes_free, fs.inodes);
    if let Some(fs) = stats::file_system(machine.volumes.root(), now) {
        add(Signal::NodeFsAvailable, disk(&fs).0, disk(&fs).1);
        add_inodes(&mut add, Signal::NodeFsInodesFree, inodes(&fs));
    }
    if let Some(fs) =
        image_folder(machine).await.and_then(|folder| stats::file_system(Path::new(&folder), now))
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

/// Some file systems have no fixed number of inodes.
fn add_inodes(add: &mut impl FnMut(Signal, u64, u64), signal: Signal, (free, all): (u64, u64)) {
    if all > 0 {
        add(signal, free, all);
    }
}

/// Where images are; that does not change.
async fn image_folder(machine: &Machine) -> Option<String> {
    if let Some(known) = machine.stats.image_folder() {
        return Some(known);
    }
    let found = machine.images.fs_info().await.ok()?;
    let folder = found.image_filesystems.first()?.mountpoint.clone();
    machine.stats.learn_image_folder(&folder);
    Some(folder)
}

/// Whether images are on a disk of their own.
pub(super) async fn images_apart(machine: &Machine) -> bool {
    use std::os::unix::fs::MetadataExt;
    let device = |path: &Path| std::fs::metadata(path).map(|metadata| metadata.dev()).ok();
    let images = image_folder(machine).await.and_then(|folder| device(Path::new(&folder)));
    images.is_some() && images != device(machine.volumes.root())
}
