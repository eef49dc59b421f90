//! The connections that the kernel remembers, and how to make it forget one.

use std::io;
use std::net::{IpAddr, SocketAddr};

use crate::namespace::Namespace;
use crate::netlink::{Attributes, Message, Socket, attributes};

const SUBSYSTEM: u16 = 1;
const GET: u16 = 1;
const DELETE: u16 = 2;
/// Before the attributes: family, version and number.
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

/// A connection, or what counts as one where there are none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flow {
    /// By the number that IP has for it.
    pub protocol: u8,
    pub source: SocketAddr,
    /// Where it was sent to.
    pub destination: SocketAddr,
    /// Who answers.
    pub answers: SocketAddr,
    /// What the kernel knows it by.
    original: Vec<u8>,
}

impl Flow {
    /// One as the kernel would tell of it.
    pub fn new(protocol: u8, source: SocketAddr, destination: SocketAddr, answers: SocketAddr) -> Flow {
        Flow { protocol, source, destination, answers, original: Vec::new() }
    }
}

/// A conversation about one namespace.
#[derive(Debug)]
pub struct Conntrack(Socket);

impl Conntrack {
    pub fn open(namespace: &Namespace) -> io::Result<Conntrack> {
        namespace.run(Socket::netfilter).map(Conntrack)
    }

    /// Every flow of one family that has ports.
    pub fn flows(&mut self, ipv4: bool) -> io::Result<Vec<Flow>> {
        let asked = Message::listing(SUBSYSTEM << 8 | GET, &[family(ipv4), 0, 0, 0], &Attributes::new());
        let found = self.0.list(&asked)?;
        Ok(found.iter().filter_map(|reply| read(reply.body.get(FIXED..)?)).collect())
    }

    /// Forgets a flow; one that is gone already is no error.
    pub fn forget(&mut self, flow: &Flow) -> io::Result<()> {
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

fn read(body: &[u8]) -> Option<Flow> {
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

/// The protocol, who sends and who receives.
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

/// Sources and destinations of both families have numbers of their own, in this order.
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
