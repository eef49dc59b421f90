//! The kubelet: runs the pods that are bound to this node, and reports their status to the API server.
//!
//! Decisions are pure (`pod_workers::actions`, `pod_workers::state`, `status`); effects are in one place each. The API
//! server is reached through `corten_client` and the container runtime through `corten_container`; the crate knows neither
//! server nor runtime.

mod admission;
mod api_server;
pub mod configuration;
mod containers;
mod errors;
mod events;
mod eviction;
mod garbage_collection;
mod housekeeping;
mod kubelet;
mod node;
mod objects;
mod pod;
mod pod_sources;
mod pod_workers;
mod probes;
mod resources;
pub mod server;
mod stats;
mod status;
mod volumes;

use std::path::PathBuf;
use std::sync::Arc;

use corten_base::Clock;
use corten_client::Client;
use corten_container::{Images, Runtime};
use corten_reconcile::Recorder;

pub use containers::observed::{Found, Observed, Sandbox};
pub use node::NodeOptions;
pub use pod::{Container, HostNamespace, Pod, RestartPolicy, Role, Source};
pub use pod_sources::{ManifestUrl, ManifestUrlError, Manifests};
pub use pod_workers::actions::{
    Actions, Kill, KillReason, Knowledge, NewSandbox, Probed, compute_pod_actions,
};
pub use status::{Ended, Readiness, StatusFacts, Waiting, status};

/// The settings of a kubelet.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The name of this node.
    pub node_name: String,
    /// The node's addresses, the primary one first.
    pub addresses: Vec<String>,
    /// The directory of pods' volumes and the kubelet's other files.
    pub root_dir: PathBuf,
    /// The directory of containers' logs.
    pub log_dir: PathBuf,
    /// The addresses of the cluster's DNS servers.
    pub cluster_dns: Vec<String>,
    /// The cluster's DNS domain, such as `cluster.local`.
    pub cluster_domain: String,
    /// The sources of static pods.
    pub manifests: Manifests,
    /// The settings of the Node object, its lease and its status.
    pub node: NodeOptions,
    /// The resolver configuration of the node (`resolvConf`): a file, none if it is empty; `/etc/resolv.conf` by default.
    pub resolver: Option<PathBuf>,
    /// The `KubeletConfiguration` that `/configz` serves; `None` without one.
    pub configuration: Option<corten_api::Value>,
}

/// The services that a kubelet uses.
pub struct Parts {
    /// The container runtime.
    pub runtime: Arc<dyn Runtime>,
    /// The runtime's image service.
    pub images: Arc<dyn Images>,
    /// A client of the API server in the node's identity.
    pub client: Client,
    /// The recorder of events about pods and the node.
    pub recorder: Recorder,
    /// The clock of all waits and timestamps.
    pub clock: Clock,
}

/// Runs a kubelet without its API, until the future is dropped.
pub async fn run(parts: Parts, options: Options) -> Result<(), corten_container::Error> {
    run_and_serve(parts, options, None).await
}

/// Runs a kubelet and serves its API, until the future is dropped.
pub async fn run_and_serve(
    parts: Parts,
    options: Options,
    api: Option<server::Bound>,
) -> Result<(), corten_container::Error> {
    kubelet::run(parts, options, api).await
}
