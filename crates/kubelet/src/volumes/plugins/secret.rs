//! `secret`: the members of a secret as files, in memory.

use super::api_files::{SECRET, add_object, default_mode, write};
use super::{Plugin, Volume, VolumePath};
use crate::volumes::VolumeError;
use crate::volumes::atomic_writer::Files;

pub(super) const PLUGIN: Plugin = Plugin { field: "secret", set_up: |volume| Box::pin(set_up(volume)) };

async fn set_up(volume: Volume<'_>) -> Result<VolumePath, VolumeError> {
    let mut files = Files::new();
    let mode = default_mode(volume.source);
    add_object(volume, &SECRET, volume.source, "secretName", mode, &mut files).await?;
    write(volume, "secret", true, &files)
}
