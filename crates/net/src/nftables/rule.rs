//! Rules: matches, then statements.

use std::net::IpAddr;

use super::{Family, LIST_ELEMENT, Verdict};
use crate::Cidr;
use crate::netlink::Attributes;

const VERDICT: u32 = 0;
const FIRST: u32 = 1;
const SECOND: u32 = 2;
/// The first of the four-byte registers.
const NARROW: u32 = 8;
const EQUAL: u32 = 0;
const NOT_EQUAL: u32 = 1;
const META_MARK: u32 = 3;
const META_IN_NAME: u32 = 6;
const META_OUT_NAME: u32 = 7;
const META_FAMILY: u32 = 15;
const META_PROTOCOL: u32 = 16;
const NETWORK_HEADER: u32 = Header::Network as u32;
const TRANSPORT_HEADER: u32 = Header::Transport as u32;
const FIB_ADDRESS_TYPE: u32 = 3;
const FIB_OF_SOURCE: u32 = 1;
const FIB_OF_DESTINATION: u32 = 2;
const LOCAL: u32 = 2;
const FULLY_RANDOM: u32 = 16;
const FAMILY_IPV4: u8 = 2;
const FAMILY_IPV6: u8 = 10;
const CONNECTION_STATE: u32 = 0;
const CONNECTION_STATUS: u32 = 2;
const NEW_CONNECTION: u32 = 8;
const DESTINATION_TRANSLATED: u32 = 0x20;
const RANDOM: u32 = 1;
const UNREACHABLE: u32 = 0;
const UNREACHABLE_EITHER: u32 = 2;
const PORT_UNREACHABLE_IPV4: u8 = 3;
const PORT_UNREACHABLE_IPV6: u8 = 4;
const PORT_UNREACHABLE_EITHER: u8 = 1;
const DESTINATION_TRANSLATION: u32 = 1;
const UPDATE: u32 = 1;
const RETURN: i32 = -5;
const ACCEPT: i32 = 1;

/// The header that the offset of a field is relative to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Header {
    Link = 0,
    Network = 1,
    Transport = 2,
}

/// A field of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Field {
    Source,
    Destination,
    Protocol,
    DestinationPort,
    /// The name of the input interface.
    Link,
    /// Bytes of a header: offset and length.
    At(Header, u32, u32),
}

impl Field {
    /// The number of four-byte registers of the field.
    fn registers(self, ipv4: bool) -> u32 {
        match self {
            Field::Source | Field::Destination if !ipv4 => 4,
            Field::Link => 4,
            Field::At(_, _, length) => length.div_ceil(4),
            _ => 1,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    family: Family,
    expressions: Attributes,
}

impl Default for Rule {
    fn default() -> Rule {
        Rule::new()
    }
}

impl Rule {
    /// A rule of a table of both families.
    pub fn new() -> Rule {
        Rule::of(Family::Inet)
    }

    /// A rule of a table of one family.
    pub fn of(family: Family) -> Rule {
        Rule { family, expressions: Attributes::new() }
    }

    pub(super) fn expressions(&self) -> &Attributes {
        &self.expressions
    }

    /// Matches packets of an address' family. Without effect in tables of one family.
    pub fn family_of(self, address: IpAddr) -> Rule {
        if self.family != Family::Inet {
            return self;
        }
        let family = if address.is_ipv4() { FAMILY_IPV4 } else { FAMILY_IPV6 };
        self.meta(META_FAMILY).equals(&[family])
    }

    pub fn came_through(self, link: &str) -> Rule {
        self.meta(META_IN_NAME).equals(&link_name(link))
    }

    pub fn did_not_come_through(self, link: &str) -> Rule {
        self.meta(META_IN_NAME).differs(&link_name(link))
    }

    /// Matches input interfaces by the prefix of their name.
    pub fn came_through_any(self, prefix: &str) -> Rule {
        self.meta(META_IN_NAME).equals(prefix.as_bytes())
    }

    pub fn did_not_come_through_any(self, prefix: &str) -> Rule {
        self.meta(META_IN_NAME).differs(prefix.as_bytes())
    }

    pub fn leaves_through(self, link: &str) -> Rule {
        self.meta(META_OUT_NAME).equals(&link_name(link))
    }

    /// Matches an IP protocol number.
    pub fn protocol(self, number: u8) -> Rule {
        self.meta(META_PROTOCOL).equals(&[number])
    }

    pub fn to_port(self, port: u16) -> Rule {
        self.payload(FIRST, TRANSPORT_HEADER, 2, 2).equals(&port.to_be_bytes())
    }

    /// Matches a range of destination ports.
    pub fn to_ports(self, first: u16, last: u16) -> Rule {
        if first == last {
            return self.to_port(first);
        }
        let end = |port: u16| Attributes::new().u16_be(1, port);
        let between =
            Attributes::new().u32_be(1, FIRST).u32_be(2, EQUAL).nested(3, &end(first)).nested(4, &end(last));
        self.payload(FIRST, TRANSPORT_HEADER, 2, 2).expression("range", &between)
    }

    pub fn from_network(self, network: Cidr) -> Rule {
        let (offset, length) = source_field(network.is_ipv4());
        self.family_of(network.address()).within(offset, length, network, EQUAL)
    }

    pub fn not_from_network(self, network: Cidr) -> Rule {
        let (offset, length) = source_field(network.is_ipv4());
        self.family_of(network.address()).within(offset, length, network, NOT_EQUAL)
    }

    pub fn to_network(self, network: Cidr) -> Rule {
        let (offset, length) = destination_field(network.is_ipv4());
        self.family_of(network.address()).within(offset, length, network, EQUAL)
    }

    pub fn not_to_network(self, network: Cidr) -> Rule {
        let (offset, length) = destination_field(network.is_ipv4());
        self.family_of(network.address()).within(offset, length, network, NOT_EQUAL)
    }

    pub fn from_set(self, ipv4: bool, set: &str) -> Rule {
        let (offset, length) = source_field(ipv4);
        self.payload(FIRST, NETWORK_HEADER, offset, length).looked_up(set, false)
    }

    pub fn not_from_set(self, ipv4: bool, set: &str) -> Rule {
        let (offset, length) = source_field(ipv4);
        self.payload(FIRST, NETWORK_HEADER, offset, length).looked_up(set, true)
    }

    pub fn not_to_set(self, ipv4: bool, set: &str) -> Rule {
        let (offset, length) = destination_field(ipv4);
        self.payload(FIRST, NETWORK_HEADER, offset, length).looked_up(set, true)
    }

    /// Matches packets whose fields are in a set. For tables of one family, as all lookups of fields.
    pub fn in_set(self, fields: &[Field], set: &str) -> Rule {
        self.read(fields).looked_up(set, false)
    }

    pub fn not_in_set(self, fields: &[Field], set: &str) -> Rule {
        self.read(fields).looked_up(set, true)
    }

    /// Matches a value of a field.
    pub fn has(self, field: Field, value: &[u8]) -> Rule {
        self.read(&[field]).equals(value)
    }

    /// Looks up the verdict of the fields in a map. Continues without an entry.
    pub fn judged_by(self, fields: &[Field], map: &str) -> Rule {
        let asked = Attributes::new().text(1, map).u32_be(2, NARROW).u32_be(3, VERDICT);
        self.read(fields).expression("lookup", &asked)
    }

    /// Matches destinations that are addresses of this machine.
    pub fn to_local(self) -> Rule {
        self.local(FIB_OF_DESTINATION)
    }

    /// Matches destinations that are not addresses of this machine.
    pub fn not_to_local(self) -> Rule {
        let asked =
            Attributes::new().u32_be(1, FIRST).u32_be(2, FIB_ADDRESS_TYPE).u32_be(3, FIB_OF_DESTINATION);
        self.expression("fib", &asked).differs(&LOCAL.to_ne_bytes())
    }

    /// Matches sources that are addresses of this machine.
    pub fn from_local(self) -> Rule {
        self.local(FIB_OF_SOURCE)
    }

    /// Matches the first packet of a connection.
    pub fn begins_connection(self) -> Rule {
        self.connection(CONNECTION_STATE, NEW_CONNECTION)
    }

    /// Matches the first packet of a connection, and packets with an invalid state.
    pub fn answers_nothing(self) -> Rule {
        const INVALID: u32 = 1;
        self.connection(CONNECTION_STATE, NEW_CONNECTION | INVALID)
    }

    /// Matches packets of connections with a translated destination.
    pub fn was_redirected(self) -> Rule {
        self.connection(CONNECTION_STATUS, DESTINATION_TRANSLATED)
    }

    /// Matches packets with any of the bits in their mark.
    pub fn is_marked(self, bits: u32) -> Rule {
        self.meta(META_MARK).bits(bits, 0).differs(&0u32.to_ne_bytes())
    }

    /// Sets bits of the mark.
    pub fn mark(self, bits: u32) -> Rule {
        self.meta(META_MARK).bits(!bits, bits).set_mark()
    }

    /// Inverts bits of the mark.
    pub fn flip_mark(self, bits: u32) -> Rule {
        self.meta(META_MARK).bits(u32::MAX, bits).set_mark()
    }

    /// Adds the source to a set, or renews its timeout there.
    pub fn remember_source(self, set: &str) -> Rule {
        let kept = Attributes::new().text(1, set).u32_be(3, UPDATE).u32_be(4, NARROW);
        self.read(&[Field::Source]).expression("dynset", &kept)
    }

    pub fn accept(self) -> Rule {
        self.verdict(&Attributes::new().nested(2, &Attributes::new().u32_be(1, ACCEPT as u32)))
    }

    pub fn drop(self) -> Rule {
        self.verdict(&Verdict::Drop.attributes())
    }

    pub fn jump(self, chain: &str) -> Rule {
        self.verdict(&Verdict::Jump(chain.to_owned()).attributes())
    }

    pub fn goto(self, chain: &str) -> Rule {
        self.verdict(&Verdict::Goto(chain.to_owned()).attributes())
    }

    /// Returns to the calling chain.
    pub fn back(self) -> Rule {
        self.verdict(&Attributes::new().nested(2, &Attributes::new().u32_be(1, RETURN as u32)))
    }

    /// Rejects the packet: an error is sent to its source.
    pub fn reject(self) -> Rule {
        let (kind, code) = match self.family {
            Family::Ipv4 => (UNREACHABLE, PORT_UNREACHABLE_IPV4),
            Family::Ipv6 => (UNREACHABLE, PORT_UNREACHABLE_IPV6),
            Family::Inet | Family::Bridge => (UNREACHABLE_EITHER, PORT_UNREACHABLE_EITHER),
        };
        self.expression("reject", &Attributes::new().u32_be(1, kind).u8(2, code))
    }

    /// Masquerades the packet.
    pub fn masquerade(self) -> Rule {
        self.expression("masq", &Attributes::new().u32_be(1, FULLY_RANDOM))
    }

    /// Translates the destination to an address and port.
    pub fn redirect(self, address: IpAddr, port: u16) -> Rule {
        let (family, port) = (family_of(address), Attributes::new().u16_be(1, port));
        let address = Attributes::new().address(1, address);
        self.immediate(FIRST, &address).immediate(SECOND, &port).translated(family, FIRST, SECOND)
    }

    /// Translates the destination to a random one of `count` addresses, which a map has under consecutive numbers.
    pub fn redirect_to_any(self, ipv4: bool, map: &str, first: u32, count: u32) -> Rule {
        let number = Attributes::new().u32_be(1, NARROW).u32_be(2, count).u32_be(3, RANDOM).u32_be(4, first);
        let found = Attributes::new().text(1, map).u32_be(2, NARROW).u32_be(3, NARROW);
        let (family, port) = if ipv4 { (FAMILY_IPV4, NARROW + 1) } else { (FAMILY_IPV6, NARROW + 4) };
        self.expression("numgen", &number).expression("lookup", &found).translated(family, NARROW, port)
    }

    /// Looks up the verdict of a random one of `count` consecutive numbers in a map.
    pub fn judged_by_chance(self, map: &str, first: u32, count: u32) -> Rule {
        let number = Attributes::new().u32_be(1, NARROW).u32_be(2, count).u32_be(3, RANDOM).u32_be(4, first);
        let found = Attributes::new().text(1, map).u32_be(2, NARROW).u32_be(3, VERDICT);
        self.expression("numgen", &number).expression("lookup", &found)
    }

    fn translated(self, family: u8, address: u32, port: u32) -> Rule {
        let to = Attributes::new()
            .u32_be(1, DESTINATION_TRANSLATION)
            .u32_be(2, family.into())
            .u32_be(3, address)
            .u32_be(4, address)
            .u32_be(5, port)
            .u32_be(6, port);
        self.expression("nat", &to)
    }

    fn within(self, offset: u32, length: u32, network: Cidr, comparison: u32) -> Rule {
        let width = length as usize;
        let mask: Vec<u8> = (0..width).map(|byte| prefix_byte(network.prefix(), byte)).collect();
        let address = Attributes::new().address(1, network.network().address());
        self.payload(FIRST, NETWORK_HEADER, offset, length)
            .bitwise(&mask, &vec![0; width])
            .compare(comparison, &address)
    }

    fn local(self, of: u32) -> Rule {
        let asked = Attributes::new().u32_be(1, FIRST).u32_be(2, FIB_ADDRESS_TYPE).u32_be(3, of);
        // Unlike other values, the result is in host byte order.
        self.expression("fib", &asked).equals(&LOCAL.to_ne_bytes())
    }

    fn connection(self, key: u32, bits: u32) -> Rule {
        let asked = Attributes::new().u32_be(1, FIRST).u32_be(2, key);
        self.expression("ct", &asked).bits(bits, 0).differs(&0u32.to_ne_bytes())
    }

    /// Loads fields into adjacent registers, as sets have them.
    fn read(self, fields: &[Field]) -> Rule {
        let ipv4 = self.family != Family::Ipv6;
        let mut register = NARROW;
        fields.iter().fold(self, |rule, field| {
            let into = register;
            register += field.registers(ipv4);
            match field {
                Field::Source => {
                    let (offset, length) = source_field(ipv4);
                    rule.payload(into, NETWORK_HEADER, offset, length)
                }
                Field::Destination => {
                    let (offset, length) = destination_field(ipv4);
                    rule.payload(into, NETWORK_HEADER, offset, length)
                }
                Field::Protocol => {
                    rule.expression("meta", &Attributes::new().u32_be(1, into).u32_be(2, META_PROTOCOL))
                }
                Field::DestinationPort => rule.payload(into, TRANSPORT_HEADER, 2, 2),
                Field::Link => {
                    rule.expression("meta", &Attributes::new().u32_be(1, into).u32_be(2, META_IN_NAME))
                }
                Field::At(header, offset, length) => rule.payload(into, *header as u32, *offset, *length),
            }
        })
    }

    fn meta(self, key: u32) -> Rule {
        self.expression("meta", &Attributes::new().u32_be(1, FIRST).u32_be(2, key))
    }

    fn set_mark(self) -> Rule {
        self.expression("meta", &Attributes::new().u32_be(2, META_MARK).u32_be(3, FIRST))
    }

    fn payload(self, into: u32, base: u32, offset: u32, length: u32) -> Rule {
        let read = Attributes::new().u32_be(1, into).u32_be(2, base).u32_be(3, offset).u32_be(4, length);
        self.expression("payload", &read)
    }

    fn looked_up(self, set: &str, inverted: bool) -> Rule {
        let asked = Attributes::new().text(1, set).u32_be(2, FIRST).u32_be(5, inverted.into());
        self.expression("lookup", &asked)
    }

    fn equals(self, value: &[u8]) -> Rule {
        self.compare(EQUAL, &Attributes::new().bytes(1, value))
    }

    fn differs(self, value: &[u8]) -> Rule {
        self.compare(NOT_EQUAL, &Attributes::new().bytes(1, value))
    }

    fn compare(self, comparison: u32, value: &Attributes) -> Rule {
        self.expression("cmp", &Attributes::new().u32_be(1, FIRST).u32_be(2, comparison).nested(3, value))
    }

    /// Applies a mask to the mark, then inverts bits.
    fn bits(self, kept: u32, turned: u32) -> Rule {
        self.bitwise(&kept.to_ne_bytes(), &turned.to_ne_bytes())
    }

    fn bitwise(self, mask: &[u8], turned: &[u8]) -> Rule {
        let (length, mask) = (mask.len() as u32, Attributes::new().bytes(1, mask));
        let masked = Attributes::new()
            .u32_be(1, FIRST)
            .u32_be(2, FIRST)
            .u32_be(3, length)
            .nested(4, &mask)
            .nested(5, &Attributes::new().bytes(1, turned));
        self.expression("bitwise", &masked)
    }

    fn verdict(self, verdict: &Attributes) -> Rule {
        self.immediate(VERDICT, verdict)
    }

    fn immediate(self, register: u32, value: &Attributes) -> Rule {
        self.expression("immediate", &Attributes::new().u32_be(1, register).nested(2, value))
    }

    fn expression(self, name: &str, data: &Attributes) -> Rule {
        let expression = Attributes::new().text(1, name).nested(2, data);
        Rule { expressions: self.expressions.nested(LIST_ELEMENT, &expression), ..self }
    }
}

fn family_of(address: IpAddr) -> u8 {
    if address.is_ipv4() { FAMILY_IPV4 } else { FAMILY_IPV6 }
}

/// The offset and the length of the source address.
fn source_field(ipv4: bool) -> (u32, u32) {
    if ipv4 { (12, 4) } else { (8, 16) }
}

fn destination_field(ipv4: bool) -> (u32, u32) {
    if ipv4 { (16, 4) } else { (24, 16) }
}

/// One byte of a prefix's mask.
fn prefix_byte(prefix: u8, byte: usize) -> u8 {
    let bits = usize::from(prefix).saturating_sub(byte * 8).min(8);
    !(0xff_u16 >> bits) as u8
}

/// The name of an interface, padded as the kernel compares it.
pub(super) fn link_name(name: &str) -> [u8; 16] {
    let mut padded = [0; 16];
    for (to, from) in padded.iter_mut().zip(name.bytes().take(15)) {
        *to = from;
    }
    padded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_are_masks() {
        let mask = |prefix| [0, 1, 2, 3].map(|byte| prefix_byte(prefix, byte));
        assert_eq!(mask(0), [0, 0, 0, 0]);
        assert_eq!(mask(4), [0xf0, 0, 0, 0]);
        assert_eq!(mask(24), [255, 255, 255, 0]);
        assert_eq!(mask(25), [255, 255, 255, 128]);
        assert_eq!(mask(32), [255; 4]);
    }
}
