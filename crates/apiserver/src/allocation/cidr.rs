//! Address ranges, and the addresses of a range that services may have.
//!
//! The network's own address is never allocated, nor is an IPv4 range's broadcast address. The lower part of a range is used
//! for static allocation, and for dynamic allocation only once the upper part is full.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The minimum, maximum and step of the lower part, as upstream computes it.
const STATIC_MIN: u128 = 16;
const STATIC_MAX: u128 = 256;
const STATIC_SHARE: u128 = 16;

/// IPv4 or IPv6, as services name them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Family {
    V4,
    V6,
}

impl Family {
    pub(crate) fn of(address: IpAddr) -> Family {
        if address.is_ipv4() { Family::V4 } else { Family::V6 }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Family::V4 => "IPv4",
            Family::V6 => "IPv6",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Family> {
        [Family::V4, Family::V6].into_iter().find(|family| family.name() == name)
    }

    pub(crate) fn other(self) -> Family {
        match self {
            Family::V4 => Family::V6,
            Family::V6 => Family::V4,
        }
    }

    fn bits(self) -> u8 {
        match self {
            Family::V4 => 32,
            Family::V6 => 128,
        }
    }

    fn address(self, number: u128) -> IpAddr {
        match self {
            // The numbers of an IPv4 range have no more than its 32 bits.
            Family::V4 => Ipv4Addr::from_bits(number as u32).into(),
            Family::V6 => Ipv6Addr::from_bits(number).into(),
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_bits().into(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

/// A range: a network and the length of its prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Cidr {
    network: IpAddr,
    prefix: u8,
}

impl Cidr {
    /// Parses `10.96.0.0/12`; bits beyond the prefix are dropped.
    pub(crate) fn parse(text: &str) -> Option<Cidr> {
        let (address, prefix) = text.split_once('/')?;
        let address: IpAddr = address.parse().ok()?;
        let prefix: u8 = prefix.parse().ok()?;
        let family = Family::of(address);
        if prefix > family.bits() {
            return None;
        }
        let hosts = family.bits() - prefix;
        let network = number(address).checked_shr(hosts.into()).unwrap_or(0);
        let network = network.checked_shl(hosts.into()).unwrap_or(0);
        Some(Cidr { network: family.address(network), prefix })
    }

    pub(crate) fn family(&self) -> Family {
        Family::of(self.network)
    }

    pub(crate) fn prefix(&self) -> u8 {
        self.prefix
    }

    /// The network's own address, which no service gets.
    pub(crate) fn network(&self) -> IpAddr {
        self.network
    }

    fn host_bits(&self) -> u8 {
        self.family().bits() - self.prefix
    }

    fn all(&self) -> u128 {
        1_u128.checked_shl(self.host_bits().into()).unwrap_or(u128::MAX)
    }

    /// The number of addresses that can be allocated.
    pub(crate) fn size(&self) -> u128 {
        let unusable = if self.family() == Family::V4 { 2 } else { 1 };
        self.all().saturating_sub(unusable)
    }

    /// The address at an index, counted from the first one that can be allocated.
    pub(crate) fn at(&self, place: u128) -> IpAddr {
        self.family().address(number(self.network).wrapping_add(1).wrapping_add(place))
    }

    /// The first address that can be allocated: the `kubernetes` service's.
    pub(crate) fn first(&self) -> IpAddr {
        self.at(0)
    }

    /// True if this range can allocate an address.
    pub(crate) fn offers(&self, address: IpAddr) -> bool {
        Family::of(address) == self.family()
            && number(address)
                .checked_sub(number(self.network))
                .and_then(|place| place.checked_sub(1))
                .is_some_and(|place| place < self.size())
    }

    /// The size of the lower part, for static allocation.
    fn reserved(&self) -> u128 {
        if self.all() <= STATIC_MIN {
            return 0;
        }
        (self.all() / STATIC_SHARE).clamp(STATIC_MIN, STATIC_MAX)
    }

    /// An address that is not taken: from the upper part if there is one, starting anywhere. `below` draws
    /// a number below the one it is given.
    pub(crate) fn free(
        &self,
        taken: impl Fn(IpAddr) -> bool,
        below: impl Fn(u128) -> u128,
    ) -> Option<IpAddr> {
        let reserved = self.reserved().min(self.size());
        let parts = [(reserved, self.size() - reserved), (0, reserved)];
        parts.into_iter().filter(|(_, length)| *length > 0).find_map(|(start, length)| {
            let offset = below(length);
            (0..length).map(|step| self.at(start + (offset + step) % length)).find(|address| !taken(*address))
        })
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.network, self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cidr(text: &str) -> Cidr {
        Cidr::parse(text).unwrap()
    }

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn ranges() {
        for (text, shown, size, reserved, first) in [
            ("10.96.0.0/12", "10.96.0.0/12", (1 << 20) - 2, 256, "10.96.0.1"),
            ("10.97.3.4/12", "10.96.0.0/12", (1 << 20) - 2, 256, "10.96.0.1"),
            ("10.0.0.0/24", "10.0.0.0/24", 254, 16, "10.0.0.1"),
            ("10.0.0.0/20", "10.0.0.0/20", 4094, 256, "10.0.0.1"),
            ("10.0.0.0/22", "10.0.0.0/22", 1022, 64, "10.0.0.1"),
            ("10.0.0.0/28", "10.0.0.0/28", 14, 0, "10.0.0.1"),
            ("10.0.0.0/27", "10.0.0.0/27", 30, 16, "10.0.0.1"),
            ("fd00::/112", "fd00::/112", 65535, 256, "fd00::1"),
            ("fd00::/64", "fd00::/64", (1 << 64) - 1, 256, "fd00::1"),
        ] {
            let range = cidr(text);
            assert_eq!(range.to_string(), shown);
            assert_eq!((range.size(), range.reserved()), (size, reserved), "{text}");
            assert_eq!(range.first(), address(first), "{text}");
        }
        for bad in ["10.0.0.0", "10.0.0.0/33", "10.0.0/8", "fd00::/129", "/", ""] {
            assert_eq!(Cidr::parse(bad), None, "{bad}");
        }
        assert_eq!(cidr("10.0.0.1/32").size(), 0);
        assert_eq!(cidr("0.0.0.0/0").size(), (1 << 32) - 2);
    }

    #[test]
    fn network_and_broadcast_addresses_are_not_allocated() {
        let range = cidr("10.0.0.0/24");
        for (text, offered) in
            [("10.0.0.1", true), ("10.0.0.254", true), ("10.0.0.0", false), ("10.0.0.255", false)]
        {
            assert_eq!(range.offers(address(text)), offered, "{text}");
        }
        assert!(!range.offers(address("10.0.1.1")) && !range.offers(address("::a00:1")));
        let range = cidr("fd00::/120");
        assert!(range.offers(address("fd00::ff")) && !range.offers(address("fd00::")));
    }

    #[test]
    fn the_upper_part_is_allocated_first() {
        let range = cidr("10.0.0.0/27");
        let mut taken = std::collections::BTreeSet::new();
        let mut order = Vec::new();
        while let Some(found) = range.free(|a| taken.contains(&a), |limit| limit - 1) {
            assert!(taken.insert(found), "{found} twice");
            order.push(found);
        }
        assert_eq!(order.len(), 30);
        assert_eq!(order[0], address("10.0.0.30"));
        assert_eq!(order[1], address("10.0.0.17"));
        // Fourteen in the upper part, after the sixteen of the lower part.
        assert_eq!(order[14], address("10.0.0.16"));
    }
}
