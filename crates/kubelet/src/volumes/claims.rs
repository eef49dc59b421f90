//! Volumes that a pod claims: directories of this node, which a persistent volume names.

use std::path::PathBuf;

use corten_client::{Key, kinds};

use crate::machine::Machine;
use crate::pod::Pod;
use crate::start::fetch;

/// A claim's volume on this node.
pub(super) struct Found {
    pub(super) path: PathBuf,
    /// Whether a pod's group may own what is in it: paths of the node itself stay as they are.
    pub(super) has_group: bool,
}

pub(super) async fn find(machine: &Machine, pod: &Pod, name: &str) -> Result<Found, String> {
    let namespace = pod.namespace();
    let found =
        fetch(machine, &kinds::PERSISTENT_VOLUME_CLAIMS, pod, name).await.map_err(|e| e.to_string())?;
    let claim = found.ok_or_else(|| format!("persistentvolumeclaim {name:?} not found"))?;
    let bound = claim.str_at(&["status", "phase"]) == Some("Bound");
    let volume = claim.str_at(&["spec", "volumeName"]).filter(|volume| bound && !volume.is_empty());
    let volume = volume.ok_or_else(|| format!("PVC {namespace}/{name} is not bound"))?;
    let volume = machine.client.get(&kinds::PERSISTENT_VOLUMES, &Key::new("", volume)).await;
    let volume = volume.map_err(|e| e.to_string())?;
    if let Some(path) = volume.str_at(&["spec", "local", "path"]) {
        return existing(path).map(|path| Found { path, has_group: true });
    }
    if let Some(source) = volume.at(&["spec", "hostPath"]) {
        return super::host_path::check(source).map(|path| Found { path, has_group: false });
    }
    Err("no volume plugin matched".to_owned())
}

fn existing(path: &str) -> Result<PathBuf, String> {
    match std::fs::metadata(path) {
        Ok(_) => Ok(PathBuf::from(path)),
        Err(_) => Err(format!("path {path:?} does not exist")),
    }
}
