//! What one Service wants in the table: entries of maps, chains with their rules, and sets that remember clients.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use corten_net::nftables::Verdict;
use corten_net::{Cidr, Protocol};

use super::names;
use crate::route::{Routed, Target};
use crate::service::ServicePort;

/// Everything of one Service, for one IP family.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wanted {
    /// By what is looked up; sets have no verdicts.
    pub entries: BTreeMap<Entry, Option<Verdict>>,
    pub chains: BTreeMap<String, Vec<Rule>>,
    /// How long each set remembers.
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

/// Something that is looked up in a map.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Entry {
    pub map: Map,
    /// Of the destination; where packets come back to whoever sent them, of the source too.
    pub address: Option<IpAddr>,
    pub port: Option<(Protocol, u16)>,
}

/// What the chains of Services do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rule {
    /// Let the packet be sent from the node's own address.
    Masquerade,
    /// The same for packets of the node itself.
    MasqueradeOwn,
    Goto(String),
    /// What comes from pods of this node goes on elsewhere.
    PodsGoto(String),
    /// What comes from the node itself goes on elsewhere.
    OwnGoto(String),
    /// Who comes from here may go on.
    Admit(Cidr),
    Drop,
    /// Who is remembered goes where they went before.
    Return {
        set: String,
        timeout: Duration,
        chain: String,
    },
    /// Anybody else goes to any of these.
    GotoAny(Vec<String>),
    Remember {
        set: String,
        timeout: Duration,
    },
    /// Goes to any of these.
    Redirect(Protocol, Vec<SocketAddr>),
}

/// The chain for packets to what has no endpoints.
pub const REJECT: &str = "reject-chain";

/// What a Service wants. `node` is this node's own address.
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
            self.lead(Map::ServiceIps, Some(port.cluster_ip), at, Verdict::Goto(chain(&port.name)));
        } else {
            self.lead(Map::NoEndpointServices, Some(port.cluster_ip), at, refusal(routed));
        }
    }

    fn lead_external(&mut self, routed: &Routed) {
        let port = &routed.port;
        let at = (port.name.protocol, port.port);
        let external = Verdict::Goto(names::external(&port.name));
        // External IPs are asked for where the destination is not the node's own alone.
        let external_ips = (&port.external_ips, Map::ExternalIps, Map::NoEndpointExternalIps);
        let balanced = (&port.load_balancer_ips, Map::ServiceIps, Map::NoEndpointServices);
        for (addresses, leads, refuses) in [external_ips, balanced] {
            for address in addresses.iter().copied() {
                if routed.has_endpoints {
                    self.lead(leads, Some(address), at, external.clone());
                }
                if !routed.has_external_endpoints() {
                    self.lead(refuses, Some(address), at, refusal(routed));
                }
            }
        }
        if let Some(node_port) = port.node_port {
            let at = (port.name.protocol, node_port);
            if routed.has_endpoints {
                self.lead(Map::ServiceNodePorts, None, at, external);
            }
            if !routed.has_external_endpoints() {
                self.lead(Map::NoEndpointNodePorts, None, at, refusal(routed));
            }
        }
        if routed.has_endpoints && port.is_external() {
            self.chains.insert(names::external(&port.name), external_rules(routed));
        }
    }

    /// The load balancer's addresses are for some only. Node ports are not, as ever.
    fn firewall(&mut self, routed: &Routed, node: Option<IpAddr>) {
        let port = &routed.port;
        if port.load_balancer_ips.is_empty() || port.source_ranges.is_empty() {
            return;
        }
        let chain = names::firewall(&port.name);
        for address in port.load_balancer_ips.iter().copied() {
            let at = (port.name.protocol, port.port);
            self.lead(Map::FirewallIps, Some(address), at, Verdict::Goto(chain.clone()));
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

    /// Of two ports that want the same, the first gets it.
    fn lead(&mut self, map: Map, address: Option<IpAddr>, at: (Protocol, u16), verdict: Verdict) {
        self.entries.entry(Entry { map, address, port: Some(at) }).or_insert(Some(verdict));
    }
}

/// Nobody anywhere is told at once; that nobody is on this node is this node's matter: the packet might have come to
/// another.
fn refusal(routed: &Routed) -> Verdict {
    if routed.has_endpoints { Verdict::Drop } else { Verdict::Goto(REJECT.to_owned()) }
}

/// What happens to traffic that comes to anything but the cluster IP.
fn external_rules(routed: &Routed) -> Vec<Rule> {
    let port = &routed.port;
    let cluster = names::cluster(&port.name);
    if !port.external_local {
        // The endpoint may be on another node, whose answers have to come back through this one.
        return vec![Rule::Masquerade, Rule::Goto(cluster)];
    }
    // What comes from within the cluster is treated as if it had gone out and come back: by no policy.
    let mut rules =
        vec![Rule::PodsGoto(cluster.clone()), Rule::MasqueradeOwn, Rule::OwnGoto(cluster.clone())];
    if routed.has_external_endpoints() {
        rules.push(Rule::Goto(names::local(&port.name)));
    }
    rules
}

/// The node comes to a load balancer's address from that very address, if it has it.
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

/// As the tool would show it.
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
