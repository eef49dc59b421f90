//! The node of this process: a kubelet on the native runtime, in the node's own identity.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use corten_apiserver::Running;
use corten_base::Clock;
use corten_client::Client;
use corten_container::native::network::{LoopbackOnly, Network};
use corten_container::native::{self, Native};
use corten_container::registry::{Registries, RegistriesConfig};
use corten_kubelet::{Options, Parts};
use corten_reconcile::Manager;

const AGENT: &str = "kubelet/v1.37.0";
/// Where other tools look for the logs of pods.
const LOGS: &str = "/var/log/pods";

/// What a node has to be told.
pub(crate) struct NodeOptions {
    pub(crate) name: String,
    pub(crate) address: String,
    pub(crate) data_dir: PathBuf,
    pub(crate) cluster_dns: String,
    pub(crate) cluster_domain: String,
}

/// Starts the node; it ends with the manager, and its containers go on.
pub(crate) async fn start(server: &Running, manager: &Manager, options: NodeOptions) -> anyhow::Result<()> {
    let clock = Clock::real();
    let network: Arc<dyn Network> = Arc::new(LoopbackOnly);
    let runtime =
        open(&options.data_dir, network, clock.clone()).await.context("opening the container runtime")?;
    let runtime = Arc::new(runtime);
    let user = format!("system:node:{}", options.name);
    let client = Client::new(server.transport(&user, &["system:nodes"]), AGENT);
    let parts = Parts {
        runtime: runtime.clone(),
        images: runtime,
        client,
        recorder: manager.recorder().clone(),
        clock,
    };
    let options = Options {
        node_name: options.name,
        addresses: vec![options.address],
        root_dir: options.data_dir.join("kubelet"),
        log_dir: PathBuf::from(LOGS),
        cluster_dns: vec![options.cluster_dns],
        cluster_domain: options.cluster_domain,
    };
    manager.spawn(async move {
        if let Err(error) = corten_kubelet::run(parts, options).await {
            tracing::error!(%error, "the node stopped");
        }
    });
    Ok(())
}

async fn open(
    data_dir: &Path,
    network: Arc<dyn Network>,
    clock: Clock,
) -> Result<Native, corten_container::Error> {
    Native::open(native::Options {
        data_dir: corten_container::folder(data_dir),
        network,
        registries: Registries::new(RegistriesConfig::default()),
        clock,
        seccomp_dir: data_dir.join("kubelet/seccomp"),
    })
    .await
}

/// The machine's name, as nodes are called.
pub(crate) fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_lowercase()
}
