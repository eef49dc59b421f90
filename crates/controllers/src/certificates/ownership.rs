//! The names and addresses that a node may be certified for without an administrator. Pure.
//!
//! A node writes its own Node object, so its addresses there prove nothing. Two things do: the name in the client
//! certificate it was given when it joined, and the address that its request came from, which the API server saw and
//! wrote into the request (`spec.extra`, which no client can set). An address counts only if the connection came from
//! it, so the node holds it; and only if no other node claims it, because packets of a node's pods leave under the
//! node's address. Further addresses, such as the second one of a dual-stack node, count if an administrator vouches for each
//! with the label that [`vouching_label`] returns: NodeRestriction keeps nodes from setting labels of that prefix. Names and
//! addresses of the API server, of services, of pods or of the loopback interface are never a node's.

use std::net::IpAddr;

use corten_api::{Value, meta};
use corten_auth::authentication::REMOTE_ADDRESS;

use crate::nodeipam::cidr::Cidr;

/// Names and addresses that no node is certified for.
#[derive(Debug, Clone, Default)]
pub struct Reserved {
    /// The API server's DNS names.
    pub names: Vec<String>,
    /// The API server's addresses.
    pub addresses: Vec<IpAddr>,
    /// The domain of services and pods, such as `cluster.local`.
    pub cluster_domain: String,
}

/// The claims of the cluster's objects on addresses.
#[derive(Debug, Clone, Default)]
pub(crate) struct Claims {
    /// Addresses and names that other nodes claim.
    pub(crate) others: Vec<String>,
    /// The networks of services and of pods.
    pub(crate) networks: Vec<String>,
    /// The addresses of all API servers.
    pub(crate) servers: Vec<IpAddr>,
}

/// True if a node may be certified for this DNS name: it is its own name, and not reserved.
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

/// The label by which an administrator vouches that an address is a node's: `node-restriction.kubernetes.io/address-` and the
/// address, IPv6 as eight groups of four digits with dashes between them, because a label has no colons.
pub(crate) fn vouching_label(address: IpAddr) -> String {
    let text = match address.to_canonical() {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => address.segments().map(|group| format!("{group:04x}")).join("-"),
    };
    format!("node-restriction.kubernetes.io/address-{text}")
}

/// True if a Node object has the label that vouches for an address.
pub fn is_vouched_for(node: &Value, address: IpAddr) -> bool {
    meta::labels(node).is_some_and(|labels| labels.contains_key(vouching_label(address).as_str()))
}

/// True if an address may be certified: the request came from it or an administrator vouches for it, the Node object has
/// it, and it belongs to nothing else.
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
        // A network that cannot be parsed may contain the address.
        _ => true,
    };
    (remote == Some(asked) || is_vouched_for(node, asked))
        && declared
        && is_of_one_machine(asked)
        && !reserved.addresses.iter().chain(&claims.servers).any(|address| address.to_canonical() == asked)
        && !claims.networks.iter().any(within)
        && !claims.others.iter().filter_map(|other| parse(other)).any(|other| other == asked)
}

/// The addresses and names in a Node object.
pub(crate) fn addresses(node: &Value) -> impl Iterator<Item = &str> {
    node.items_at(&["status", "addresses"]).iter().filter_map(|address| address.str_at(&["address"]))
}

/// The addresses in an Endpoints object.
pub(crate) fn endpoint_addresses(endpoints: &Value) -> Vec<IpAddr> {
    let subsets = endpoints.items_at(&["subsets"]).iter();
    let addresses = subsets.flat_map(|subset| subset.items_at(&["addresses"]));
    addresses.filter_map(|address| parse(address.str_at(&["ip"])?)).collect()
}

fn parse(text: &str) -> Option<IpAddr> {
    text.parse::<IpAddr>().ok().map(|address| address.to_canonical())
}

fn host(address: IpAddr) -> String {
    format!("{address}/{}", if address.is_ipv4() { 32 } else { 128 })
}

/// True if an address identifies one machine: no loopback, link-local, unspecified or multicast address.
fn is_of_one_machine(address: IpAddr) -> bool {
    let is_link_local = match address {
        IpAddr::V4(address) => address.is_link_local() || address.is_broadcast(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    };
    // `asked` comes from a certificate request, which can hold a mapped address; it is compared as it is.
    address == address.to_canonical()
        && !(is_link_local || address.is_loopback() || address.is_unspecified() || address.is_multicast())
}
