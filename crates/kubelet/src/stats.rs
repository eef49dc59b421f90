//! What the node, its pods and their containers use: cgroups, file systems and network, read when asked for.
//!
//! Nothing runs here while nobody asks. What pods use is read from their cgroups whatever the runtime is; what only
//! the runtime knows (writable layers, networks, containers whose cgroups are elsewhere) it is asked for.

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

use crate::machine::Machine;
use crate::pod::Pod;

pub(crate) use disk::{FsStats, Measured, file_system};
pub(crate) use node::{Interface, boot_time, interfaces, memory, processes_of_node};
pub(crate) use pods::of_pods;
pub(crate) use tree::summary_tree;

/// What is remembered between two looks.
pub(crate) struct Stats {
    /// Since when this process looks after the node.
    started: Timestamp,
    rates: Mutex<rates::Rates>,
    folders: Mutex<disk::Folders>,
    image_folder: Mutex<Option<String>>,
}

/// How much is to be found out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Detail {
    /// No disk is looked at, and no network.
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
    /// The parts of the node that are no pods.
    pub(crate) system: Vec<ContainerStats>,
}

/// How many processes there are, and how many there can be.
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
    /// Whether it is on the node's own disk, for as long as the pod is there.
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

    /// Where images are, once that is known.
    pub(crate) fn image_folder(&self) -> Option<String> {
        self.image_folder.lock().clone()
    }

    pub(crate) fn learn_image_folder(&self, folder: &str) {
        *self.image_folder.lock() = Some(folder.to_owned());
    }

    /// Fills in how much of a CPU is used lately.
    fn rate(&self, key: &str, cpu: &mut Option<CpuUsage>) {
        let Some(cpu) = cpu else { return };
        let Some(total) = cpu.usage_core_nano_seconds else { return };
        cpu.usage_nano_cores = self.rates.lock().learn(key, cpu.timestamp, total).or(cpu.usage_nano_cores);
    }
}

/// Looks at the node and its pods.
pub(crate) async fn summary(machine: &Machine, detail: Detail) -> corten_container::Result<Summary> {
    let pods = pods::all(machine, detail).await?;
    let node = node::look(machine, detail).await?;
    Ok(Summary { node, pods })
}
