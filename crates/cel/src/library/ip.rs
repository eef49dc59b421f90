//! IP addresses: `ip`, `isIP`, `ip.isCanonical` and properties of addresses.

use std::any::Any;
use std::net::IpAddr;

use corten_api::status::quoted;

use super::arguments::{declare, opaque, text};
use super::netip;
use crate::declare::{Declaration, Library};
use crate::error::Result;
use crate::value::{Opaque, Value};

pub const LIBRARY: Library = Library { declarations: DECLARATIONS, types: &["net.IP"] };

const DECLARATIONS: &[Declaration] = &[
    declare("ip", "string_to_ip", "(string) net.IP", ip),
    declare("isIP", "is_ip", "(string) bool", is_ip),
    declare("ip.isCanonical", "ip_is_canonical", "(string) bool", is_canonical),
    declare("string", "ip_to_string", "(net.IP) string", to_string),
    declare("family", "ip_family", "net.IP.() int", family),
    declare("isUnspecified", "ip_is_unspecified", "net.IP.() bool", is_unspecified),
    declare("isLoopback", "ip_is_loopback", "net.IP.() bool", is_loopback),
    declare("isLinkLocalMulticast", "ip_is_link_local_multicast", "net.IP.() bool", is_link_local_multicast),
    declare("isLinkLocalUnicast", "ip_is_link_local_unicast", "net.IP.() bool", is_link_local_unicast),
    declare("isGlobalUnicast", "ip_is_global_unicast", "net.IP.() bool", is_global_unicast),
];

/// An address: neither one with a zone nor an IPv4 address in IPv6 form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ip(pub IpAddr);

impl Opaque for Ip {
    fn type_name(&self) -> &'static str {
        "net.IP"
    }

    fn equals(&self, other: &dyn Opaque) -> Option<bool> {
        (other as &dyn Any).downcast_ref().map(|other| self == other)
    }

    fn size(&self) -> Option<u64> {
        Some(if self.0.is_ipv4() { 4 } else { 16 })
    }
}

/// Parses an address.
pub(super) fn parse(text: &str) -> Result<IpAddr, String> {
    let address = netip::parse_address(text).map_err(|error| {
        format!("IP Address {} parse error during conversion from string: {error}", quoted(text))
    })?;
    if address.has_zone {
        return Err(format!("IP address {} with zone value is not allowed", quoted(text)));
    }
    if netip::is_mapped(address.ip) {
        return Err(format!("IPv4-mapped IPv6 address {} is not allowed", quoted(text)));
    }
    Ok(address.ip)
}

fn address(arguments: &[Value<'_>]) -> Result<IpAddr> {
    opaque::<Ip>(arguments, 0).map(|ip| ip.0)
}

fn ip<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    Ok(Value::opaque(Ip(parse(text(arguments, 0)?)?)))
}

fn is_ip<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    Ok(parse(text(arguments, 0)?).is_ok().into())
}

fn is_canonical<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    let text = text(arguments, 0)?;
    Ok((parse(text)?.to_string() == text).into())
}

fn to_string<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    Ok(address(arguments)?.to_string().into())
}

fn family<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    Ok(Value::Int(if address(arguments)?.is_ipv4() { 4 } else { 6 }))
}

fn is_unspecified<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    Ok(address(arguments)?.is_unspecified().into())
}

fn is_loopback<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    Ok(address(arguments)?.is_loopback().into())
}

fn is_link_local_multicast<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    Ok(match address(arguments)? {
        IpAddr::V4(ip) => ip.octets()[..3] == [224, 0, 0],
        IpAddr::V6(ip) => ip.segments()[0] & 0xff0f == 0xff02,
    }
    .into())
}

fn is_link_local_unicast<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    Ok(link_local_unicast(address(arguments)?).into())
}

fn link_local_unicast(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    }
}

fn is_global_unicast<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    let ip = address(arguments)?;
    let is_broadcast = matches!(ip, IpAddr::V4(ip) if ip.is_broadcast());
    let special = ip.is_unspecified() || ip.is_loopback() || ip.is_multicast() || link_local_unicast(ip);
    Ok((!is_broadcast && !special).into())
}
