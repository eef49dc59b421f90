//! Who belongs to the cluster, by address: its nodes and their pods. Whoever else asks at a node's own address gets no
//! answer, so that no node is an open resolver.

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
pub struct Neighbours(RwLock<HashMap<Str, Vec<Network>>>);

impl Neighbours {
    /// Follows the nodes for as long as the caches do.
    pub fn follow(self: &std::sync::Arc<Neighbours>, caches: &Caches) {
        let neighbours = self.clone();
        caches.of(&kinds::NODES).subscribe(move |change| neighbours.take(change));
    }

    fn take(&self, change: &Change) {
        let name = change.object().key.name.clone();
        match &change.new {
            Some(node) => drop(self.0.write().insert(name, networks(&node.tree()))),
            None => drop(self.0.write().remove(&name)),
        }
    }

    /// Whether an address is of the cluster, or of this machine alone.
    pub fn include(&self, address: IpAddr) -> bool {
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
    fn nodes_and_pods_belong_and_others_do_not() {
        let node = value!({
            "metadata": {"name": "n"}, "spec": {"podCIDRs": ["10.244.3.0/24", "fd00:3::/64"]},
            "status": {"addresses": [{"type": "InternalIP", "address": "192.0.2.3"}, {"type": "Hostname", "address": "n"}]},
        });
        let node = Arc::new(Object::of(&node));
        let neighbours = Neighbours::default();
        let belongs = |text: &str| neighbours.include(text.parse().unwrap());
        neighbours.take(&Change { old: None, new: Some(node.clone()) });
        for good in ["192.0.2.3", "10.244.3.7", "fd00:3::9", "127.0.0.1", "::ffff:10.244.3.7"] {
            assert!(belongs(good), "{good}");
        }
        for bad in ["192.0.2.4", "10.244.4.7", "fd00:4::9", "::a"] {
            assert!(!belongs(bad), "{bad}");
        }
        neighbours.take(&Change { old: Some(node), new: None });
        assert!(!belongs("10.244.3.7"));
    }
}
