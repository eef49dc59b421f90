//! Volume plugins: one file for each kind of volume, all of one shape, and the table of them.
//!
//! A plugin sets a volume up and says where it is. Adding a kind is one file with a `PLUGIN` and one line in [`PLUGINS`].

mod api_files;
mod cluster_trust_bundle;
mod config_map;
mod downward_api;
mod empty_dir;
mod ephemeral;
mod host_path;
pub(super) mod persistent_volume_claim;
mod projected;
mod secret;

use std::path::PathBuf;

use corten_api::Value;
use futures_util::future::BoxFuture;

pub(super) use cluster_trust_bundle::TrustBundleError;
pub(super) use host_path::HostPathError;

use super::VolumeError;
use crate::kubelet::Kubelet;
use crate::pod::Pod;

/// A kind of volume.
pub(super) struct Plugin {
    /// The field of a pod's volume that selects the plugin.
    field: &'static str,
    /// Makes the volume exist and its contents current. Called again whenever its sources may have changed.
    set_up: for<'a> fn(Volume<'a>) -> BoxFuture<'a, Result<VolumePath, VolumeError>>,
}

/// A volume of a pod.
#[derive(Clone, Copy)]
pub(super) struct Volume<'a> {
    kubelet: &'a Kubelet,
    pod: &'a Pod,
    name: &'a str,
    /// The plugin's field of the volume.
    source: &'a Value,
}

/// The place of a volume on the node.
#[derive(Debug)]
pub(super) struct VolumePath {
    pub(super) path: PathBuf,
    pub(super) read_only: bool,
}

impl VolumePath {
    fn writable(path: PathBuf) -> VolumePath {
        VolumePath { path, read_only: false }
    }
}

const PLUGINS: [Plugin; 8] = [
    empty_dir::PLUGIN,
    host_path::PLUGIN,
    persistent_volume_claim::PLUGIN,
    ephemeral::PLUGIN,
    config_map::PLUGIN,
    secret::PLUGIN,
    downward_api::PLUGIN,
    projected::PLUGIN,
];

/// Sets up one volume of a pod.
pub(super) async fn set_up(kubelet: &Kubelet, pod: &Pod, volume: &Value) -> Result<VolumePath, VolumeError> {
    let name = volume.str_at(&["name"]).unwrap_or_default();
    let found = PLUGINS.iter().find_map(|plugin| Some((plugin, volume.get(plugin.field)?)));
    let (plugin, source) = found.ok_or(VolumeError::NoPlugin)?;
    (plugin.set_up)(Volume { kubelet, pod, name, source }).await
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_field_has_one_plugin() {
        let fields: BTreeSet<&str> = PLUGINS.iter().map(|plugin| plugin.field).collect();
        assert_eq!(fields.len(), PLUGINS.len());
    }
}
