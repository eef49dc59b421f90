//! Fields of pods that several plugins read.

use corten_api::Value;
use corten_api::pods::VOLUME_SECRETS;

pub(super) use corten_api::pods::{MIRROR_ANNOTATION, containers, is_mirror};

pub(super) fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object.str_at(&["metadata", "annotations", key])
}

pub(super) fn name(item: &Value) -> &str {
    item.str_at(&["name"]).unwrap_or_default()
}

pub(super) fn node_name(pod: &Value) -> &str {
    pod.str_at(&["spec", "nodeName"]).unwrap_or_default()
}

/// True if a pod references any secret.
pub(super) fn references_secrets(pod: &Value) -> bool {
    let Some(spec) = pod.get("spec") else { return false };
    let from_environment = |container: &Value| {
        container.items_at(&["envFrom"]).iter().any(|e| e.get("secretRef").is_some())
            || container.items_at(&["env"]).iter().any(|e| e.at(&["valueFrom", "secretKeyRef"]).is_some())
    };
    let from_volume = |volume: &Value| {
        VOLUME_SECRETS.iter().any(|path| volume.at(path).is_some())
            || volume.at(&["csi", "nodePublishSecretRef"]).is_some()
            || projections(volume).any(|source| source.get("secret").is_some())
    };
    !spec.items_at(&["imagePullSecrets"]).is_empty()
        || containers(spec).any(from_environment)
        || spec.items_at(&["volumes"]).iter().any(from_volume)
}

/// The sources of a projected volume.
pub(super) fn projections(volume: &Value) -> impl Iterator<Item = &Value> {
    volume.items_at(&["projected", "sources"]).iter()
}
