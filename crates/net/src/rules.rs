//! What the node does to packets for its pods: the whole table, as a pure function of what is so.
//!
//! - What leaves the cluster from a pod is sent from the node's address, since nobody outside knows the way back.
//! - A host port leads to a pod, from outside, from pods, and from the node itself: also over its loopback address.
//! - Pods never reach the node's loopback addresses, although the way for host ports is open.
//!
//! Sources are kept wherever an answer finds its way without: only what a pod sends to itself through a host port,
//! and what comes from loopback, is sent from the node's address on the bridge.

use std::net::{IpAddr, Ipv4Addr};

use crate::nftables::{Hook, Rule, Transaction};
use crate::{Cidr, Protocol};

pub const TABLE: &str = "corten-pods";

const BEFORE_TRACKING: i32 = -300;
const DESTINATION: i32 = -100;
const SOURCE: i32 = 100;

/// What the table follows from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Model {
    pub bridge: String,
    /// The networks that this node's pods are in.
    pub node: Vec<Cidr>,
    /// The networks that other nodes' pods are in.
    pub others: Vec<Cidr>,
    pub host_ports: Vec<Mapping>,
}

/// A port of the node that leads to a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mapping {
    pub protocol: Protocol,
    /// `None` is any of the node's addresses of the pod address' family.
    pub host_ip: Option<IpAddr>,
    pub host_port: u16,
    pub pod: IpAddr,
    pub pod_port: u16,
}

/// The transaction that makes the table what it shall be, whatever it was.
pub fn table(model: &Model) -> Transaction {
    let mut table = Transaction::replacing(TABLE);
    guard_loopback(&mut table, model);
    lead_host_ports(&mut table, model);
    masquerade(&mut table, model);
    table
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
    for (id, ipv4) in [(1, true), (2, false)] {
        let (node, inside) = if ipv4 { ("node4", "inside4") } else { ("node6", "inside6") };
        let of_family =
            |networks: &[Cidr]| networks.iter().copied().filter(|n| n.is_ipv4() == ipv4).collect();
        let own = merged(of_family(&model.node));
        let mut all: Vec<Cidr> = of_family(&model.others);
        all.extend(&own);
        all.push(multicast(ipv4));
        table.networks(id, node, ipv4, &own);
        table.networks(id + 2, inside, ipv4, &merged(all));
        let family: IpAddr = multicast(ipv4).address();
        let leaving = Rule::new().family_of(family).from_set(ipv4, node).not_to_set(ipv4, inside);
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

/// In order and without those that lie within others, as a set wants them.
pub fn merged(mut networks: Vec<Cidr>) -> Vec<Cidr> {
    networks.iter_mut().for_each(|network| *network = network.network());
    networks.sort_unstable();
    let mut kept: Vec<Cidr> = Vec::with_capacity(networks.len());
    for network in networks {
        // The wider of two that begin alike comes first.
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
    fn networks_within_others_are_left_out() {
        check(&[], &[]);
        check(&["10.244.1.0/24", "10.244.0.0/24"], &["10.244.0.0/24", "10.244.1.0/24"]);
        check(&["10.244.0.0/24", "10.244.0.0/16", "10.244.9.0/24"], &["10.244.0.0/16"]);
        check(&["10.244.0.7/24", "10.244.0.0/24"], &["10.244.0.0/24"]);
        check(&["fd00:1::/64", "fd00::/16"], &["fd00::/16"]);
    }
}
