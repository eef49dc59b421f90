//! The service ranges that a cluster is started with: one, or one of each family.

use std::fmt;
use std::net::IpAddr;

use super::cidr::{Cidr, Family};

/// The shortest prefix of an IPv6 range.
const MIN_V6_PREFIX: u8 = 64;

/// `--service-cluster-ip-range`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServiceRanges {
    primary: Cidr,
    secondary: Option<Cidr>,
}

impl ServiceRanges {
    /// Parses `10.96.0.0/12` or `10.96.0.0/12,fd00::/108`.
    pub fn parse(text: &str) -> Result<ServiceRanges, String> {
        let mut ranges = Vec::new();
        for part in text.split(',').map(str::trim) {
            let range = Cidr::parse(part)
                .ok_or_else(|| format!("{part:?} is not a CIDR; give one such as 10.96.0.0/12"))?;
            if range.family() == Family::V6 && range.prefix() < MIN_V6_PREFIX {
                return Err(format!("{range} is too large: an IPv6 range has at least /{MIN_V6_PREFIX}"));
            }
            if range.size() == 0 {
                return Err(format!("{range} is too small: it has no address for a service"));
            }
            ranges.push(range);
        }
        match ranges.as_slice() {
            [primary] => Ok(ServiceRanges { primary: *primary, secondary: None }),
            [primary, secondary] if primary.family() != secondary.family() => {
                Ok(ServiceRanges { primary: *primary, secondary: Some(*secondary) })
            }
            [_, _] => Err("two ranges of the same family; give one of IPv4 and one of IPv6".to_owned()),
            _ => Err("more than two ranges; give one, or one of each family".to_owned()),
        }
    }

    pub(crate) fn primary(&self) -> &Cidr {
        &self.primary
    }

    pub(crate) fn secondary(&self) -> Option<&Cidr> {
        self.secondary.as_ref()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Cidr> {
        std::iter::once(&self.primary).chain(&self.secondary)
    }

    /// The address of the `kubernetes` service.
    pub fn first_address(&self) -> IpAddr {
        self.primary.first()
    }
}

impl fmt::Display for ServiceRanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ranges: Vec<String> = self.iter().map(ToString::to_string).collect();
        f.write_str(&ranges.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_range_or_one_of_each_family() {
        for (text, shown, first) in [
            ("10.96.0.0/12", "10.96.0.0/12", "10.96.0.1"),
            ("10.96.5.0/12, fd00::/108", "10.96.0.0/12,fd00::/108", "10.96.0.1"),
            ("fd00::/64,10.0.0.0/24", "fd00::/64,10.0.0.0/24", "fd00::1"),
        ] {
            let ranges = ServiceRanges::parse(text).unwrap();
            assert_eq!(ranges.to_string(), shown);
            assert_eq!(ranges.first_address().to_string(), first);
        }
        for bad in [
            "",
            "10.0.0.0",
            "10.0.0.0/24,10.1.0.0/24",
            "10.0.0.0/24,fd00::/64,fd01::/64",
            "fd00::/63",
            "10.0.0.0/32",
        ] {
            assert!(ServiceRanges::parse(bad).is_err(), "{bad}");
        }
    }
}
