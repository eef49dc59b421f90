//! Conntrack entries: lists and deletes them.

use std::io;
use std::net::{IpAddr, SocketAddr};

use crate::namespace::Namespace;
use crate::netlink::{Attributes, Message, Socket, attributes};

const SUBSYSTEM: u16 = 1;
const GET: u16 = 1;
const DELETE: u16 = 2;
/// The length of the fixed part: family, version and resource ID.
const FIXED: usize = 4;
const FAMILY_IPV4: u8 = 2;
const FAMILY_IPV6: u8 = 10;

const ORIGINAL: u16 = 1;
const REPLY: u16 = 2;
const TUPLE_ADDRESSES: u16 = 1;
const TUPLE_PROTOCOL: u16 = 2;
const PROTOCOL_NUMBER: u16 = 1;
const SOURCE_PORT: u16 = 2;
const DESTINATION_PORT: u16 = 3;

const NO_SUCH_THING: i32 = 2;

/// A tracked flow: a connection, or datagrams between two addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flow {
    /// The IP protocol number.
    pub protocol: u8,
    pub source: SocketAddr,
    /// The original destination.
    pub destination: SocketAddr,
    /// The source of replies.
    pub answers: SocketAddr,
    /// The encoded original tuple, which identifies the flow to the kernel.
    original: Vec<u8>,
}

impl Flow {
    /// A flow as the kernel reports it, for tests.
    pub fn new(protocol: u8, source: SocketAddr, destination: SocketAddr, answers: SocketAddr) -> Flow {
        Flow { protocol, source, destination, answers, original: Vec::new() }
    }
}

/// A conntrack socket of one namespace.
#[derive(Debug)]
pub struct Conntrack(Socket);

impl Conntrack {
    pub fn open(namespace: &Namespace) -> io::Result<Conntrack> {
        namespace.run(Socket::netfilter).map(Conntrack)
    }

    /// Lists the flows of one family that have ports.
    pub fn flows(&mut self, ipv4: bool) -> io::Result<Vec<Flow>> {
        let asked = Message::listing(SUBSYSTEM << 8 | GET, &[family(ipv4), 0, 0, 0], &Attributes::new());
        let found = self.0.list(&asked)?;
        Ok(found.iter().filter_map(|reply| read(reply.body.get(FIXED..)?)).collect())
    }

    /// Deletes a flow. A missing one is no error.
    pub fn delete(&mut self, flow: &Flow) -> io::Result<()> {
        let which = Attributes::new().nested_after(ORIGINAL, &flow.original, &Attributes::new());
        let fixed = [family(flow.destination.is_ipv4()), 0, 0, 0];
        match self.0.request(&Message::new(SUBSYSTEM << 8 | DELETE, 0, &fixed, &which)) {
            Err(error) if error.raw_os_error() == Some(NO_SUCH_THING) => Ok(()),
            done => done,
        }
    }
}

fn family(ipv4: bool) -> u8 {
    if ipv4 { FAMILY_IPV4 } else { FAMILY_IPV6 }
}

pub(crate) fn read(body: &[u8]) -> Option<Flow> {
    let (mut original, mut reply) = (None, None);
    for (kind, value) in attributes(body) {
        match kind {
            ORIGINAL => original = Some(value),
            REPLY => reply = Some(value),
            _ => {}
        }
    }
    let original = original?;
    let (protocol, source, destination) = tuple(original)?;
    let (_, answers, _) = tuple(reply?)?;
    Some(Flow { protocol, source, destination, answers, original: original.to_vec() })
}

/// Decodes the protocol, source and destination of a tuple.
fn tuple(value: &[u8]) -> Option<(u8, SocketAddr, SocketAddr)> {
    let (mut addresses, mut ends) = (None, None);
    for (kind, value) in attributes(value) {
        match kind {
            TUPLE_ADDRESSES => addresses = pair(value),
            TUPLE_PROTOCOL => ends = ports(value),
            _ => {}
        }
    }
    let ((source, destination), (protocol, source_port, destination_port)) = (addresses?, ends?);
    Some((protocol, SocketAddr::new(source, source_port), SocketAddr::new(destination, destination_port)))
}

/// Decodes the addresses of a tuple: attributes 1 to 4 are source and destination of IPv4, then of IPv6.
fn pair(value: &[u8]) -> Option<(IpAddr, IpAddr)> {
    let address = |bytes: &[u8]| match bytes.len() {
        4 => Some(IpAddr::from(<[u8; 4]>::try_from(bytes).ok()?)),
        _ => Some(IpAddr::from(<[u8; 16]>::try_from(bytes).ok()?)),
    };
    let mut found = attributes(value).filter(|(kind, _)| matches!(kind, 1..=4));
    Some((address(found.next()?.1)?, address(found.next()?.1)?))
}

fn ports(value: &[u8]) -> Option<(u8, u16, u16)> {
    let (mut protocol, mut source, mut destination) = (None, None, None);
    let number = |value: &[u8]| value.try_into().ok().map(u16::from_be_bytes);
    for (kind, value) in attributes(value) {
        match kind {
            PROTOCOL_NUMBER => protocol = value.first().copied(),
            SOURCE_PORT => source = number(value),
            DESTINATION_PORT => destination = number(value),
            _ => {}
        }
    }
    Some((protocol?, source?, destination?))
}
