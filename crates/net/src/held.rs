//! Addresses that a node has beside those of its networks: those of services that it answers for itself.
//!
//! They are on a link of their own that leads nowhere: a bridge without ports, since pods need bridges anyway and nothing
//! else has to be known to the kernel. They stay when the process ends, so that its successor finds them.

use std::io;
use std::net::IpAddr;

use crate::error::During;
use crate::namespace::Namespace;
use crate::route::{Change, Routing};
use crate::{Cidr, Result, addresses, host};

const MTU: u32 = 65535;

/// Gives the node these addresses on a link of this name, and no others there.
pub fn hold(namespace: &Namespace, link: &str, held: &[IpAddr]) -> Result<()> {
    let doing = || format!("holding addresses on {link}");
    let Some(first) = held.first() else { return Ok(()) };
    let ipv6 = held.iter().any(IpAddr::is_ipv6);
    let mut routing = Routing::open(namespace).during("opening a socket for routes")?;
    let index = make(&mut routing, link, addresses::hardware(*first)).during(doing())?;
    namespace.run(|| host::listen_to_nobody(link, ipv6)).during(doing())?;
    let wanted: Vec<Cidr> = held.iter().copied().map(Cidr::single).collect();
    routing.set_addresses(index, &wanted).during(doing())
}

/// Takes the link away with all that it holds.
pub fn let_go(namespace: &Namespace, link: &str) -> Result<()> {
    let doing = || format!("giving back the addresses on {link}");
    let mut routing = Routing::open(namespace).during("opening a socket for routes")?;
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
