//! The node, the pods and the outside of these tests.

use corten_net::{HostPort, Protocol};

pub(crate) use corten_testkit_packets::{
    DEADLINE, NODE, NODE6, Netns, OUTSIDE, OUTSIDE6, QUIET, World, at, open_network,
};

pub(crate) fn port(protocol: Protocol, host_ip: Option<&str>, host_port: u16, pod_port: u16) -> HostPort {
    HostPort { protocol, host_ip: host_ip.map(|ip| ip.parse().unwrap()), host_port, pod_port }
}
