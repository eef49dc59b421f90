//! Finds stale UDP flows: those that lead to an endpoint that no longer serves.
//!
//! TCP clients notice by themselves. With UDP the kernel keeps translating a flow to its first endpoint for as long as the
//! client sends, so the conntrack entries of stale flows have to be deleted.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;

use corten_net::Protocol;
use corten_net::conntrack::Flow;

use crate::route::Routed;

/// The endpoints of Services by frontend: an address and port, or a node port.
#[derive(Debug, Default)]
pub struct Frontends {
    addresses: HashMap<SocketAddr, HashSet<SocketAddr>>,
    node_ports: HashMap<u16, HashSet<SocketAddr>>,
}

impl Frontends {
    /// The frontends of some Services' ports.
    pub fn of<'a>(ports: impl IntoIterator<Item = &'a Routed>) -> Frontends {
        let mut frontends = Frontends::default();
        let datagrams = ports.into_iter().filter(|routed| routed.port.name.protocol == Protocol::Udp);
        for routed in datagrams {
            let (port, serving) = (&routed.port, || routed.serving.iter().copied().collect::<HashSet<_>>());
            let addresses =
                std::iter::once(&port.cluster_ip).chain(&port.external_ips).chain(&port.load_balancer_ips);
            for address in addresses {
                frontends.addresses.insert(SocketAddr::new(*address, port.port), serving());
            }
            // A node port is matched by its number alone: without endpoints, all flows to that number on any machine would
            // count as stale.
            if let Some(node_port) = port.node_port.filter(|_| !routed.serving.is_empty()) {
                frontends.node_ports.insert(node_port, serving());
            }
        }
        frontends
    }

    pub fn is_empty(&self) -> bool {
        self.addresses.is_empty() && self.node_ports.is_empty()
    }

    pub fn is_stale(&self, flow: &Flow) -> bool {
        let leads = |serving: Option<&HashSet<SocketAddr>>| {
            serving.is_some_and(|serving| !serving.contains(&flow.answers))
        };
        flow.protocol == Protocol::Udp.number()
            && (leads(self.addresses.get(&flow.destination))
                || leads(self.node_ports.get(&flow.destination.port())))
    }
}

#[cfg(test)]
mod tests;
