//! The volumes of pods: made ready before their containers are made, and gone after them.
//!
//! Everything of a pod is below one directory of its own, laid out as upstream lays it out. What a volume holds is
//! decided purely (`payload`) and written at one stroke (`atomic`): whoever reads sees all of the old or all of
//! the new.
//!
//! *Invariants:* what may hold a secret (Secrets, tokens, pods' certificates, what a pod knows of itself) is in memory and
//! not on disk, and a container cannot write to it. Only the kubelet reaches a pod's directory by its path.

mod atomic;
mod claims;
mod host_path;
mod hosts;
mod mount_points;
mod ownership;
mod payload;
mod sub_path;
mod trust;

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

use corten_api::quantity::Quantity;
use corten_api::{Str, Value};
use corten_base::files;
use corten_container::Mount;
use corten_sys::removal::remove_tree;
use parking_lot::Mutex;

use crate::config::{SubPath, VolumePaths, hostname};
use crate::machine::Machine;
use crate::pod::{Container, HostNamespace, Pod};
use crate::resources;
use crate::start::own_mount;
use ownership::Ownership;
use sub_path::Refused;

pub(crate) use payload::token_request;

pub(crate) struct Volumes {
    root: PathBuf,
    cluster_domain: String,
    /// Pods and claims whose volumes have been given to the pod's group: once is enough, and it may take long.
    given: Mutex<HashSet<(String, String)>>,
}

/// Where a pod's volumes are.
#[derive(Debug, Default)]
pub(crate) struct Mounted {
    places: BTreeMap<Str, Place>,
    /// Where paths within volumes are mounted.
    sub_paths: PathBuf,
}

#[derive(Debug)]
struct Place {
    path: PathBuf,
    read_only: bool,
}

impl VolumePaths for Mounted {
    fn path(&self, volume: &str, container: &str, sub_path: Option<SubPath>) -> Result<String, String> {
        let unknown = || format!("cannot find volume {volume:?} to mount into container {container:?}");
        let place = self.places.get(volume).ok_or_else(unknown)?;
        let Some(SubPath { index, path }) = sub_path else { return Ok(place.path.display().to_string()) };
        let target = self.sub_paths.join(volume).join(container).join(index.to_string());
        match sub_path::mount(&place.path, &path, &target) {
            Ok(()) => Ok(target.display().to_string()),
            Err(refused @ (Refused::Absolute(_) | Refused::Backwards(_))) => Err(refused.to_string()),
            // What exactly failed would tell about the node.
            Err(refused) => {
                let what = if matches!(refused, Refused::Make(_)) {
                    "create subPath directory"
                } else {
                    "prepare subPath"
                };
                let why = std::error::Error::source(&refused).map(ToString::to_string);
                tracing::warn!(volume, container, path, why, "a path within a volume could not be had");
                Err(format!("failed to {what} for volumeMount {volume:?} of container {container:?}"))
            }
        }
    }

    fn is_read_only(&self, volume: &str) -> bool {
        self.places.get(volume).is_some_and(|place| place.read_only)
    }
}

impl Volumes {
    pub(crate) fn new(root: PathBuf, cluster_domain: String) -> Volumes {
        Volumes { root, cluster_domain, given: Mutex::default() }
    }

    /// Where everything of a pod is.
    pub(crate) fn of_pod(&self, uid: &str) -> PathBuf {
        self.root.join("pods").join(uid)
    }

    fn of_volume(&self, pod: &Pod, plugin: &str, name: &str) -> PathBuf {
        self.of_pod(pod.uid()).join("volumes").join(format!("kubernetes.io~{plugin}")).join(name)
    }

    /// The uids of all pods that have files here.
    pub(crate) fn pods(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.root.join("pods")).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
    }

    /// Where the files of all pods are.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// The folder of a pod's volume, if it has one of its own.
    pub(crate) fn find(&self, pod: &Pod, name: &str) -> Option<PathBuf> {
        let plugins =
            std::fs::read_dir(self.of_pod(pod.uid()).join("volumes")).into_iter().flatten().flatten();
        plugins.map(|plugin| plugin.path().join(name)).find(|path| path.is_dir())
    }

    /// The folder that a claim stands for, if it is here.
    pub(crate) async fn claimed(&self, machine: &Machine, pod: &Pod, claim: &str) -> Option<PathBuf> {
        claims::find(machine, pod, claim).await.ok().map(|found| found.path)
    }

    /// Makes every volume of a pod be there and up to date. An error names the first that cannot be.
    pub(crate) async fn mount(&self, machine: &Machine, pod: &Pod) -> Result<Mounted, String> {
        let sub_paths = self.of_pod(pod.uid()).join("volume-subpaths");
        let mut mounted = Mounted { places: BTreeMap::new(), sub_paths };
        for volume in pod.tree().items_at(&["spec", "volumes"]) {
            let name = volume.str_at(&["name"]).unwrap_or_default();
            let place = self.mount_one(machine, pod, volume, name).await;
            let place =
                place.map_err(|why| format!("MountVolume.SetUp failed for volume {name:?} : {why}"))?;
            mounted.places.insert(name.into(), place);
        }
        Ok(mounted)
    }

    async fn mount_one(
        &self,
        machine: &Machine,
        pod: &Pod,
        volume: &Value,
        name: &str,
    ) -> Result<Place, String> {
        let own = |path: PathBuf| Place { path, read_only: false };
        if let Some(source) = volume.get("emptyDir") {
            return self.empty_dir(machine, pod, name, source).map(own);
        }
        if let Some(source) = volume.get("hostPath") {
            return host_path::check(source).map(own);
        }
        if let Some(source) = volume.get("persistentVolumeClaim") {
            let claim = source.str_at(&["claimName"]).unwrap_or_default();
            let read_only = source.bool_at(&["readOnly"]).unwrap_or(false);
            return Ok(Place { path: self.claim(machine, pod, claim, read_only).await?, read_only });
        }
        if volume.get("ephemeral").is_some() {
            let claim = format!("{}-{name}", pod.name());
            return self.claim(machine, pod, &claim, false).await.map(own);
        }
        let Some((plugin, wanted)) = payload::payload(machine, pod, volume).await? else {
            return Err("no volume plugin matched".to_owned());
        };
        let path = self.of_volume(pod, plugin, name);
        if payload::is_kept_in_memory(plugin) {
            let size = memory_size(pod, &Value::Null, machine.config.memory);
            keep_in_memory(&path, size).map_err(|e| e.to_string())?;
        }
        atomic::write(&path, &wanted).map_err(|e| e.to_string())?;
        give(pod, &path, true)?;
        // Whatever the pod says: the kubelet writes here, and links of a container would lead it astray.
        Ok(Place { path, read_only: true })
    }

    /// A claim's volume; one that can be written to is the group's.
    async fn claim(
        &self,
        machine: &Machine,
        pod: &Pod,
        claim: &str,
        read_only: bool,
    ) -> Result<PathBuf, String> {
        let found = claims::find(machine, pod, claim).await?;
        let known = (pod.uid().to_owned(), claim.to_owned());
        if found.has_group && !read_only && !self.given.lock().contains(&known) {
            // As long as the volume is large: a container can make it as large as it likes.
            let (pod, path) = (pod.clone(), found.path.clone());
            let given = tokio::task::spawn_blocking(move || give(&pod, &path, false)).await;
            given.map_err(|error| error.to_string())??;
            self.given.lock().insert(known);
        }
        Ok(found.path)
    }

    /// A directory that everybody in the pod may write to, in memory if so asked.
    fn empty_dir(&self, machine: &Machine, pod: &Pod, name: &str, source: &Value) -> Result<PathBuf, String> {
        let path = self.of_volume(pod, "empty-dir", name);
        let mut fresh = !path.exists();
        if fresh {
            files::directory(&path, 0o777).map_err(|e| e.to_string())?;
        }
        if source.str_at(&["medium"]) == Some("Memory") {
            let size = memory_size(pod, source, machine.config.memory);
            if mount_points::memory(&path, size).map_err(|e| e.to_string())? {
                // As a fresh tmpfs is, and as upstream leaves it.
                files::directory(&path, 0o1777).map_err(|e| e.to_string())?;
                fresh = true;
            }
        }
        if fresh {
            give(pod, &path, false)?;
        }
        Ok(path)
    }

    /// Where what every container has lies: the pod's hosts file, and the files for last words.
    pub(crate) fn own_files(&self, uid: &str) -> [PathBuf; 2] {
        let directory = self.of_pod(uid);
        [directory.join("etc-hosts"), directory.join("containers")]
    }

    /// What every container has: the hosts file, and a file for its last words.
    pub(crate) fn own_mounts(
        &self,
        pod: &Pod,
        container: &Container,
        pod_ips: &[String],
    ) -> Result<Vec<Mount>, String> {
        let mounts_at = |path: &str| {
            container.tree.items_at(&["volumeMounts"]).iter().any(|m| m.str_at(&["mountPath"]) == Some(path))
        };
        let [path, last_words] = self.own_files(pod.uid());
        let mut mounts = Vec::new();
        if !mounts_at("/etc/hosts") {
            let on_host = pod.uses_host(HostNamespace::Network);
            let (name, domain) = hostname(pod, &self.cluster_domain);
            let text = hosts::text(pod, on_host, pod_ips, &name, &domain);
            write_file(&path, 0o644, &text).map_err(|e| e.to_string())?;
            mounts.push(own_mount("/etc/hosts", path.display().to_string()));
        }
        if let Some(path) = container.tree.str_at(&["terminationMessagePath"]).filter(|path| !path.is_empty())
        {
            let of_container = last_words.join(container.name.as_str());
            let unique = format!("{:08x}", std::process::id() ^ next_number());
            let file = of_container.join(unique);
            write_file(&file, 0o666, "").map_err(|e| e.to_string())?;
            mounts.push(own_mount(path, file.display().to_string()));
        }
        Ok(mounts)
    }

    /// Takes everything of a pod away.
    pub(crate) fn remove(&self, uid: &str) -> std::io::Result<()> {
        let directory = self.of_pod(uid);
        // What is mounted here is not the pod's alone: nothing is removed before it is gone.
        mount_points::release_all(&directory)?;
        self.given.lock().retain(|(pod, _)| pod != uid);
        remove_tree(&directory)
    }
}

/// A number that nobody else in this process gets.
fn next_number() -> u32 {
    static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0x0101_0101);
    NEXT.fetch_add(0x0001_0003, std::sync::atomic::Ordering::Relaxed)
}

/// A file that containers have mounted, in a folder that only the kubelet reaches.
fn write_file(path: &Path, mode: u32, text: &str) -> std::io::Result<()> {
    if let Some(parent) = path.parent() {
        files::private_directory(parent)?;
    }
    files::write(path, mode, text)
}

/// Mounts memory for a volume that holds secrets before anything is in it. What an earlier version left on disk stays
/// there until its pod goes: its containers have it mounted.
fn keep_in_memory(path: &Path, size: Option<i64>) -> std::io::Result<()> {
    let is_empty = std::fs::read_dir(path).map_or(true, |mut entries| entries.next().is_none());
    if !is_empty {
        return Ok(());
    }
    files::directory(path, 0o777)?;
    mount_points::memory(path, size).map(|_| ())
}

/// Gives a volume to the pod's group, if it has one.
fn give(pod: &Pod, path: &Path, read_only: bool) -> Result<(), String> {
    let Some(ownership) = Ownership::of(pod) else { return Ok(()) };
    ownership.give(path, read_only).map_err(|error| error.to_string())
}

/// How large memory may get: what it says itself, what its pod may use, what the node has, whichever is least.
fn memory_size(pod: &Pod, source: &Value, node: i64) -> Option<i64> {
    let own =
        source.str_at(&["sizeLimit"]).and_then(|text| Quantity::parse(text).ok()).map(|size| size.value());
    let of_pod = resources::of_pod(pod).memory_limit_in_bytes;
    [own.unwrap_or(0), of_pod, node].into_iter().filter(|size| *size > 0).min()
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::*;
    use crate::pod::Source;

    #[test]
    fn memory_is_bounded_by_whoever_has_least() {
        let limited =
            value!({"spec": {"containers": [{"name": "a", "resources": {"limits": {"memory": "64Mi"}}}]}});
        let pod = Pod::new(limited, Source::Api);
        let size = |limit: &str| memory_size(&pod, &value!({"sizeLimit": (limit)}), 1 << 30);
        assert_eq!(size("1Mi"), Some(1 << 20));
        assert_eq!(size("1Gi"), Some(64 << 20));
        let free = Pod::new(value!({"spec": {"containers": [{"name": "a"}]}}), Source::Api);
        assert_eq!(memory_size(&free, &Value::object(), 1 << 30), Some(1 << 30));
    }
}
