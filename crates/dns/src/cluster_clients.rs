//! The clients of the cluster, by address: its nodes and their pods. Queries of other clients at a node's own address get no
//! response, so that no node is an open resolver.

use std::collections::HashMap;
use std::net::IpAddr;

use corten_api::{Str, Value};
use corten_client::{Caches, Change, kinds};
use parking_lot::RwLock;

/// A network: its address as a number, the bits that count, and its family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Network {
    address: u128,
    mask: u128,
    ipv4: bool,
}

impl Network {
    fn parse(text: &str) -> Option<Network> {
        let (address, length) = text.split_once('/').unwrap_or((text, ""));
        let address: IpAddr = address.parse().ok()?;
        let width = if address.is_ipv4() { 32 } else { 128 };
        let length: u32 = if length.is_empty() { width } else { length.parse().ok()? };
        let hosts = width.checked_sub(length)?;
        let mask = u128::MAX.checked_shl(hosts).unwrap_or(0);
        Some(Network { address: number(address) & mask, mask, ipv4: address.is_ipv4() })
    }

    fn contains(&self, address: IpAddr) -> bool {
        address.is_ipv4() == self.ipv4 && number(address) & self.mask == self.address
    }
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(address.to_bits()),
        IpAddr::V6(address) => address.to_bits(),
    }
}

#[derive(Debug, Default)]
pub struct ClusterClients(RwLock<HashMap<Str, Vec<Network>>>);

impl ClusterClients {
    /// Subscribes to the nodes.
    pub fn follow(self: &std::sync::Arc<ClusterClients>, caches: &Caches) {
        let clients = self.clone();
        caches.of(&kinds::NODES).subscribe(move |change| clients.apply(change));
    }

    fn apply(&self, change: &Change) {
        let name = change.object().key.name.clone();
        match &change.new {
            Some(node) => drop(self.0.write().insert(name, networks(&node.tree()))),
            None => drop(self.0.write().remove(&name)),
        }
    }

    /// True if an address is the cluster's, or this machine's loopback.
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        let known = self.0.read();
        address.is_loopback() || known.values().flatten().any(|network| network.contains(address))
    }
}

fn networks(node: &Value) -> Vec<Network> {
    let addresses = node.items_at(&["status", "addresses"]).iter();
    let addresses = addresses.filter_map(|address| address.str_at(&["address"]));
    let cidrs = node.items_at(&["spec", "podCIDRs"]).iter().filter_map(Value::as_str);
    addresses.chain(cidrs).filter_map(Network::parse).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use corten_api::value;
    use corten_client::Object;

    use super::*;

    #[test]
    fn nodes_and_pods_are_clients_of_the_cluster_and_others_are_not() {
        let node = value!({
            "metadata": {"name": "n"}, "spec": {"podCIDRs": ["10.244.3.0/24", "fd00:3::/64"]},
            "status": {"addresses": [{"type": "InternalIP", "address": "192.0.2.3"}, {"type": "Hostname", "address": "n"}]},
        });
        let node = Arc::new(Object::of(&node));
        let clients = ClusterClients::default();
        let belongs = |text: &str| clients.contains(text.parse().unwrap());
        clients.apply(&Change { old: None, new: Some(node.clone()) });
        for good in ["192.0.2.3", "10.244.3.7", "fd00:3::9", "127.0.0.1", "::ffff:10.244.3.7"] {
            assert!(belongs(good), "{good}");
        }
        for bad in ["192.0.2.4", "10.244.4.7", "fd00:4::9", "::a"] {
            assert!(!belongs(bad), "{bad}");
        }
        clients.apply(&Change { old: Some(node), new: None });
        assert!(!belongs("10.244.3.7"));
    }
}
