//! A CIDR of either family. Pure arithmetic: an address is a number of 32 or 128 bits.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cidr {
    first: u128,
    prefix: u32,
    is_v6: bool,
}

impl Cidr {
    pub(super) fn new(first: u128, prefix: u32, is_v6: bool) -> Cidr {
        let range = Cidr { first, prefix, is_v6 };
        Cidr { first: first & !range.host_mask(), ..range }
    }

    pub(super) fn first(&self) -> u128 {
        self.first
    }

    pub(super) fn last(&self) -> u128 {
        self.first | self.host_mask()
    }

    pub(super) fn prefix(&self) -> u32 {
        self.prefix
    }

    pub(super) fn is_v6(&self) -> bool {
        self.is_v6
    }

    /// The number of bits of an address.
    pub(super) fn bits(&self) -> u32 {
        if self.is_v6 { 128 } else { 32 }
    }

    pub(crate) fn overlaps(&self, other: &Cidr) -> bool {
        self.is_v6 == other.is_v6 && self.first <= other.last() && other.first <= self.last()
    }

    fn host_mask(&self) -> u128 {
        let host_bits = self.bits() - self.prefix;
        1u128.checked_shl(host_bits).map_or(u128::MAX, |size| size - 1)
    }
}

impl FromStr for Cidr {
    type Err = String;

    /// Parses a CIDR; host bits may be set.
    fn from_str(text: &str) -> Result<Cidr, String> {
        let parse = || {
            let (address, prefix) = text.split_once('/')?;
            let (address, prefix): (IpAddr, u32) = (address.parse().ok()?, prefix.parse().ok()?);
            let (first, is_v6) = match address {
                IpAddr::V4(address) => (u128::from(u32::from(address)), false),
                IpAddr::V6(address) => (u128::from(address), true),
            };
            let bits = if is_v6 { 128 } else { 32 };
            (prefix <= bits).then(|| Cidr::new(first, prefix, is_v6))
        };
        parse().ok_or_else(|| format!("{text:?} is not a CIDR; give one such as 10.244.0.0/16"))
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match u32::try_from(self.first) {
            Ok(first) if !self.is_v6 => write!(f, "{}/{}", Ipv4Addr::from(first), self.prefix),
            _ => write!(f, "{}/{}", Ipv6Addr::from(self.first), self.prefix),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cidrs_are_parsed_and_printed() {
        for (text, shown) in [
            ("10.244.0.0/16", "10.244.0.0/16"),
            ("10.244.7.9/16", "10.244.0.0/16"),
            ("10.0.0.1/32", "10.0.0.1/32"),
            ("0.0.0.0/0", "0.0.0.0/0"),
            ("fd00:1::5/48", "fd00:1::/48"),
            ("::/0", "::/0"),
        ] {
            assert_eq!(text.parse::<Cidr>().unwrap().to_string(), shown);
        }
        for bad in ["", "10.0.0.0", "10.0.0.0/33", "10.0.0/8", "fd00::/129", "/8", "10.0.0.0/x"] {
            assert!(bad.parse::<Cidr>().is_err(), "{bad}");
        }
    }

    #[test]
    fn ranges_overlap_if_one_holds_the_other() {
        for (a, b, expected) in [
            ("10.0.0.0/8", "10.96.0.0/12", true),
            ("10.96.0.0/12", "10.0.0.0/8", true),
            ("10.0.0.0/16", "10.1.0.0/16", false),
            ("::/0", "10.0.0.0/8", false),
        ] {
            assert_eq!(a.parse::<Cidr>().unwrap().overlaps(&b.parse().unwrap()), expected, "{a} {b}");
        }
    }
}
