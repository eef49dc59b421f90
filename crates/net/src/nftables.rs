//! nftables as messages: tables, chains, sets and rules, in transactions that happen as a whole or not at all.
//!
//! Builders only: nothing here decides what is filtered or translated. Every number is big-endian on this wire.

use std::io;
use std::net::IpAddr;

use crate::Cidr;
use crate::namespace::Namespace;
use crate::netlink::{Attributes, Message, Socket, flag};

const SUBSYSTEM: u16 = 10;
const BATCH_BEGIN: u16 = 0x10;
const BATCH_END: u16 = 0x11;
const NEW_TABLE: u16 = 0;
const DELETE_TABLE: u16 = 2;
const NEW_CHAIN: u16 = 3;
const NEW_RULE: u16 = 6;
const NEW_SET: u16 = 9;
const NEW_ELEMENTS: u16 = 12;

/// IPv4 and IPv6 in one table.
const FAMILY_INET: u8 = 1;
const LIST_ELEMENT: u16 = 1;
const SET_OF_INTERVALS: u32 = 4;
const INTERVAL_END: u32 = 1;
/// What sets of addresses are of, as the tool that lists them understands it.
const TYPE_IPV4: u32 = 7;
const TYPE_IPV6: u32 = 8;
/// So many elements fit into one message with room to spare.
const ELEMENTS_AT_ONCE: usize = 512;

const VERDICT: u32 = 0;
const FIRST: u32 = 1;
const SECOND: u32 = 2;
const EQUAL: u32 = 0;
const DROP: i32 = 0;
const JUMP: i32 = -3;
const META_IN_NAME: u32 = 6;
const META_OUT_NAME: u32 = 7;
const META_FAMILY: u32 = 15;
const META_PROTOCOL: u32 = 16;
const NETWORK_HEADER: u32 = 1;
const TRANSPORT_HEADER: u32 = 2;
const FIB_ADDRESS_TYPE: u32 = 3;
const FIB_OF_DESTINATION: u32 = 2;
const LOCAL: u32 = 2;
const FULLY_RANDOM: u32 = 16;
const FAMILY_IPV4: u8 = 2;
const FAMILY_IPV6: u8 = 10;

/// Where the kernel calls a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Hook {
    Prerouting = 0,
    Output = 3,
    Postrouting = 4,
}

/// Everything that one transaction does to one table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transaction {
    table: String,
    messages: Vec<Message>,
}

impl Transaction {
    /// Makes the table anew: what follows is all that is in it.
    pub fn replacing(table: &str) -> Transaction {
        let named = Attributes::new().text(1, table);
        let mut transaction = Transaction { table: table.to_owned(), messages: Vec::new() };
        // A table that is not there cannot be deleted, so it is made first.
        transaction.push(NEW_TABLE, flag::CREATE, &named);
        transaction.push(DELETE_TABLE, 0, &named);
        transaction.push(NEW_TABLE, flag::CREATE, &named);
        transaction
    }

    /// Leaves nothing of the table.
    pub fn deleting(table: &str) -> Transaction {
        let mut transaction = Transaction::replacing(table);
        transaction.messages.pop();
        transaction
    }

    /// A chain that rules jump to.
    pub fn chain(&mut self, name: &str) {
        let wanted = Attributes::new().text(1, &self.table).text(3, name);
        self.push(NEW_CHAIN, flag::CREATE, &wanted);
    }

    /// A chain that the kernel calls. `kind` is `nat` or `filter`.
    pub fn base_chain(&mut self, name: &str, kind: &str, hook: Hook, priority: i32) {
        let called = Attributes::new().u32_be(1, hook as u32).u32_be(2, priority as u32);
        let wanted = Attributes::new().text(1, &self.table).text(3, name).nested(4, &called).text(7, kind);
        self.push(NEW_CHAIN, flag::CREATE, &wanted);
    }

    /// A set of networks of one family that do not overlap.
    pub fn networks(&mut self, id: u32, name: &str, ipv4: bool, networks: &[Cidr]) {
        let (kind, length) = if ipv4 { (TYPE_IPV4, 4) } else { (TYPE_IPV6, 16) };
        let wanted = Attributes::new()
            .text(1, &self.table)
            .text(2, name)
            .u32_be(3, SET_OF_INTERVALS)
            .u32_be(4, kind)
            .u32_be(5, length)
            .u32_be(10, id);
        self.push(NEW_SET, flag::CREATE, &wanted);
        for some in networks.chunks(ELEMENTS_AT_ONCE / 2) {
            let elements = some.iter().copied().fold(Attributes::new(), interval);
            let wanted = Attributes::new().text(1, &self.table).text(2, name).nested(3, &elements);
            self.push(NEW_ELEMENTS, flag::CREATE, &wanted);
        }
    }

    pub fn rule(&mut self, chain: &str, rule: &Rule) {
        let wanted = Attributes::new().text(1, &self.table).text(2, chain).nested(4, &rule.0);
        self.push(NEW_RULE, flag::CREATE | flag::APPEND, &wanted);
    }

    /// Carries it out.
    pub fn commit(&self, nftables: &mut Nftables) -> io::Result<()> {
        let frame = |kind| Message::new(kind, 0, &[0, 0, 0, SUBSYSTEM as u8], &Attributes::new());
        let mut messages = vec![frame(BATCH_BEGIN)];
        messages.extend(self.messages.iter().cloned());
        messages.push(frame(BATCH_END));
        nftables.0.transact(&messages)
    }

    fn push(&mut self, kind: u16, flags: u16, attributes: &Attributes) {
        let kind = SUBSYSTEM << 8 | kind;
        self.messages.push(Message::new(kind, flags, &[FAMILY_INET, 0, 0, 0], attributes));
    }
}

/// A conversation about one namespace.
#[derive(Debug)]
pub struct Nftables(Socket);

impl Nftables {
    pub fn open(namespace: &Namespace) -> io::Result<Nftables> {
        namespace.run(Socket::netfilter).map(Nftables)
    }
}

/// An interval is where it begins and where the next thing begins, if anything follows.
fn interval(elements: Attributes, network: Cidr) -> Attributes {
    let value = |address| Attributes::new().nested(1, &Attributes::new().address(1, address));
    let elements = elements.nested(LIST_ELEMENT, &value(network.network().address()));
    let after = match network.last() {
        IpAddr::V4(last) => last.to_bits().checked_add(1).map(|next| IpAddr::V4(next.into())),
        IpAddr::V6(last) => last.to_bits().checked_add(1).map(|next| IpAddr::V6(next.into())),
    };
    match after {
        Some(after) => elements.nested(LIST_ELEMENT, &value(after).u32_be(3, INTERVAL_END)),
        None => elements,
    }
}

/// Conditions, and then what is done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rule(Attributes);

impl Rule {
    pub fn new() -> Rule {
        Rule::default()
    }

    /// Of the family that an address is of.
    pub fn family_of(self, address: IpAddr) -> Rule {
        let family = if address.is_ipv4() { FAMILY_IPV4 } else { FAMILY_IPV6 };
        self.meta(META_FAMILY).equals(&[family])
    }

    pub fn came_through(self, link: &str) -> Rule {
        self.meta(META_IN_NAME).equals(&link_name(link))
    }

    pub fn leaves_through(self, link: &str) -> Rule {
        self.meta(META_OUT_NAME).equals(&link_name(link))
    }

    /// By the number that IP has for it.
    pub fn protocol(self, number: u8) -> Rule {
        self.meta(META_PROTOCOL).equals(&[number])
    }

    pub fn to_port(self, port: u16) -> Rule {
        self.payload(TRANSPORT_HEADER, 2, 2).equals(&port.to_be_bytes())
    }

    pub fn from_network(self, network: Cidr) -> Rule {
        let (offset, length) = source_field(network.is_ipv4());
        self.family_of(network.address()).within(offset, length, network)
    }

    pub fn to_network(self, network: Cidr) -> Rule {
        let (offset, length) = destination_field(network.is_ipv4());
        self.family_of(network.address()).within(offset, length, network)
    }

    pub fn from_set(self, ipv4: bool, set: &str) -> Rule {
        let (offset, length) = source_field(ipv4);
        self.payload(NETWORK_HEADER, offset, length).looked_up(set, false)
    }

    pub fn not_to_set(self, ipv4: bool, set: &str) -> Rule {
        let (offset, length) = destination_field(ipv4);
        self.payload(NETWORK_HEADER, offset, length).looked_up(set, true)
    }

    /// To an address of this machine.
    pub fn to_local(self) -> Rule {
        let asked =
            Attributes::new().u32_be(1, FIRST).u32_be(2, FIB_ADDRESS_TYPE).u32_be(3, FIB_OF_DESTINATION);
        // Unlike everything else, the answer is a number in the machine's own order.
        self.expression("fib", &asked).equals(&LOCAL.to_ne_bytes())
    }

    pub fn drop(self) -> Rule {
        self.verdict(&Attributes::new().u32_be(1, DROP as u32))
    }

    pub fn jump(self, chain: &str) -> Rule {
        self.verdict(&Attributes::new().u32_be(1, JUMP as u32).text(2, chain))
    }

    /// Sends it from the address of the link it leaves through.
    pub fn masquerade(self) -> Rule {
        self.expression("masq", &Attributes::new().u32_be(1, FULLY_RANDOM))
    }

    /// Sends it to another address and port.
    pub fn redirect(self, address: IpAddr, port: u16) -> Rule {
        let family = if address.is_ipv4() { FAMILY_IPV4 } else { FAMILY_IPV6 };
        let to = Attributes::new()
            .u32_be(1, 1)
            .u32_be(2, family.into())
            .u32_be(3, FIRST)
            .u32_be(4, FIRST)
            .u32_be(5, SECOND)
            .u32_be(6, SECOND);
        let address = Attributes::new().address(1, address);
        let port = Attributes::new().u16_be(1, port);
        self.immediate(FIRST, &address).immediate(SECOND, &port).expression("nat", &to)
    }

    fn within(self, offset: u32, length: u32, network: Cidr) -> Rule {
        let width = length as usize;
        let mask: Vec<u8> = (0..width).map(|byte| prefix_byte(network.prefix(), byte)).collect();
        let (mask, none) = (Attributes::new().bytes(1, &mask), Attributes::new().bytes(1, &vec![0; width]));
        let masked = Attributes::new()
            .u32_be(1, FIRST)
            .u32_be(2, FIRST)
            .u32_be(3, length)
            .nested(4, &mask)
            .nested(5, &none);
        let address = Attributes::new().address(1, network.network().address());
        self.payload(NETWORK_HEADER, offset, length).expression("bitwise", &masked).compare(&address)
    }

    fn meta(self, key: u32) -> Rule {
        self.expression("meta", &Attributes::new().u32_be(1, FIRST).u32_be(2, key))
    }

    fn payload(self, base: u32, offset: u32, length: u32) -> Rule {
        let read = Attributes::new().u32_be(1, FIRST).u32_be(2, base).u32_be(3, offset).u32_be(4, length);
        self.expression("payload", &read)
    }

    fn looked_up(self, set: &str, inverted: bool) -> Rule {
        let asked = Attributes::new().text(1, set).u32_be(2, FIRST).u32_be(5, inverted.into());
        self.expression("lookup", &asked)
    }

    fn equals(self, value: &[u8]) -> Rule {
        self.compare(&Attributes::new().bytes(1, value))
    }

    fn compare(self, value: &Attributes) -> Rule {
        self.expression("cmp", &Attributes::new().u32_be(1, FIRST).u32_be(2, EQUAL).nested(3, value))
    }

    fn verdict(self, verdict: &Attributes) -> Rule {
        self.immediate(VERDICT, &Attributes::new().nested(2, verdict))
    }

    fn immediate(self, register: u32, value: &Attributes) -> Rule {
        self.expression("immediate", &Attributes::new().u32_be(1, register).nested(2, value))
    }

    fn expression(self, name: &str, data: &Attributes) -> Rule {
        Rule(self.0.nested(LIST_ELEMENT, &Attributes::new().text(1, name).nested(2, data)))
    }
}

/// Where the source address is, and how long it is.
fn source_field(ipv4: bool) -> (u32, u32) {
    if ipv4 { (12, 4) } else { (8, 16) }
}

fn destination_field(ipv4: bool) -> (u32, u32) {
    if ipv4 { (16, 4) } else { (24, 16) }
}

/// One byte of the mask for a prefix.
fn prefix_byte(prefix: u8, byte: usize) -> u8 {
    let bits = usize::from(prefix).saturating_sub(byte * 8).min(8);
    !(0xff_u16 >> bits) as u8
}

/// As the kernel compares it: in full length.
fn link_name(name: &str) -> [u8; 16] {
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
