//! Volumes whose files come from the API: config maps, secrets, the downward API, and projections of them.
//!
//! *Invariants:* files change all at once (`atomic_writer`). Volumes that may hold a secret are in memory, and containers
//! cannot write to any of them, because the kubelet would follow a container's links.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use corten_api::{Map, Value};

use super::{Volume, VolumePath};
use crate::containers::downward_api::{self, NodeFacts};
use crate::node;
use crate::objects::named_objects::ObjectKind;
use crate::volumes::atomic_writer::{self, Content, Files};
use crate::volumes::{VolumeError, memory_size, mount_empty_tmpfs, set_group};

const DEFAULT_MODE: u32 = 0o644;

/// A kind of object whose members become files.
pub(super) struct ObjectFiles {
    pub(super) kind: ObjectKind,
    /// The kind as upstream's messages name it.
    pub(super) word: &'static str,
    /// The object's members that hold files, and true for those in base64.
    pub(super) members: &'static [(&'static str, bool)],
}

pub(super) const CONFIG_MAP: ObjectFiles = ObjectFiles {
    kind: ObjectKind::ConfigMap,
    word: "configmap",
    members: &[("data", false), ("binaryData", true)],
};

pub(super) const SECRET: ObjectFiles =
    ObjectFiles { kind: ObjectKind::Secret, word: "secret", members: &[("data", true)] };

/// The default mode of a volume's files.
pub(super) fn default_mode(source: &Value) -> u32 {
    mode_of(source, "defaultMode").unwrap_or(DEFAULT_MODE)
}

fn mode_of(source: &Value, key: &str) -> Option<u32> {
    source.int_at(&[key]).and_then(|mode| u32::try_from(mode).ok())
}

/// Writes a volume's files. `plugin` names its directory, as upstream does; with `in_memory` they are in a tmpfs.
pub(super) fn write(
    volume: Volume<'_>,
    plugin: &str,
    in_memory: bool,
    files: &Files,
) -> Result<VolumePath, VolumeError> {
    files.keys().try_for_each(|path| check_path(path))?;
    let (kubelet, pod) = (volume.kubelet, volume.pod);
    let path = kubelet.volumes.of_volume(pod, plugin, volume.name);
    if in_memory {
        let size = memory_size(pod, &Value::Null, kubelet.containers.config.memory);
        mount_empty_tmpfs(&path, size)?;
    }
    atomic_writer::write(&path, files)?;
    set_group(pod, &path, true)?;
    Ok(VolumePath { path, read_only: true })
}

/// Checks that a file stays within its volume, and does not collide with the names that `atomic_writer` uses. The API
/// server checks it too.
fn check_path(path: &str) -> Result<(), VolumeError> {
    let mut parts = path.split('/');
    let stays = parts.clone().all(|part| !matches!(part, "" | "." | "..") && part.len() <= 255);
    match stays && path.len() <= 4096 && !parts.next().is_some_and(|first| first.starts_with("..")) {
        true => Ok(()),
        false => Err(VolumeError::InvalidPath(path.to_owned())),
    }
}

/// Adds the files of a config map or secret.
pub(super) async fn add_object(
    volume: Volume<'_>,
    object_files: &ObjectFiles,
    source: &Value,
    name_key: &str,
    mode: u32,
    files: &mut Files,
) -> Result<(), VolumeError> {
    let name = source.str_at(&[name_key]).unwrap_or_default();
    let optional = source.bool_at(&["optional"]).unwrap_or(false);
    let word = object_files.word;
    let Some(object) = volume.kubelet.named_object(object_files.kind, volume.pod, name).await? else {
        let missing = VolumeError::NotFound { kind: word, name: name.to_owned() };
        return if optional { Ok(()) } else { Err(missing) };
    };
    let bytes = |key: &str| -> Option<Vec<u8>> {
        object_files.members.iter().find_map(|(member, encoded)| {
            let text = object.str_at(&[member, key])?;
            if *encoded { STANDARD.decode(text).ok() } else { Some(text.as_bytes().to_vec()) }
        })
    };
    let items = source.items_at(&["items"]);
    if items.is_empty() {
        let members = object_files.members.iter().filter_map(|(member, _)| object.get(member)?.as_object());
        for key in members.flat_map(Map::keys) {
            files.insert(key.to_string(), Content { bytes: bytes(key).unwrap_or_default(), mode });
        }
        return Ok(());
    }
    for item in items {
        let text = |key: &str| item.str_at(&[key]).unwrap_or_default();
        let Some(bytes) = bytes(text("key")) else {
            if optional {
                continue;
            }
            return Err(VolumeError::MissingKey { kind: word, key: text("key").to_owned() });
        };
        let mode = mode_of(item, "mode").unwrap_or(mode);
        files.insert(text("path").to_owned(), Content { bytes, mode });
    }
    Ok(())
}

/// Adds the files of the downward API.
pub(super) fn add_downward_api(
    volume: Volume<'_>,
    source: &Value,
    mode: u32,
    files: &mut Files,
) -> Result<(), VolumeError> {
    let (kubelet, pod) = (volume.kubelet, volume.pod);
    let host_ips = kubelet.node.addresses.clone();
    let facts = NodeFacts { host_ips, allocatable: node::allocatable(kubelet), ..NodeFacts::default() };
    for item in source.items_at(&["items"]) {
        let path = item.str_at(&["path"]).unwrap_or_default();
        let text = if let Some(field) = item.str_at(&["fieldRef", "fieldPath"]) {
            downward_api::field(pod, field, &facts)?
        } else if let Some(reference) = item.get("resourceFieldRef") {
            let name = reference.str_at(&["containerName"]).unwrap_or_default();
            let container = pod.container(name);
            let container = container.ok_or_else(|| VolumeError::NoContainer(name.to_owned()))?;
            downward_api::resource(container, reference, &facts)?
        } else {
            continue;
        };
        let mode = mode_of(item, "mode").unwrap_or(mode);
        files.insert(path.to_owned(), Content { bytes: text.into_bytes(), mode });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_stay_in_their_volume() {
        for good in ["a", "a/b.c", "a/..b", ".hidden"] {
            assert!(check_path(good).is_ok(), "{good}");
        }
        for hostile in ["", "/etc/passwd", "../x", "a/../../x", "..data", "..2026/x", "a//b", "a/.", "a/"] {
            assert!(check_path(hostile).is_err(), "{hostile}");
        }
    }
}
