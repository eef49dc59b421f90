//! Containers: their configuration, state and status.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::sandbox::includes;
use super::{ContainerSecurityContext, ImageSpec, Map};

/// The configuration of one container of a pod.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ContainerConfig {
    pub metadata: ContainerMetadata,
    /// An image on this node, as `pull_image` or `image_status` named it.
    pub image: ImageSpec,
    /// Replaces the image's entrypoint.
    pub command: Vec<String>,
    /// Replaces the image's arguments.
    pub args: Vec<String>,
    /// Empty for the image's working directory.
    pub working_dir: String,
    /// In order, after those of the image.
    pub envs: Vec<(String, String)>,
    /// In order; a later mount may be inside an earlier one.
    pub mounts: Vec<Mount>,
    pub devices: Vec<Device>,
    pub labels: Map,
    pub annotations: Map,
    /// Relative to the sandbox's log directory; empty for no log.
    pub log_path: String,
    /// True if the container has a standard input to attach to.
    pub stdin: bool,
    /// True if standard input closes with the first client that was attached.
    pub stdin_once: bool,
    pub tty: bool,
    pub linux: LinuxContainerConfig,
    /// Such as `SIGTERM` or `SIGRTMIN+3`; empty for the image's stop signal, or `SIGTERM`.
    pub stop_signal: String,
}

/// Identifies one attempt at a container of a pod; unique in a sandbox.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ContainerMetadata {
    pub name: String,
    pub attempt: u32,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LinuxContainerConfig {
    pub resources: LinuxContainerResources,
    pub security_context: ContainerSecurityContext,
}

/// A file or directory of the node that is mounted in a container.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Mount {
    pub container_path: String,
    pub host_path: String,
    pub readonly: bool,
    /// Read-only recursively, including the mounts below.
    pub recursive_read_only: bool,
    pub selinux_relabel: bool,
    pub propagation: MountPropagation,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum MountPropagation {
    #[default]
    Private,
    HostToContainer,
    Bidirectional,
}

/// A device of the node; a directory stands for all devices in it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    pub container_path: String,
    pub host_path: String,
    /// Some of `r`, `w` and `m`.
    pub permissions: String,
}

/// 0 and empty mean "not set", as everywhere in the CRI.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LinuxContainerResources {
    pub cpu_period: i64,
    pub cpu_quota: i64,
    pub cpu_shares: i64,
    pub memory_limit_in_bytes: i64,
    pub memory_swap_limit_in_bytes: i64,
    pub oom_score_adj: i64,
    pub cpuset_cpus: String,
    pub cpuset_mems: String,
    pub hugepage_limits: Vec<HugepageLimit>,
    /// Files of cgroup v2 and the values to write into them.
    pub unified: Map,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HugepageLimit {
    /// Such as `2MB`.
    pub page_size: String,
    pub limit: u64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ContainerState {
    #[default]
    Created,
    Running,
    Exited,
    /// The runtime has lost track of the container.
    Unknown,
}

/// A container in a list.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Container {
    pub id: String,
    pub pod_sandbox_id: String,
    pub metadata: ContainerMetadata,
    pub image: ImageSpec,
    /// The image by digest, for display.
    pub image_ref: String,
    /// The runtime's id of the image.
    pub image_id: String,
    pub state: ContainerState,
    pub created_at: Timestamp,
    pub labels: Map,
    pub annotations: Map,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct ContainerStatus {
    pub id: String,
    pub metadata: ContainerMetadata,
    pub state: ContainerState,
    pub created_at: Timestamp,
    pub started_at: Option<Timestamp>,
    pub finished_at: Option<Timestamp>,
    /// 128 + the signal for a process that was killed.
    pub exit_code: i32,
    pub image: ImageSpec,
    pub image_ref: String,
    pub image_id: String,
    /// `Completed`, `Error`, `OOMKilled`, `StartError`, `ContainerStatusUnknown` and the like.
    pub reason: String,
    pub message: String,
    pub labels: Map,
    pub annotations: Map,
    pub mounts: Vec<Mount>,
    /// The full path of the log.
    pub log_path: String,
    /// The resources in force now.
    pub resources: Option<LinuxContainerResources>,
    /// The identity of the first process when it started.
    pub user: Option<ContainerUser>,
    pub stop_signal: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContainerUser {
    pub uid: i64,
    pub gid: i64,
    pub supplemental_groups: Vec<i64>,
}

/// All fields that are set must match.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ContainerFilter {
    pub id: Option<String>,
    pub state: Option<ContainerState>,
    pub pod_sandbox_id: Option<String>,
    pub labels: Map,
}

impl ContainerFilter {
    pub fn matches(&self, container: &Container) -> bool {
        self.id.as_ref().is_none_or(|id| *id == container.id)
            && self.state.is_none_or(|state| state == container.state)
            && self.pod_sandbox_id.as_ref().is_none_or(|id| *id == container.pod_sandbox_id)
            && includes(&container.labels, &self.labels)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ContainerEventKind {
    Created,
    Started,
    Stopped,
    Deleted,
}

/// A change of a container or of a sandbox (then the id is the sandbox's).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerEvent {
    pub container_id: String,
    pub pod_sandbox_id: String,
    pub kind: ContainerEventKind,
    pub at: Timestamp,
}
