//! `persistentVolumeClaim`: a directory of this node that the claim's persistent volume names.
//!
//! The kinds of persistent volumes are a table ([`SOURCES`]), as the kinds of pods' volumes are.

use std::path::PathBuf;

use corten_api::Value;
use corten_client::{Key, kinds};

use super::{Plugin, Volume, VolumePath, host_path};
use crate::api_server::ApiServer;
use crate::kubelet::Kubelet;
use crate::pod::Pod;
use crate::volumes::{VolumeError, set_group};

pub(super) const PLUGIN: Plugin =
    Plugin { field: "persistentVolumeClaim", set_up: |volume| Box::pin(set_up(volume)) };

async fn set_up(volume: Volume<'_>) -> Result<VolumePath, VolumeError> {
    let claim = volume.source.str_at(&["claimName"]).unwrap_or_default();
    let read_only = volume.source.bool_at(&["readOnly"]).unwrap_or(false);
    let path = mount_claim(volume.kubelet, volume.pod, claim, read_only).await?;
    Ok(VolumePath { path, read_only })
}

/// A kind of persistent volume.
struct PersistentVolumeSource {
    /// The field of the persistent volume's spec that selects the kind.
    field: &'static str,
    find: fn(&Value) -> Result<PathBuf, VolumeError>,
    /// True if the pod's `fsGroup` owns the contents. Paths of the node itself stay as they are.
    has_group: bool,
}

const SOURCES: [PersistentVolumeSource; 2] = [
    PersistentVolumeSource { field: "local", find: local, has_group: true },
    PersistentVolumeSource {
        field: "hostPath",
        find: |source| Ok(host_path::check(source)?),
        has_group: false,
    },
];

/// A claim's volume on this node.
pub(in crate::volumes) struct ClaimedVolume {
    pub(in crate::volumes) path: PathBuf,
    has_group: bool,
}

/// Finds a claim's volume, and sets its group once if the pod can write to it.
pub(super) async fn mount_claim(
    kubelet: &Kubelet,
    pod: &Pod,
    claim: &str,
    read_only: bool,
) -> Result<PathBuf, VolumeError> {
    let found = find(&kubelet.api, pod, claim).await?;
    let volumes = &kubelet.volumes;
    if found.has_group && !read_only && !volumes.has_set_group(pod, claim) {
        // Blocking, because a container can have created any number of files.
        let (owner, path) = (pod.clone(), found.path.clone());
        let set = tokio::task::spawn_blocking(move || set_group(&owner, &path, false)).await;
        set.map_err(std::io::Error::other)??;
        volumes.note_set_group(pod, claim);
    }
    Ok(found.path)
}

/// Finds the volume that a claim is bound to.
pub(in crate::volumes) async fn find(
    api: &ApiServer,
    pod: &Pod,
    name: &str,
) -> Result<ClaimedVolume, VolumeError> {
    let claim = api.get_in_namespace(&kinds::PERSISTENT_VOLUME_CLAIMS, pod, name).await?;
    let claim = claim
        .ok_or_else(|| VolumeError::NotFound { kind: "persistentvolumeclaim", name: name.to_owned() })?;
    let bound = claim.str_at(&["status", "phase"]) == Some("Bound");
    let volume = claim.str_at(&["spec", "volumeName"]).filter(|volume| bound && !volume.is_empty());
    let unbound = || VolumeError::NotBound(Key::new(pod.namespace(), name));
    let key = Key::new("", volume.ok_or_else(unbound)?);
    let volume = api.client.get(&kinds::PERSISTENT_VOLUMES, &key).await?;
    let found = SOURCES.iter().find_map(|kind| Some((kind, volume.at(&["spec", kind.field])?)));
    let (kind, source) = found.ok_or(VolumeError::NoPlugin)?;
    Ok(ClaimedVolume { path: (kind.find)(source)?, has_group: kind.has_group })
}

fn local(source: &Value) -> Result<PathBuf, VolumeError> {
    let path = source.str_at(&["path"]).ok_or(VolumeError::NoPlugin)?;
    match std::fs::metadata(path) {
        Ok(_) => Ok(PathBuf::from(path)),
        Err(_) => Err(VolumeError::NoPath(path.to_owned())),
    }
}
