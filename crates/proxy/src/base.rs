//! What rules follow from, besides Services and their endpoints.

use std::net::IpAddr;

use corten_net::Cidr;

/// The same for all Services, for one IP family.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Base {
    pub ipv4: bool,
    /// The bit of a packet's mark that asks for masquerading.
    pub masquerade_mark: u32,
    pub masquerade_all: bool,
    pub local_pods: LocalPods,
    /// Where the addresses of Services come from.
    pub service_cidrs: Vec<Cidr>,
    /// Where node ports are open; `None` is at every address of the node.
    pub node_port_addresses: Option<Vec<IpAddr>>,
    /// Whether node ports are open at loopback addresses, where the back end can do that.
    pub localhost_node_ports: bool,
    /// This node's own address.
    pub node: Option<IpAddr>,
}

/// How packets of this node's pods are known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LocalPods {
    /// They are not.
    Unknown,
    /// By where they come from.
    Within(Cidr),
    /// By the link they come through.
    Bridge(String),
    /// By the beginning of the name of the link they come through.
    Prefix(String),
}
