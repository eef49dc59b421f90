//! Tests on real packets: network namespaces with servers and clients in them, and a node with a pod network. Needs root.
//!
//! A namespace ends with its last descriptor, so nothing is left of a test that fails. Every wait has a deadline; the
//! helpers panic instead of returning errors, because their callers are tests.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

mod netns;
mod world;

use std::net::SocketAddr;
use std::time::Duration;

pub use netns::{Netns, exchange_udp};
pub use world::{BRIDGE, NODE, NODE6, OUTSIDE, OUTSIDE6, World, open_network};

/// The longest wait for a packet that is expected.
pub const DEADLINE: Duration = Duration::from_secs(10);
/// The wait after which a packet counts as dropped.
pub const QUIET: Duration = Duration::from_millis(400);

/// The socket address of an IP address and a port.
pub fn at(ip: &(impl ToString + ?Sized), port: u16) -> SocketAddr {
    SocketAddr::new(ip.to_string().parse().unwrap(), port)
}
