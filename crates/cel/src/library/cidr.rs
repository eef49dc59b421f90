//! Networks in CIDR notation: `cidr`, `isCIDR`, containment and parts.

use std::any::Any;

use corten_api::status::quoted;

use super::arguments::{declare, opaque, text};
use super::ip::{self, Ip};
use super::netip;
pub use super::netip::Prefix;
use crate::declare::{Declaration, Library};
use crate::error::{Error, Result};
use crate::value::{Opaque, Value};

pub const LIBRARY: Library = Library { declarations: DECLARATIONS, types: &["net.CIDR"] };

const DECLARATIONS: &[Declaration] = &[
    declare("cidr", "string_to_cidr", "(string) net.CIDR", cidr),
    declare("isCIDR", "is_cidr", "(string) bool", is_cidr),
    declare("containsIP", "cidr_contains_ip_string", "net.CIDR.(string) bool", contains_ip_text),
    declare("containsIP", "cidr_contains_ip_ip", "net.CIDR.(net.IP) bool", contains_ip),
    declare("containsCIDR", "cidr_contains_cidr_string", "net.CIDR.(string) bool", contains_cidr_text),
    declare("containsCIDR", "cidr_contains_cidr", "net.CIDR.(net.CIDR) bool", contains_cidr),
    declare("ip", "cidr_ip", "net.CIDR.() net.IP", to_ip),
    declare("prefixLength", "cidr_prefix_length", "net.CIDR.() int", prefix_length),
    declare("masked", "cidr_masked", "net.CIDR.() net.CIDR", masked),
    declare("string", "cidr_to_string", "(net.CIDR) string", to_string),
];

impl Opaque for Prefix {
    fn type_name(&self) -> &'static str {
        "net.CIDR"
    }

    fn equals(&self, other: &dyn Opaque) -> Option<bool> {
        (other as &dyn Any).downcast_ref().map(|other| self == other)
    }

    fn size(&self) -> Option<u64> {
        Some(u64::from(self.bits.div_ceil(8)))
    }
}

fn parse(text: &str) -> Result<Prefix, String> {
    let prefix = Prefix::parse(text)
        .map_err(|error| format!("network address parse error during conversion from string: {error}"))?;
    if netip::is_mapped(prefix.ip) {
        return Err(format!("IPv4-mapped IPv6 address {} is not allowed", quoted(text)));
    }
    Ok(prefix)
}

fn convert(text: &str) -> Result<Prefix> {
    let context = "network address parse error during conversion from string";
    Ok(parse(text).map_err(|error| format!("{context}: {error}"))?)
}

fn prefix(arguments: &[Value<'_>], index: usize) -> Result<Prefix> {
    opaque(arguments, index).copied()
}

fn cidr<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    Ok(Value::opaque(convert(text(arguments, 0)?)?))
}

fn is_cidr<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    Ok(parse(text(arguments, 0)?).is_ok().into())
}

/// Upstream reports an invalid address as an argument of the wrong type.
fn contains_ip_text<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    let prefix = prefix(arguments, 0)?;
    let ip = ip::parse(text(arguments, 1)?).map_err(|_| Error::no_such_overload())?;
    Ok(prefix.contains(ip).into())
}

fn contains_ip<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    let ip: &Ip = opaque(arguments, 1)?;
    Ok(prefix(arguments, 0)?.contains(ip.0).into())
}

fn contains_cidr_text<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    let other = convert(text(arguments, 1)?)?;
    Ok(prefix(arguments, 0)?.contains_prefix(other).into())
}

fn contains_cidr<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    Ok(prefix(arguments, 0)?.contains_prefix(prefix(arguments, 1)?).into())
}

fn to_ip<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    Ok(Value::opaque(Ip(prefix(arguments, 0)?.ip)))
}

fn prefix_length<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    Ok(Value::Int(prefix(arguments, 0)?.bits.into()))
}

fn masked<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    Ok(Value::opaque(prefix(arguments, 0)?.masked()))
}

fn to_string<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    Ok(prefix(arguments, 0)?.to_string().into())
}
