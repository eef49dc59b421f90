//! What the runtime is asked for, from what a pod asks for. Pure.
//!
//! Errors here are a container's reason not to start, in upstream's words.

mod container;
mod dns;
mod isolation;
mod sandbox;
mod security;

pub(crate) use container::{ContainerParts, SubPath, VolumePaths, container_config};
pub(crate) use dns::Resolver;
pub(crate) use isolation::check_pod;
pub(crate) use sandbox::{hostname, sandbox_config};

/// What is the same for all pods of a node.
#[derive(Debug, Clone, Default)]
pub(crate) struct NodeConfig {
    pub(crate) node_name: String,
    /// Where the logs of pods go.
    pub(crate) log_root: String,
    pub(crate) resolver: Resolver,
    /// All the memory there is, in bytes.
    pub(crate) memory: i64,
    /// Where seccomp profiles of pods are.
    pub(crate) seccomp_root: String,
    /// Whether containers that say nothing of seccomp have the runtime's profile (`seccompDefault`).
    pub(crate) seccomp_default: bool,
}
