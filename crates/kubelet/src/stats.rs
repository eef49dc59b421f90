//! Resource usage of the node, its pods and their containers: cgroups, file systems and network, read on request.
//!
//! Nothing is sampled in between. The usage of pods is read from their cgroups with any runtime; the runtime is asked
//! only for what cgroups do not have (writable layers, networks, containers whose cgroups are elsewhere).

mod disk;
mod node;
mod pods;
mod rates;
mod tree;
mod volumes;

use corten_container::native::usage::Usage;
use corten_container::{CpuUsage, IoUsage, MemoryUsage, NetworkUsage, SwapUsage};
use jiff::Timestamp;
use parking_lot::Mutex;

use crate::kubelet::Kubelet;
use crate::pod::Pod;

pub(crate) use disk::{FsStats, Measured, file_system};
pub(crate) use node::{Interface, boot_time, interfaces, memory, processes_of_node};
pub(crate) use pods::of_pods;
pub(crate) use tree::summary_tree;

/// The state between two requests.
pub(crate) struct Stats {
    /// The time when this process started.
    started: Timestamp,
    rates: Mutex<rates::Rates>,
    folders: Mutex<disk::Folders>,
    image_folder: Mutex<Option<String>>,
}

/// The extent of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Detail {
    /// Without disks and networks.
    CpuAndMemory,
    Everything,
}

/// The node and all its pods.
#[derive(Debug, Clone)]
pub(crate) struct Summary {
    pub(crate) node: NodeStats,
    pub(crate) pods: Vec<PodStats>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct NodeStats {
    pub(crate) started: Timestamp,
    pub(crate) cpu: Option<CpuUsage>,
    pub(crate) memory: Option<MemoryUsage>,
    pub(crate) swap: Option<SwapUsage>,
    pub(crate) io: Option<IoUsage>,
    pub(crate) network: Option<NetworkUsage>,
    pub(crate) fs: Option<FsStats>,
    pub(crate) image_fs: Option<FsStats>,
    pub(crate) container_fs: Option<FsStats>,
    pub(crate) processes: Option<Processes>,
    /// The system containers, such as the kubelet.
    pub(crate) system: Vec<ContainerStats>,
}

/// The number of processes, and its limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Processes {
    pub(crate) at: Timestamp,
    pub(crate) most: i64,
    pub(crate) running: i64,
}

#[derive(Debug, Clone)]
pub(crate) struct PodStats {
    pub(crate) pod: Pod,
    pub(crate) sandbox_id: String,
    pub(crate) started: Timestamp,
    pub(crate) containers: Vec<ContainerStats>,
    pub(crate) cpu: Option<CpuUsage>,
    pub(crate) memory: Option<MemoryUsage>,
    pub(crate) swap: Option<SwapUsage>,
    pub(crate) io: Option<IoUsage>,
    pub(crate) network: Option<NetworkUsage>,
    pub(crate) volumes: Vec<VolumeStats>,
    /// Writable layers, logs and volumes on the node's disk together.
    pub(crate) ephemeral: Option<FsStats>,
    pub(crate) processes: Option<u64>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct ContainerStats {
    pub(crate) name: String,
    pub(crate) id: String,
    pub(crate) started: Timestamp,
    pub(crate) cpu: Option<CpuUsage>,
    pub(crate) memory: Option<MemoryUsage>,
    pub(crate) swap: Option<SwapUsage>,
    pub(crate) io: Option<IoUsage>,
    pub(crate) rootfs: Option<FsStats>,
    pub(crate) logs: Option<FsStats>,
}

impl ContainerStats {
    fn take(&mut self, usage: &Usage, now: Timestamp) {
        self.cpu = usage.cri_cpu(now);
        self.memory = usage.cri_memory(now);
        self.swap = usage.cri_swap(now);
        self.io = usage.cri_io(now);
    }
}

#[derive(Debug, Clone)]
pub(crate) struct VolumeStats {
    pub(crate) name: String,
    /// The claim it stands for.
    pub(crate) claim: Option<String>,
    /// True if it is on the node's own disk and is removed with the pod.
    pub(crate) ephemeral: bool,
    pub(crate) fs: FsStats,
}

impl Stats {
    pub(crate) fn new(now: Timestamp) -> Stats {
        Stats {
            started: now,
            rates: Mutex::default(),
            folders: Mutex::default(),
            image_folder: Mutex::default(),
        }
    }

    /// The directory of images, once it is known.
    pub(crate) fn image_folder(&self) -> Option<String> {
        self.image_folder.lock().clone()
    }

    pub(crate) fn set_image_folder(&self, folder: &str) {
        *self.image_folder.lock() = Some(folder.to_owned());
    }

    /// Sets the cpu usage rate.
    fn rate(&self, key: &str, cpu: &mut Option<CpuUsage>) {
        let Some(cpu) = cpu else { return };
        let Some(total) = cpu.usage_core_nano_seconds else { return };
        cpu.usage_nano_cores =
            self.rates.lock().add_sample(key, cpu.timestamp, total).or(cpu.usage_nano_cores);
    }
}

/// Reads the usage of the node and its pods.
pub(crate) async fn summary(kubelet: &Kubelet, detail: Detail) -> corten_container::Result<Summary> {
    let pods = pods::all(kubelet, detail).await?;
    let node = node::collect(kubelet, detail).await?;
    Ok(Summary { node, pods })
}
