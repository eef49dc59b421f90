//! Netlink messages of the kernel: links, addresses, routes, tracked connections, and nftables' chains and sets.

use corten_net::netlink::fuzz;

pub(crate) fn check(data: &[u8]) {
    fuzz::routing(data);
    fuzz::nftables(data);
}
