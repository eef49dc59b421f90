//! Pods' volumes: set up before their containers start, and removed after the pod is terminated.
//!
//! Everything of a pod is below one directory, laid out as upstream lays it out. The kinds of volumes are in `plugins`.
//!
//! *Invariants:* files that may hold a secret are in memory and not on disk, and a container cannot write to them. Only
//! the kubelet reaches a pod's directory by its path. Nothing in it is removed while anything is mounted below it.

mod atomic_writer;
mod hosts_file;
mod mount_points;
mod ownership;
mod plugins;
mod sub_path;

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};

use corten_api::quantity::Quantity;
use corten_api::{Str, Value};
use corten_base::files;
use corten_client::Key;
use corten_container::Mount;
use corten_sys::removal::remove_tree;
use parking_lot::Mutex;

use crate::api_server::ApiServer;
use crate::containers::downward_api::DownwardApiError;
use crate::containers::expansion::{MissingVariable, expand_all};
use crate::containers::runtime_config::{ResolvedMount, hostname};
use crate::errors::chain;
use crate::kubelet::Kubelet;
use crate::objects::kind_watch::NotSynced;
use crate::objects::pod_certificates::CertificateError;
use crate::objects::tokens::TokenError;
use crate::pod::{Container, HostNamespace, Pod};
use crate::resources;
use ownership::Ownership;
use plugins::VolumePath;
use sub_path::SubPathError;

/// The directories of pods' volumes on this node.
pub(crate) struct Volumes {
    root: PathBuf,
    cluster_domain: String,
    /// The pods and claims whose volumes have got the pod's group: it is set once, because it may take long.
    groups_set: Mutex<HashSet<(String, String)>>,
}

/// A volume could not be set up. The texts are shown in `FailedMount` events.
#[derive(Debug, thiserror::Error)]
pub(crate) enum VolumeError {
    #[error("no volume plugin matched")]
    NoPlugin,
    #[error("{kind} {name:?} not found")]
    NotFound { kind: &'static str, name: String },
    #[error("references non-existent {kind} key: {key}")]
    MissingKey { kind: &'static str, key: String },
    #[error("invalid path {0:?}: must be a relative path within the volume")]
    InvalidPath(String),
    #[error("container {0} not found")]
    NoContainer(String),
    #[error("PVC {0} is not bound")]
    NotBound(Key),
    #[error("path {0:?} does not exist")]
    NoPath(String),
    #[error(transparent)]
    HostPath(#[from] plugins::HostPathError),
    #[error(transparent)]
    TrustBundle(#[from] plugins::TrustBundleError),
    #[error(transparent)]
    NotSynced(#[from] NotSynced),
    #[error(transparent)]
    Token(#[from] TokenError),
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    #[error(transparent)]
    DownwardApi(#[from] DownwardApiError),
    #[error(transparent)]
    Api(#[from] corten_client::Error),
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// The first volume of a pod that could not be set up; messages are upstream's.
#[derive(Debug, thiserror::Error)]
#[error("MountVolume.SetUp failed for volume {volume:?} : {err}")]
pub(crate) struct MountError {
    volume: String,
    err: VolumeError,
}

/// A volume could not be mounted into a container; messages are upstream's.
#[derive(Debug, thiserror::Error)]
pub(crate) enum VolumeMountError {
    #[error("cannot find volume {volume:?} to mount into container {container:?}")]
    UnknownVolume { volume: String, container: String },
    #[error(transparent)]
    Expansion(#[from] MissingVariable),
    #[error(transparent)]
    InvalidSubPath(SubPathError),
    /// The cause is only logged, because it would tell users about the node.
    #[error("failed to {operation} for volumeMount {volume:?} of container {container:?}")]
    SubPath { operation: &'static str, volume: String, container: String },
}

/// A pod's volumes that have been set up.
#[derive(Debug, Default)]
pub(crate) struct Mounted {
    volumes: BTreeMap<Str, VolumePath>,
    /// The directory of the pod's subPath mounts.
    sub_paths: PathBuf,
}

impl Mounted {
    /// The paths on the node of a container's `volumeMounts`, in their order. Creates and mounts subPaths.
    pub(crate) fn resolve(
        &self,
        container: &Container,
        environment: &[(String, String)],
    ) -> Result<Vec<ResolvedMount>, VolumeMountError> {
        let mounts = container.tree.items_at(&["volumeMounts"]).iter().enumerate();
        mounts.map(|(index, mount)| self.resolve_one(container, environment, index, mount)).collect()
    }

    fn resolve_one(
        &self,
        container: &Container,
        environment: &[(String, String)],
        index: usize,
        mount: &Value,
    ) -> Result<ResolvedMount, VolumeMountError> {
        let text = |key: &str| mount.str_at(&[key]).unwrap_or_default();
        let sub_path = match text("subPathExpr") {
            "" => text("subPath").to_owned(),
            expression => expand_all(expression, environment)?,
        };
        let name = text("name");
        let unknown = || VolumeMountError::UnknownVolume {
            volume: name.to_owned(),
            container: container.name.to_string(),
        };
        let volume = self.volumes.get(name).ok_or_else(unknown)?;
        let path = match sub_path.as_str() {
            "" => volume.path.clone(),
            sub_path => {
                let target = self.sub_paths.join(name).join(container.name.as_str()).join(index.to_string());
                mount_sub_path(volume, sub_path, &target, name, container)?;
                target
            }
        };
        Ok(ResolvedMount { host_path: path.display().to_string(), read_only: volume.read_only })
    }
}

fn mount_sub_path(
    volume: &VolumePath,
    sub_path: &str,
    target: &Path,
    name: &str,
    container: &Container,
) -> Result<(), VolumeMountError> {
    sub_path::mount(&volume.path, sub_path, target).map_err(|err| {
        let operation = match err {
            SubPathError::Absolute(_) | SubPathError::Backwards(_) => {
                return VolumeMountError::InvalidSubPath(err);
            }
            SubPathError::Create(_) => "create subPath directory",
            SubPathError::Mount(_) => "prepare subPath",
        };
        let (volume, container) = (name.to_owned(), container.name.to_string());
        tracing::warn!(volume, container, sub_path, err = chain(&err), "cannot prepare subPath");
        VolumeMountError::SubPath { operation, volume, container }
    })
}

impl Volumes {
    pub(crate) fn new(root: PathBuf, cluster_domain: String) -> Volumes {
        Volumes { root, cluster_domain, groups_set: Mutex::default() }
    }

    /// The directory of everything of a pod.
    pub(crate) fn of_pod(&self, uid: &str) -> PathBuf {
        self.root.join("pods").join(uid)
    }

    fn of_volume(&self, pod: &Pod, plugin: &str, name: &str) -> PathBuf {
        self.of_pod(pod.uid()).join("volumes").join(format!("kubernetes.io~{plugin}")).join(name)
    }

    /// The uids of all pods that have a directory.
    pub(crate) fn pods(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.root.join("pods")).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
    }

    /// The kubelet's root directory.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// The directory of a pod's volume, if it has one of its own.
    pub(crate) fn find(&self, pod: &Pod, name: &str) -> Option<PathBuf> {
        let plugins =
            std::fs::read_dir(self.of_pod(pod.uid()).join("volumes")).into_iter().flatten().flatten();
        plugins.map(|plugin| plugin.path().join(name)).find(|path| path.is_dir())
    }

    /// The directory of a claim's volume, if it is on this node.
    pub(crate) async fn claimed(&self, api: &ApiServer, pod: &Pod, claim: &str) -> Option<PathBuf> {
        plugins::persistent_volume_claim::find(api, pod, claim).await.ok().map(|found| found.path)
    }

    /// Sets up every volume of a pod, and brings the contents of those from the API up to date.
    pub(crate) async fn mount(&self, kubelet: &Kubelet, pod: &Pod) -> Result<Mounted, MountError> {
        let sub_paths = self.of_pod(pod.uid()).join("volume-subpaths");
        let mut mounted = Mounted { volumes: BTreeMap::new(), sub_paths };
        for volume in pod.tree().items_at(&["spec", "volumes"]) {
            let name = volume.str_at(&["name"]).unwrap_or_default();
            let path = plugins::set_up(kubelet, pod, volume).await;
            let path = path.map_err(|err| MountError { volume: name.to_owned(), err })?;
            mounted.volumes.insert(name.into(), path);
        }
        Ok(mounted)
    }

    fn has_set_group(&self, pod: &Pod, claim: &str) -> bool {
        self.groups_set.lock().contains(&(pod.uid().to_owned(), claim.to_owned()))
    }

    fn note_set_group(&self, pod: &Pod, claim: &str) {
        self.groups_set.lock().insert((pod.uid().to_owned(), claim.to_owned()));
    }

    /// The pod's hosts file, and the directory of its containers' termination messages.
    pub(crate) fn own_files(&self, uid: &str) -> [PathBuf; 2] {
        let directory = self.of_pod(uid);
        [directory.join("etc-hosts"), directory.join("containers")]
    }

    /// Writes the files that every container has mounted: the hosts file and its termination message.
    pub(crate) fn own_mounts(
        &self,
        pod: &Pod,
        container: &Container,
        pod_ips: &[String],
    ) -> io::Result<Vec<Mount>> {
        let mounts_at = |path: &str| {
            container.tree.items_at(&["volumeMounts"]).iter().any(|m| m.str_at(&["mountPath"]) == Some(path))
        };
        let [hosts, messages] = self.own_files(pod.uid());
        let mut mounts = Vec::new();
        if !mounts_at("/etc/hosts") {
            let on_host = pod.uses_host(HostNamespace::Network);
            let (name, domain) = hostname(pod, &self.cluster_domain);
            let text = hosts_file::text(pod, on_host, pod_ips, &name, &domain);
            write_file(&hosts, 0o644, &text)?;
            mounts.push(own_mount("/etc/hosts", &hosts));
        }
        if let Some(path) = container.tree.str_at(&["terminationMessagePath"]).filter(|path| !path.is_empty())
        {
            let unique = format!("{:08x}", std::process::id() ^ next_number());
            let file = messages.join(container.name.as_str()).join(unique);
            write_file(&file, 0o666, "")?;
            mounts.push(own_mount(path, &file));
        }
        Ok(mounts)
    }

    /// Unmounts and removes a pod's volumes. Its termination messages stay.
    pub(crate) fn remove_volumes(&self, uid: &str) -> io::Result<()> {
        let directory = self.of_pod(uid);
        let parts = ["volume-subpaths", "volumes"].map(|part| directory.join(part));
        if !parts.iter().any(|part| part.exists()) {
            return Ok(());
        }
        // A mounted volume may not be the pod's alone: nothing is removed before it is unmounted.
        mount_points::unmount_all(&directory)?;
        parts.iter().try_for_each(|part| remove_tree(part))
    }

    /// Unmounts and removes everything of a pod.
    pub(crate) fn remove(&self, uid: &str) -> io::Result<()> {
        let directory = self.of_pod(uid);
        // A mounted volume may not be the pod's alone: nothing is removed before it is unmounted.
        mount_points::unmount_all(&directory)?;
        self.groups_set.lock().retain(|(pod, _)| pod != uid);
        remove_tree(&directory)
    }
}

fn own_mount(container_path: &str, host_path: &Path) -> Mount {
    let host_path = host_path.display().to_string();
    Mount { container_path: container_path.to_owned(), host_path, ..Mount::default() }
}

/// A number that is unique in this process.
fn next_number() -> u32 {
    static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0x0101_0101);
    NEXT.fetch_add(0x0001_0003, std::sync::atomic::Ordering::Relaxed)
}

/// Writes a file for containers to mount, in a directory that only the kubelet reaches.
fn write_file(path: &Path, mode: u32, text: &str) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        files::private_directory(parent)?;
    }
    files::write(path, mode, text)
}

/// Mounts a tmpfs for a volume that holds secrets, unless it has files already: those of an earlier version are on disk
/// until the pod is gone, because its containers have them mounted.
fn mount_empty_tmpfs(path: &Path, size: Option<i64>) -> io::Result<()> {
    let is_empty = std::fs::read_dir(path).map_or(true, |mut entries| entries.next().is_none());
    if !is_empty {
        return Ok(());
    }
    files::directory(path, 0o777)?;
    mount_points::mount_tmpfs(path, size).map(|_| ())
}

/// Makes the pod's `fsGroup` own a volume, if it has one.
fn set_group(pod: &Pod, path: &Path, read_only: bool) -> io::Result<()> {
    let Some(ownership) = Ownership::of(pod) else { return Ok(()) };
    ownership.set(path, read_only)
}

/// The size of a tmpfs: the least of its own limit, the pod's memory limit and the node's memory.
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
    fn a_tmpfs_is_limited_by_the_smallest_limit() {
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
