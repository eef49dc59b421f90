//! Resource usage of containers and sandboxes. `None` is unknown, never zero.

use jiff::Timestamp;

use super::{ContainerMetadata, FilesystemUsage, Map, PodSandboxMetadata};

#[derive(Debug, Clone, Default, PartialEq)]
pub struct ContainerStats {
    pub id: String,
    pub pod_sandbox_id: String,
    pub metadata: ContainerMetadata,
    pub labels: Map,
    pub annotations: Map,
    pub cpu: Option<CpuUsage>,
    pub memory: Option<MemoryUsage>,
    pub swap: Option<SwapUsage>,
    pub io: Option<IoUsage>,
    pub writable_layer: Option<FilesystemUsage>,
    pub process_count: Option<u64>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct PodSandboxStats {
    pub id: String,
    pub metadata: PodSandboxMetadata,
    pub labels: Map,
    pub annotations: Map,
    pub cpu: Option<CpuUsage>,
    pub memory: Option<MemoryUsage>,
    pub io: Option<IoUsage>,
    pub network: Option<NetworkUsage>,
    pub process_count: Option<u64>,
    pub containers: Vec<ContainerStats>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct CpuUsage {
    pub timestamp: Timestamp,
    /// Since the cgroup was created.
    pub usage_core_nano_seconds: Option<u64>,
    /// Over an interval that the runtime chooses.
    pub usage_nano_cores: Option<u64>,
    pub psi: Option<PsiStats>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct MemoryUsage {
    pub timestamp: Timestamp,
    pub working_set_bytes: Option<u64>,
    /// The limit less the working set, if there is a limit.
    pub available_bytes: Option<u64>,
    pub usage_bytes: Option<u64>,
    pub rss_bytes: Option<u64>,
    pub page_faults: Option<u64>,
    pub major_page_faults: Option<u64>,
    pub psi: Option<PsiStats>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct SwapUsage {
    pub timestamp: Timestamp,
    pub available_bytes: Option<u64>,
    pub usage_bytes: Option<u64>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct IoUsage {
    pub timestamp: Timestamp,
    pub psi: Option<PsiStats>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct PsiStats {
    pub full: PsiData,
    pub some: PsiData,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct PsiData {
    /// In nanoseconds.
    pub total: u64,
    pub avg10: f64,
    pub avg60: f64,
    pub avg300: f64,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct NetworkUsage {
    pub timestamp: Timestamp,
    pub default_interface: Option<NetworkInterfaceUsage>,
    pub interfaces: Vec<NetworkInterfaceUsage>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NetworkInterfaceUsage {
    pub name: String,
    pub rx_bytes: u64,
    pub rx_errors: u64,
    pub tx_bytes: u64,
    pub tx_errors: u64,
}

/// All fields that are set must match.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StatsFilter {
    /// The id of a container or a sandbox, depending on the list.
    pub id: Option<String>,
    pub pod_sandbox_id: Option<String>,
    pub labels: Map,
}
