//! Garbage collection: dead containers, unused images, and logs beyond their size.
//!
//! `containers`, `images` and `logs` decide purely what is removed; this file removes it. A failure is retried in the
//! next round.

mod containers;
mod images;
mod logs;

use std::collections::{BTreeMap, HashSet};
use std::ffi::OsString;
use std::io;
use std::path::Path;

use corten_container::{ContainerFilter, ContainerState, PodSandboxFilter};
use parking_lot::Mutex;

use crate::containers::shared_file::Folder;
use crate::kubelet::Kubelet;
use crate::stats;

pub(crate) use containers::ContainerPolicy;
pub(crate) use images::ImagePolicy;
pub(crate) use logs::LogPolicy;

/// The policies of garbage collection.
#[derive(Debug, Clone)]
pub(crate) struct Policies {
    pub(crate) images: ImagePolicy,
    pub(crate) containers: ContainerPolicy,
    pub(crate) logs: LogPolicy,
}

/// Images could not be garbage collected; messages are upstream's.
#[derive(Debug, thiserror::Error)]
enum ImageGcError {
    #[error(transparent)]
    Runtime(corten_container::Error),
    #[error("imageFs information is unavailable")]
    NoInformation,
    #[error("invalid capacity 0 on image filesystem")]
    NoCapacity,
    #[error("{0}")]
    NotEnough(String),
}

/// A container's log could not be rotated.
#[derive(Debug, thiserror::Error)]
enum RotationError {
    #[error(transparent)]
    File(#[from] io::Error),
    #[error(transparent)]
    Runtime(#[from] corten_container::Error),
}

/// Removes dead containers, unused images and rotated logs.
pub(crate) struct GarbageCollector {
    policies: Policies,
    images: Mutex<images::ImageRecords>,
    collected: Mutex<BTreeMap<&'static str, u64>>,
    failed: Mutex<bool>,
}

impl GarbageCollector {
    pub(crate) fn new(policies: Policies) -> GarbageCollector {
        GarbageCollector {
            policies,
            images: Mutex::default(),
            collected: Mutex::default(),
            failed: Mutex::default(),
        }
    }

    /// The number of removed images, by reason.
    pub(crate) fn collected(&self) -> Vec<(&'static str, u64)> {
        self.collected.lock().iter().map(|(reason, count)| (*reason, *count)).collect()
    }
}

/// Removes dead containers, except for the last of each. With `ended`, all containers of pods in a final phase are
/// removed.
pub(crate) async fn remove_dead_containers(kubelet: &Kubelet, ended: bool) {
    let listed = async {
        let containers = kubelet.containers.runtime.list_containers(&ContainerFilter::default()).await?;
        let sandboxes = kubelet.containers.runtime.list_pod_sandboxes(&PodSandboxFilter::default()).await?;
        Ok::<_, corten_container::Error>((containers, sandboxes))
    };
    let (all, sandboxes) = match listed.await {
        Ok(listed) => listed,
        Err(err) => {
            tracing::warn!(%err, "container garbage collection failed: cannot list containers; retrying");
            return kubelet.api.record_node_event(true, "ContainerGCFailed", err.to_string());
        }
    };
    let over: HashSet<String> = match ended {
        true => kubelet
            .pod_workers
            .pods()
            .iter()
            .filter(|pod| kubelet.is_terminal(pod))
            .map(|p| p.uid().to_owned())
            .collect(),
        false => HashSet::new(),
    };
    let policy = &kubelet.garbage_collection.policies.containers;
    let chosen = containers::removable(&all, &over, policy, kubelet.clock.now());
    for id in &chosen {
        remove_container(kubelet, id).await;
    }
    let left: Vec<_> = all.into_iter().filter(|container| !chosen.contains(&container.id)).collect();
    for id in containers::removable_sandboxes(&sandboxes, &left, &over) {
        let removed = async {
            kubelet.containers.runtime.stop_pod_sandbox(&id).await?;
            kubelet.containers.runtime.remove_pod_sandbox(&id).await
        };
        if let Err(err) = removed.await {
            tracing::warn!(sandbox = id, %err, "cannot remove dead sandbox; retrying");
        }
    }
}

/// Removes a container with its log.
async fn remove_container(kubelet: &Kubelet, id: &str) {
    let log = kubelet
        .containers
        .runtime
        .container_status(id)
        .await
        .map(|status| status.log_path)
        .unwrap_or_default();
    match kubelet.containers.runtime.remove_container(id).await {
        Ok(()) => logs::remove(&log),
        Err(err) => tracing::warn!(container = id, %err, "cannot remove dead container; retrying"),
    }
}

/// Lists the images that no container uses.
async fn list_unused_images(kubelet: &Kubelet) -> corten_container::Result<Vec<images::Candidate>> {
    let listed = kubelet.containers.images.list().await?;
    let containers = kubelet.containers.runtime.list_containers(&ContainerFilter::default()).await?;
    let used: HashSet<&str> =
        containers.iter().flat_map(|c| [c.image_id.as_str(), c.image_ref.as_str()]).collect();
    Ok(kubelet.garbage_collection.images.lock().update(&listed, &used, kubelet.clock.now()))
}

/// Records the present images: an image is not removed before it has been present for the minimum age.
pub(crate) async fn record_images(kubelet: &Kubelet) {
    if let Err(err) = list_unused_images(kubelet).await {
        tracing::debug!(%err, "cannot list images; retrying");
    }
}

/// Removes unused images while their file system is above the high threshold.
pub(crate) async fn collect_images(kubelet: &Kubelet) {
    let (now, policy) = (kubelet.clock.now(), &kubelet.garbage_collection.policies.images);
    let collected = async {
        let candidates = list_unused_images(kubelet).await.map_err(ImageGcError::Runtime)?;
        for image in images::too_old(&candidates, policy, now) {
            remove_image(kubelet, image, "age").await;
        }
        let info = kubelet.containers.images.fs_info().await.map_err(ImageGcError::Runtime)?;
        let folder = info.image_filesystems.first().ok_or(ImageGcError::NoInformation)?;
        let fs = stats::file_system(Path::new(&folder.mountpoint), now);
        let fs = fs.filter(|fs| fs.capacity > 0).ok_or(ImageGcError::NoCapacity)?;
        let Some(excess) = images::excess(&fs, policy) else { return Ok(()) };
        let freed = free_space(kubelet, &candidates, excess).await;
        if freed < excess { Err(ImageGcError::NotEnough(images::not_enough(&fs, freed))) } else { Ok(()) }
    };
    let outcome: Result<(), ImageGcError> = collected.await;
    let failed_before = std::mem::replace(&mut *kubelet.garbage_collection.failed.lock(), outcome.is_err());
    if let Err(err) = outcome {
        let why = err.to_string();
        kubelet.api.record_node_event(true, "FreeDiskSpaceFailed", why.clone());
        if failed_before {
            kubelet.api.record_node_event(true, "ImageGCFailed", why);
        }
    }
}

/// Removes every unused image.
pub(crate) async fn remove_unused_images(kubelet: &Kubelet) {
    match list_unused_images(kubelet).await {
        Ok(candidates) => drop(free_space(kubelet, &candidates, u64::MAX).await),
        Err(err) => tracing::warn!(%err, "cannot list images; retrying"),
    }
}

/// Removes unused images, the least recently used first, until enough is freed.
async fn free_space(kubelet: &Kubelet, candidates: &[images::Candidate], enough: u64) -> u64 {
    let now = kubelet.clock.now();
    let mut freed = 0;
    for image in images::in_order(candidates, &kubelet.garbage_collection.policies.images, now) {
        if freed >= enough {
            break;
        }
        if remove_image(kubelet, image, "space").await {
            freed += image.size;
        }
    }
    freed
}

async fn remove_image(kubelet: &Kubelet, image: &images::Candidate, reason: &'static str) -> bool {
    if let Err(err) = kubelet.containers.images.remove(&image.id).await {
        tracing::warn!(image = image.id, %err, "cannot remove unused image; retrying");
        return false;
    }
    tracing::info!(image = image.id, size = image.size, reason, "removed unused image");
    *kubelet.garbage_collection.collected.lock().entry(reason).or_default() += 1;
    true
}

/// Rotates the logs that are too large.
pub(crate) async fn rotate_logs(kubelet: &Kubelet) {
    let policy = kubelet.garbage_collection.policies.logs;
    if !policy.rotates() {
        return;
    }
    let filter = ContainerFilter { state: Some(ContainerState::Running), ..ContainerFilter::default() };
    let Ok(containers) = kubelet.containers.runtime.list_containers(&filter).await else { return };
    for container in containers {
        let Ok(status) = kubelet.containers.runtime.container_status(&container.id).await else { continue };
        if status.log_path.is_empty() {
            continue;
        }
        let found = Folder::of(Path::new(&status.log_path))
            .and_then(|(folder, name)| folder.size(&name).map(|size| (folder, name, size)));
        let rotated = match found {
            // The log was removed from outside: the container needs a new one to write to.
            Err(err) if err.kind() == io::ErrorKind::NotFound => kubelet
                .containers
                .runtime
                .reopen_container_log(&container.id)
                .await
                .map_err(RotationError::from),
            Ok((folder, log, size)) if size >= policy.most_bytes => {
                rotate(kubelet, &container.id, folder, log, policy).await
            }
            _ => Ok(()),
        };
        if let Err(err) = rotated {
            tracing::warn!(log = status.log_path, %err, "cannot rotate container log; retrying");
        }
    }
}

async fn rotate(
    kubelet: &Kubelet,
    id: &str,
    folder: Folder,
    log: OsString,
    policy: LogPolicy,
) -> Result<(), RotationError> {
    let made_room = tokio::task::spawn_blocking(move || {
        let made = logs::prepare_rotation(&folder, &log, policy.most_files);
        made.map(|()| (folder, log))
    });
    let (folder, log) = made_room.await.map_err(io::Error::other)??;
    let moved = logs::rotated_name(&log, kubelet.clock.now());
    folder.rename(&log, &moved)?;
    if let Err(err) = kubelet.containers.runtime.reopen_container_log(id).await {
        // The container goes on writing to the old log.
        folder.rename(&moved, &log)?;
        return Err(err.into());
    }
    Ok(())
}
