//! What several plugins ask of a pod.

use corten_api::Value;

/// On pods a node made from a file of its own: the API only mirrors them.
pub(super) const MIRROR: &str = "kubernetes.io/config.mirror";

const LISTS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

pub(super) fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object.str_at(&["metadata", "annotations", key])
}

pub(super) fn is_mirror(pod: &Value) -> bool {
    annotation(pod, MIRROR).is_some()
}

/// All containers of a pod spec: those that initialize, those that run, those that were attached.
pub(super) fn containers(spec: &Value) -> impl Iterator<Item = &Value> {
    LISTS.into_iter().flat_map(|list| spec.items_at(&[list]))
}

pub(super) fn name(item: &Value) -> &str {
    item.str_at(&["name"]).unwrap_or_default()
}

pub(super) fn node_name(pod: &Value) -> &str {
    pod.str_at(&["spec", "nodeName"]).unwrap_or_default()
}

/// Where a volume names a secret, apart from projections.
const VOLUME_SECRETS: [&[&str]; 9] = [
    &["azureFile", "secretName"],
    &["cephfs", "secretRef", "name"],
    &["cinder", "secretRef", "name"],
    &["flexVolume", "secretRef", "name"],
    &["rbd", "secretRef", "name"],
    &["secret", "secretName"],
    &["scaleIO", "secretRef", "name"],
    &["iscsi", "secretRef", "name"],
    &["storageos", "secretRef", "name"],
];

/// Whether a pod names any secret.
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
