//! What is in the volumes that hold objects of the API: config maps, secrets, tokens, and what a pod knows of itself.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use corten_api::{Map, Value, value};
use corten_client::Key;

use super::atomic::{Content, Files};
use super::trust;
use crate::downward::{self, Place};
use crate::machine::Machine;
use crate::node;
use crate::pod::Pod;
use crate::pod_certificates::Bundle;
use crate::start::named;
use crate::watched::Which;

const DEFAULT_MODE: u32 = 0o644;

/// The plugin that upstream calls it, and the files; none for other kinds of volumes.
pub(super) async fn payload(
    machine: &Machine,
    pod: &Pod,
    volume: &Value,
) -> Result<Option<(&'static str, Files)>, String> {
    let mut files = Files::new();
    let plugin = if let Some(source) = volume.get("configMap") {
        let mode = mode_of(source, "defaultMode").unwrap_or(DEFAULT_MODE);
        of_object(machine, pod, &CONFIG_MAP, source, "name", mode, &mut files).await?;
        "configmap"
    } else if let Some(source) = volume.get("secret") {
        let mode = mode_of(source, "defaultMode").unwrap_or(DEFAULT_MODE);
        of_object(machine, pod, &SECRET, source, "secretName", mode, &mut files).await?;
        "secret"
    } else if let Some(source) = volume.get("downwardAPI") {
        let mode = mode_of(source, "defaultMode").unwrap_or(DEFAULT_MODE);
        of_pod(machine, pod, source, mode, &mut files)?;
        "downward-api"
    } else if let Some(source) = volume.get("projected") {
        let mode = mode_of(source, "defaultMode").unwrap_or(DEFAULT_MODE);
        for (index, part) in source.items_at(&["sources"]).iter().enumerate() {
            if let Some(part) = part.get("configMap") {
                of_object(machine, pod, &CONFIG_MAP, part, "name", mode, &mut files).await?;
            } else if let Some(part) = part.get("secret") {
                of_object(machine, pod, &SECRET, part, "name", mode, &mut files).await?;
            } else if let Some(part) = part.get("downwardAPI") {
                of_pod(machine, pod, part, mode, &mut files)?;
            } else if let Some(part) = part.get("serviceAccountToken") {
                of_account(machine, pod, part, mode, &mut files).await?;
            } else if let Some(part) = part.get("clusterTrustBundle") {
                let anchors = trust::anchors(&*machine.trust.objects(machine).await?, part)?;
                put(pod, part, "path", mode, &anchors, &mut files);
            } else if let Some(part) = part.get("podCertificate") {
                let volume = volume.str_at(&["name"]).unwrap_or_default();
                let Bundle { key, chain } =
                    machine.certificates.get(machine, pod, volume, index, part).await?;
                put(pod, part, "keyPath", mode, &key, &mut files);
                put(pod, part, "certificateChainPath", mode, &chain, &mut files);
                put(pod, part, "credentialBundlePath", mode, &format!("{key}{chain}"), &mut files);
            }
        }
        "projected"
    } else {
        return Ok(None);
    };
    files.keys().try_for_each(|path| check_path(path))?;
    Ok(Some((plugin, files)))
}

/// Whether a file stays in its volume, and out of the way of what keeps the volume: the API server says so too.
fn check_path(path: &str) -> Result<(), String> {
    let mut parts = path.split('/');
    let stays = parts.clone().all(|part| !matches!(part, "" | "." | "..") && part.len() <= 255);
    match stays && path.len() <= 4096 && !parts.next().is_some_and(|first| first.starts_with("..")) {
        true => Ok(()),
        false => Err(format!("invalid path {path:?}: must be a relative path within the volume")),
    }
}

/// Whether upstream keeps a plugin's volumes in memory: all that may hold a secret.
pub(super) fn is_kept_in_memory(plugin: &str) -> bool {
    plugin != "configmap"
}

fn mode_of(source: &Value, key: &str) -> Option<u32> {
    source.int_at(&[key]).and_then(|mode| u32::try_from(mode).ok())
}

/// A kind of object whose members become files.
struct Holder {
    which: Which,
    word: &'static str,
    /// Members, and whether they are in base64.
    members: &'static [(&'static str, bool)],
}

const CONFIG_MAP: Holder =
    Holder { which: Which::ConfigMap, word: "configmap", members: &[("data", false), ("binaryData", true)] };
const SECRET: Holder = Holder { which: Which::Secret, word: "secret", members: &[("data", true)] };

async fn of_object(
    machine: &Machine,
    pod: &Pod,
    holder: &Holder,
    source: &Value,
    name_key: &str,
    mode: u32,
    files: &mut Files,
) -> Result<(), String> {
    let name = source.str_at(&[name_key]).unwrap_or_default();
    let optional = source.bool_at(&["optional"]).unwrap_or(false);
    let object = named(machine, holder.which, pod, name).await.map_err(|e| e.to_string())?;
    let Some(object) = object else {
        return if optional { Ok(()) } else { Err(format!("{} {name:?} not found", holder.word)) };
    };
    let bytes = |key: &str| -> Option<Vec<u8>> {
        holder.members.iter().find_map(|(member, encoded)| {
            let text = object.str_at(&[member, key])?;
            if *encoded { STANDARD.decode(text).ok() } else { Some(text.as_bytes().to_vec()) }
        })
    };
    let items = source.items_at(&["items"]);
    if items.is_empty() {
        let members = holder.members.iter().filter_map(|(member, _)| object.get(member)?.as_object());
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
            return Err(format!("references non-existent {} key: {}", holder.word, text("key")));
        };
        let mode = mode_of(item, "mode").unwrap_or(mode);
        files.insert(text("path").to_owned(), Content { bytes, mode });
    }
    Ok(())
}

/// What a pod knows of itself.
fn of_pod(machine: &Machine, pod: &Pod, source: &Value, mode: u32, files: &mut Files) -> Result<(), String> {
    let allocatable = node::allocatable(machine);
    let place = Place { host_ips: machine.host_ips.clone(), allocatable, ..Place::default() };
    for item in source.items_at(&["items"]) {
        let path = item.str_at(&["path"]).unwrap_or_default();
        let text = if let Some(field) = item.str_at(&["fieldRef", "fieldPath"]) {
            downward::field(pod, field, &place)?
        } else if let Some(reference) = item.get("resourceFieldRef") {
            let name = reference.str_at(&["containerName"]).unwrap_or_default();
            let container = pod.container(name).ok_or_else(|| format!("container {name} not found"))?;
            downward::resource(container, reference, &place)?
        } else {
            continue;
        };
        let mode = mode_of(item, "mode").unwrap_or(mode);
        files.insert(path.to_owned(), Content { bytes: text.into_bytes(), mode });
    }
    Ok(())
}

/// A token by which a pod proves to be of its account: as good as the pod lives.
async fn of_account(
    machine: &Machine,
    pod: &Pod,
    source: &Value,
    mode: u32,
    files: &mut Files,
) -> Result<(), String> {
    let account = pod.tree().str_at(&["spec", "serviceAccountName"]).unwrap_or("default");
    let seconds = source.int_at(&["expirationSeconds"]).unwrap_or(3600);
    let audiences = source.str_at(&["audience"]).filter(|text| !text.is_empty());
    let audiences: Vec<Value> = audiences.into_iter().map(Value::from).collect();
    let key = Key::new(pod.namespace(), account);
    let token = machine.tokens.get(machine, pod, &key, &audiences, seconds).await?;
    let path = source.str_at(&["path"]).unwrap_or("token").to_owned();
    // A pod that runs as somebody may read its token only if its group may.
    let by_group = pod.tree().int_at(&["spec", "securityContext", "fsGroup"]).is_some();
    let mode = if by_group { 0o640 } else { mode };
    files.insert(path, Content { bytes: token.into_bytes(), mode });
    Ok(())
}

/// A file at the path that a part of a volume names, if it does.
fn put(pod: &Pod, part: &Value, path_key: &str, mode: u32, text: &str, files: &mut Files) {
    let Some(path) = part.str_at(&[path_key]).filter(|path| !path.is_empty()) else { return };
    let by_group = pod.tree().int_at(&["spec", "securityContext", "fsGroup"]).is_some();
    let mode = if by_group { 0o640 } else { mode };
    files.insert(path.to_owned(), Content { bytes: text.as_bytes().to_vec(), mode });
}

/// What is asked of the API server for a token.
pub(crate) fn token_request(pod: &Pod, audiences: &[Value], seconds: i64) -> Value {
    value!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
        "spec": {
            "audiences": (audiences.to_vec()), "expirationSeconds": (seconds),
            "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": (pod.name()), "uid": (pod.uid())},
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_stay_in_their_volume() {
        for good in ["a", "a/b.c", "a/..b", ".hidden"] {
            assert_eq!(check_path(good), Ok(()), "{good}");
        }
        for hostile in ["", "/etc/passwd", "../x", "a/../../x", "..data", "..2026/x", "a//b", "a/.", "a/"] {
            assert!(check_path(hostile).is_err(), "{hostile}");
        }
    }
}
