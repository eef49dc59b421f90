//! Allocates addresses to pods. Pure.

use std::net::IpAddr;

use crate::Cidr;
use crate::route::Hardware;

/// The offset of the first pod address, after the network's own and the gateway's.
const FIRST: u128 = 2;

/// The node's address in the pods' network, which is their gateway.
pub fn gateway(network: Cidr) -> Option<Cidr> {
    Cidr::new(network.nth(1)?, network.prefix())
}

/// The next free address after the last allocated one, wrapping around: an address is reused as late as possible, so that clients
/// of an old pod do not reach a new one.
pub fn next(network: Cidr, taken: impl Fn(IpAddr) -> bool, last: Option<IpAddr>) -> Option<IpAddr> {
    // An IPv4 network ends with its broadcast address.
    let end = network.offset(network.last())?.checked_sub(u128::from(network.is_ipv4()))?;
    if end < FIRST {
        return None;
    }
    let after = last.and_then(|last| network.offset(last)).unwrap_or(0);
    let (before, behind) = (FIRST..=after.min(end), after.saturating_add(1).max(FIRST)..=end);
    behind.chain(before).filter_map(|n| network.nth(n)).find(|address| !taken(*address))
}

/// The hardware address of an IP address: always the same, so that neighbour caches stay valid when an address moves to another
/// pod.
pub fn hardware(address: IpAddr) -> Hardware {
    let [.., a, b, c, d] = match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    };
    [0x0a, 0x58, a, b, c, d]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(network: &str, taken: &[&str], last: &str, expected: &str) {
        let taken: Vec<IpAddr> = taken.iter().map(|text| text.parse().unwrap()).collect();
        let given = next(network.parse().unwrap(), |address| taken.contains(&address), last.parse().ok());
        assert_eq!(given.map_or("none".to_owned(), |address| address.to_string()), expected);
    }

    #[test]
    fn addresses_are_allocated_round_robin() {
        check("10.244.1.0/24", &[], "", "10.244.1.2");
        check("10.244.1.0/24", &["10.244.1.2"], "10.244.1.2", "10.244.1.3");
        check("10.244.1.0/24", &[], "10.244.1.2", "10.244.1.3");
        check("10.244.1.0/24", &[], "10.244.1.254", "10.244.1.2");
        check("10.244.1.0/24", &[], "10.9.9.9", "10.244.1.2");
        check("fd00::/64", &["fd00::2"], "fd00::2", "fd00::3");
        check("fd00::/127", &[], "", "none");
    }

    #[test]
    fn a_full_network_has_no_free_address() {
        check("10.0.0.0/30", &[], "", "10.0.0.2");
        check("10.0.0.0/30", &["10.0.0.2"], "", "none");
        check("10.0.0.0/30", &["10.0.0.2"], "10.0.0.2", "none");
        check("10.0.0.0/29", &["10.0.0.4", "10.0.0.5", "10.0.0.6", "10.0.0.2"], "10.0.0.4", "10.0.0.3");
        check("10.0.0.0/31", &[], "", "none");
        check("10.0.0.0/32", &[], "", "none");
    }

    #[test]
    fn the_gateway_is_the_first() {
        assert_eq!(gateway("10.244.3.0/24".parse().unwrap()).unwrap().to_string(), "10.244.3.1/24");
        assert_eq!(gateway("fd00::/64".parse().unwrap()).unwrap().to_string(), "fd00::1/64");
        assert!(gateway("10.0.0.0/32".parse().unwrap()).is_none());
    }

    #[test]
    fn hardware_addresses_depend_on_the_address_alone() {
        assert_eq!(hardware([10, 244, 1, 7].into()), [0x0a, 0x58, 10, 244, 1, 7]);
        assert_eq!(hardware("fd00::1:2".parse().unwrap()), [0x0a, 0x58, 0, 1, 0, 2]);
    }
}
