//! The volumes of pods: made ready before their containers are made, and gone after them.
//!
//! Everything of a pod is below one directory of its own, laid out as upstream lays it out. What a volume holds is
//! decided purely (`payload`) and written at one stroke (`atomic`): whoever reads sees all of the old or all of
//! the new.

mod atomic;
mod claims;
mod host_path;
mod hosts;
mod payload;
mod sub_path;

use std::collections::BTreeMap;
use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};

use corten_api::quantity::Quantity;
use corten_api::{Str, Value};
use corten_container::Mount;

use crate::config::{VolumePaths, hostname};
use crate::machine::Machine;
use crate::pod::{Container, HostNamespace, Pod};
use crate::start::own_mount;

pub(crate) use payload::token_request;

pub(crate) struct Volumes {
    root: PathBuf,
    cluster_domain: String,
}

/// Where a pod's volumes are.
#[derive(Debug, Default)]
pub(crate) struct Mounted(BTreeMap<Str, Place>);

#[derive(Debug)]
struct Place {
    path: PathBuf,
    read_only: bool,
}

impl VolumePaths for Mounted {
    fn path(&self, volume: &str, sub_path: &str) -> Result<String, String> {
        let place = self.0.get(volume).ok_or_else(|| format!("volume {volume:?} is not mounted"))?;
        if sub_path.is_empty() {
            return Ok(place.path.display().to_string());
        }
        sub_path::within(&place.path, sub_path).map(|path| path.display().to_string())
    }

    fn is_read_only(&self, volume: &str) -> bool {
        self.0.get(volume).is_some_and(|place| place.read_only)
    }
}

impl Volumes {
    pub(crate) fn new(root: PathBuf, cluster_domain: String) -> Volumes {
        Volumes { root, cluster_domain }
    }

    /// Where everything of a pod is.
    pub(crate) fn of_pod(&self, uid: &str) -> PathBuf {
        self.root.join("pods").join(uid)
    }

    fn of_volume(&self, pod: &Pod, plugin: &str, name: &str) -> PathBuf {
        self.of_pod(pod.uid()).join("volumes").join(format!("kubernetes.io~{plugin}")).join(name)
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
        claims::path(machine, pod, claim).await.ok()
    }

    /// Makes every volume of a pod be there and up to date. An error names the first that cannot be.
    pub(crate) async fn mount(&self, machine: &Machine, pod: &Pod) -> Result<Mounted, String> {
        let mut mounted = Mounted::default();
        for volume in pod.tree().items_at(&["spec", "volumes"]) {
            let name = volume.str_at(&["name"]).unwrap_or_default();
            let place = self.mount_one(machine, pod, volume, name).await;
            let place =
                place.map_err(|why| format!("MountVolume.SetUp failed for volume {name:?} : {why}"))?;
            mounted.0.insert(name.into(), place);
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
            return self.empty_dir(pod, name, source).map(own);
        }
        if let Some(source) = volume.get("hostPath") {
            return host_path::check(source).map(own);
        }
        if let Some(source) = volume.get("persistentVolumeClaim") {
            let claim = source.str_at(&["claimName"]).unwrap_or_default();
            let path = claims::path(machine, pod, claim).await?;
            return Ok(Place { path, read_only: source.bool_at(&["readOnly"]).unwrap_or(false) });
        }
        if volume.get("ephemeral").is_some() {
            let claim = format!("{}-{name}", pod.name());
            return claims::path(machine, pod, &claim).await.map(own);
        }
        let Some((plugin, wanted)) = payload::payload(machine, pod, volume).await? else {
            return Err("no volume plugin matched".to_owned());
        };
        let path = self.of_volume(pod, plugin, name);
        atomic::write(&path, &wanted).map_err(|e| e.to_string())?;
        give_to_group(&path, fs_group(pod)).map_err(|e| e.to_string())?;
        Ok(own(path))
    }

    /// A directory that everybody in the pod may write to, in memory if so asked.
    fn empty_dir(&self, pod: &Pod, name: &str, source: &Value) -> Result<PathBuf, String> {
        let path = self.of_volume(pod, "empty-dir", name);
        let fresh = !path.exists();
        std::fs::create_dir_all(&path).map_err(|e| e.to_string())?;
        if source.str_at(&["medium"]) == Some("Memory") && !is_mount(&path) {
            let size = source.str_at(&["sizeLimit"]).and_then(|text| Quantity::parse(text).ok());
            let options = size.filter(|s| !s.is_zero()).map(|s| format!("size={}", s.value()));
            mount_tmpfs(&path, options.as_deref()).map_err(|e| e.to_string())?;
        }
        if fresh {
            std::fs::set_permissions(&path, Permissions::from_mode(0o777)).map_err(|e| e.to_string())?;
            give_to_group(&path, fs_group(pod)).map_err(|e| e.to_string())?;
        }
        Ok(path)
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
        let directory = self.of_pod(pod.uid());
        let mut mounts = Vec::new();
        if !mounts_at("/etc/hosts") {
            let path = directory.join("etc-hosts");
            let on_host = pod.uses_host(HostNamespace::Network);
            let (name, domain) = hostname(pod, &self.cluster_domain);
            let text = hosts::text(pod, on_host, pod_ips, &name, &domain);
            write_file(&path, &text).map_err(|e| e.to_string())?;
            mounts.push(own_mount("/etc/hosts", path.display().to_string()));
        }
        if let Some(path) = container.tree.str_at(&["terminationMessagePath"]).filter(|path| !path.is_empty())
        {
            let of_container = directory.join("containers").join(container.name.as_str());
            let unique = format!("{:08x}", std::process::id() ^ next_number());
            let file = of_container.join(unique);
            write_file(&file, "").map_err(|e| e.to_string())?;
            std::fs::set_permissions(&file, Permissions::from_mode(0o666)).map_err(|e| e.to_string())?;
            mounts.push(own_mount(path, file.display().to_string()));
        }
        Ok(mounts)
    }

    /// Takes everything of a pod away.
    pub(crate) fn remove(&self, uid: &str) -> std::io::Result<()> {
        let directory = self.of_pod(uid);
        let memory = directory.join("volumes/kubernetes.io~empty-dir");
        for volume in std::fs::read_dir(&memory).into_iter().flatten().flatten() {
            if is_mount(&volume.path()) {
                rustix::mount::unmount(volume.path(), rustix::mount::UnmountFlags::DETACH)?;
            }
        }
        match std::fs::remove_dir_all(&directory) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

/// A number that nobody else in this process gets.
fn next_number() -> u32 {
    static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0x0101_0101);
    NEXT.fetch_add(0x0001_0003, std::sync::atomic::Ordering::Relaxed)
}

fn write_file(path: &Path, text: &str) -> std::io::Result<()> {
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent)?;
    }
    // Containers have the file mounted: it has to stay the same one.
    std::fs::write(path, text)
}

fn fs_group(pod: &Pod) -> Option<u32> {
    pod.tree().int_at(&["spec", "securityContext", "fsGroup"]).and_then(|group| u32::try_from(group).ok())
}

/// Lets a group own everything in a directory, and what comes into it later.
fn give_to_group(path: &Path, group: Option<u32>) -> std::io::Result<()> {
    let Some(group) = group else { return Ok(()) };
    let metadata = std::fs::symlink_metadata(path)?;
    if metadata.is_symlink() {
        return std::os::unix::fs::lchown(path, None, Some(group));
    }
    chown(path, None, Some(group))?;
    let mode = metadata.permissions().mode();
    if !metadata.is_dir() {
        return std::fs::set_permissions(path, Permissions::from_mode(mode | ((mode & 0o600) >> 3)));
    }
    std::fs::set_permissions(path, Permissions::from_mode(mode | 0o2070))?;
    for entry in std::fs::read_dir(path)? {
        give_to_group(&entry?.path(), Some(group))?;
    }
    Ok(())
}

/// Whether something else is mounted here than what is around it.
fn is_mount(path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let device = |path: &Path| std::fs::metadata(path).map(|metadata| metadata.dev()).ok();
    path.parent().is_some_and(|parent| device(path) != device(parent))
}

fn mount_tmpfs(path: &Path, options: Option<&str>) -> std::io::Result<()> {
    let options = options.map(std::ffi::CString::new).transpose()?;
    let flags = rustix::mount::MountFlags::empty();
    rustix::mount::mount("tmpfs", path, "tmpfs", flags, options.as_deref())?;
    Ok(())
}
