//! The node of this process: a kubelet on the native runtime or another, in the node's own identity, with the network of
//! its pods and their names.

mod alone;
mod settings;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use anyhow::{Context, ensure};
use corten_apiserver::Running;
use corten_base::Clock;
use corten_client::Client;
use corten_container::native::network::{LoopbackOnly, Network};
use corten_kubelet::server::Shown;
use corten_kubelet::{NodeOptions as KubeletNode, Options, Parts, server};
use corten_net::Across;
use corten_net::peers::Between;
use corten_pki::{Authority, IssuedCert, LeafRequest, LeafUsage, Sans};
use corten_reconcile::Manager;

use crate::agent_flags::AgentFlags;
use crate::dns::{self, DnsOptions};
use crate::pod_network::{BuiltIn, Means, Plugins, PodNetworkFlags};
use crate::server::outward_address;
use crate::{network_policy, node_runtime, peers};

pub(crate) use alone::{Args, certify, run};
pub(crate) use settings::between;

pub(crate) const AGENT: &str = "kubelet/v1.37.0";
/// Where other tools look for the logs of pods.
pub(crate) const LOGS: &str = "/var/log/pods";

/// What a node has to be told.
pub(crate) struct NodeOptions {
    pub(crate) name: String,
    pub(crate) address: IpAddr,
    /// That of the other family, in a cluster of both.
    pub(crate) second_address: Option<IpAddr>,
    /// Where the kubelet's own API is; 0 for any port.
    pub(crate) port: u16,
    pub(crate) data_dir: PathBuf,
    /// How pods are connected.
    pub(crate) pod_network: PodNetworkFlags,
    /// Where pods ask for names.
    pub(crate) cluster_dns: Vec<IpAddr>,
    pub(crate) cluster_domain: String,
    /// Whether names are answered here.
    pub(crate) dns: bool,
    /// Whether network policies are enforced here.
    pub(crate) network_policy: bool,
    /// How packets travel between nodes.
    pub(crate) between: Between,
    pub(crate) flags: AgentFlags,
}

impl NodeOptions {
    fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        [self.address].into_iter().chain(self.second_address)
    }

    /// What the node is certified as.
    pub(crate) fn sans(&self) -> anyhow::Result<Sans> {
        let sans = Sans::default().with_host(&self.name).context("naming the node")?;
        Ok(self.addresses().fold(sans, Sans::with_address))
    }
}

/// Refuses what is neither an address nor one of each family.
pub(crate) fn check_node_ip(given: &[IpAddr]) -> anyhow::Result<()> {
    let is_pair = |[one, other]: [IpAddr; 2]| one.is_ipv4() != other.is_ipv4();
    let fine = given.len() < 2 || <[IpAddr; 2]>::try_from(given).is_ok_and(is_pair);
    ensure!(fine, "bad --node-ip: must contain either a single IP or a dual-stack pair of IPs");
    Ok(())
}

/// The address of the other family that a node is reached at besides `first`: the one it was given, or in a cluster of
/// both families the one this machine is seen with.
pub(crate) fn second_address(given: &[IpAddr], first: IpAddr, cluster: &[IpAddr]) -> Option<IpAddr> {
    let both = cluster.iter().any(|address| address.is_ipv6() != first.is_ipv6());
    match given {
        [] if both => outward_address(!first.is_ipv6()),
        given => given.get(1).copied(),
    }
}

/// How a node speaks to its cluster, and what it shows and believes when it is spoken to.
pub(crate) struct Standing {
    /// In the node's own identity.
    pub(crate) client: Client,
    pub(crate) certificate: IssuedCert,
    pub(crate) client_ca_pem: String,
}

impl Standing {
    /// That of the node in the server's own process.
    pub(crate) fn beside(
        server: &Running,
        authority: &Authority,
        options: &NodeOptions,
    ) -> anyhow::Result<Standing> {
        let user = format!("system:node:{}", options.name);
        let sans = options.sans()?;
        let request = LeafRequest {
            common_name: user.clone(),
            organization: Some("system:nodes".to_owned()),
            sans,
            usage: LeafUsage::Server,
        };
        let certificate = authority.issue(&request, SystemTime::now()).context("certifying the node")?;
        let client = Client::new(server.transport(&user, &["system:nodes"]), AGENT);
        Ok(Standing { client, certificate, client_ca_pem: authority.pem().to_owned() })
    }
}

/// Starts the node; it ends with the manager, and its containers go on. What it shows can be replaced.
pub(crate) async fn start(
    manager: &Manager,
    standing: Standing,
    options: NodeOptions,
) -> anyhow::Result<Shown> {
    let clock = Clock::real();
    let containers = match &options.flags.container_runtime_endpoint {
        Some(endpoint) => node_runtime::remote(endpoint, options.flags.image_service_endpoint.as_deref())?,
        None => {
            let network = pod_network(manager, &options, &clock).await?;
            let handlers = options.flags.handlers();
            node_runtime::native(&options.data_dir, network, handlers, clock.clone()).await?
        }
    };
    let (manifests, configuration) = (options.flags.manifests()?, options.flags.configuration()?);
    let Standing { client, certificate, client_ca_pem } = standing;
    let api = server::Options {
        address: SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), options.port),
        certificate,
        client_ca_pem,
        trust: server::Trust::default(),
        health: options.flags.health(),
        read_only: None,
    };
    let api = server::bind(&api).await.context("serving the kubelet's API")?;
    let shown = api.shown();
    let names = DnsOptions {
        addresses: options.cluster_dns.clone(),
        domain: options.cluster_domain.clone(),
        node: options.address,
    };
    match options.dns {
        true => dns::start(manager, names)?,
        false => dns::let_go(),
    }
    let parts = Parts {
        runtime: containers.runtime,
        images: containers.images,
        client,
        recorder: manager.recorder().clone(),
        clock,
    };
    let options = Options {
        addresses: options.addresses().map(|address| address.to_string()).collect(),
        node_name: options.name,
        root_dir: options.data_dir.join("kubelet"),
        log_dir: PathBuf::from(LOGS),
        cluster_dns: options.cluster_dns.iter().map(ToString::to_string).collect(),
        cluster_domain: options.cluster_domain,
        manifests,
        node: KubeletNode::of(&configuration),
        configuration: Some(configuration.tree()),
        ..Options::default()
    };
    manager.spawn(async move {
        if let Err(error) = corten_kubelet::run_and_serve(parts, options, Some(api)).await {
            tracing::error!(%error, "the node stopped");
        }
    });
    Ok(shown)
}

/// The network of the node's pods. The built-in one learns of other nodes by itself.
async fn pod_network(
    manager: &Manager,
    options: &NodeOptions,
    clock: &Clock,
) -> anyhow::Result<Arc<dyn Network>> {
    let plugins = |policies| Plugins::open(&options.data_dir, &options.pod_network, policies);
    match options.pod_network.means() {
        Means::Nothing => Ok(Arc::new(LoopbackOnly)),
        Means::Plugins => {
            let network = plugins(network_policy::start(manager, options)?)?;
            Ok(Arc::new(network.collect_garbage().await))
        }
        Means::BuiltIn => {
            // A machine on no network has no neighbours.
            let across = Across { between: options.between, node: options.address };
            let across = (!options.address.is_loopback()).then_some(across);
            let policies = network_policy::start(manager, options)?;
            let network = BuiltIn::open(options.data_dir.join("network"), across, policies)?;
            let (caches, name) = (manager.caches().clone(), options.name.clone());
            manager.spawn(peers::follow(network.network(), caches, name, clock.clone()));
            Ok(Arc::new(plugins(None)?.before(network)))
        }
    }
}

/// The machine's name, as nodes are called.
pub(crate) fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_has_an_address_or_one_of_each_family() {
        let table = [
            ("", true),
            ("192.0.2.1", true),
            ("fd00::1", true),
            ("192.0.2.1,fd00::1", true),
            ("fd00::1,192.0.2.1", true),
            ("192.0.2.1,192.0.2.2", false),
            ("fd00::1,fd00::2", false),
            ("192.0.2.1,fd00::1,192.0.2.2", false),
        ];
        for (given, fine) in table {
            let given: Vec<IpAddr> = given.split(',').filter_map(|address| address.parse().ok()).collect();
            assert_eq!(check_node_ip(&given).is_ok(), fine, "{given:?}");
        }
    }
}
