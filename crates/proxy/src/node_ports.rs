//! The addresses of the node where node ports are open.

use std::io;
use std::net::IpAddr;

use corten_net::Cidr;
use corten_net::namespace::Namespace;
use corten_net::route::Routing;

/// The configured ranges of one family.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NodePortAddresses {
    All,
    Within(Vec<Cidr>),
}

impl NodePortAddresses {
    /// Without a range of a family, all its addresses are selected, whatever the other family's ranges are.
    pub(crate) fn of(ranges: &[Cidr], ipv4: bool) -> NodePortAddresses {
        let of_family: Vec<Cidr> = ranges.iter().copied().filter(|cidr| cidr.is_ipv4() == ipv4).collect();
        if of_family.is_empty() || of_family.iter().any(|cidr| cidr.prefix() == 0) {
            NodePortAddresses::All
        } else {
            NodePortAddresses::Within(of_family)
        }
    }

    /// The selected addresses among those that the node has now; `None` is all.
    pub(crate) fn resolve(&self, namespace: &Namespace) -> io::Result<Option<Vec<IpAddr>>> {
        match self {
            NodePortAddresses::All => Ok(None),
            NodePortAddresses::Within(cidrs) => Ok(Some(chosen(cidrs, &addresses(namespace)?))),
        }
    }
}

fn chosen(cidrs: &[Cidr], addresses: &[IpAddr]) -> Vec<IpAddr> {
    let wanted = |address: &IpAddr| cidrs.iter().any(|cidr| cidr.contains(*address));
    let mut chosen: Vec<IpAddr> = addresses.iter().copied().filter(wanted).collect();
    chosen.sort_unstable();
    chosen.dedup();
    chosen
}

fn addresses(namespace: &Namespace) -> io::Result<Vec<IpAddr>> {
    let mut routing = Routing::open(namespace)?;
    let mut found = Vec::new();
    for link in routing.links()? {
        found.extend(routing.addresses(link.index)?.iter().map(Cidr::address));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(ranges: &[&str], ipv4: bool, expected: Option<&[&str]>) {
        let ranges: Vec<Cidr> = ranges.iter().map(|cidr| cidr.parse().unwrap()).collect();
        let has = ["127.0.0.1", "192.0.2.1", "10.1.0.1", "::1", "2001:db8::1"].map(|ip| ip.parse().unwrap());
        let found = match NodePortAddresses::of(&ranges, ipv4) {
            NodePortAddresses::All => None,
            NodePortAddresses::Within(cidrs) => Some(chosen(&cidrs, &has)),
        };
        let expected = expected.map(|ips| ips.iter().map(|ip| ip.parse().unwrap()).collect::<Vec<IpAddr>>());
        assert_eq!(found, expected, "{ranges:?}");
    }

    #[test]
    fn ranges_select_addresses_of_the_node() {
        check(&[], true, None);
        check(&["0.0.0.0/0"], true, None);
        check(&["192.0.2.0/24", "0.0.0.0/0"], true, None);
        check(&["192.0.2.0/24"], true, Some(&["192.0.2.1"]));
        check(&["192.0.2.0/24"], false, None);
        check(&["10.0.0.0/8", "127.0.0.0/8", "10.1.0.0/16"], true, Some(&["10.1.0.1", "127.0.0.1"]));
        check(&["198.51.100.0/24"], true, Some(&[]));
        check(&["2001:db8::/32"], false, Some(&["2001:db8::1"]));
    }
}
