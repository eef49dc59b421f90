//! The inputs of rules besides Services and endpoints.

use std::net::IpAddr;

use corten_net::Cidr;

/// The settings of one IP family, which hold for all Services.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Base {
    pub ipv4: bool,
    /// The bit of a packet's mark that requests masquerading.
    pub masquerade_mark: u32,
    pub masquerade_all: bool,
    pub local_pods: LocalPods,
    /// The Service CIDRs.
    pub service_cidrs: Vec<Cidr>,
    /// The addresses where node ports are open; `None` is every address of the node.
    pub node_port_addresses: Option<Vec<IpAddr>>,
    /// True if node ports are open at loopback addresses, where the backend supports that.
    pub localhost_node_ports: bool,
    /// This node's own address.
    pub node: Option<IpAddr>,
}

/// The detection of packets of this node's pods.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LocalPods {
    /// Not detected.
    Unknown,
    /// By source address.
    Within(Cidr),
    /// By the interface they come in through.
    Bridge(String),
    /// By the prefix of that interface's name.
    Prefix(String),
}
