//! The node of this process: a kubelet on the native runtime or another, in the node's own identity.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use anyhow::Context;
use corten_apiserver::Running;
use corten_base::Clock;
use corten_client::Client;
use corten_kubelet::{Options, Parts, server};
use corten_pki::{Authority, LeafRequest, LeafUsage, Sans};
use corten_reconcile::Manager;

use crate::agent_flags::AgentFlags;
use crate::node_runtime;

pub(crate) const AGENT: &str = "kubelet/v1.37.0";
/// Where other tools look for the logs of pods.
pub(crate) const LOGS: &str = "/var/log/pods";

/// What a node has to be told.
pub(crate) struct NodeOptions {
    pub(crate) name: String,
    pub(crate) address: IpAddr,
    /// Where the kubelet's own API is; 0 for any port.
    pub(crate) port: u16,
    pub(crate) data_dir: PathBuf,
    /// Whether pods reach anybody but themselves.
    pub(crate) pod_network: bool,
    pub(crate) cluster_dns: String,
    pub(crate) cluster_domain: String,
    pub(crate) flags: AgentFlags,
    /// Who vouches for the node, and for those who speak to it.
    pub(crate) authority: Arc<Authority>,
}

/// Starts the node; it ends with the manager, and its containers go on.
pub(crate) async fn start(server: &Running, manager: &Manager, options: NodeOptions) -> anyhow::Result<()> {
    let clock = Clock::real();
    let containers = match &options.flags.container_runtime_endpoint {
        Some(endpoint) => node_runtime::remote(endpoint, options.flags.image_service_endpoint.as_deref())?,
        None => node_runtime::native(&options.data_dir, options.pod_network, clock.clone()).await?,
    };
    let manifests = options.flags.manifests()?;
    let configuration = options.flags.configuration()?;
    let api = server::bind(&api(&options)?).await.context("serving the kubelet's API")?;
    let user = format!("system:node:{}", options.name);
    let client = Client::new(server.transport(&user, &["system:nodes"]), AGENT);
    let parts = Parts {
        runtime: containers.runtime,
        images: containers.images,
        client,
        recorder: manager.recorder().clone(),
        clock,
    };
    let options = Options {
        node_name: options.name,
        addresses: vec![options.address.to_string()],
        root_dir: options.data_dir.join("kubelet"),
        log_dir: PathBuf::from(LOGS),
        cluster_dns: vec![options.cluster_dns],
        cluster_domain: options.cluster_domain,
        manifests,
        configuration: Some(configuration.tree()),
        ..Options::default()
    };
    manager.spawn(async move {
        if let Err(error) = corten_kubelet::run_and_serve(parts, options, Some(api)).await {
            tracing::error!(%error, "the node stopped");
        }
    });
    Ok(())
}

/// The kubelet's API as the API server expects to find it.
fn api(options: &NodeOptions) -> anyhow::Result<server::Options> {
    let sans =
        Sans::default().with_host(&options.name).context("naming the node")?.with_address(options.address);
    let request = LeafRequest {
        common_name: format!("system:node:{}", options.name),
        organization: Some("system:nodes".to_owned()),
        sans,
        usage: LeafUsage::Server,
    };
    let certificate = options.authority.issue(&request, SystemTime::now()).context("certifying the node")?;
    Ok(server::Options {
        address: SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), options.port),
        certificate,
        client_ca_pem: options.authority.pem().to_owned(),
        trust: server::Trust::default(),
        health: options.flags.health(),
        read_only: None,
    })
}

/// The machine's name, as nodes are called.
pub(crate) fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_lowercase()
}
