//! What pods and their containers use.

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
use crate::machine::Machine;
use crate::names;
use crate::pod::Pod;
use crate::resources;

/// What the runtime tells that cgroups do not.
#[derive(Default)]
struct Told {
    containers: HashMap<String, corten_container::ContainerStats>,
    sandboxes: HashMap<String, corten_container::PodSandboxStats>,
}

/// Every pod that has a sandbox at work.
pub(super) async fn all(machine: &Machine, detail: Detail) -> corten_container::Result<Vec<PodStats>> {
    look(machine, machine.pods.all(), detail).await
}

/// Some pods, as far as they have sandboxes at work, with everything they have on disk just now.
pub(crate) async fn of_pods(machine: &Machine, pods: &[Pod]) -> corten_container::Result<Vec<PodStats>> {
    machine.stats.folders.lock().forget();
    look(machine, pods.to_vec(), Detail::Everything).await
}

async fn look(machine: &Machine, pods: Vec<Pod>, detail: Detail) -> corten_container::Result<Vec<PodStats>> {
    let sandboxes = newest(machine.runtime.list_pod_sandboxes(&PodSandboxFilter::default()).await?);
    let filter = ContainerFilter { state: Some(ContainerState::Running), ..ContainerFilter::default() };
    let containers = machine.runtime.list_containers(&filter).await?;
    let known: HashMap<String, Pod> = pods.into_iter().map(|pod| (pod.uid().to_owned(), pod)).collect();
    // Asking about everybody is dear: what somebody has on disk has to be walked through.
    let few = known.len() < machine.pods.count();
    let is_known = |sandbox: &&PodSandbox| known.contains_key(&sandbox.metadata.uid);
    let wanted: Option<Vec<String>> =
        few.then(|| sandboxes.iter().filter(is_known).map(|sandbox| sandbox.id.clone()).collect());
    let mut told = None;
    let mut found = Vec::new();
    for sandbox in sandboxes {
        let Some(pod) = known.get(&sandbox.metadata.uid) else { continue };
        let own = containers.iter().filter(|container| container.pod_sandbox_id == sandbox.id);
        let own: Vec<&Container> = own.collect();
        let mut stats = used(machine, pod, &sandbox, &own);
        if detail == Detail::Everything || stats.containers.iter().any(|c| c.cpu.is_none()) {
            if told.is_none() {
                told = Some(ask(machine, detail, wanted.as_deref()).await?);
            }
            if let Some(told) = &told {
                complete(&mut stats, told);
            }
        }
        rate(machine, &mut stats);
        if detail == Detail::Everything {
            let asked = told.as_ref().map(|told| &told.containers);
            on_disk(machine, &mut stats, asked).await;
        }
        found.push(stats);
    }
    Ok(found)
}

/// The sandbox of each pod that is at work; of several, the newest.
fn newest(mut sandboxes: Vec<PodSandbox>) -> Vec<PodSandbox> {
    sandboxes.retain(|sandbox| sandbox.state == PodSandboxState::Ready);
    sandboxes.sort_by(|a, b| a.metadata.uid.cmp(&b.metadata.uid).then(b.created_at.cmp(&a.created_at)));
    sandboxes.dedup_by(|later, kept| later.metadata.uid == kept.metadata.uid);
    sandboxes
}

/// What a pod's cgroups tell.
fn used(machine: &Machine, pod: &Pod, sandbox: &PodSandbox, containers: &[&Container]) -> PodStats {
    let now = machine.clock.now();
    let cgroup = resources::cgroup_of(pod);
    let read =
        |path: &str| -> Usage { usage::read(&Folder { cgroups: machine.cgroups.hierarchies(), path }) };
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

/// Asks the runtime about some sandboxes, or all. One that knows nothing of sandboxes is asked about containers.
async fn ask(machine: &Machine, detail: Detail, wanted: Option<&[String]>) -> corten_container::Result<Told> {
    let filter = StatsFilter::default();
    let runtime = &machine.runtime;
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
        return Ok(Told { containers, sandboxes });
    }
    let list = machine.runtime.list_container_stats(&filter).await?;
    let containers = list.into_iter().map(|container| (container.id.clone(), container)).collect();
    Ok(Told { containers, sandboxes: HashMap::new() })
}

/// Fills in what cgroups did not tell.
fn complete(stats: &mut PodStats, told: &Told) {
    for container in &mut stats.containers {
        let Some(told) = told.containers.get(&container.id) else { continue };
        container.cpu = container.cpu.take().or_else(|| told.cpu.clone());
        container.memory = container.memory.take().or_else(|| told.memory.clone());
        container.swap = container.swap.take().or_else(|| told.swap.clone());
        container.io = container.io.take().or_else(|| told.io.clone());
    }
    if let Some(sandbox) = told.sandboxes.get(&stats.sandbox_id) {
        stats.network = sandbox.network.clone();
        stats.cpu = stats.cpu.take().or_else(|| sandbox.cpu.clone());
        stats.memory = stats.memory.take().or_else(|| sandbox.memory.clone());
        stats.processes = stats.processes.or(sandbox.process_count);
    }
}

fn rate(machine: &Machine, stats: &mut PodStats) {
    machine.stats.rate(&stats.sandbox_id, &mut stats.cpu);
    for container in &mut stats.containers {
        machine.stats.rate(&container.id, &mut container.cpu);
    }
}

/// What a pod has on disk: layers, logs and volumes.
async fn on_disk(
    machine: &Machine,
    stats: &mut PodStats,
    told: Option<&HashMap<String, corten_container::ContainerStats>>,
) {
    let now = machine.clock.now();
    let logs = names::log_directory(&machine.config.log_root, &stats.pod);
    let log_fs = file_system(Path::new(&machine.config.log_root), now);
    for container in &mut stats.containers {
        let layer = told.and_then(|told| told.get(&container.id)?.writable_layer.as_ref());
        container.rootfs = layer.map(|layer| rootfs(layer, now));
        let used = disk::measure(&Path::new(&logs).join(&container.name));
        container.logs = log_fs.as_ref().map(|fs| fs.with_used(used));
    }
    stats.volumes = volumes::of_pod(machine, &stats.pod).await;
    // Containers can write to their hosts file and their last words without an end.
    let own = machine.volumes.own_files(stats.pod.uid());
    let own = own.iter().map(|path| disk::measure(path)).fold(Measured::default(), Measured::and);
    let used = ephemeral(stats).and(own);
    stats.ephemeral = file_system(machine.volumes.root(), now).map(|fs| fs.with_used(used));
}

fn rootfs(layer: &FilesystemUsage, now: Timestamp) -> FsStats {
    let fs = file_system(Path::new(&layer.mountpoint), now).unwrap_or_default();
    FsStats {
        at: layer.timestamp,
        ..fs.with_used(Measured { bytes: layer.used_bytes, inodes: layer.inodes_used })
    }
}

/// What of the node's disk goes with the pod.
fn ephemeral(stats: &PodStats) -> Measured {
    let layers = stats.containers.iter().flat_map(|c| [c.rootfs.as_ref(), c.logs.as_ref()]).flatten();
    let volumes = stats.volumes.iter().filter(|volume| volume.ephemeral).map(|volume| &volume.fs);
    let measured = |fs: &FsStats| Measured { bytes: fs.used, inodes: fs.inodes_used };
    layers.chain(volumes).map(measured).fold(Measured::default(), Measured::and)
}
