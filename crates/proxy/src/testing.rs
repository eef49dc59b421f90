//! Routed ports for tests of both backends.

use corten_client::Key;
use corten_net::Protocol;

use crate::base::{Base, LocalPods};
use crate::route::{Routed, Target};
use crate::service::{PortName, ServicePort};

/// The port `p80` of `ns1/svc1`, changed by `change`, with endpoints.
pub(crate) fn routed(change: impl FnOnce(&mut ServicePort), cluster: &[&str], local: &[&str]) -> Routed {
    let mut port = ServicePort {
        name: PortName { service: Key::new("ns1", "svc1"), port: "p80".into(), protocol: Protocol::Tcp },
        cluster_ip: "10.96.0.1".parse().unwrap(),
        port: 80,
        node_port: None,
        external_ips: Vec::new(),
        load_balancer_ips: Vec::new(),
        source_ranges: Vec::new(),
        affinity: None,
        internal_local: false,
        external_local: false,
        health_check_port: None,
    };
    change(&mut port);
    let target = |text: &&str| Target { address: text.parse().unwrap(), local: local.contains(text) };
    let mut reachable: Vec<Target> = cluster.iter().chain(local).map(target).collect();
    reachable.sort_unstable();
    reachable.dedup();
    Routed {
        port,
        cluster: cluster.iter().map(target).collect(),
        local: local.iter().map(target).collect(),
        has_endpoints: !reachable.is_empty(),
        serving: reachable.iter().map(|target| target.address).collect(),
        reachable,
    }
}

pub(crate) fn base() -> Base {
    Base {
        ipv4: true,
        masquerade_mark: 0x4000,
        masquerade_all: false,
        local_pods: LocalPods::Within("10.244.0.0/16".parse().unwrap()),
        service_cidrs: Vec::new(),
        node_port_addresses: None,
        localhost_node_ports: true,
        node: "192.0.2.1".parse().ok(),
    }
}
