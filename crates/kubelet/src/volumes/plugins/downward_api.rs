//! `downwardAPI`: fields of the pod and its containers' resources as files, in memory.

use super::api_files::{add_downward_api, default_mode, write};
use super::{Plugin, Volume, VolumePath};
use crate::volumes::VolumeError;
use crate::volumes::atomic_writer::Files;

pub(super) const PLUGIN: Plugin =
    Plugin { field: "downwardAPI", set_up: |volume| Box::pin(async move { set_up(volume) }) };

fn set_up(volume: Volume<'_>) -> Result<VolumePath, VolumeError> {
    let mut files = Files::new();
    add_downward_api(volume, volume.source, default_mode(volume.source), &mut files)?;
    write(volume, "downward-api", true, &files)
}
