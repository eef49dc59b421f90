//! `configMap`: the members of a config map as files.

use super::api_files::{CONFIG_MAP, add_object, default_mode, write};
use super::{Plugin, Volume, VolumePath};
use crate::volumes::VolumeError;
use crate::volumes::atomic_writer::Files;

pub(super) const PLUGIN: Plugin = Plugin { field: "configMap", set_up: |volume| Box::pin(set_up(volume)) };

async fn set_up(volume: Volume<'_>) -> Result<VolumePath, VolumeError> {
    let mut files = Files::new();
    let mode = default_mode(volume.source);
    add_object(volume, &CONFIG_MAP, volume.source, "name", mode, &mut files).await?;
    write(volume, "configmap", false, &files)
}
