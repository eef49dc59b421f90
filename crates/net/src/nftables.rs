//! nftables messages: tables, chains, sets and rules, in atomic transactions.
//!
//! Builders only: callers decide about the rules. Every number is big-endian on the wire.

pub(crate) mod listing;
mod rule;
mod sets;

use std::io;

use crate::Cidr;
use crate::namespace::Namespace;
use crate::netlink::{Attributes, Message, Socket, flag};

pub use rule::{Field, Header, Rule};
pub use sets::{Element, Key, MapsTo, Set, Type, Verdict};

const SUBSYSTEM: u16 = 10;
const BATCH_BEGIN: u16 = 0x10;
const BATCH_END: u16 = 0x11;
const NEW_TABLE: u16 = 0;
const DELETE_TABLE: u16 = 2;
const NEW_CHAIN: u16 = 3;
const DELETE_CHAIN: u16 = 5;
const NEW_RULE: u16 = 6;
const DELETE_RULE: u16 = 8;
const NEW_SET: u16 = 9;
const DELETE_SET: u16 = 11;
const NEW_ELEMENTS: u16 = 12;
const DELETE_ELEMENTS: u16 = 14;

const LIST_ELEMENT: u16 = 1;

/// The address family of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Family {
    /// IPv4 and IPv6 in one table.
    Inet = 1,
    Ipv4 = 2,
    /// Frames that pass a bridge.
    Bridge = 7,
    Ipv6 = 10,
}

/// The hook of a base chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Hook {
    Prerouting = 0,
    Input = 1,
    Forward = 2,
    Output = 3,
    Postrouting = 4,
}

/// A transaction on one table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transaction {
    family: Family,
    table: String,
    messages: Vec<Message>,
}

impl Transaction {
    /// Changes an existing table.
    pub fn changing(family: Family, table: &str) -> Transaction {
        Transaction { family, table: table.to_owned(), messages: Vec::new() }
    }

    /// A transaction that replaces a table of both families.
    pub fn replacing(table: &str) -> Transaction {
        Transaction::replacing_in(Family::Inet, table)
    }

    /// A transaction that replaces a table.
    pub fn replacing_in(family: Family, table: &str) -> Transaction {
        let named = Attributes::new().text(1, table);
        let mut transaction = Transaction::changing(family, table);
        // A missing table cannot be deleted, so it is created first.
        transaction.push(NEW_TABLE, flag::CREATE, &named);
        transaction.push(DELETE_TABLE, 0, &named);
        transaction.push(NEW_TABLE, flag::CREATE, &named);
        transaction
    }

    /// A transaction that deletes a table of both families, if it exists.
    pub fn deleting(table: &str) -> Transaction {
        Transaction::deleting_in(Family::Inet, table)
    }

    /// A transaction that deletes a table, if it exists.
    pub fn deleting_in(family: Family, table: &str) -> Transaction {
        let mut transaction = Transaction::replacing_in(family, table);
        transaction.messages.pop();
        transaction
    }

    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// The size in bytes.
    pub fn size(&self) -> usize {
        self.messages.iter().map(Message::len).sum()
    }

    /// Creates a chain that rules jump to. An existing one is kept.
    pub fn chain(&mut self, name: &str) {
        let wanted = Attributes::new().text(1, &self.table).text(3, name);
        self.push(NEW_CHAIN, flag::CREATE, &wanted);
    }

    /// Creates a base chain. `kind` is `nat` or `filter`.
    pub fn base_chain(&mut self, name: &str, kind: &str, hook: Hook, priority: i32) {
        let called = Attributes::new().u32_be(1, hook as u32).u32_be(2, priority as u32);
        let wanted = Attributes::new().text(1, &self.table).text(3, name).nested(4, &called).text(7, kind);
        self.push(NEW_CHAIN, flag::CREATE, &wanted);
    }

    /// Removes the rules of a chain.
    pub fn flush_chain(&mut self, name: &str) {
        let wanted = Attributes::new().text(1, &self.table).text(2, name);
        self.push(DELETE_RULE, 0, &wanted);
    }

    /// Deletes a chain that no rule refers to.
    pub fn delete_chain(&mut self, name: &str) {
        let wanted = Attributes::new().text(1, &self.table).text(3, name);
        self.push(DELETE_CHAIN, 0, &wanted);
    }

    /// Creates a set or a map. `id` is unique within the transaction.
    pub fn set(&mut self, id: u32, set: &Set<'_>) {
        let wanted = set.attributes(&self.table).u32_be(10, id);
        self.push(NEW_SET, flag::CREATE, &wanted);
    }

    /// Deletes a set that no rule refers to.
    pub fn delete_set(&mut self, name: &str) {
        let wanted = Attributes::new().text(1, &self.table).text(2, name);
        self.push(DELETE_SET, 0, &wanted);
    }

    pub fn add_elements<'a>(&mut self, set: &str, elements: impl IntoIterator<Item = &'a Element>) {
        self.elements(NEW_ELEMENTS, flag::CREATE, set, elements.into_iter().map(Element::attributes));
    }

    /// Deletes existing elements: a missing one fails the transaction.
    pub fn delete_elements<'a>(&mut self, set: &str, keys: impl IntoIterator<Item = &'a Key>) {
        self.elements(DELETE_ELEMENTS, 0, set, keys.into_iter().map(Key::attributes));
    }

    /// Creates a set of networks of one family, which must not overlap.
    pub fn networks(&mut self, id: u32, name: &str, ipv4: bool, networks: &[Cidr]) {
        let key = if ipv4 { &[Type::Ipv4] } else { &[Type::Ipv6] };
        self.set(id, &Set { name, key, maps_to: MapsTo::Nothing, intervals: true, timeout: None });
        let ends = networks.iter().flat_map(|network| sets::interval(*network));
        self.elements(NEW_ELEMENTS, flag::CREATE, name, ends);
    }

    pub fn rule(&mut self, chain: &str, rule: &Rule) {
        let wanted = Attributes::new().text(1, &self.table).text(2, chain).nested(4, rule.expressions());
        self.push(NEW_RULE, flag::CREATE | flag::APPEND, &wanted);
    }

    /// Executes the transaction.
    pub fn commit(&self, nftables: &mut Nftables) -> io::Result<()> {
        let frame = |kind| Message::new(kind, 0, &[0, 0, 0, SUBSYSTEM as u8], &Attributes::new());
        nftables.0.transact(&frame(BATCH_BEGIN), &self.messages, &frame(BATCH_END))
    }

    /// Adds as many messages as the elements need, because the size of an attribute is limited.
    fn elements(&mut self, kind: u16, flags: u16, set: &str, elements: impl Iterator<Item = Attributes>) {
        let mut list = Attributes::new();
        let mut push = |list: &Attributes| {
            let wanted = Attributes::new().text(1, &self.table).text(2, set).nested(3, list);
            self.push(kind, flags, &wanted);
        };
        for element in elements {
            list = list.nested(LIST_ELEMENT, &element);
            if list.len() > sets::LONG_LIST {
                push(&list);
                list = Attributes::new();
            }
        }
        if list.len() > 0 {
            push(&list);
        }
    }

    fn push(&mut self, kind: u16, flags: u16, attributes: &Attributes) {
        let kind = SUBSYSTEM << 8 | kind;
        self.messages.push(Message::new(kind, flags, &[self.family as u8, 0, 0, 0], attributes));
    }
}

/// An nftables socket of one namespace.
#[derive(Debug)]
pub struct Nftables(Socket);

impl Nftables {
    pub fn open(namespace: &Namespace) -> io::Result<Nftables> {
        namespace.run(Socket::netfilter).map(Nftables)
    }
}
