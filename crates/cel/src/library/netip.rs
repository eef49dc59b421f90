//! IP addresses and prefixes as Go's `net/netip` parses and prints them, with its errors.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use corten_api::status::quoted;

/// An address; zones are only allowed to be absent, so their text is not kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) ip: IpAddr,
    pub(crate) has_zone: bool,
}

/// An address and the length of its prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prefix {
    pub ip: IpAddr,
    pub bits: u8,
}

/// Parses an address.
pub(crate) fn parse_address(text: &str) -> Result<Address, String> {
    match text.bytes().find(|byte| matches!(byte, b'.' | b':' | b'%')) {
        Some(b'.') => {
            let mut octets = [0; 4];
            parse_v4(text, 0, text.len(), &mut octets)?;
            Ok(Address { ip: Ipv4Addr::from(octets).into(), has_zone: false })
        }
        Some(b':') => parse_v6(text),
        Some(_) => Err(error(text, "missing IPv6 address", "")),
        None => Err(error(text, "unable to parse IP", "")),
    }
}

/// An error in Go's words; `at` is the rest of the text where parsing failed, if that is told.
fn error(text: &str, message: &str, at: &str) -> String {
    let place = if at.is_empty() { String::new() } else { format!(" (at {})", quoted(at)) };
    format!("ParseAddr({}): {message}{place}", quoted(text))
}

/// Parses the octets at `start..end` of `text`.
fn parse_v4(text: &str, start: usize, end: usize, octets: &mut [u8]) -> Result<(), String> {
    let fields = &text.as_bytes()[start..end];
    let (mut value, mut digits, mut position) = (0u32, 0, 0);
    for (i, byte) in fields.iter().enumerate() {
        let at = || String::from_utf8_lossy(&fields[i..]);
        match byte {
            b'0'..=b'9' => {
                if digits == 1 && value == 0 {
                    return Err(error(text, "IPv4 field has octet with leading zero", ""));
                }
                value = value * 10 + u32::from(byte - b'0');
                digits += 1;
                if value > 255 {
                    return Err(error(text, "IPv4 field has value >255", ""));
                }
            }
            b'.' => {
                if i == 0 || i == fields.len() - 1 || fields[i - 1] == b'.' {
                    return Err(error(text, "IPv4 field must have at least one digit", &at()));
                }
                if position == 3 {
                    return Err(error(text, "IPv4 address too long", ""));
                }
                octets[position] = u8::try_from(value).unwrap_or(u8::MAX);
                position += 1;
                (value, digits) = (0, 0);
            }
            _ => return Err(error(text, "unexpected character", &at())),
        }
    }
    if position < 3 {
        return Err(error(text, "IPv4 address too short", ""));
    }
    octets[3] = u8::try_from(value).unwrap_or(u8::MAX);
    Ok(())
}

fn parse_v6(text: &str) -> Result<Address, String> {
    let (mut rest, zone) = text.split_once('%').map_or((text, None), |(rest, zone)| (rest, Some(zone)));
    if zone == Some("") {
        return Err(error(text, "zone must be a non-empty string", ""));
    }
    let end = rest.len();
    let mut octets = [0u8; 16];
    let mut filled = 0;
    // Octets before `::`.
    let mut ellipsis = None;
    if let Some(after) = rest.strip_prefix("::") {
        ellipsis = Some(0);
        rest = after;
    }
    while filled < 16 && !(rest.is_empty() && ellipsis == Some(filled)) {
        let (group, digits) = parse_group(text, rest)?;
        if rest.as_bytes().get(digits) == Some(&b'.') {
            if ellipsis.is_none() && filled != 12 {
                let message = "embedded IPv4 address must replace the final 2 fields of the address";
                return Err(error(text, message, rest));
            }
            if filled + 4 > 16 {
                let message = "too many hex fields to fit an embedded IPv4 at the end of the address";
                return Err(error(text, message, rest));
            }
            parse_v4(text, end - rest.len(), end, &mut octets[filled..filled + 4])?;
            rest = "";
            filled += 4;
            break;
        }
        octets[filled..filled + 2].copy_from_slice(&group.to_be_bytes());
        filled += 2;
        rest = &rest[digits..];
        if rest.is_empty() {
            break;
        }
        if !rest.starts_with(':') {
            return Err(error(text, "unexpected character, want colon", rest));
        }
        if rest.len() == 1 {
            return Err(error(text, "colon must be followed by more characters", rest));
        }
        rest = &rest[1..];
        if rest.starts_with(':') {
            if ellipsis.is_some() {
                return Err(error(text, "multiple :: in address", rest));
            }
            ellipsis = Some(filled);
            rest = &rest[1..];
        }
    }
    if !rest.is_empty() {
        return Err(error(text, "trailing garbage after address", rest));
    }
    match ellipsis {
        None if filled < 16 => return Err(error(text, "address string too short", "")),
        Some(_) if filled == 16 => {
            return Err(error(text, "the :: must expand to at least one field of zeros", ""));
        }
        Some(at) => octets[at..].rotate_right(16 - filled),
        None => {}
    }
    Ok(Address { ip: Ipv6Addr::from(octets).into(), has_zone: zone.is_some() })
}

/// The hexadecimal group that `rest` begins with, and its number of digits.
fn parse_group(text: &str, rest: &str) -> Result<(u16, usize), String> {
    let digits = rest.bytes().take_while(u8::is_ascii_hexdigit).count();
    match digits {
        0 => Err(error(text, "each colon-separated field must have at least one digit", rest)),
        1..=4 => Ok((u16::from_str_radix(&rest[..digits], 16).unwrap_or_default(), digits)),
        _ => Err(error(text, "each group must have 4 or less digits", rest)),
    }
}

/// Returns true for `::ffff:1.2.3.4`.
pub(crate) fn is_mapped(ip: IpAddr) -> bool {
    matches!(ip, IpAddr::V6(ip) if ip.to_ipv4_mapped().is_some())
}

impl Prefix {
    /// Parses an address and the length of its prefix.
    pub(crate) fn parse(text: &str) -> Result<Prefix, String> {
        let error = |message: &str| format!("netip.ParsePrefix({}): {message}", quoted(text));
        let (address, bits) = text.rsplit_once('/').ok_or_else(|| error("no '/'"))?;
        let address = parse_address(address).map_err(|message| error(&message))?;
        if address.has_zone {
            return Err(error("IPv6 zones cannot be present in a prefix"));
        }
        let bad = || error(&format!("bad bits after slash: {}", quoted(bits)));
        if bits.len() > 1 && !matches!(bits.as_bytes()[0], b'1'..=b'9') {
            return Err(bad());
        }
        let number: i64 = bits.parse().map_err(|_| bad())?;
        let bits = u8::try_from(number).ok().filter(|bits| *bits <= width(address.ip));
        Ok(Prefix { ip: address.ip, bits: bits.ok_or_else(|| error("prefix length out of range"))? })
    }

    /// The same prefix with zeros after it.
    pub(crate) fn masked(self) -> Prefix {
        let ip = match self.ip {
            IpAddr::V4(ip) => Ipv4Addr::from(keep(ip.to_bits().into(), 32, self.bits) as u32).into(),
            IpAddr::V6(ip) => Ipv6Addr::from(keep(ip.to_bits(), 128, self.bits)).into(),
        };
        Prefix { ip, ..self }
    }

    pub(crate) fn contains(self, ip: IpAddr) -> bool {
        ip.is_ipv4() == self.ip.is_ipv4() && Prefix { ip, ..self }.masked() == self.masked()
    }

    /// Returns true if all addresses of `other` are in this prefix.
    pub(crate) fn contains_prefix(self, other: Prefix) -> bool {
        self.bits <= other.bits && self.contains(other.ip)
    }
}

impl std::fmt::Display for Prefix {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.ip, self.bits)
    }
}

/// The bits of an address.
fn width(ip: IpAddr) -> u8 {
    if ip.is_ipv4() { 32 } else { 128 }
}

/// The first `bits` of the lowest `width` bits of a number.
fn keep(number: u128, width: u32, bits: u8) -> u128 {
    let dropped = width - u32::from(bits);
    number.checked_shr(dropped).and_then(|number| number.checked_shl(dropped)).unwrap_or(0)
}
