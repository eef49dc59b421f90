//! Addresses of Services that the node serves itself, such as DNS.
//!
//! They are on a link of their own: a bridge without ports, because pods need the bridge module anyway. They stay when the
//! process ends, so that the next process finds them.

use std::io;
use std::net::IpAddr;

use crate::error::During;
use crate::namespace::Namespace;
use crate::route::{Change, Routing};
use crate::{Cidr, Result, addresses, host};

const MTU: u32 = 65535;

/// Sets the addresses of a link, and creates it if it is missing.
pub fn assign_service_addresses(namespace: &Namespace, link: &str, held: &[IpAddr]) -> Result<()> {
    let doing = || format!("cannot assign addresses to {link}");
    let Some(first) = held.first() else { return Ok(()) };
    let ipv6 = held.iter().any(IpAddr::is_ipv6);
    let mut routing = Routing::open(namespace).during("cannot open a netlink socket for routes")?;
    let index = make(&mut routing, link, addresses::hardware(*first)).during(doing())?;
    namespace.run(|| host::ignore_routers(link, ipv6)).during(doing())?;
    let wanted: Vec<Cidr> = held.iter().copied().map(Cidr::single).collect();
    routing.set_addresses(index, &wanted).during(doing())
}

/// Removes a link with its addresses.
pub fn remove_service_addresses(namespace: &Namespace, link: &str) -> Result<()> {
    let doing = || format!("cannot remove interface {link}");
    let mut routing = Routing::open(namespace).during("cannot open a netlink socket for routes")?;
    match routing.link(link).during(doing())? {
        Some(link) => routing.delete_link(link.index).during(doing()),
        None => Ok(()),
    }
}

fn make(routing: &mut Routing, link: &str, hardware: crate::route::Hardware) -> io::Result<u32> {
    routing.add_bridge(link, MTU, hardware)?;
    let missing = || io::Error::new(io::ErrorKind::NotFound, format!("{link} is gone"));
    let found = routing.link(link)?.ok_or_else(missing)?;
    if !found.up {
        routing.change_link(found.index, Change { up: true, ..Change::default() })?;
    }
    Ok(found.index)
}
