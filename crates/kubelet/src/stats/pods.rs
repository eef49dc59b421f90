//! The resource usage of pods and their containers.

use std::collections::HashMap;
use std::path::Path;

use corten_container::native::usage::{self, Folder, Usage};
use corten_container::{
    Container, ContainerFilter, ContainerState, FilesystemUsage, PodSandbox, PodSandboxFilter,
    PodSandboxState, StatsFilter,
};
use futures_util::future::join_all;
use jiff::Timestamp;

use super::{ContainerStats, Detail, FsStats, Measured, PodStats, disk, file_system, volumes};
use crate::containers::labels;
use crate::kubelet::Kubelet;
use crate::pod::Pod;
use crate::resources;

/// The runtime's statistics that cgroups do not have.
#[derive(Default)]
struct RuntimeStats {
    containers: HashMap<String, corten_container::ContainerStats>,
    sandboxes: HashMap<String, corten_container::PodSandboxStats>,
}

/// Every pod that has a ready sandbox.
pub(super) async fn all(kubelet: &Kubelet, detail: Detail) -> corten_container::Result<Vec<PodStats>> {
    collect(kubelet, kubelet.pod_workers.pods(), detail).await
}

/// The given pods that have ready sandboxes, with their present disk usage.
pub(crate) async fn of_pods(kubelet: &Kubelet, pods: &[Pod]) -> corten_container::Result<Vec<PodStats>> {
    kubelet.stats.folders.lock().forget();
    collect(kubelet, pods.to_vec(), Detail::Everything).await
}

async fn collect(
    kubelet: &Kubelet,
    pods: Vec<Pod>,
    detail: Detail,
) -> corten_container::Result<Vec<PodStats>> {
    let sandboxes =
        newest(kubelet.containers.runtime.list_pod_sandboxes(&PodSandboxFilter::default()).await?);
    let filter = ContainerFilter { state: Some(ContainerState::Running), ..ContainerFilter::default() };
    let containers = kubelet.containers.runtime.list_containers(&filter).await?;
    let known: HashMap<String, Pod> = pods.into_iter().map(|pod| (pod.uid().to_owned(), pod)).collect();
    // A request for all pods is expensive, because directories have to be walked.
    let few = known.len() < kubelet.pod_workers.uids().len();
    let is_known = |sandbox: &&PodSandbox| known.contains_key(&sandbox.metadata.uid);
    let wanted: Option<Vec<String>> =
        few.then(|| sandboxes.iter().filter(is_known).map(|sandbox| sandbox.id.clone()).collect());
    let mut runtime_stats = None;
    let mut found = Vec::new();
    for sandbox in sandboxes {
        let Some(pod) = known.get(&sandbox.metadata.uid) else { continue };
        let own = containers.iter().filter(|container| container.pod_sandbox_id == sandbox.id);
        let own: Vec<&Container> = own.collect();
        let mut stats = used(kubelet, pod, &sandbox, &own);
        if detail == Detail::Everything || stats.containers.iter().any(|c| c.cpu.is_none()) {
            if runtime_stats.is_none() {
                runtime_stats = Some(read_runtime_stats(kubelet, detail, wanted.as_deref()).await?);
            }
            if let Some(runtime_stats) = &runtime_stats {
                complete(&mut stats, runtime_stats);
            }
        }
        rate(kubelet, &mut stats);
        if detail == Detail::Everything {
            let asked = runtime_stats.as_ref().map(|runtime_stats| &runtime_stats.containers);
            on_disk(kubelet, &mut stats, asked).await;
        }
        found.push(stats);
    }
    Ok(found)
}

/// The newest ready sandbox of each pod.
fn newest(mut sandboxes: Vec<PodSandbox>) -> Vec<PodSandbox> {
    sandboxes.retain(|sandbox| sandbox.state == PodSandboxState::Ready);
    sandboxes.sort_by(|a, b| a.metadata.uid.cmp(&b.metadata.uid).then(b.created_at.cmp(&a.created_at)));
    sandboxes.dedup_by(|later, kept| later.metadata.uid == kept.metadata.uid);
    sandboxes
}

/// The usage in a pod's cgroups.
fn used(kubelet: &Kubelet, pod: &Pod, sandbox: &PodSandbox, containers: &[&Container]) -> PodStats {
    let now = kubelet.clock.now();
    let cgroup = resources::cgroup_of(pod);
    let read = |path: &str| -> Usage {
        usage::read(&Folder { cgroups: kubelet.resources.cgroups.hierarchies(), path })
    };
    let own = read(&cgroup);
    let containers = containers.iter().map(|container| {
        let mut stats = ContainerStats {
            name: container.metadata.name.clone(),
            id: container.id.clone(),
            started: container.created_at,
            ..ContainerStats::default()
        };
        stats.take(&read(&format!("{cgroup}/{}", container.id)), now);
        stats
    });
    PodStats {
        sandbox_id: sandbox.id.clone(),
        started: sandbox.created_at,
        containers: containers.collect(),
        cpu: own.cri_cpu(now),
        memory: own.cri_memory(now),
        swap: own.cri_swap(now),
        io: own.cri_io(now),
        network: None,
        volumes: Vec::new(),
        ephemeral: None,
        processes: own.processes,
        pod: pod.clone(),
    }
}

/// Requests statistics of some sandboxes, or all. Falls back to statistics of containers.
async fn read_runtime_stats(
    kubelet: &Kubelet,
    detail: Detail,
    wanted: Option<&[String]>,
) -> corten_container::Result<RuntimeStats> {
    let filter = StatsFilter::default();
    let runtime = &kubelet.containers.runtime;
    let sandboxes = async {
        let Some(wanted) = wanted else { return runtime.list_pod_sandbox_stats(&filter).await };
        let asked = join_all(wanted.iter().map(|id| runtime.pod_sandbox_stats(id))).await;
        asked
            .into_iter()
            .filter(|one| !one.as_ref().is_err_and(corten_container::Error::is_not_found))
            .collect()
    };
    if detail == Detail::Everything
        && let Ok(list) = sandboxes.await
    {
        let containers = list.iter().flat_map(|sandbox| sandbox.containers.iter().cloned());
        let containers = containers.map(|container| (container.id.clone(), container)).collect();
        let sandboxes = list.into_iter().map(|sandbox| (sandbox.id.clone(), sandbox)).collect();
        return Ok(RuntimeStats { containers, sandboxes });
    }
    let list = kubelet.containers.runtime.list_container_stats(&filter).await?;
    let containers = list.into_iter().map(|container| (container.id.clone(), container)).collect();
    Ok(RuntimeStats { containers, sandboxes: HashMap::new() })
}

/// Adds what cgroups do not have.
fn complete(stats: &mut PodStats, runtime_stats: &RuntimeStats) {
    for container in &mut stats.containers {
        let Some(runtime_stats) = runtime_stats.containers.get(&container.id) else { continue };
        container.cpu = container.cpu.take().or_else(|| runtime_stats.cpu.clone());
        container.memory = container.memory.take().or_else(|| runtime_stats.memory.clone());
        container.swap = container.swap.take().or_else(|| runtime_stats.swap.clone());
        container.io = container.io.take().or_else(|| runtime_stats.io.clone());
    }
    if let Some(sandbox) = runtime_stats.sandboxes.get(&stats.sandbox_id) {
        stats.network = sandbox.network.clone();
        stats.cpu = stats.cpu.take().or_else(|| sandbox.cpu.clone());
        stats.memory = stats.memory.take().or_else(|| sandbox.memory.clone());
        stats.processes = stats.processes.or(sandbox.process_count);
    }
}

fn rate(kubelet: &Kubelet, stats: &mut PodStats) {
    kubelet.stats.rate(&stats.sandbox_id, &mut stats.cpu);
    for container in &mut stats.containers {
        kubelet.stats.rate(&container.id, &mut container.cpu);
    }
}

/// The disk usage of a pod: layers, logs and volumes.
async fn on_disk(
    kubelet: &Kubelet,
    stats: &mut PodStats,
    runtime_stats: Option<&HashMap<String, corten_container::ContainerStats>>,
) {
    let now = kubelet.clock.now();
    let logs = labels::log_directory(&kubelet.containers.config.log_root, &stats.pod);
    let log_fs = file_system(Path::new(&kubelet.containers.config.log_root), now);
    for container in &mut stats.containers {
        let layer =
            runtime_stats.and_then(|runtime_stats| runtime_stats.get(&container.id)?.writable_layer.as_ref());
        container.rootfs = layer.map(|layer| rootfs(layer, now));
        let used = disk::measure(&Path::new(&logs).join(&container.name));
        container.logs = log_fs.as_ref().map(|fs| fs.with_used(used));
    }
    stats.volumes = volumes::of_pod(kubelet, &stats.pod).await;
    // Containers can write to their hosts file and termination message without limit.
    let own = kubelet.volumes.own_files(stats.pod.uid());
    let own = own.iter().map(|path| disk::measure(path)).fold(Measured::default(), Measured::and);
    let used = ephemeral(stats).and(own);
    stats.ephemeral = file_system(kubelet.volumes.root(), now).map(|fs| fs.with_used(used));
}

fn rootfs(layer: &FilesystemUsage, now: Timestamp) -> FsStats {
    let fs = file_system(Path::new(&layer.mountpoint), now).unwrap_or_default();
    FsStats {
        at: layer.timestamp,
        ..fs.with_used(Measured { bytes: layer.used_bytes, inodes: layer.inodes_used })
    }
}

/// The usage of the node's disk that is removed with the pod.
fn ephemeral(stats: &PodStats) -> Measured {
    let layers = stats.containers.iter().flat_map(|c| [c.rootfs.as_ref(), c.logs.as_ref()]).flatten();
    let volumes = stats.volumes.iter().filter(|volume| volume.ephemeral).map(|volume| &volume.fs);
    let measured = |fs: &FsStats| Measured { bytes: fs.used, inodes: fs.inodes_used };
    layers.chain(volumes).map(measured).fold(Measured::default(), Measured::and)
}
