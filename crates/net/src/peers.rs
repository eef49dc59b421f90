//! Computes the routes to the pods of other nodes. Pure.
//!
//! Routes, neighbours and hardware addresses depend only on the nodes' addresses and pod CIDRs, so nodes need no information
//! about each other beyond their Node objects.

use std::net::IpAddr;

use crate::route::Route;
use crate::tunnel::Neighbour;
use crate::{Cidr, addresses};

/// The transport of pod traffic between nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Between {
    /// Encapsulated: works wherever nodes reach each other.
    #[default]
    Vxlan,
    /// Routed without encapsulation: for nodes of one network that admits packets from pod addresses.
    Direct,
}

/// Another node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    pub address: IpAddr,
    pub pod_cidrs: Vec<Cidr>,
}

/// The desired routes and neighbours.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Ways {
    pub(crate) routes: Vec<Route>,
    pub(crate) neighbours: Vec<Neighbour>,
}

/// Routes through the tunnel: the gateway of each peer's pods is an address of their own network that only this node knows,
/// and whose neighbour entry is the peer's end of the tunnel.
pub(crate) fn tunnelled(peers: &[Peer], tunnel: u32, sources: &[IpAddr]) -> Ways {
    let mut ways = Ways::default();
    for peer in peers {
        let hardware = addresses::hardware(peer.address);
        ways.neighbours.push(Neighbour::End { hardware, node: peer.address });
        for network in peer.pod_cidrs.iter().map(Cidr::network) {
            let gateway = network.address();
            ways.neighbours.push(Neighbour::Gateway { address: gateway, hardware });
            let source = sources.iter().copied().find(|source| source.is_ipv4() == network.is_ipv4());
            ways.routes.push(Route { destination: network, gateway: Some(gateway), link: tunnel, source });
        }
    }
    ways.sorted()
}

/// Direct routes to peers that are neighbours on some link. Other peers have no route.
pub(crate) fn direct(peers: &[Peer], links: &[(u32, Cidr)]) -> Ways {
    let mut ways = Ways::default();
    for peer in peers {
        let Some((link, _)) = links.iter().find(|(_, network)| network.contains(peer.address)) else {
            continue;
        };
        let same_family = |network: &Cidr| network.is_ipv4() == peer.address.is_ipv4();
        for destination in peer.pod_cidrs.iter().map(Cidr::network).filter(same_family) {
            ways.routes.push(Route { destination, gateway: Some(peer.address), link: *link, source: None });
        }
    }
    ways.sorted()
}

impl Ways {
    fn sorted(mut self) -> Ways {
        self.routes.sort_unstable();
        self.neighbours.sort_unstable();
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(address: &str, cidrs: &[&str]) -> Peer {
        let pod_cidrs = cidrs.iter().map(|cidr| cidr.parse().unwrap()).collect();
        Peer { address: address.parse().unwrap(), pod_cidrs }
    }

    fn described(ways: &Ways) -> Vec<String> {
        let gateway =
            |route: &Route| route.gateway.map_or("itself".to_owned(), |gateway| gateway.to_string());
        let routes = ways.routes.iter();
        routes
            .map(|route| format!("{} via {} on {}", route.destination, gateway(route), route.link))
            .collect()
    }

    #[test]
    fn tunnels_need_no_common_network() {
        let peers =
            [peer("192.0.2.2", &["10.244.2.0/24", "fd00:2::/64"]), peer("198.51.100.3", &["10.244.3.0/24"])];
        let ways = tunnelled(&peers, 7, &["10.244.1.1".parse().unwrap()]);
        assert_eq!(
            described(&ways),
            [
                "10.244.2.0/24 via 10.244.2.0 on 7",
                "10.244.3.0/24 via 10.244.3.0 on 7",
                "fd00:2::/64 via fd00:2:: on 7"
            ]
        );
        assert_eq!(ways.routes[0].source, Some([10, 244, 1, 1].into()));
        assert_eq!(ways.routes[2].source, None);
        let hardware = [0x0a, 0x58, 192, 0, 2, 2];
        assert!(ways.neighbours.contains(&Neighbour::End { hardware, node: [192, 0, 2, 2].into() }));
        assert!(ways.neighbours.contains(&Neighbour::Gateway { address: [10, 244, 2, 0].into(), hardware }));
        assert_eq!(ways.neighbours.len(), 5);
    }

    #[test]
    fn direct_routes_lead_to_neighbours_alone() {
        let peers = [
            peer("192.0.2.2", &["10.244.2.0/24", "fd00:2::/64"]),
            peer("198.51.100.3", &["10.244.3.0/24"]),
            peer("2001:db8::4", &["fd00:4::/64"]),
        ];
        let links = [(3, "192.0.2.1/24".parse().unwrap()), (4, "2001:db8::1/64".parse().unwrap())];
        let ways = direct(&peers, &links);
        assert_eq!(
            described(&ways),
            ["10.244.2.0/24 via 192.0.2.2 on 3", "fd00:4::/64 via 2001:db8::4 on 4"]
        );
        assert!(ways.neighbours.is_empty());
    }

    #[test]
    fn a_node_without_a_pod_cidr_has_no_route() {
        assert!(tunnelled(&[peer("192.0.2.2", &[])], 7, &[]).routes.is_empty());
        assert_eq!(tunnelled(&[], 7, &[]), Ways::default());
    }
}
