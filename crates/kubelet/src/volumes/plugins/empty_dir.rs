//! `emptyDir`: a directory that lives as long as its pod, on disk or in memory.

use corten_base::files;

use super::{Plugin, Volume, VolumePath};
use crate::volumes::{VolumeError, memory_size, mount_points, set_group};

pub(super) const PLUGIN: Plugin =
    Plugin { field: "emptyDir", set_up: |volume| Box::pin(async move { set_up(volume) }) };

fn set_up(volume: Volume<'_>) -> Result<VolumePath, VolumeError> {
    let Volume { kubelet, pod, name, source } = volume;
    let path = kubelet.volumes.of_volume(pod, "empty-dir", name);
    let mut is_new = !path.exists();
    if is_new {
        files::directory(&path, 0o777)?;
    }
    if source.str_at(&["medium"]) == Some("Memory") {
        let size = memory_size(pod, source, kubelet.containers.config.memory);
        if mount_points::mount_tmpfs(&path, size)? {
            // The mode of a new tmpfs, which upstream leaves as it is.
            files::directory(&path, 0o1777)?;
            is_new = true;
        }
    }
    if is_new {
        set_group(pod, &path, false)?;
    }
    Ok(VolumePath::writable(path))
}
