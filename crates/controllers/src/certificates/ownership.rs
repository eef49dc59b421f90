//! Which names and addresses a node may be certified as without an administrator. Pure.
//!
//! A node writes its own Node object, so what stands there proves nothing. Two things do: the name in the client
//! certificate it was given when it joined, and the address that its request came from, which the API server saw and wrote
//! into the request (`spec.extra`, which no client can set). An address counts only if the connection came from it, so the
//! node holds it; and only if no other node claims it, because packets of a node's pods leave under the node's address.
//! What belongs to the API server, to services, to pods or to the machine itself is never a node's.

use std::net::IpAddr;

use corten_api::Value;
use corten_auth::authentication::REMOTE_ADDRESS;

use crate::nodeipam::cidr::Cidr;

/// What no node is certified as, whatever it holds.
#[derive(Debug, Clone, Default)]
pub struct Reserved {
    /// The API server's DNS names.
    pub names: Vec<String>,
    /// The API server's addresses.
    pub addresses: Vec<IpAddr>,
    /// The domain of services and pods, such as `cluster.local`.
    pub cluster_domain: String,
}

/// What the cluster's objects say about addresses.
#[derive(Debug, Clone, Default)]
pub(crate) struct Claims {
    /// Addresses and names that other nodes say they have.
    pub(crate) others: Vec<String>,
    /// The networks of services and of pods.
    pub(crate) networks: Vec<String>,
}

/// Whether a node's own name may be certified as a DNS name.
pub(super) fn is_own_name(asked: &str, node: &str, reserved: &Reserved, claims: &Claims) -> bool {
    let is_under =
        |domain: &str| asked == domain || asked.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.'));
    asked == node
        && asked.parse::<IpAddr>().is_err()
        && !["localhost", "svc"].iter().any(|domain| is_under(domain))
        && !asked.contains(".svc.")
        && (reserved.cluster_domain.is_empty() || !is_under(&reserved.cluster_domain))
        && !reserved.names.iter().any(|name| name == asked)
        && !claims.others.iter().any(|other| other == asked)
}

/// Whether an address may be certified: the request came from it, the Node object has it, and it is no one else's.
pub(super) fn is_own_address(
    asked: IpAddr,
    csr: &Value,
    node: &Value,
    reserved: &Reserved,
    claims: &Claims,
) -> bool {
    let remote = csr.items_at(&["spec", "extra", REMOTE_ADDRESS]);
    let remote = remote.first().filter(|_| remote.len() == 1).and_then(|remote| parse(remote.as_str()?));
    let declared = addresses(node).filter_map(parse).any(|address| address == asked);
    let within = |network: &String| match (network.parse::<Cidr>(), host(asked).parse::<Cidr>()) {
        (Ok(network), Ok(asked)) => network.overlaps(&asked),
        // A network that cannot be read may hold the address.
        _ => true,
    };
    remote == Some(asked)
        && declared
        && is_of_one_machine(asked)
        && !reserved.addresses.iter().any(|address| address.to_canonical() == asked)
        && !claims.networks.iter().any(within)
        && !claims.others.iter().filter_map(|other| parse(other)).any(|other| other == asked)
}

/// What a Node object says its addresses and names are.
pub(crate) fn addresses(node: &Value) -> impl Iterator<Item = &str> {
    node.items_at(&["status", "addresses"]).iter().filter_map(|address| address.str_at(&["address"]))
}

fn parse(text: &str) -> Option<IpAddr> {
    text.parse::<IpAddr>().ok().map(|address| address.to_canonical())
}

fn host(address: IpAddr) -> String {
    format!("{address}/{}", if address.is_ipv4() { 32 } else { 128 })
}

/// Whether an address can tell one machine from another: none that every machine has, and none of many.
fn is_of_one_machine(address: IpAddr) -> bool {
    let is_link_local = match address {
        IpAddr::V4(address) => address.is_link_local() || address.is_broadcast(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    };
    // `asked` comes from a certificate request, where a mapped address can stand; it is compared as it is.
    address == address.to_canonical()
        && !(is_link_local || address.is_loopback() || address.is_unspecified() || address.is_multicast())
}
