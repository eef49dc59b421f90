//! The runtime's configuration of sandboxes and containers, made from pods. Pure.
//!
//! Errors are shown as the reason why a container does not start, in upstream's words.

mod container;
mod dns;
mod isolation;
mod sandbox;
mod security;

pub(crate) use container::{ContainerParts, ResolvedMount, check_container, container_config};
pub(crate) use dns::Resolver;
pub(crate) use isolation::check_pod;
pub(crate) use sandbox::{hostname, sandbox_config};

/// The settings that all pods of the node share.
#[derive(Debug, Clone, Default)]
pub(crate) struct NodeConfig {
    /// The directory of pods' logs.
    pub(crate) log_root: String,
    pub(crate) resolver: Resolver,
    /// The memory of the node, in bytes.
    pub(crate) memory: i64,
    /// The directory of seccomp profiles.
    pub(crate) seccomp_root: String,
    /// True if containers without a seccomp profile get the runtime's default (`seccompDefault`).
    pub(crate) seccomp_default: bool,
}

/// A pod or container that cannot be configured; messages are upstream's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ConfigError {
    #[error("failed to prepare dynamic resources: claim {0:?}: no DRA driver is registered on this node")]
    DynamicResources(String),
    #[error("can't set `spec.hostUsers: false`, {0} does not support user namespaces")]
    UserNamespaces(String),
    #[error("Bidirectional mount propagation is available only to privileged containers")]
    Bidirectional,
    #[error("`hostUsers` must be false to use `Unmasked`")]
    UnmaskedProc,
    #[error("unknown procMount {0:?}")]
    ProcMount(String),
    #[error("seccomp profile {0:?} must be a descending path")]
    SeccompProfile(String),
    #[error("container's runAsUser breaks non-root policy {container}")]
    RunAsRoot { container: String },
    #[error("container has runAsNonRoot and image will run as root {container}")]
    ImageRunsAsRoot { container: String },
    #[error(
        "container has runAsNonRoot and image has non-numeric user ({user}), cannot verify user is non-root {container}"
    )]
    NonNumericUser { user: String, container: String },
    #[error(
        "container has runAsNonRoot and image has an invalid user id ({uid}). (Must be 1-({max})) {container}",
        max = i32::MAX
    )]
    InvalidUser { uid: i64, container: String },
    #[error("volume {0:?} requested recursive read-only mode, but it is not read-only")]
    RecursiveButWritable(String),
    #[error(
        "volume {volume:?} requested recursive read-only mode, but it is not compatible with propagation {propagation:?}"
    )]
    RecursiveButPropagated { volume: String, propagation: String },
    #[error("volume {0:?} requested recursive read-only mode, but it is not supported by the runtime")]
    RecursiveUnsupported(String),
    #[error("unknown recursive read-only mode {0:?}")]
    RecursiveMode(String),
}
