//! Entry points of this crate's private decoders for the fuzz targets in `fuzz/`; nothing else calls them.

use super::Reply;
use super::socket::{Exchange, read_datagram};
use crate::nftables::listing;
use crate::{conntrack, route};

/// Datagrams from the kernel, read as the replies to three requests of which the second is acknowledged.
fn replies(datagram: &[u8]) -> Vec<Reply> {
    let mut replies = Vec::new();
    // An error ends the exchange; the replies before it have been read all the same.
    let _ = read_datagram(datagram, Exchange { first: 1, answered: 1, sent: 3 }, &mut replies);
    replies
}

/// Links, addresses, routes and tracked connections.
pub fn routing(datagram: &[u8]) {
    for reply in replies(datagram) {
        let _ = route::read_link(&reply);
        if let Some((_, address)) = route::read_address(&reply) {
            assert!(address.prefix() <= 128);
        }
        let _ = route::read_route(&reply);
        let _ = conntrack::read(reply.body.get(4..).unwrap_or_default());
    }
}

/// Chains, sets and elements of nftables.
pub fn nftables(datagram: &[u8]) {
    let replies = replies(datagram);
    let _ =
        (listing::chain_names(&replies, "t"), listing::set_names(&replies), listing::set_elements(&replies));
}
