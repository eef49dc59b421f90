//! Pod sandboxes: the resources that a pod's containers share.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{LinuxContainerResources, Map, NamespaceOptions, SandboxSecurityContext};

/// The configuration of a pod's sandbox.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PodSandboxConfig {
    pub metadata: PodSandboxMetadata,
    /// Empty on the node's network: then the node's own name is kept.
    pub hostname: String,
    /// The directory of the containers' logs; their `log_path` is relative to it.
    pub log_directory: String,
    /// `None` keeps the resolver configuration of the image or the node.
    pub dns_config: Option<DnsConfig>,
    pub port_mappings: Vec<PortMapping>,
    pub labels: Map,
    pub annotations: Map,
    pub linux: LinuxPodSandboxConfig,
}

/// Identifies one attempt at a pod's sandbox; unique in a runtime.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PodSandboxMetadata {
    pub name: String,
    pub uid: String,
    pub namespace: String,
    pub attempt: u32,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DnsConfig {
    pub servers: Vec<String>,
    pub searches: Vec<String>,
    pub options: Vec<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortMapping {
    pub protocol: Protocol,
    pub container_port: u16,
    /// 0 if none.
    pub host_port: u16,
    pub host_ip: String,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Protocol {
    #[default]
    Tcp,
    Udp,
    Sctp,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LinuxPodSandboxConfig {
    /// The pod's cgroup, created by the caller, such as `/kubepods/burstable/pod<uid>`.
    pub cgroup_parent: String,
    pub security_context: SandboxSecurityContext,
    pub sysctls: Map,
    /// The resources of the sandbox itself, on top of those of its containers.
    pub overhead: Option<LinuxContainerResources>,
    /// The sum of the resources of its containers.
    pub resources: Option<LinuxContainerResources>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum PodSandboxState {
    #[default]
    Ready,
    NotReady,
}

/// A sandbox in a list.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PodSandbox {
    pub id: String,
    pub metadata: PodSandboxMetadata,
    pub state: PodSandboxState,
    pub created_at: Timestamp,
    pub labels: Map,
    pub annotations: Map,
    pub runtime_handler: String,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct PodSandboxStatus {
    pub id: String,
    pub metadata: PodSandboxMetadata,
    pub state: PodSandboxState,
    pub created_at: Timestamp,
    /// The pod's addresses, the primary one first; none on the node's network.
    pub ips: Vec<String>,
    pub namespaces: NamespaceOptions,
    pub labels: Map,
    pub annotations: Map,
    pub runtime_handler: String,
}

/// All fields that are set must match.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PodSandboxFilter {
    pub id: Option<String>,
    pub state: Option<PodSandboxState>,
    pub labels: Map,
}

impl PodSandboxFilter {
    pub fn matches(&self, sandbox: &PodSandbox) -> bool {
        self.id.as_ref().is_none_or(|id| *id == sandbox.id)
            && self.state.is_none_or(|state| state == sandbox.state)
            && includes(&sandbox.labels, &self.labels)
    }
}

/// Returns true if all wanted labels are present.
pub(crate) fn includes(labels: &Map, wanted: &Map) -> bool {
    wanted.iter().all(|(key, value)| labels.get(key) == Some(value))
}
