//! Services as far as the proxy needs them, and their ports by IP family.

use std::net::IpAddr;
use std::time::Duration;

use corten_api::{Str, Value, meta};
use corten_client::Key;
use corten_net::{Cidr, Protocol};

use crate::endpoints::PortNames;

/// The label of Services that another proxy handles.
const OTHER_PROXY: &str = "service.kubernetes.io/service-proxy-name";
const HEADLESS: &str = "service.kubernetes.io/headless";
/// The limit of a Service's ports times external addresses. Each pair is an entry in the rules, and an object has room for tens
/// of thousands of both: their product would exhaust the memory of every node.
const MAX_EXTERNAL_ENTRIES: usize = 100_000;

/// A Service that has addresses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Service {
    cluster_ips: Vec<IpAddr>,
    ports: Vec<Port>,
    external_ips: Vec<IpAddr>,
    load_balancer_ips: Vec<IpAddr>,
    source_ranges: Vec<Cidr>,
    affinity: Option<Duration>,
    internal_local: bool,
    external_local: bool,
    health_check_port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Port {
    name: Str,
    protocol: Protocol,
    port: u16,
    node_port: Option<u16>,
}

/// The unique name of a port among all Services.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortName {
    pub service: Key,
    pub port: Str,
    pub protocol: Protocol,
}

/// One port of a Service, for one IP family.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServicePort {
    pub name: PortName,
    pub cluster_ip: IpAddr,
    pub port: u16,
    pub node_port: Option<u16>,
    pub external_ips: Vec<IpAddr>,
    pub load_balancer_ips: Vec<IpAddr>,
    /// The source ranges that the load balancer's addresses accept; all if empty.
    pub source_ranges: Vec<Cidr>,
    /// The timeout of session affinity.
    pub affinity: Option<Duration>,
    pub internal_local: bool,
    pub external_local: bool,
    pub health_check_port: Option<u16>,
}

impl Service {
    /// Parses a Service; `None` for headless Services, ExternalNames and Services of other proxies.
    pub fn of(tree: &Value) -> Option<Service> {
        let kind = tree.str_at(&["spec", "type"]).unwrap_or("ClusterIP");
        let cluster_ips = cluster_ips(tree);
        let label = |name: &str| meta::labels(tree).is_some_and(|labels| labels.contains_key(name));
        if kind == "ExternalName" || cluster_ips.is_empty() || label(OTHER_PROXY) || label(HEADLESS) {
            return None;
        }
        let policy = |name: &str| tree.str_at(&["spec", name]).is_some_and(|policy| policy == "Local");
        let ports: Vec<Port> = tree.items_at(&["spec", "ports"]).iter().filter_map(port).collect();
        let mut external_ips: Vec<IpAddr> = addresses(tree.items_at(&["spec", "externalIPs"]));
        let mut load_balancer_ips = load_balancer_ips(tree);
        let mut source_ranges = source_ranges(tree);
        let outside = external_ips.len() + load_balancer_ips.len() + source_ranges.len();
        if ports.len().saturating_mul(outside) > MAX_EXTERNAL_ENTRIES {
            let (namespace, name) = (meta::namespace(tree), meta::name(tree));
            tracing::warn!(
                namespace,
                name,
                "too many ports and external addresses in a Service; its external addresses are not proxied"
            );
            // All three are dropped: without its source ranges, a load balancer's address would accept every client.
            (external_ips, load_balancer_ips, source_ranges) = Default::default();
        }
        let outside = matches!(kind, "NodePort" | "LoadBalancer") || !external_ips.is_empty();
        let external_local = outside && policy("externalTrafficPolicy");
        let balanced = kind == "LoadBalancer" && external_local;
        Some(Service {
            cluster_ips,
            ports,
            external_ips,
            load_balancer_ips,
            source_ranges,
            affinity: affinity(tree),
            internal_local: policy("internalTrafficPolicy"),
            external_local,
            health_check_port: number(tree.at(&["spec", "healthCheckNodePort"])).filter(|_| balanced),
        })
    }

    /// The names and protocols of the ports.
    pub fn port_names(&self) -> PortNames {
        self.ports.iter().map(|port| (port.name.clone(), port.protocol)).collect()
    }

    /// True if the Service has external IPs or addresses of load balancers.
    pub fn has_outside_addresses(&self) -> bool {
        !self.external_ips.is_empty() || !self.load_balancer_ips.is_empty()
    }

    /// The health check node port.
    pub fn health_check_port(&self) -> Option<u16> {
        self.health_check_port
    }

    /// The ports in one IP family; none if the Service has no address of it.
    pub fn ports<'a>(&'a self, key: &'a Key, ipv4: bool) -> impl Iterator<Item = ServicePort> + 'a {
        let of_family = move |all: &[IpAddr]| all.iter().copied().filter(|ip| ip.is_ipv4() == ipv4).collect();
        let cluster_ip = self.cluster_ips.iter().copied().find(|ip| ip.is_ipv4() == ipv4);
        cluster_ip.into_iter().flat_map(move |cluster_ip| {
            self.ports.iter().map(move |port| ServicePort {
                name: PortName { service: key.clone(), port: port.name.clone(), protocol: port.protocol },
                cluster_ip,
                port: port.port,
                node_port: port.node_port,
                external_ips: of_family(&self.external_ips),
                load_balancer_ips: of_family(&self.load_balancer_ips),
                source_ranges: self.source_ranges_of(ipv4),
                affinity: self.affinity,
                internal_local: self.internal_local,
                external_local: self.external_local,
                health_check_port: self.health_check_port,
            })
        })
    }

    /// The source ranges of a family. A range of all addresses counts as no restriction.
    fn source_ranges_of(&self, ipv4: bool) -> Vec<Cidr> {
        let ranges: Vec<Cidr> =
            self.source_ranges.iter().copied().filter(|range| range.is_ipv4() == ipv4).collect();
        if ranges.iter().any(|range| range.prefix() == 0) { Vec::new() } else { ranges }
    }
}

impl ServicePort {
    /// True if the port has addresses or node ports besides its cluster IP.
    pub fn is_external(&self) -> bool {
        self.node_port.is_some() || !self.load_balancer_ips.is_empty() || !self.external_ips.is_empty()
    }

    /// True if any traffic may go to endpoints on other nodes. Even with a Local external traffic policy, traffic from within
    /// the cluster may.
    pub fn uses_cluster_endpoints(&self) -> bool {
        !self.internal_local || self.is_external()
    }

    pub fn uses_local_endpoints(&self) -> bool {
        self.internal_local || self.external_local && self.is_external()
    }
}

fn cluster_ips(tree: &Value) -> Vec<IpAddr> {
    let all = addresses(tree.items_at(&["spec", "clusterIPs"]));
    if all.is_empty() {
        tree.str_at(&["spec", "clusterIP"]).and_then(|ip| ip.parse().ok()).into_iter().collect()
    } else {
        all
    }
}

fn addresses(items: &[Value]) -> Vec<IpAddr> {
    items.iter().filter_map(|item| item.as_str()?.parse().ok()).collect()
}

/// The addresses with ipMode VIP. A load balancer with ipMode Proxy sends to node ports.
fn load_balancer_ips(tree: &Value) -> Vec<IpAddr> {
    let ingress = tree.items_at(&["status", "loadBalancer", "ingress"]).iter();
    let direct = ingress.filter(|point| point.str_at(&["ipMode"]).is_none_or(|mode| mode == "VIP"));
    direct.filter_map(|point| point.str_at(&["ip"])?.parse().ok()).collect()
}

/// Parses the source ranges. Validation admits blanks around them.
fn source_ranges(tree: &Value) -> Vec<Cidr> {
    let ranges = tree.items_at(&["spec", "loadBalancerSourceRanges"]).iter();
    ranges
        .filter_map(|range| range.as_str()?.trim().parse().ok())
        .map(|range: Cidr| range.network())
        .collect()
}

fn affinity(tree: &Value) -> Option<Duration> {
    const THREE_HOURS: i64 = 10_800;
    tree.str_at(&["spec", "sessionAffinity"]).filter(|affinity| *affinity == "ClientIP")?;
    let seconds = tree.int_at(&["spec", "sessionAffinityConfig", "clientIP", "timeoutSeconds"]);
    Some(Duration::from_secs(seconds.unwrap_or(THREE_HOURS).unsigned_abs()))
}

fn port(port: &Value) -> Option<Port> {
    Some(Port {
        name: port.str_at(&["name"]).unwrap_or_default().into(),
        protocol: protocol(port)?,
        port: number(port.at(&["port"]))?,
        node_port: number(port.at(&["nodePort"])),
    })
}

/// The protocol of a port of a Service or an EndpointSlice.
pub(crate) fn protocol(port: &Value) -> Option<Protocol> {
    match port.str_at(&["protocol"]).unwrap_or("TCP") {
        "TCP" => Some(Protocol::Tcp),
        "UDP" => Some(Protocol::Udp),
        "SCTP" => Some(Protocol::Sctp),
        _ => None,
    }
}

/// A port number, if the value is one.
pub(crate) fn number(value: Option<&Value>) -> Option<u16> {
    value?.as_int().and_then(|number| u16::try_from(number).ok()).filter(|number| *number > 0)
}

#[cfg(test)]
mod tests;
