//! Security contexts of sandboxes and containers, and the namespaces they share.

use serde::{Deserialize, Serialize};

/// The scope of a namespace.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum NamespaceMode {
    /// Shared by the containers of the pod.
    #[default]
    Pod,
    /// Each container has its own.
    Container,
    /// The node's.
    Node,
    /// That of the container named by `target_id`.
    Target,
}

/// `Default` is the CRI's: everything is the pod's. Pods that do not share processes ask for
/// `pid: NamespaceMode::Container`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NamespaceOptions {
    /// `Pod` or `Node`.
    pub network: NamespaceMode,
    pub pid: NamespaceMode,
    /// `Pod` or `Node`.
    pub ipc: NamespaceMode,
    /// With `pid: Target`, the container whose processes are seen.
    pub target_id: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SandboxSecurityContext {
    pub namespace_options: NamespaceOptions,
    pub selinux_options: Option<SelinuxOption>,
    pub run_as_user: Option<i64>,
    pub run_as_group: Option<i64>,
    pub readonly_rootfs: bool,
    pub supplemental_groups: Vec<i64>,
    pub supplemental_groups_policy: SupplementalGroupsPolicy,
    /// A sandbox must be privileged for any of its containers to be.
    pub privileged: bool,
    pub seccomp: Option<SecurityProfile>,
    pub apparmor: Option<SecurityProfile>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ContainerSecurityContext {
    pub capabilities: Capabilities,
    pub privileged: bool,
    pub namespace_options: NamespaceOptions,
    pub selinux_options: Option<SelinuxOption>,
    pub run_as_user: Option<i64>,
    /// Only with a user, by number or name.
    pub run_as_group: Option<i64>,
    /// A name to look up in the image; empty if none, and ignored beside `run_as_user`.
    pub run_as_username: String,
    pub readonly_rootfs: bool,
    pub supplemental_groups: Vec<i64>,
    pub supplemental_groups_policy: SupplementalGroupsPolicy,
    pub no_new_privs: bool,
    pub masked_paths: Vec<String>,
    pub readonly_paths: Vec<String>,
    /// `None` is unconfined.
    pub seccomp: Option<SecurityProfile>,
    /// `None` is the runtime's default, where the node has AppArmor.
    pub apparmor: Option<SecurityProfile>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum SupplementalGroupsPolicy {
    /// The image's groups of the user are added.
    #[default]
    Merge,
    /// Only the requested groups.
    Strict,
}

/// A seccomp or AppArmor profile.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum SecurityProfile {
    #[default]
    RuntimeDefault,
    Unconfined,
    /// A file of the node (seccomp) or the name of a loaded profile (AppArmor).
    Localhost(String),
}

/// Names without the `CAP_`, in capitals; `ALL` is all of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Capabilities {
    pub add: Vec<String>,
    pub drop: Vec<String>,
    pub add_ambient: Vec<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SelinuxOption {
    pub user: String,
    pub role: String,
    pub kind: String,
    pub level: String,
}
