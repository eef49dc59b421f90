//! The desired contents of one Service: map entries, chains with their rules, and sets of session affinity.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use corten_net::nftables::Verdict;
use corten_net::{Cidr, Protocol};

use super::names;
use crate::route::{Routed, Target};
use crate::service::ServicePort;

/// The desired contents of one Service in one IP family.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Map and set entries; those of sets have no verdict.
    pub entries: BTreeMap<Entry, Option<Verdict>>,
    pub chains: BTreeMap<String, Vec<Rule>>,
    /// The timeout of each affinity set.
    pub affinity: BTreeMap<String, Duration>,
}

/// The maps and sets that Services have entries in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Map {
    ClusterIps,
    ServiceIps,
    ExternalIps,
    FirewallIps,
    NoEndpointServices,
    NoEndpointExternalIps,
    NoEndpointNodePorts,
    ServiceNodePorts,
    HairpinConnections,
}

impl Map {
    pub fn name(self) -> &'static str {
        match self {
            Map::ClusterIps => "cluster-ips",
            Map::ServiceIps => "service-ips",
            Map::ExternalIps => "external-ips",
            Map::FirewallIps => "firewall-ips",
            Map::NoEndpointServices => "no-endpoint-services",
            Map::NoEndpointExternalIps => "no-endpoint-external-ips",
            Map::NoEndpointNodePorts => "no-endpoint-nodeports",
            Map::ServiceNodePorts => "service-nodeports",
            Map::HairpinConnections => "hairpin-connections",
        }
    }
}

/// A key in a map.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Entry {
    pub map: Map,
    /// The destination; for hairpin connections the source as well.
    pub address: Option<IpAddr>,
    pub port: Option<(Protocol, u16)>,
}

/// The rules in chains of Services.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rule {
    /// Masquerades the packet.
    Masquerade,
    /// Masquerades packets of the node itself.
    MasqueradeOwn,
    Goto(String),
    /// Packets of this node's pods go to another chain.
    PodsGoto(String),
    /// Packets of the node itself go to another chain.
    OwnGoto(String),
    /// Packets from this range are admitted.
    Admit(Cidr),
    Drop,
    /// Clients in an affinity set go to their endpoint.
    Return {
        set: String,
        timeout: Duration,
        chain: String,
    },
    /// Other packets go to a random one of these chains.
    GotoAny(Vec<String>),
    Remember {
        set: String,
        timeout: Duration,
    },
    /// Packets are redirected to a random one of these endpoints.
    Redirect(Protocol, Vec<SocketAddr>),
}

/// The chain that rejects packets to ports without endpoints.
pub const REJECT: &str = "reject-chain";

/// Computes the desired contents of a Service. `node` is this node's own address.
pub fn wanted(ports: &[Routed], node: Option<IpAddr>) -> Wanted {
    let mut wanted = Wanted::default();
    for routed in ports {
        wanted.lead_internal(routed);
        wanted.lead_external(routed);
        wanted.firewall(routed, node);
        wanted.reach_endpoints(routed);
    }
    wanted
}

impl Wanted {
    fn lead_internal(&mut self, routed: &Routed) {
        let port = &routed.port;
        let at = (port.name.protocol, port.port);
        self.set(Map::ClusterIps, Some(port.cluster_ip), None);
        if routed.has_internal_endpoints() {
            let chain = if port.internal_local { names::local } else { names::cluster };
            self.add_entry(Map::ServiceIps, Some(port.cluster_ip), at, Verdict::Goto(chain(&port.name)));
        } else {
            self.add_entry(Map::NoEndpointServices, Some(port.cluster_ip), at, refusal(routed));
        }
    }

    fn lead_external(&mut self, routed: &Routed) {
        let port = &routed.port;
        let at = (port.name.protocol, port.port);
        let external = Verdict::Goto(names::external(&port.name));
        // External IPs are looked up only for destinations that are not the node's own.
        let external_ips = (&port.external_ips, Map::ExternalIps, Map::NoEndpointExternalIps);
        let balanced = (&port.load_balancer_ips, Map::ServiceIps, Map::NoEndpointServices);
        for (addresses, leads, refuses) in [external_ips, balanced] {
            for address in addresses.iter().copied() {
                if routed.has_endpoints {
                    self.add_entry(leads, Some(address), at, external.clone());
                }
                if !routed.has_external_endpoints() {
                    self.add_entry(refuses, Some(address), at, refusal(routed));
                }
            }
        }
        if let Some(node_port) = port.node_port {
            let at = (port.name.protocol, node_port);
            if routed.has_endpoints {
                self.add_entry(Map::ServiceNodePorts, None, at, external);
            }
            if !routed.has_external_endpoints() {
                self.add_entry(Map::NoEndpointNodePorts, None, at, refusal(routed));
            }
        }
        if routed.has_endpoints && port.is_external() {
            self.chains.insert(names::external(&port.name), external_rules(routed));
        }
    }

    /// Restricts the load balancer's addresses to their source ranges. Node ports are not restricted, as upstream.
    fn firewall(&mut self, routed: &Routed, node: Option<IpAddr>) {
        let port = &routed.port;
        if port.load_balancer_ips.is_empty() || port.source_ranges.is_empty() {
            return;
        }
        let chain = names::firewall(&port.name);
        for address in port.load_balancer_ips.iter().copied() {
            let at = (port.name.protocol, port.port);
            self.add_entry(Map::FirewallIps, Some(address), at, Verdict::Goto(chain.clone()));
        }
        let admitted = admitted(port, node).into_iter().map(Rule::Admit);
        self.chains.insert(chain, admitted.chain([Rule::Drop]).collect());
    }

    fn reach_endpoints(&mut self, routed: &Routed) {
        let name = &routed.port.name;
        for target in routed.reachable.iter().filter(|target| target.local) {
            let at = (name.protocol, target.address.port());
            self.entries.insert(
                Entry { map: Map::HairpinConnections, address: Some(target.address.ip()), port: Some(at) },
                None,
            );
        }
        if !routed.cluster.is_empty() && routed.port.uses_cluster_endpoints() {
            self.chains.insert(names::cluster(name), spread(&routed.port, &routed.cluster));
        }
        if !routed.local.is_empty() && routed.port.uses_local_endpoints() {
            self.chains.insert(names::local(name), spread(&routed.port, &routed.local));
        }
        if let Some(timeout) = routed.port.affinity {
            for address in routed.reachable.iter().map(|target| target.address) {
                let set = names::affinity(name, address);
                let rules = vec![
                    Rule::Remember { set: set.clone(), timeout },
                    Rule::Redirect(name.protocol, vec![address]),
                ];
                self.chains.insert(names::endpoint(name, address), rules);
                self.affinity.insert(set, timeout);
            }
        }
    }

    fn set(&mut self, map: Map, address: Option<IpAddr>, port: Option<(Protocol, u16)>) {
        self.entries.insert(Entry { map, address, port }, None);
    }

    /// Adds an entry. Of two ports that claim the same entry, the first owns it.
    fn add_entry(&mut self, map: Map, address: Option<IpAddr>, at: (Protocol, u16), verdict: Verdict) {
        self.entries.entry(Entry { map, address, port: Some(at) }).or_insert(Some(verdict));
    }
}

/// Rejects packets to a port without endpoints. Packets to a port without local endpoints are dropped: another node may have
/// endpoints for them.
fn refusal(routed: &Routed) -> Verdict {
    if routed.has_endpoints { Verdict::Drop } else { Verdict::Goto(REJECT.to_owned()) }
}

/// The rules for traffic to other addresses than the cluster IP.
fn external_rules(routed: &Routed) -> Vec<Rule> {
    let port = &routed.port;
    let cluster = names::cluster(&port.name);
    if !port.external_local {
        // The endpoint may be on another node, whose replies have to return through this one.
        return vec![Rule::Masquerade, Rule::Goto(cluster)];
    }
    // Traffic from within the cluster is treated as if it had left and come back: without the Local policy.
    let mut rules =
        vec![Rule::PodsGoto(cluster.clone()), Rule::MasqueradeOwn, Rule::OwnGoto(cluster.clone())];
    if routed.has_external_endpoints() {
        rules.push(Rule::Goto(names::local(&port.name)));
    }
    rules
}

/// The admitted sources: the source ranges, and the load balancer's addresses if the node is in a range, because its own packets
/// to an address that it has come from that address.
fn admitted(port: &ServicePort, node: Option<IpAddr>) -> Vec<Cidr> {
    let mut admitted = port.source_ranges.clone();
    if node.is_some_and(|node| port.source_ranges.iter().any(|range| range.contains(node))) {
        admitted.extend(port.load_balancer_ips.iter().map(|address| Cidr::single(*address)));
    }
    admitted
}

fn spread(port: &ServicePort, targets: &[Target]) -> Vec<Rule> {
    let addresses = targets.iter().map(|target| target.address);
    let Some(timeout) = port.affinity else {
        return vec![Rule::Redirect(port.name.protocol, addresses.collect())];
    };
    let chain = |address| names::endpoint(&port.name, address);
    let remembered = addresses.clone().map(|address| {
        let set = names::affinity(&port.name, address);
        Rule::Return { set, timeout, chain: chain(address) }
    });
    remembered.chain([Rule::GotoAny(addresses.clone().map(chain).collect())]).collect()
}

/// The syntax of `nft list`.
impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts: Vec<String> = self.address.iter().map(IpAddr::to_string).collect();
        if self.map == Map::HairpinConnections {
            parts.extend(parts.clone());
        }
        if let Some((protocol, port)) = self.port {
            parts.extend([protocol.to_string().to_lowercase(), port.to_string()]);
        }
        write!(f, "{} {{ {} }}", self.map.name(), parts.join(" . "))
    }
}

#[cfg(test)]
mod tests;
