//! Pods that exceed their own limits on disk usage. Pure.

use std::collections::HashMap;

use corten_api::quantity::{Format, Quantity};

use crate::pod::{Container, Pod, Role};
use crate::resources;
use crate::stats::{FsStats, PodStats};

const STORAGE: &str = "ephemeral-storage";

/// Returns true if a pod has a limit on disk usage.
pub(super) fn has_any(pod: &Pod) -> bool {
    let volumes = pod.tree().items_at(&["spec", "volumes"]).iter();
    let sized = volumes.filter(|volume| volume.at(&["emptyDir", "sizeLimit"]).is_some()).count() > 0;
    sized || pod.containers().iter().any(|container| limit(container).is_some())
}

fn limit(container: &Container) -> Option<Quantity> {
    let resources = container.tree.get("resources")?;
    resources::listed(resources, "limits", STORAGE).filter(|limit| !limit.is_zero())
}

/// The limit that a pod exceeds: its signal and the message of the eviction.
pub(super) fn exceeded(stats: &PodStats, has_dedicated_image_fs: bool) -> Option<(&'static str, String)> {
    volume(stats).or_else(|| pod(stats)).or_else(|| container(stats, has_dedicated_image_fs))
}

fn bytes(used: u64) -> Quantity {
    Quantity::new(i64::try_from(used).unwrap_or(i64::MAX), Format::BinarySi)
}

fn volume(stats: &PodStats) -> Option<(&'static str, String)> {
    let used: HashMap<&str, u64> =
        stats.volumes.iter().map(|volume| (volume.name.as_str(), volume.fs.used)).collect();
    for volume in stats.pod.tree().items_at(&["spec", "volumes"]) {
        // The kernel enforces the limits of volumes in memory.
        let Some(source) = volume.get("emptyDir").filter(|s| s.str_at(&["medium"]) != Some("Memory")) else {
            continue;
        };
        let name = volume.str_at(&["name"]).unwrap_or_default();
        let limit = source.str_at(&["sizeLimit"]).and_then(|text| Quantity::parse(text).ok());
        let Some(limit) = limit.filter(|limit| !limit.is_zero() && !limit.is_negative()) else { continue };
        if used.get(name).is_some_and(|used| bytes(*used) > limit) {
            let text = format!("Usage of EmptyDir volume {name:?} exceeds the limit \"{limit}\". ");
            return Some(("emptydirfs.limit", text));
        }
    }
    None
}

fn pod(stats: &PodStats) -> Option<(&'static str, String)> {
    let limit = resources::total_limit(&stats.pod, STORAGE)?;
    let used = stats.ephemeral.as_ref().map_or(0, |fs| fs.used);
    if bytes(used) <= limit {
        return None;
    }
    let text = format!("Pod ephemeral local storage usage exceeds the total limit of containers {limit}. ");
    Some(("ephemeralpodfs.limit", text))
}

fn container(stats: &PodStats, has_dedicated_image_fs: bool) -> Option<(&'static str, String)> {
    let running = |role: Role| matches!(role, Role::Main | Role::Sidecar);
    stats.containers.iter().find_map(|container| {
        let spec = stats.pod.container(&container.name).filter(|spec| running(spec.role))?;
        let limit = limit(spec)?;
        let part = |fs: Option<&FsStats>| fs.map_or(0, |fs| fs.used);
        let layer = if has_dedicated_image_fs { 0 } else { part(container.rootfs.as_ref()) };
        if bytes(part(container.logs.as_ref()) + layer) <= limit {
            return None;
        }
        let name = &container.name;
        let text = format!("Container {name} exceeded its local ephemeral storage limit \"{limit}\". ");
        Some(("ephemeralcontainerfs.limit", text))
    })
}
