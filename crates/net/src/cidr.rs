//! An address with the length of its network's prefix, as `10.244.1.7/24`.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::Error;

/// A network, or an address within one: host bits are kept. The prefix is never longer than the address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Cidr {
    address: IpAddr,
    prefix: u8,
}

impl Cidr {
    /// `None` if the prefix is longer than the address.
    pub fn new(address: IpAddr, prefix: u8) -> Option<Cidr> {
        (prefix <= width(address)).then_some(Cidr { address, prefix })
    }

    /// A single address: prefix /32 or /128.
    pub fn single(address: IpAddr) -> Cidr {
        Cidr { address, prefix: width(address) }
    }

    pub fn address(&self) -> IpAddr {
        self.address
    }

    pub fn prefix(&self) -> u8 {
        self.prefix
    }

    pub fn is_ipv4(&self) -> bool {
        self.address.is_ipv4()
    }

    /// The network, without host bits.
    pub fn network(&self) -> Cidr {
        Cidr { address: self.with_bits(number(self.address) & !self.host_mask()), prefix: self.prefix }
    }

    /// The last address of the network.
    pub fn last(&self) -> IpAddr {
        self.with_bits(number(self.address) | self.host_mask())
    }

    /// The `n`th address of the network, counted from the network's own; `None` past its end.
    pub fn nth(&self, n: u128) -> Option<IpAddr> {
        (n <= self.host_mask()).then(|| self.with_bits(number(self.network().address) + n))
    }

    /// The offset of an address within the network; `None` if it lies outside.
    pub fn offset(&self, address: IpAddr) -> Option<u128> {
        self.contains(address).then(|| number(address) - number(self.network().address))
    }

    pub fn contains(&self, address: IpAddr) -> bool {
        address.is_ipv4() == self.is_ipv4()
            && number(address) & !self.host_mask() == number(self.network().address)
    }

    fn host_mask(&self) -> u128 {
        match width(self.address) - self.prefix {
            128 => u128::MAX,
            hosts => (1 << hosts) - 1,
        }
    }

    fn with_bits(&self, bits: u128) -> IpAddr {
        match self.address {
            // Bits above the width of IPv4 come from inverted masks only.
            IpAddr::V4(_) => Ipv4Addr::from_bits(bits as u32).into(),
            IpAddr::V6(_) => Ipv6Addr::from_bits(bits).into(),
        }
    }
}

fn width(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_bits().into(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

impl FromStr for Cidr {
    type Err = Error;

    fn from_str(text: &str) -> Result<Cidr, Error> {
        let parse = || {
            let (address, prefix) = text.split_once('/')?;
            Cidr::new(address.parse().ok()?, prefix.parse().ok()?)
        };
        parse().ok_or_else(|| Error::NotACidr(text.to_owned()))
    }
}

impl TryFrom<String> for Cidr {
    type Error = Error;

    fn try_from(text: String) -> Result<Cidr, Error> {
        text.parse()
    }
}

impl From<Cidr> for String {
    fn from(cidr: Cidr) -> String {
        cidr.to_string()
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, network: &str, last: &str) {
        let cidr: Cidr = text.parse().unwrap();
        assert_eq!(cidr.to_string(), text);
        assert_eq!(cidr.network().to_string(), network);
        assert_eq!(cidr.last().to_string(), last);
        assert!(cidr.contains(cidr.last()) && cidr.contains(cidr.address()));
        assert_eq!(cidr.nth(0), Some(cidr.network().address()));
    }

    #[test]
    fn networks_have_edges() {
        check("10.244.1.7/24", "10.244.1.0/24", "10.244.1.255");
        check("10.0.0.1/32", "10.0.0.1/32", "10.0.0.1");
        check("255.255.255.255/1", "128.0.0.0/1", "255.255.255.255");
        check("1.2.3.4/0", "0.0.0.0/0", "255.255.255.255");
        check("fd00:1::5/64", "fd00:1::/64", "fd00:1::ffff:ffff:ffff:ffff");
        check("::/0", "::/0", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff");
    }

    #[test]
    fn addresses_are_counted_within_their_network() {
        let cidr: Cidr = "10.244.1.0/30".parse().unwrap();
        assert_eq!(cidr.nth(3), Some([10, 244, 1, 3].into()));
        assert_eq!(cidr.nth(4), None);
        assert_eq!(cidr.offset([10, 244, 1, 2].into()), Some(2));
        assert_eq!(cidr.offset([10, 244, 1, 4].into()), None);
        assert!(!cidr.contains("::1".parse().unwrap()));
    }

    #[test]
    fn invalid_cidrs_are_refused() {
        for text in ["", "10.0.0.0", "10.0.0.0/33", "fd00::/129", "10.0.0/8", "10.0.0.0/-1", "x/8"] {
            assert!(text.parse::<Cidr>().is_err(), "{text}");
        }
    }
}
