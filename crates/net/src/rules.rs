//! The node's IP rules for its pods: the whole table, as a pure function of the model.
//!
//! - Traffic of pods that leaves the cluster is masqueraded, because machines outside have no route back.
//! - A host port is redirected to its pod, from outside, from pods, and from the node itself, also over its loopback address.
//! - Pods never reach the node's loopback addresses, although routing for them is enabled for host ports.
//! - Packets with a pod's source address are accepted only through the bridge for pods of this node, and only through the tunnel
//!   for pods of other nodes.
//! - The tunnel accepts packets from nodes only, and pods cannot send to it: neither from their own address nor, by being
//!   masqueraded, from the node's.
//!
//! Source addresses are kept wherever replies find their way back: only traffic of a pod to itself through a host port, and
//! traffic from loopback, is masqueraded to the node's address on the bridge.

use std::net::{IpAddr, Ipv4Addr};

use crate::guard::JUDGED;
use crate::nftables::{Hook, Rule, Transaction};
use crate::{Cidr, Protocol, tunnel};

pub const TABLE: &str = "corten-pods";

const BEFORE_TRACKING: i32 = -300;
const AFTER_TRACKING: i32 = -150;
const DESTINATION: i32 = -100;
const FILTER: i32 = 0;
const SOURCE: i32 = 100;
const UDP: u8 = 17;
const LOOPBACK: &str = "lo";

/// The inputs of the table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Model {
    pub bridge: String,
    /// The networks of this node's pods.
    pub node: Vec<Cidr>,
    /// The networks of other nodes' pods.
    pub others: Vec<Cidr>,
    pub host_ports: Vec<Mapping>,
    pub tunnel: Option<Tunnel>,
}

/// The tunnel to other nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tunnel {
    pub link: String,
    /// The addresses of the other nodes, once they are known.
    pub nodes: Option<Vec<IpAddr>>,
}

/// A host port with its pod's address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mapping {
    pub protocol: Protocol,
    /// `None` is every address of the node of the pod address' family.
    pub host_ip: Option<IpAddr>,
    pub host_port: u16,
    pub pod: IpAddr,
    pub pod_port: u16,
}

/// The transaction that replaces the table.
pub fn table(model: &Model) -> Transaction {
    let mut table = Transaction::replacing(TABLE);
    list_networks(&mut table, model);
    guard_loopback(&mut table, model);
    guard_sources(&mut table, model);
    mark_judged(&mut table, model);
    if let Some(tunnel) = &model.tunnel {
        guard_tunnel(&mut table, model, tunnel);
    }
    lead_host_ports(&mut table, model);
    masquerade(&mut table, model);
    table
}

/// The names of one family's sets.
struct Sets {
    ipv4: bool,
    /// This node's pods.
    node: &'static str,
    /// Other nodes' pods.
    others: &'static str,
    /// All pods, and multicast.
    inside: &'static str,
    /// Other nodes.
    peers: &'static str,
}

const SETS: [Sets; 2] = [
    Sets { ipv4: true, node: "node4", others: "others4", inside: "inside4", peers: "peers4" },
    Sets { ipv4: false, node: "node6", others: "others6", inside: "inside6", peers: "peers6" },
];

impl Sets {
    fn rule(&self) -> Rule {
        Rule::new().family_of(multicast(self.ipv4).address())
    }
}

fn list_networks(table: &mut Transaction, model: &Model) {
    for (id, sets) in (0..).step_by(4).zip(&SETS) {
        let ipv4 = sets.ipv4;
        let of_family = |networks: &[Cidr]| -> Vec<Cidr> {
            networks.iter().copied().filter(|network| network.is_ipv4() == ipv4).collect()
        };
        let nodes = model.tunnel.iter().filter_map(|tunnel| tunnel.nodes.as_ref()).flatten();
        let nodes: Vec<Cidr> = nodes.map(|node| Cidr::single(*node)).collect();
        let (own, others) = (merged(of_family(&model.node)), merged(of_family(&model.others)));
        let all = own.iter().chain(&others).copied().chain([multicast(ipv4)]).collect();
        table.networks(id + 1, sets.node, ipv4, &own);
        table.networks(id + 2, sets.others, ipv4, &others);
        table.networks(id + 3, sets.inside, ipv4, &merged(all));
        table.networks(id + 4, sets.peers, ipv4, &merged(of_family(&nodes)));
    }
}

/// Drops packets with a spoofed pod address. Replies of other nodes' pods to this node's own address come without the tunnel,
/// because the route to a node is direct.
fn guard_sources(table: &mut Transaction, model: &Model) {
    table.base_chain("sources", "filter", Hook::Prerouting, BEFORE_TRACKING);
    table.base_chain("strangers", "filter", Hook::Prerouting, AFTER_TRACKING);
    for sets in &SETS {
        let elsewhere = sets.rule().did_not_come_through(&model.bridge).did_not_come_through(LOOPBACK);
        table.rule("sources", &elsewhere.from_set(sets.ipv4, sets.node).drop());
        if let Some(Tunnel { link, nodes: Some(_) }) = &model.tunnel {
            let elsewhere = sets.rule().did_not_come_through(link).did_not_come_through(LOOPBACK);
            let elsewhere = elsewhere.from_set(sets.ipv4, sets.others).answers_nothing();
            table.rule("strangers", &elsewhere.drop());
        }
    }
}

/// Marks packets that a Service redirected: bridge netfilter bridges them from port to port after these rules.
fn mark_judged(table: &mut Transaction, model: &Model) {
    table.base_chain("redirected", "filter", Hook::Forward, FILTER);
    let within = Rule::new().came_through(&model.bridge).leaves_through(&model.bridge);
    table.rule("redirected", &within.was_redirected().mark(JUDGED));
}

fn guard_tunnel(table: &mut Transaction, model: &Model, tunnel: &Tunnel) {
    table.base_chain("outwards", "filter", Hook::Forward, FILTER);
    table.base_chain("inwards", "filter", Hook::Input, FILTER);
    let to_tunnel = |rule: Rule| rule.protocol(UDP).to_port(tunnel::PORT);
    let from_pods = || to_tunnel(Rule::new().came_through(&model.bridge));
    for sets in &SETS {
        let outwards = to_tunnel(sets.rule().came_through(&model.bridge));
        table.rule("outwards", &outwards.not_to_set(sets.ipv4, sets.inside).drop());
        if tunnel.nodes.is_some() {
            table.rule("inwards", &to_tunnel(sets.rule()).not_from_set(sets.ipv4, sets.peers).drop());
        }
    }
    table.rule("inwards", &from_pods().drop());
}

fn guard_loopback(table: &mut Transaction, model: &Model) {
    table.base_chain("loopback", "filter", Hook::Prerouting, BEFORE_TRACKING);
    table.rule("loopback", &Rule::new().came_through(&model.bridge).to_network(loopback()).drop());
}

fn lead_host_ports(table: &mut Transaction, model: &Model) {
    table.chain("host-ports");
    for mapping in &model.host_ports {
        let rule = Rule::new().family_of(mapping.pod).protocol(mapping.protocol.number());
        let rule = match mapping.host_ip {
            Some(host_ip) => rule.to_network(Cidr::single(host_ip)),
            None => rule,
        };
        table.rule("host-ports", &rule.to_port(mapping.host_port).redirect(mapping.pod, mapping.pod_port));
    }
    for (chain, hook) in [("arriving", Hook::Prerouting), ("own", Hook::Output)] {
        table.base_chain(chain, "nat", hook, DESTINATION);
        table.rule(chain, &Rule::new().to_local().jump("host-ports"));
    }
}

fn masquerade(table: &mut Transaction, model: &Model) {
    table.base_chain("leaving", "nat", Hook::Postrouting, SOURCE);
    for sets in &SETS {
        let leaving = sets.rule().from_set(sets.ipv4, sets.node).not_to_set(sets.ipv4, sets.inside);
        table.rule("leaving", &leaving.masquerade());
    }
    let local = Rule::new().leaves_through(&model.bridge).from_network(loopback());
    table.rule("leaving", &local.masquerade());
    let mut pods: Vec<IpAddr> = model.host_ports.iter().map(|mapping| mapping.pod).collect();
    pods.sort_unstable();
    pods.dedup();
    for pod in pods.into_iter().map(Cidr::single) {
        table.rule("leaving", &Rule::new().from_network(pod).to_network(pod).masquerade());
    }
}

/// Sorts networks and removes those within others, as sets need them.
pub fn merged(mut networks: Vec<Cidr>) -> Vec<Cidr> {
    networks.iter_mut().for_each(|network| *network = network.network());
    networks.sort_unstable();
    let mut kept: Vec<Cidr> = Vec::with_capacity(networks.len());
    for network in networks {
        // Of networks with the same first address the wider one comes first.
        if kept.last().is_none_or(|last| !last.contains(network.address())) {
            kept.push(network);
        }
    }
    kept
}

fn loopback() -> Cidr {
    network(Ipv4Addr::new(127, 0, 0, 0).into(), 8)
}

fn multicast(ipv4: bool) -> Cidr {
    if ipv4 {
        network(Ipv4Addr::new(224, 0, 0, 0).into(), 4)
    } else {
        network([0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0].into(), 8)
    }
}

fn network(address: IpAddr, prefix: u8) -> Cidr {
    Cidr::new(address, prefix).unwrap_or(Cidr::single(address))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(networks: &[&str], expected: &[&str]) {
        let networks = networks.iter().map(|text| text.parse().unwrap()).collect();
        let merged: Vec<String> = merged(networks).iter().map(Cidr::to_string).collect();
        assert_eq!(merged, expected);
    }

    #[test]
    fn networks_within_others_are_removed() {
        check(&[], &[]);
        check(&["10.244.1.0/24", "10.244.0.0/24"], &["10.244.0.0/24", "10.244.1.0/24"]);
        check(&["10.244.0.0/24", "10.244.0.0/16", "10.244.9.0/24"], &["10.244.0.0/16"]);
        check(&["10.244.0.7/24", "10.244.0.0/24"], &["10.244.0.0/24"]);
        check(&["fd00:1::/64", "fd00::/16"], &["fd00::/16"]);
    }
}
