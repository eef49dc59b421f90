//! Links, addresses and routes of one network namespace.
//!
//! Calls are idempotent: adding an existing object or deleting a missing one is no error.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd};

use crate::Cidr;
use crate::namespace::Namespace;
use crate::netlink::{Attributes, Message, Reply, Socket, attributes, flag};

pub(crate) const NEW_LINK: u16 = 16;
const DELETE_LINK: u16 = 17;
const GET_LINK: u16 = 18;
const SET_LINK: u16 = 19;
const NEW_ADDRESS: u16 = 20;
const DELETE_ADDRESS: u16 = 21;
const GET_ADDRESS: u16 = 22;
const NEW_ROUTE: u16 = 24;
const DELETE_ROUTE: u16 = 25;
const GET_ROUTE: u16 = 26;

pub(crate) const FAMILY_BRIDGE: u8 = 7;
const UP: u32 = 1;

pub(crate) const LINK_HARDWARE: u16 = 1;
pub(crate) const LINK_NAME: u16 = 3;
pub(crate) const LINK_MTU: u16 = 4;
const LINK_MASTER: u16 = 10;
const LINK_PORT: u16 = 12;
pub(crate) const LINK_INFO: u16 = 18;
const LINK_ALIAS: u16 = 20;
const LINK_NAMESPACE: u16 = 28;
pub(crate) const INFO_KIND: u16 = 1;
pub(crate) const INFO_DATA: u16 = 2;
const VETH_PEER: u16 = 1;
const PORT_HAIRPIN: u16 = 4;

const ADDRESS_REMOTE: u16 = 1;
const ADDRESS_LOCAL: u16 = 2;
const ADDRESS_FLAGS: u16 = 8;
/// The address flag that skips duplicate address detection: addresses are unique by allocation.
const WITHOUT_DUPLICATE_DETECTION: u32 = 2;

const ROUTE_DESTINATION: u16 = 1;
const ROUTE_LINK: u16 = 4;
const ROUTE_GATEWAY: u16 = 5;
const ROUTE_SOURCE: u16 = 7;
const MAIN_TABLE: u8 = 254;
/// The protocol of our routes, a number that no other known program uses.
const OURS: u8 = 143;
const SCOPE_LINK: u8 = 253;
const UNICAST: u8 = 1;
/// The route flag for a gateway that is on the link, whatever other routes say.
const ON_LINK: u32 = 4;

const NO_SUCH_DEVICE: i32 = 19;
const NO_SUCH_PROCESS: i32 = 3;
const NOT_AVAILABLE: i32 = 99;

/// A hardware address.
pub type Hardware = [u8; 6];

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    pub index: u32,
    pub name: String,
    pub mtu: u32,
    pub up: bool,
    /// The bridge it is a port of; 0 if none.
    pub master: u32,
    /// `None` for links that have none of the usual length.
    pub hardware: Option<Hardware>,
}

/// A veth pair.
#[derive(Debug, Clone, Copy)]
pub struct Veth<'a> {
    pub name: &'a str,
    pub mtu: u32,
    pub peer: &'a str,
    pub peer_namespace: &'a Namespace,
    pub peer_hardware: Hardware,
}

/// Changes of a link.
#[derive(Debug, Clone, Copy, Default)]
pub struct Change<'a> {
    pub up: bool,
    pub mtu: Option<u32>,
    pub master: Option<u32>,
    pub alias: Option<&'a str>,
}

/// A route.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Route {
    pub destination: Cidr,
    /// `None` if the destination is on the link itself.
    pub gateway: Option<IpAddr>,
    pub link: u32,
    /// The preferred source address; `None` is the kernel's choice.
    pub source: Option<IpAddr>,
}

/// A route socket of one namespace.
#[derive(Debug)]
pub struct Routing(pub(crate) Socket);

impl Routing {
    pub fn open(namespace: &Namespace) -> io::Result<Routing> {
        namespace.run(Socket::route).map(Routing)
    }

    pub fn link(&mut self, name: &str) -> io::Result<Option<Link>> {
        let asked = Message::new(GET_LINK, 0, &about_link(0, 0, 0), &Attributes::new().text(LINK_NAME, name));
        let found = except(self.0.get(&asked), &[NO_SUCH_DEVICE], None)?;
        Ok(found.as_ref().and_then(read_link))
    }

    pub fn links(&mut self) -> io::Result<Vec<Link>> {
        let found = self.0.list(&Message::listing(GET_LINK, &about_link(0, 0, 0), &Attributes::new()))?;
        Ok(found.iter().filter_map(read_link).collect())
    }

    pub fn add_bridge(&mut self, name: &str, mtu: u32, hardware: Hardware) -> io::Result<()> {
        let info = Attributes::new().text(INFO_KIND, "bridge");
        let wanted = Attributes::new()
            .text(LINK_NAME, name)
            .u32(LINK_MTU, mtu)
            .bytes(LINK_HARDWARE, &hardware)
            .nested(LINK_INFO, &info);
        self.add(NEW_LINK, &about_link(0, 0, 0), &wanted)
    }

    pub fn add_veth(&mut self, veth: &Veth<'_>) -> io::Result<()> {
        let peer = Attributes::new()
            .text(LINK_NAME, veth.peer)
            .u32(LINK_MTU, veth.mtu)
            .bytes(LINK_HARDWARE, &veth.peer_hardware)
            .u32(LINK_NAMESPACE, veth.peer_namespace.as_fd().as_raw_fd() as u32);
        let data = Attributes::new().nested_after(VETH_PEER, &about_link(0, 0, 0), &peer);
        let info = Attributes::new().text(INFO_KIND, "veth").nested(INFO_DATA, &data);
        let wanted =
            Attributes::new().text(LINK_NAME, veth.name).u32(LINK_MTU, veth.mtu).nested(LINK_INFO, &info);
        self.add(NEW_LINK, &about_link(0, 0, 0), &wanted)
    }

    pub fn change_link(&mut self, index: u32, change: Change<'_>) -> io::Result<()> {
        let mut wanted = Attributes::new();
        if let Some(mtu) = change.mtu {
            wanted = wanted.u32(LINK_MTU, mtu);
        }
        if let Some(master) = change.master {
            wanted = wanted.u32(LINK_MASTER, master);
        }
        if let Some(alias) = change.alias {
            wanted = wanted.text(LINK_ALIAS, alias);
        }
        let up = if change.up { UP } else { 0 };
        self.0.request(&Message::new(SET_LINK, 0, &about_link(0, index, up), &wanted))
    }

    /// Enables hairpin mode of a bridge's port.
    pub fn hairpin(&mut self, index: u32) -> io::Result<()> {
        let wanted = Attributes::new().nested(LINK_PORT, &Attributes::new().u8(PORT_HAIRPIN, 1));
        self.0.request(&Message::new(SET_LINK, 0, &about_link(FAMILY_BRIDGE, index, 0), &wanted))
    }

    pub fn delete_link(&mut self, index: u32) -> io::Result<()> {
        let asked = Message::new(DELETE_LINK, 0, &about_link(0, index, 0), &Attributes::new());
        except(self.0.request(&asked), &[NO_SUCH_DEVICE], ())
    }

    /// The configured addresses of all links, without link-local ones.
    pub fn all_addresses(&mut self) -> io::Result<Vec<(u32, Cidr)>> {
        let found = self.0.list(&Message::listing(GET_ADDRESS, &[0; 8], &Attributes::new()))?;
        Ok(found.iter().filter_map(read_address).collect())
    }

    pub fn addresses(&mut self, index: u32) -> io::Result<Vec<Cidr>> {
        let found = self.all_addresses()?.into_iter();
        Ok(found.filter(|(link, _)| *link == index).map(|(_, address)| address).collect())
    }

    pub fn add_address(&mut self, index: u32, address: Cidr) -> io::Result<()> {
        let flags = if address.is_ipv4() { 0 } else { WITHOUT_DUPLICATE_DETECTION };
        let wanted = address_attributes(address).u32(ADDRESS_FLAGS, flags);
        self.add(NEW_ADDRESS, &about_address(index, address), &wanted)
    }

    pub fn delete_address(&mut self, index: u32, address: Cidr) -> io::Result<()> {
        let asked =
            Message::new(DELETE_ADDRESS, 0, &about_address(index, address), &address_attributes(address));
        except(self.0.request(&asked), &[NOT_AVAILABLE], ())
    }

    /// Sets the addresses of a link, and removes all others.
    pub fn set_addresses(&mut self, index: u32, wanted: &[Cidr]) -> io::Result<()> {
        let found = self.addresses(index)?;
        for address in wanted.iter().filter(|address| !found.contains(address)) {
            self.add_address(index, *address)?;
        }
        for address in found.iter().filter(|address| !wanted.contains(address)) {
            self.delete_address(index, *address)?;
        }
        Ok(())
    }

    /// Replaces the route to the same destination, if there is one.
    pub fn set_route(&mut self, route: &Route) -> io::Result<()> {
        let (fixed, wanted) = route_parts(route);
        self.0.request(&Message::new(NEW_ROUTE, flag::CREATE | flag::REPLACE, &fixed, &wanted))
    }

    pub fn delete_route(&mut self, route: &Route) -> io::Result<()> {
        let (fixed, wanted) = route_parts(route);
        except(self.0.request(&Message::new(DELETE_ROUTE, 0, &fixed, &wanted)), &[NO_SUCH_PROCESS], ())
    }

    /// The routes of the main table, of all programs.
    pub fn routes(&mut self) -> io::Result<Vec<Route>> {
        Ok(self.all_routes()?.iter().filter_map(read_route).collect())
    }

    /// The routes that [`Routing::set_route`] made.
    pub fn own_routes(&mut self) -> io::Result<Vec<Route>> {
        let mut found = self.all_routes()?;
        found.retain(|reply| reply.body.get(5) == Some(&OURS));
        Ok(found.iter().filter_map(read_route).collect())
    }

    fn all_routes(&mut self) -> io::Result<Vec<Reply>> {
        self.0.list(&Message::listing(GET_ROUTE, &[0; 12], &Attributes::new()))
    }

    pub(crate) fn add(&mut self, kind: u16, fixed: &[u8], wanted: &Attributes) -> io::Result<()> {
        match self.0.request(&Message::new(kind, flag::CREATE | flag::EXCL, fixed, wanted)) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            done => done,
        }
    }
}

/// Replaces some errors by a value.
pub(crate) fn except<T>(answer: io::Result<T>, fine: &[i32], otherwise: T) -> io::Result<T> {
    match answer {
        Err(error) if error.raw_os_error().is_some_and(|number| fine.contains(&number)) => Ok(otherwise),
        answer => answer,
    }
}

pub(crate) fn about_link(family: u8, index: u32, flags: u32) -> [u8; 16] {
    let mut fixed = [0; 16];
    fixed[0] = family;
    fixed[4..8].copy_from_slice(&index.to_ne_bytes());
    fixed[8..12].copy_from_slice(&flags.to_ne_bytes());
    fixed[12..16].copy_from_slice(&flags.to_ne_bytes());
    fixed
}

fn about_address(index: u32, address: Cidr) -> [u8; 8] {
    let [a, b, c, d] = index.to_ne_bytes();
    [family(address.address()), address.prefix(), 0, 0, a, b, c, d]
}

fn address_attributes(address: Cidr) -> Attributes {
    Attributes::new().address(ADDRESS_LOCAL, address.address()).address(ADDRESS_REMOTE, address.address())
}

fn route_parts(route: &Route) -> ([u8; 12], Attributes) {
    let destination = route.destination.network();
    let mut fixed = [0; 12];
    fixed[0] = family(destination.address());
    fixed[1] = destination.prefix();
    fixed[4] = MAIN_TABLE;
    fixed[5] = OURS;
    fixed[7] = UNICAST;
    let mut wanted =
        Attributes::new().address(ROUTE_DESTINATION, destination.address()).u32(ROUTE_LINK, route.link);
    if let Some(gateway) = route.gateway {
        fixed[8..].copy_from_slice(&ON_LINK.to_ne_bytes());
        wanted = wanted.address(ROUTE_GATEWAY, gateway);
    } else if destination.is_ipv4() {
        fixed[6] = SCOPE_LINK;
    }
    if let Some(source) = route.source {
        wanted = wanted.address(ROUTE_SOURCE, source);
    }
    (fixed, wanted)
}

pub(crate) fn family(address: IpAddr) -> u8 {
    if address.is_ipv4() { 2 } else { 10 }
}

pub(crate) fn read_link(reply: &Reply) -> Option<Link> {
    let mut link = Link {
        index: u32_of(reply.body.get(4..8)?)?,
        name: String::new(),
        mtu: 0,
        up: u32_of(reply.body.get(8..12)?)? & UP != 0,
        master: 0,
        hardware: None,
    };
    for (kind, value) in attributes(reply.body.get(16..)?) {
        match kind {
            LINK_NAME => link.name = String::from_utf8_lossy(value).trim_end_matches('\0').to_owned(),
            LINK_MTU => link.mtu = u32_of(value)?,
            LINK_MASTER => link.master = u32_of(value)?,
            LINK_HARDWARE => link.hardware = value.try_into().ok(),
            _ => {}
        }
    }
    Some(link)
}

pub(crate) fn read_address(reply: &Reply) -> Option<(u32, Cidr)> {
    let prefix = *reply.body.get(1)?;
    let index = u32_of(reply.body.get(4..8)?)?;
    let found: Vec<_> = attributes(reply.body.get(8..)?).collect();
    let of = |wanted: u16| found.iter().find(|(kind, _)| *kind == wanted).map(|(_, value)| *value);
    let address = ip_of(of(ADDRESS_LOCAL).or_else(|| of(ADDRESS_REMOTE))?)?;
    let own = matches!(address, IpAddr::V6(address) if address.is_unicast_link_local());
    if own { None } else { Some((index, Cidr::new(address, prefix)?)) }
}

pub(crate) fn read_route(reply: &Reply) -> Option<Route> {
    let (prefix, table, kind) = (*reply.body.get(1)?, *reply.body.get(4)?, *reply.body.get(7)?);
    if table != MAIN_TABLE || kind != UNICAST {
        return None;
    }
    let any: IpAddr = match reply.body.first()? {
        2 => [0; 4].into(),
        _ => [0; 16].into(),
    };
    let (mut destination, mut gateway, mut link, mut source) = (any, None, 0, None);
    for (kind, value) in attributes(reply.body.get(12..)?) {
        match kind {
            ROUTE_DESTINATION => destination = ip_of(value)?,
            ROUTE_GATEWAY => gateway = ip_of(value),
            ROUTE_SOURCE => source = ip_of(value),
            ROUTE_LINK => link = u32_of(value)?,
            _ => {}
        }
    }
    Some(Route { destination: Cidr::new(destination, prefix)?, gateway, link, source })
}

pub(crate) fn u32_of(value: &[u8]) -> Option<u32> {
    value.try_into().ok().map(u32::from_ne_bytes)
}

pub(crate) fn ip_of(value: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(value).map(IpAddr::from);
    v4.or_else(|_| <[u8; 16]>::try_from(value).map(IpAddr::from)).ok()
}
