//! The version, status and handlers of a runtime.

use super::Map;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Version {
    pub runtime_name: String,
    pub runtime_version: String,
    pub runtime_api_version: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RuntimeStatus {
    /// `RuntimeReady` and `NetworkReady` at least.
    pub conditions: Vec<RuntimeCondition>,
    pub handlers: Vec<RuntimeHandler>,
    pub supplemental_groups_policy: bool,
    /// For display.
    pub info: Map,
}

impl RuntimeStatus {
    pub const RUNTIME_READY: &str = "RuntimeReady";
    pub const NETWORK_READY: &str = "NetworkReady";

    pub fn condition(&self, kind: &str) -> Option<&RuntimeCondition> {
        self.conditions.iter().find(|condition| condition.kind == kind)
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RuntimeCondition {
    pub kind: String,
    pub status: bool,
    pub reason: String,
    pub message: String,
}

/// A handler that a RuntimeClass can name; the empty name is the default one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RuntimeHandler {
    pub name: String,
    pub recursive_read_only_mounts: bool,
    pub user_namespaces: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CgroupDriver {
    #[default]
    Cgroupfs,
    Systemd,
}
