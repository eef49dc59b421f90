//! The node of this process: the kubelet, the service proxy, the DNS server, network policies and the pod network.
//!
//! `corten server` and `corten agent` compose the same node with [`Node::start`]; they differ only in the credentials.
//! The node reads and writes in identities of its own, with caches and an event recorder of its own: never through those
//! of the controller manager, which has other rights.

mod flags;
pub(crate) mod network_policy;
mod peers;
pub(crate) mod runtime;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use anyhow::{Context, ensure};
use corten_apiserver::Running;
use corten_base::Clock;
use corten_client::{Caches, Client};
use corten_container::native::network::{LoopbackOnly, Network};
use corten_kubelet::server::ServingCertificate;
use corten_kubelet::{NodeOptions as KubeletNode, Options, Parts, server};
use corten_net::Across;
use corten_net::peers::Between;
use corten_pki::{Authority, IssuedCert, LeafRequest, LeafUsage, LiveAuthorities, Sans};
use corten_reconcile::Manager;

use crate::dns::{self, DnsOptions};
use crate::pod_network::{BuiltIn, Plugins, PodNetworkFlags, PodNetworkKind};
use crate::proxy;
use crate::server::outward_address;

pub(crate) use flags::{AgentFlags, handler, pair};

/// The group of all nodes.
const NODES_GROUP: &str = "system:nodes";
/// The kubelet's user agent, and so the field manager of its writes.
pub(crate) const KUBELET_AGENT: &str = "kubelet/v1.37.0";
/// The directory where log collectors look for the logs of pods.
const POD_LOGS: &str = "/var/log/pods";

/// The settings of a node.
pub(crate) struct NodeOptions {
    pub(crate) name: String,
    pub(crate) address: IpAddr,
    /// The address of the other IP family, in a dual-stack cluster.
    pub(crate) second_address: Option<IpAddr>,
    /// Port of the kubelet's API; 0 picks a free one.
    pub(crate) port: u16,
    pub(crate) data_dir: PathBuf,
    pub(crate) pod_network: PodNetworkFlags,
    /// Addresses of the cluster's DNS service.
    pub(crate) cluster_dns: Vec<IpAddr>,
    pub(crate) cluster_domain: String,
    /// Run the DNS server on this node.
    pub(crate) dns: bool,
    /// Enforce network policies on this node.
    pub(crate) network_policy: bool,
    /// Run the service proxy on this node.
    pub(crate) proxy: bool,
    /// Backend of the traffic between nodes.
    pub(crate) between: Between,
    pub(crate) flags: AgentFlags,
}

impl NodeOptions {
    fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        [self.address].into_iter().chain(self.second_address)
    }

    /// The names and addresses in the kubelet's serving certificate.
    pub(crate) fn sans(&self) -> anyhow::Result<Sans> {
        let sans = Sans::default().with_host(&self.name).context("invalid node name")?;
        Ok(self.addresses().fold(sans, Sans::with_address))
    }
}

/// Rejects anything but one address or a dual-stack pair.
pub(crate) fn check_node_ip(given: &[IpAddr]) -> anyhow::Result<()> {
    let is_pair = |[one, other]: [IpAddr; 2]| one.is_ipv4() != other.is_ipv4();
    let fine = given.len() < 2 || <[IpAddr; 2]>::try_from(given).is_ok_and(is_pair);
    ensure!(fine, "bad --node-ip: must contain either a single IP or a dual-stack pair of IPs");
    Ok(())
}

/// The node's address of the other IP family than `first`: the configured one or, in a dual-stack cluster, the source
/// address of this machine's packets.
pub(crate) fn second_address(given: &[IpAddr], first: IpAddr, cluster: &[IpAddr]) -> Option<IpAddr> {
    let both = cluster.iter().any(|address| address.is_ipv6() != first.is_ipv6());
    match given {
        [] if both => outward_address(!first.is_ipv6()),
        given => given.get(1).copied(),
    }
}

/// The credentials of a node: its clients, and what its kubelet serves with and trusts.
pub(crate) struct NodeCredentials {
    /// The client of user `system:node:NAME`.
    pub(crate) node: Client,
    /// The client of user `system:kube-proxy`. Without one the proxy uses the node's client and shares its caches: a machine
    /// that joined has the node's certificate only.
    pub(crate) proxy: Option<Client>,
    pub(crate) certificate: IssuedCert,
    pub(crate) client_ca_pem: String,
}

impl NodeCredentials {
    /// The credentials of the node in the API server's process.
    pub(crate) fn in_process(
        server: &Running,
        authority: &Authority,
        client_ca_pem: &str,
        options: &NodeOptions,
    ) -> anyhow::Result<NodeCredentials> {
        let user = user_name(&options.name);
        let certificate = authority
            .issue(&serving_request(&options.name, options.sans()?), SystemTime::now())
            .context("cannot issue the node's certificates")?;
        let node = Client::new(server.transport(&user, &[NODES_GROUP]), KUBELET_AGENT);
        let proxy = Client::new(server.transport(proxy::USER, &[]), proxy::AGENT);
        let client_ca_pem = client_ca_pem.to_owned();
        Ok(NodeCredentials { node, proxy: Some(proxy), certificate, client_ca_pem })
    }
}

/// The serving certificate of a node's kubelet.
pub(crate) fn serving_request(node: &str, sans: Sans) -> LeafRequest {
    LeafRequest {
        common_name: user_name(node),
        organization: Some(NODES_GROUP.to_owned()),
        sans,
        usage: LeafUsage::Server,
    }
}

/// The user name of a node.
pub(crate) fn user_name(node: &str) -> String {
    format!("system:node:{node}")
}

/// A running node. It stops when this is dropped; its containers and rules stay.
pub(crate) struct Node {
    manager: Manager,
    /// The proxy's own, if it has credentials of its own.
    _proxy: Option<Manager>,
    /// The kubelet's certificate and CAs, which can be replaced.
    pub(crate) tls: KubeletTls,
}

/// The certificate and the CAs of the kubelet's API.
#[derive(Clone)]
pub(crate) struct KubeletTls {
    pub(crate) serving: ServingCertificate,
    /// The CAs of clients.
    pub(crate) authorities: Option<LiveAuthorities>,
}

impl Node {
    /// Starts the parts of a node in the node's identities.
    pub(crate) async fn start(credentials: NodeCredentials, options: NodeOptions) -> anyhow::Result<Node> {
        let clock = Clock::real();
        let manager = manager_of(&credentials.node, &clock);
        let (name, kind, mode) = (options.name.clone(), options.pod_network.kind(), options.flags.proxy_mode);
        let (has_proxy, proxy_client) = (options.proxy, credentials.proxy.clone());
        let tls = start_kubelet(&manager, credentials, options, clock.clone()).await?;
        let proxy_manager = proxy_client.filter(|_| has_proxy).map(|client| manager_of(&client, &clock));
        if has_proxy {
            proxy::start(proxy_manager.as_ref().unwrap_or(&manager), &name, kind, mode)?;
        }
        Ok(Node { manager, _proxy: proxy_manager, tls })
    }

    /// The caches of the node's client.
    pub(crate) fn caches(&self) -> &Caches {
        self.manager.caches()
    }

    /// Runs a task until the node stops.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.manager.spawn(task);
    }
}

/// Caches, an event recorder and tasks in one identity.
pub(crate) fn manager_of(client: &Client, clock: &Clock) -> Manager {
    let same = client.clone();
    Manager::new(client.clone(), Box::new(move |_| same.clone()), clock.clone())
}

/// Starts the kubelet, and what its pods need of the network. Returns what its API is served with.
async fn start_kubelet(
    manager: &Manager,
    credentials: NodeCredentials,
    options: NodeOptions,
    clock: Clock,
) -> anyhow::Result<KubeletTls> {
    let containers = match &options.flags.container_runtime_endpoint {
        Some(endpoint) => runtime::remote(endpoint, options.flags.image_service_endpoint.as_deref())?,
        None => {
            let network = pod_network(manager, &options, &clock).await?;
            let handlers = options.flags.handlers();
            let limits = options.flags.images.limits();
            runtime::native(&options.data_dir, network, handlers, limits, clock.clone()).await?
        }
    };
    let (manifests, configuration) = (options.flags.manifests()?, options.flags.configuration()?);
    let NodeCredentials { node: client, certificate, client_ca_pem, .. } = credentials;
    let api = server::Options {
        address: SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), options.port),
        certificate,
        client_ca_pem,
        trust: server::Trust::default(),
        health: options.flags.health(),
        read_only: None,
    };
    let api = server::bind(&api)
        .await
        .context("cannot serve the kubelet's API (--kubelet-port 0 picks a free port)")?;
    let tls = KubeletTls { serving: api.serving_certificate(), authorities: api.client_authorities() };
    let dns_options = DnsOptions {
        addresses: options.cluster_dns.clone(),
        domain: options.cluster_domain.clone(),
        node: options.address,
    };
    match options.dns {
        true => dns::start(manager, dns_options)?,
        false => dns::remove_addresses(),
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
        log_dir: PathBuf::from(POD_LOGS),
        cluster_dns: options.cluster_dns.iter().map(ToString::to_string).collect(),
        cluster_domain: options.cluster_domain,
        manifests,
        node: KubeletNode::of(&configuration),
        configuration: Some(configuration.tree()),
        ..Options::default()
    };
    manager.spawn(async move {
        if let Err(err) = corten_kubelet::run_and_serve(parts, options, Some(api)).await {
            tracing::error!(%err, "kubelet stopped");
        }
    });
    Ok(tls)
}

/// The network of the node's pods. The built-in one learns the pod CIDRs of other nodes from their Node objects.
async fn pod_network(
    manager: &Manager,
    options: &NodeOptions,
    clock: &Clock,
) -> anyhow::Result<Arc<dyn Network>> {
    let plugins = |policies| Plugins::open(&options.data_dir, &options.pod_network, policies);
    match options.pod_network.kind() {
        PodNetworkKind::Nothing => Ok(Arc::new(LoopbackOnly)),
        PodNetworkKind::Plugins => {
            let network = plugins(network_policy::start(manager, options)?)?;
            Ok(Arc::new(network.collect_garbage().await))
        }
        PodNetworkKind::BuiltIn => {
            // A machine without a network reaches no other nodes.
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

/// The host name in lower case: the default node name.
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
