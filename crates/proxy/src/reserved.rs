//! Reserved addresses, which are never proxied as an external IP or a load balancer's address of a Service: those of nodes and
//! API servers, cluster IPs, and special addresses such as loopback. Pure.
//!
//! A user who may write Services chooses their external IPs. A node's own address among them would redirect traffic for the
//! kubelet, or for any other server of the node, to a pod, on every node. Node ports are not external IPs: they only use ports
//! of the node that are allocated to them.

use std::collections::HashMap;
use std::net::IpAddr;

use corten_api::{Str, Value};
use corten_net::Cidr;

/// The cluster's own addresses.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Reserved {
    /// The addresses of each node.
    nodes: HashMap<Str, Vec<IpAddr>>,
    api_servers: Vec<IpAddr>,
}

impl Reserved {
    /// Sets the addresses of a node, or removes it. Returns true if they changed.
    pub fn node(&mut self, name: &Str, tree: Option<&Value>) -> bool {
        let new = tree.map(addresses);
        if self.nodes.get(name) == new.as_ref() {
            return false;
        }
        match new {
            Some(addresses) => drop(self.nodes.insert(name.clone(), addresses)),
            None => drop(self.nodes.remove(name)),
        }
        true
    }

    /// Sets the addresses of API servers. Returns true if they changed.
    pub fn api_servers(&mut self, addresses: Vec<IpAddr>) -> bool {
        let differs = self.api_servers != addresses;
        self.api_servers = addresses;
        differs
    }

    pub fn has(&self, address: IpAddr, service_cidrs: &[Cidr]) -> bool {
        let address = address.to_canonical();
        !is_of_a_machine(address)
            || service_cidrs.iter().any(|cidr| cidr.contains(address))
            || self.api_servers.contains(&address)
            || self.nodes.values().flatten().any(|own| *own == address)
    }
}

/// True for the Service `default/kubernetes`.
pub fn is_api_service(namespace: &str, name: &str) -> bool {
    (namespace, name) == ("default", "kubernetes")
}

fn addresses(node: &Value) -> Vec<IpAddr> {
    let all = node.items_at(&["status", "addresses"]).iter();
    let all = all.filter_map(|address| address.str_at(&["address"])?.parse::<IpAddr>().ok());
    all.map(|address| address.to_canonical()).collect()
}

fn is_of_a_machine(address: IpAddr) -> bool {
    let is_special = match address {
        IpAddr::V4(address) => address.is_link_local() || address.is_broadcast(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    };
    !(is_special || address.is_loopback() || address.is_unspecified() || address.is_multicast())
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::*;

    #[test]
    fn the_clusters_own_addresses_are_reserved() {
        let mut reserved = Reserved::default();
        let node = value!({"status": {"addresses": [
            {"type": "Hostname", "address": "n1"}, {"type": "InternalIP", "address": "192.0.2.1"},
            {"type": "ExternalIP", "address": "2001:db8::1"},
        ]}});
        assert!(reserved.node(&"n1".into(), Some(&node)));
        assert!(!reserved.node(&"n1".into(), Some(&node)), "the same again");
        assert!(reserved.api_servers(vec!["203.0.113.1".parse().unwrap()]));
        let cidrs = ["10.96.0.0/12".parse().unwrap()];
        let table = [
            ("192.0.2.1", true),
            ("::ffff:192.0.2.1", true),
            ("2001:db8::1", true),
            ("203.0.113.1", true),
            ("10.96.0.1", true),
            ("10.96.0.10", true),
            ("127.0.0.1", true),
            ("::1", true),
            ("0.0.0.0", true),
            ("169.254.169.254", true),
            ("fe80::1", true),
            ("224.0.0.1", true),
            ("198.51.100.9", false),
            ("2001:db8::9", false),
        ];
        for (address, expected) in table {
            assert_eq!(reserved.has(address.parse().unwrap(), &cidrs), expected, "{address}");
        }
        assert!(reserved.node(&"n1".into(), None));
        assert!(!reserved.has("192.0.2.1".parse().unwrap(), &cidrs), "the node is gone");
    }
}
