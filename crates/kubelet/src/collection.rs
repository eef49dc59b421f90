//! Takes away what nobody needs any more: dead containers, unused images, and logs beyond their size.
//!
//! What goes is decided purely, in `containers`, `images` and `logs`; here it is done. Whatever fails is tried again
//! the next time.

mod containers;
mod images;
mod logs;

use std::collections::{BTreeMap, HashSet};
use std::ffi::OsString;
use std::path::Path;

use corten_container::{ContainerFilter, ContainerState, PodSandboxFilter};
use parking_lot::Mutex;

use crate::machine::Machine;
use crate::node;
use crate::shared_file::Folder;
use crate::stats;

pub(crate) use containers::ContainerPolicy;
pub(crate) use images::ImagePolicy;
pub(crate) use logs::LogPolicy;

/// What is remembered of images, and how many had to go.
#[derive(Default)]
pub(crate) struct Collection {
    images: Mutex<images::Known>,
    collected: Mutex<BTreeMap<&'static str, u64>>,
    failed: Mutex<bool>,
}

impl Collection {
    /// How many images had to go, by the reason.
    pub(crate) fn collected(&self) -> Vec<(&'static str, u64)> {
        self.collected.lock().iter().map(|(reason, count)| (*reason, *count)).collect()
    }
}

/// Removes containers that have ended, but for the last of each. With `ended`, all of a pod that has ended go.
pub(crate) async fn remove_dead_containers(machine: &Machine, ended: bool) {
    let listed = async {
        let containers = machine.runtime.list_containers(&ContainerFilter::default()).await?;
        let sandboxes = machine.runtime.list_pod_sandboxes(&PodSandboxFilter::default()).await?;
        Ok::<_, corten_container::Error>((containers, sandboxes))
    };
    let (all, sandboxes) = match listed.await {
        Ok(listed) => listed,
        Err(error) => {
            tracing::warn!(%error, "containers could not be listed");
            return node::tell(machine, true, "ContainerGCFailed", error.to_string());
        }
    };
    let over: HashSet<String> = match ended {
        true => machine
            .pods
            .all()
            .iter()
            .filter(|pod| machine.has_ended(pod))
            .map(|p| p.uid().to_owned())
            .collect(),
        false => HashSet::new(),
    };
    let policy = &machine.housekeeping.containers;
    let chosen = containers::removable(&all, &over, policy, machine.clock.now());
    for id in &chosen {
        remove_container(machine, id).await;
    }
    let left: Vec<_> = all.into_iter().filter(|container| !chosen.contains(&container.id)).collect();
    for id in containers::removable_sandboxes(&sandboxes, &left, &over) {
        let removed = async {
            machine.runtime.stop_pod_sandbox(&id).await?;
            machine.runtime.remove_pod_sandbox(&id).await
        };
        if let Err(error) = removed.await {
            tracing::warn!(id, %error, "a sandbox that has ended could not be removed");
        }
    }
}

/// Removes a container with its log.
async fn remove_container(machine: &Machine, id: &str) {
    let log = machine.runtime.container_status(id).await.map(|status| status.log_path).unwrap_or_default();
    match machine.runtime.remove_container(id).await {
        Ok(()) => logs::remove(&log),
        Err(error) => tracing::warn!(id, %error, "a container that has ended could not be removed"),
    }
}

/// Looks at what images there are and who uses them.
async fn look_at_images(machine: &Machine) -> corten_container::Result<Vec<images::Candidate>> {
    let listed = machine.images.list().await?;
    let containers = machine.runtime.list_containers(&ContainerFilter::default()).await?;
    let used: HashSet<&str> =
        containers.iter().flat_map(|c| [c.image_id.as_str(), c.image_ref.as_str()]).collect();
    Ok(machine.collection.images.lock().look(&listed, &used, machine.clock.now()))
}

/// Takes note of what images there are: none goes before it has been here for a while.
pub(crate) async fn note_images(machine: &Machine) {
    if let Err(error) = look_at_images(machine).await {
        tracing::debug!(%error, "images could not be listed");
    }
}

/// Removes images while the disk they are on is too full.
pub(crate) async fn collect_images(machine: &Machine) {
    let (now, policy) = (machine.clock.now(), &machine.housekeeping.images);
    let collected = async {
        let candidates = look_at_images(machine).await.map_err(|e| e.to_string())?;
        for image in images::too_old(&candidates, policy, now) {
            remove_image(machine, image, "age").await;
        }
        let info = machine.images.fs_info().await.map_err(|e| e.to_string())?;
        let folder = info.image_filesystems.first().ok_or("imageFs information is unavailable")?;
        let fs = stats::file_system(Path::new(&folder.mountpoint), now);
        let fs = fs.filter(|fs| fs.capacity > 0).ok_or("invalid capacity 0 on image filesystem")?;
        let Some(excess) = images::excess(&fs, policy) else { return Ok(()) };
        let freed = free(machine, &candidates, excess).await;
        if freed < excess { Err(images::not_enough(&fs, freed)) } else { Ok(()) }
    };
    let outcome: Result<(), String> = collected.await;
    let failed_before = std::mem::replace(&mut *machine.collection.failed.lock(), outcome.is_err());
    if let Err(why) = outcome {
        node::tell(machine, true, "FreeDiskSpaceFailed", why.clone());
        if failed_before {
            node::tell(machine, true, "ImageGCFailed", why);
        }
    }
}

/// Removes every image that nobody uses.
pub(crate) async fn remove_unused_images(machine: &Machine) {
    match look_at_images(machine).await {
        Ok(candidates) => drop(free(machine, &candidates, u64::MAX).await),
        Err(error) => tracing::warn!(%error, "images could not be listed"),
    }
}

/// Removes images, those first that were not used for longest, until enough is free.
async fn free(machine: &Machine, candidates: &[images::Candidate], enough: u64) -> u64 {
    let now = machine.clock.now();
    let mut freed = 0;
    for image in images::in_order(candidates, &machine.housekeeping.images, now) {
        if freed >= enough {
            break;
        }
        if remove_image(machine, image, "space").await {
            freed += image.size;
        }
    }
    freed
}

async fn remove_image(machine: &Machine, image: &images::Candidate, reason: &'static str) -> bool {
    if let Err(error) = machine.images.remove(&image.id).await {
        tracing::warn!(image = image.id, %error, "an image that nobody uses could not be removed");
        return false;
    }
    tracing::info!(image = image.id, size = image.size, reason, "removed an image that nobody uses");
    *machine.collection.collected.lock().entry(reason).or_default() += 1;
    true
}

/// Begins a new log wherever one is too large.
pub(crate) async fn rotate_logs(machine: &Machine) {
    let policy = machine.housekeeping.logs;
    if !policy.rotates() {
        return;
    }
    let filter = ContainerFilter { state: Some(ContainerState::Running), ..ContainerFilter::default() };
    let Ok(containers) = machine.runtime.list_containers(&filter).await else { return };
    for container in containers {
        let Ok(status) = machine.runtime.container_status(&container.id).await else { continue };
        if status.log_path.is_empty() {
            continue;
        }
        let found = Folder::of(Path::new(&status.log_path))
            .and_then(|(folder, name)| folder.size(&name).map(|size| (folder, name, size)));
        let rotated = match found {
            // Somebody took it away: the container needs a new one to write to.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                machine.runtime.reopen_container_log(&container.id).await.map_err(|e| e.to_string())
            }
            Ok((folder, log, size)) if size >= policy.most_bytes => {
                rotate(machine, &container.id, folder, log, policy).await
            }
            _ => Ok(()),
        };
        if let Err(error) = rotated {
            tracing::warn!(log = status.log_path, error, "a log could not be rotated");
        }
    }
}

async fn rotate(
    machine: &Machine,
    id: &str,
    folder: Folder,
    log: OsString,
    policy: LogPolicy,
) -> Result<(), String> {
    let made_room = tokio::task::spawn_blocking(move || {
        let made = logs::make_room(&folder, &log, policy.most_files);
        made.map(|()| (folder, log))
    });
    let (folder, log) = made_room.await.map_err(|e| e.to_string())?.map_err(|e| e.to_string())?;
    let moved = logs::rotated_name(&log, machine.clock.now());
    folder.rename(&log, &moved).map_err(|e| e.to_string())?;
    if let Err(error) = machine.runtime.reopen_container_log(id).await {
        // It goes on where it was.
        folder.rename(&moved, &log).map_err(|e| e.to_string())?;
        return Err(error.to_string());
    }
    Ok(())
}
