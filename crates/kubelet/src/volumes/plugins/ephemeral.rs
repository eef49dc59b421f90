//! `ephemeral`: a claim that the ephemeral volume controller creates for the pod.

use super::persistent_volume_claim::mount_claim;
use super::{Plugin, Volume, VolumePath};
use crate::volumes::VolumeError;

pub(super) const PLUGIN: Plugin = Plugin { field: "ephemeral", set_up: |volume| Box::pin(set_up(volume)) };

async fn set_up(volume: Volume<'_>) -> Result<VolumePath, VolumeError> {
    let claim = format!("{}-{}", volume.pod.name(), volume.name);
    mount_claim(volume.kubelet, volume.pod, &claim, false).await.map(VolumePath::writable)
}
