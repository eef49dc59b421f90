//! Sets and maps, and their elements.
//!
//! A key of several parts is their concatenation, each padded to four bytes, as it lies in registers.

use std::net::IpAddr;
use std::time::Duration;

use crate::Cidr;
use crate::netlink::Attributes;
use crate::route::Hardware;

use super::rule::link_name;

/// The size of a list of elements after which a new one begins: with one more element it still fits into an attribute.
pub(super) const LONG_LIST: usize = 48 * 1024;

const OF_INTERVALS: u32 = 4;
const MAP: u32 = 8;
const WITH_TIMEOUT: u32 = 0x10;
/// The flag of sets that rules add elements to.
const DYNAMIC: u32 = 0x20;
const INTERVAL_END: u32 = 1;
const VERDICTS: u32 = 0xffff_ff00;

/// User data that makes `nft` print keys in host byte order: a kind, a length, and a number in host byte order.
const HOST_BYTE_ORDER: [u8; 6] =
    if cfg!(target_endian = "little") { [0, 4, 1, 0, 0, 0] } else { [0, 4, 0, 0, 0, 1] };

const DROP: i32 = 0;
const JUMP: i32 = -3;
const GOTO: i32 = -4;

/// The type of a part of a key, as `nft` numbers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Type {
    Ipv4 = 7,
    Ipv6 = 8,
    Hardware = 9,
    Protocol = 12,
    Port = 13,
    /// A mark, in host byte order.
    Mark = 19,
    /// The name of an interface.
    Link = 41,
}

impl Type {
    fn width(self) -> u32 {
        match self {
            Type::Ipv6 | Type::Link => 16,
            Type::Hardware => 8,
            Type::Ipv4 | Type::Protocol | Type::Port | Type::Mark => 4,
        }
    }
}

/// A new set.
#[derive(Debug, Clone, Copy)]
pub struct Set<'a> {
    pub name: &'a str,
    pub key: &'a [Type],
    pub maps_to: MapsTo<'a>,
    pub intervals: bool,
    /// Rules add elements, which expire this long after they were last added.
    pub timeout: Option<Duration>,
}

/// The values of a map.
#[derive(Debug, Clone, Copy)]
pub enum MapsTo<'a> {
    /// None: a set.
    Nothing,
    Verdict,
    Data(&'a [Type]),
}

impl Set<'_> {
    pub(super) fn attributes(&self, table: &str) -> Attributes {
        let intervals = if self.intervals { OF_INTERVALS } else { 0 };
        let timeout = if self.timeout.is_some() { WITH_TIMEOUT | DYNAMIC } else { 0 };
        let map = if matches!(self.maps_to, MapsTo::Nothing) { 0 } else { MAP };
        let wanted = Attributes::new()
            .text(1, table)
            .text(2, self.name)
            .u32_be(3, intervals | timeout | map)
            .u32_be(4, concatenated(self.key))
            .u32_be(5, length(self.key));
        let wanted = match self.maps_to {
            MapsTo::Nothing => wanted,
            MapsTo::Verdict => wanted.u32_be(6, VERDICTS).u32_be(7, 0),
            MapsTo::Data(parts) => wanted.u32_be(6, concatenated(parts)).u32_be(7, length(parts)),
        };
        let wanted = match self.timeout {
            Some(timeout) => wanted.u64_be(11, timeout.as_millis() as u64),
            None => wanted,
        };
        if self.key == [Type::Mark] { wanted.bytes(13, &HOST_BYTE_ORDER) } else { wanted }
    }
}

/// The type of concatenated parts, with six bits for each.
fn concatenated(parts: &[Type]) -> u32 {
    parts.iter().fold(0, |sum, part| sum << 6 | *part as u32)
}

/// The length of a key: that of a single part, or of all parts with padding.
fn length(parts: &[Type]) -> u32 {
    match parts {
        [Type::Protocol] => 1,
        [Type::Port] => 2,
        [Type::Hardware] => 6,
        parts => parts.iter().map(|part| part.width()).sum(),
    }
}

/// A key or a value of an element.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Vec<u8>);

impl Key {
    pub fn new() -> Key {
        Key::default()
    }

    pub fn address(self, address: IpAddr) -> Key {
        match address {
            IpAddr::V4(address) => self.part(&address.octets()),
            IpAddr::V6(address) => self.part(&address.octets()),
        }
    }

    pub fn hardware(self, hardware: Hardware) -> Key {
        self.part(&hardware)
    }

    /// The name of an interface, padded.
    pub fn link(self, name: &str) -> Key {
        self.part(&link_name(name))
    }

    /// An IP protocol number.
    pub fn protocol(self, number: u8) -> Key {
        self.part(&[number])
    }

    pub fn port(self, port: u16) -> Key {
        self.part(&port.to_be_bytes())
    }

    pub fn number(self, number: u32) -> Key {
        self.part(&number.to_ne_bytes())
    }

    pub(super) fn read(bytes: &[u8]) -> Key {
        Key(bytes.to_vec())
    }

    pub(super) fn attributes(&self) -> Attributes {
        Attributes::new().nested(1, &Attributes::new().bytes(1, &self.0))
    }

    fn part(mut self, bytes: &[u8]) -> Key {
        self.0.extend_from_slice(bytes);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }
}

/// The verdict on a packet.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verdict {
    Drop,
    /// Jumps to a chain, and returns.
    Jump(String),
    /// Goes to a chain without returning.
    Goto(String),
}

impl Verdict {
    /// The verdict as a value of a map.
    pub(super) fn attributes(&self) -> Attributes {
        let code = |code: i32| Attributes::new().u32_be(1, code as u32);
        let verdict = match self {
            Verdict::Drop => code(DROP),
            Verdict::Jump(chain) => code(JUMP).text(2, chain),
            Verdict::Goto(chain) => code(GOTO).text(2, chain),
        };
        Attributes::new().nested(2, &verdict)
    }
}

/// A member of a set, or an entry of a map.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Element {
    Member(Key),
    /// A member that expires.
    Expiring(Key, Duration),
    Judged(Key, Verdict),
    Mapped(Key, Key),
}

impl Element {
    pub(super) fn attributes(&self) -> Attributes {
        match self {
            Element::Member(key) => key.attributes(),
            Element::Expiring(key, left) => key.attributes().u64_be(5, left.as_millis() as u64),
            Element::Judged(key, verdict) => key.attributes().nested(2, &verdict.attributes()),
            Element::Mapped(key, value) => key.attributes().nested(2, &Attributes::new().bytes(1, &value.0)),
        }
    }
}

/// The elements of an interval: its first address, and the address after its last one, if there is one.
pub(super) fn interval(network: Cidr) -> impl Iterator<Item = Attributes> {
    let value = |address| Attributes::new().nested(1, &Attributes::new().address(1, address));
    let after = match network.last() {
        IpAddr::V4(last) => last.to_bits().checked_add(1).map(|next| IpAddr::V4(next.into())),
        IpAddr::V6(last) => last.to_bits().checked_add(1).map(|next| IpAddr::V6(next.into())),
    };
    let begin = value(network.network().address());
    std::iter::once(begin).chain(after.map(|after| value(after).u32_be(3, INTERVAL_END)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_padded_as_in_registers() {
        let key = Key::new().address([10, 0, 0, 1].into()).protocol(6).port(80);
        assert_eq!(key.0, [10, 0, 0, 1, 6, 0, 0, 0, 0, 80, 0, 0]);
        assert_eq!(length(&[Type::Ipv4, Type::Protocol, Type::Port]) as usize, key.0.len());
        assert_eq!(length(&[Type::Ipv6, Type::Port]), 20);
        assert_eq!(concatenated(&[Type::Ipv4, Type::Port]), 7 << 6 | 13);
    }

    #[test]
    fn an_interval_up_to_the_last_address_has_no_end() {
        assert_eq!(interval("10.0.0.0/8".parse().unwrap()).count(), 2);
        assert_eq!(interval("0.0.0.0/0".parse().unwrap()).count(), 1);
    }
}
