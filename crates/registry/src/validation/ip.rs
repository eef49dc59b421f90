//! IP addresses and ranges of them (CIDRs).
//!
//! Old fields accept any form of an address but those that other software parses differently: leading zeros
//! and IPv4 in IPv6. Stored values are accepted in any form. New fields accept only the canonical
//! form.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use corten_api::status::ErrorList;
use corten_api::{Field, Value};

/// Parses an address of any form; leading zeros are ignored.
pub fn parse_sloppy(text: &str) -> Option<IpAddr> {
    if let Ok(address) = text.parse() {
        return Some(address);
    }
    if text.contains(':') {
        let groups: Vec<Cow<'_, str>> = text.split(':').map(ipv6_group).collect();
        return groups.join(":").parse::<Ipv6Addr>().ok().map(IpAddr::V6);
    }
    without_zeros(text).parse::<Ipv4Addr>().ok().map(IpAddr::V4)
}

fn ipv6_group(group: &str) -> Cow<'_, str> {
    if group.contains('.') {
        return Cow::Owned(without_zeros(group));
    }
    match group.trim_start_matches('0') {
        "" if group.is_empty() => Cow::Borrowed(""),
        "" => Cow::Borrowed("0"),
        rest => Cow::Borrowed(rest),
    }
}

/// Dotted decimals without leading zeros.
fn without_zeros(text: &str) -> String {
    let octets = text.split('.').map(|octet| match octet.trim_start_matches('0') {
        "" if !octet.is_empty() => "0",
        rest => rest,
    });
    octets.collect::<Vec<_>>().join(".")
}

/// The canonical form of an address; IPv4 in IPv6 as IPv4.
pub(crate) fn canonical(address: IpAddr) -> String {
    address.to_canonical().to_string()
}

/// An address in an old field.
pub(crate) fn legacy_ip(text: &str, at: &Field<'_>, errors: &mut ErrorList) {
    strict_ip(text, &mut |why| errors.invalid(at, &Value::from(text), why));
}

/// The errors of an address that must be canonical.
pub(crate) fn canonical_ip(text: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    let address = strict_ip(text, &mut |why| complaints.push(why.to_owned()));
    if let (Some(address), true) = (address, complaints.is_empty()) {
        let canonical = canonical(address);
        if canonical != text {
            complaints.push(format!("must be in canonical form (\"{canonical}\")"));
        }
    }
    complaints
}

fn strict_ip(text: &str, complain: &mut dyn FnMut(&str)) -> Option<IpAddr> {
    let Some(address) = parse_sloppy(text) else {
        complain("must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)");
        return None;
    };
    match text.parse::<IpAddr>() {
        Err(_) => complain("must not have leading 0s"),
        Ok(IpAddr::V6(v6)) if v6.to_ipv4_mapped().is_some() => {
            complain("must not be an IPv4-mapped IPv6 address");
        }
        Ok(_) => {}
    }
    Some(address)
}

/// A warning about an address in an old field that is not canonical.
pub(crate) fn ip_warning(text: &str, at: &Field<'_>) -> Option<String> {
    let address = parse_sloppy(text)?;
    let canonical = canonical(address);
    match text.parse::<IpAddr>() {
        Ok(IpAddr::V4(_)) => None,
        Ok(IpAddr::V6(v6)) if v6.to_ipv4_mapped().is_none() => (canonical != text).then(|| {
            format!("{at}: IPv6 address {text:?} should be in RFC 5952 canonical format ({canonical:?})")
        }),
        _ => Some(format!("{at}: non-standard IP address {text:?} is invalid: use {canonical:?}")),
    }
}

/// A range of addresses: those that agree with `address` in the first `length` bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cidr {
    pub(crate) address: IpAddr,
    pub(crate) length: u32,
}

impl Cidr {
    /// Parses a range of any form; bits beyond the prefix are kept, leading zeros are ignored.
    pub(crate) fn parse_sloppy(text: &str) -> Option<Cidr> {
        let (address, length) = text.split_once('/')?;
        let address = parse_sloppy(address)?;
        let digits = !length.is_empty() && length.bytes().all(|byte| byte.is_ascii_digit());
        let length = length.parse().ok().filter(|length| digits && *length <= bits(address))?;
        Some(Cidr { address, length })
    }

    /// The first address of the range.
    pub(crate) fn network(self) -> IpAddr {
        match self.address {
            IpAddr::V4(v4) => {
                let mask = u32::MAX.checked_shl(32 - self.length).unwrap_or(0);
                IpAddr::V4(Ipv4Addr::from_bits(v4.to_bits() & mask))
            }
            IpAddr::V6(v6) => {
                let mask = u128::MAX.checked_shl(128 - self.length).unwrap_or(0);
                IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & mask))
            }
        }
    }

    /// Returns true if another range is part of this one, and smaller.
    pub(crate) fn has_strict_subset(self, other: Cidr) -> bool {
        let same_family = self.address.is_ipv4() == other.address.is_ipv4();
        let start = Cidr { address: other.network(), length: self.length };
        same_family && self.length < other.length && start.network() == self.network()
    }

    fn canonical(self) -> String {
        format!("{}/{}", canonical(self.network()), self.length)
    }
}

fn bits(address: IpAddr) -> u32 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// A range in an old field.
pub(crate) fn legacy_cidr(text: &str, at: &Field<'_>, errors: &mut ErrorList) {
    strict_cidr(text, at, errors);
}

/// A range that must be in canonical form.
pub(crate) fn canonical_cidr(text: &str, at: &Field<'_>, errors: &mut ErrorList) {
    let Some(cidr) = strict_cidr(text, at, errors) else { return };
    let canonical = cidr.canonical();
    if canonical != text {
        let why = format!("must be in canonical form (\"{canonical}\")");
        errors.invalid(at, &Value::from(text), why);
    }
}

/// Validates an interface address: an IP address and a prefix length, in canonical form.
pub(crate) fn interface_address(text: &str, at: &Field<'_>, errors: &mut ErrorList) {
    let Some(cidr) = Cidr::parse_sloppy(text) else {
        let why = "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)";
        errors.invalid(at, &Value::from(text), why);
        return;
    };
    let length = if is_mapped(cidr.address) && cidr.length > 32 {
        cidr.length.saturating_sub(96)
    } else {
        cidr.length
    };
    let canonical = format!("{}/{length}", canonical(cidr.address));
    if canonical != text {
        errors.invalid(at, &Value::from(text), format!("must be in canonical form (\"{canonical}\")"));
    }
}

fn strict_cidr(text: &str, at: &Field<'_>, errors: &mut ErrorList) -> Option<Cidr> {
    let mut refuse = |why: &str| errors.invalid(at, &Value::from(text), why);
    let Some(cidr) = Cidr::parse_sloppy(text) else {
        refuse("must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)");
        return None;
    };
    if !is_standard_cidr(text) {
        refuse("must not have leading 0s in IP or prefix length");
    } else if is_mapped(cidr.address) {
        refuse("must not have an IPv4-mapped IPv6 address");
    } else if cidr.address != cidr.network() {
        refuse("must not have bits set beyond the prefix length");
    } else {
        return Some(cidr);
    }
    None
}

/// Returns true if neither the address nor the length of a valid range has leading zeros.
fn is_standard_cidr(text: &str) -> bool {
    text.split_once('/').is_some_and(|(address, length)| {
        address.parse::<IpAddr>().is_ok() && (length == "0" || !length.starts_with('0'))
    })
}

fn is_mapped(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some())
}

/// Warnings about a range in an old field that is not canonical.
pub(crate) fn cidr_warnings(text: &str, at: &Field<'_>, warnings: &mut Vec<String>) {
    let Some(cidr) = Cidr::parse_sloppy(text) else { return };
    let (canonical, before) = (cidr.canonical(), warnings.len());
    if cidr.address != cidr.network() {
        let single = format!("{}/{}", self::canonical(cidr.address), bits(cidr.address));
        warnings.push(format!(
            "{at}: CIDR value {text:?} is ambiguous in this context (should be {canonical:?} or {single:?}?)"
        ));
    }
    if !is_standard_cidr(text) || is_mapped(cidr.address) {
        warnings.push(format!("{at}: non-standard CIDR value {text:?} is invalid: use {canonical:?}"));
    }
    if warnings.len() == before && cidr.address.is_ipv6() && canonical != text {
        warnings.push(format!(
            "{at}: IPv6 CIDR value {text:?} should be in RFC 5952 canonical format ({canonical:?})"
        ));
    }
}
