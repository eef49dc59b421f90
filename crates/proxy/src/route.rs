//! Which endpoints a port's traffic goes to, by its traffic policies and by where endpoints are.

use std::net::{IpAddr, SocketAddr};

use corten_api::Str;

use crate::endpoints::Endpoint;
use crate::service::ServicePort;

/// What is known of the node that the proxy runs on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Node {
    pub name: Str,
    pub zone: Str,
    /// One of each family at most.
    pub addresses: Vec<IpAddr>,
}

impl Node {
    pub fn address(&self, ipv4: bool) -> Option<IpAddr> {
        self.addresses.iter().copied().find(|address| address.is_ipv4() == ipv4)
    }
}

/// Where packets are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Target {
    pub address: SocketAddr,
    pub local: bool,
}

/// A port and everything about its endpoints that rules follow from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Routed {
    pub port: ServicePort,
    /// Where traffic goes that may leave the node.
    pub cluster: Vec<Target>,
    /// Where traffic goes that must stay on the node.
    pub local: Vec<Target>,
    /// Both, in order.
    pub reachable: Vec<Target>,
    /// Whether there is anybody on any node.
    pub has_endpoints: bool,
    /// Whoever serves, ending or not: what is connected to them may stay so.
    pub serving: Vec<SocketAddr>,
}

impl Routed {
    /// Whether the cluster IP leads anywhere.
    pub fn has_internal_endpoints(&self) -> bool {
        self.has_endpoints && (!self.port.internal_local || !self.local.is_empty())
    }

    /// Whether the other addresses lead anywhere from outside.
    pub fn has_external_endpoints(&self) -> bool {
        self.has_endpoints && (!self.port.external_local || !self.local.is_empty())
    }
}

/// Decides for one port.
pub fn route(port: ServicePort, endpoints: &[Endpoint], node: &Node) -> Routed {
    let preference =
        if port.uses_cluster_endpoints() { preference(endpoints, node) } else { Preference::None };
    let cluster = if port.uses_cluster_endpoints() { cluster(endpoints, &preference) } else { Vec::new() };
    let local = if port.uses_local_endpoints() { local(endpoints) } else { Vec::new() };
    let anywhere = |endpoint: &Endpoint| endpoint.ready || endpoint.serving && endpoint.terminating;
    let has_endpoints = !cluster.is_empty() || port.uses_local_endpoints() && endpoints.iter().any(anywhere);
    let mut reachable = [cluster.as_slice(), local.as_slice()].concat();
    reachable.sort_unstable();
    reachable.dedup();
    let serving = endpoints.iter().filter(|endpoint| endpoint.serving);
    let serving = serving.map(|endpoint| endpoint.address).collect();
    Routed { port, cluster, local, reachable, has_endpoints, serving }
}

/// Which hints count.
enum Preference<'a> {
    None,
    SameNode(&'a str),
    SameZone(&'a str),
}

/// Hints count only if every ready endpoint has them and some are meant for here: as long as not all are known,
/// the rest would be overrun.
fn preference<'a>(endpoints: &[Endpoint], node: &'a Node) -> Preference<'a> {
    let ready = || endpoints.iter().filter(|endpoint| endpoint.ready);
    let counts = |hints: fn(&Endpoint) -> &[Str], here: &str| {
        ready().next().is_some()
            && ready().all(|endpoint| !hints(endpoint).is_empty())
            && ready().any(|endpoint| hints(endpoint).iter().any(|hint| hint == here))
    };
    if counts(|endpoint| &endpoint.nodes, &node.name) {
        Preference::SameNode(&node.name)
    } else if counts(|endpoint| &endpoint.zones, &node.zone) {
        Preference::SameZone(&node.zone)
    } else {
        Preference::None
    }
}

/// Those that are ready, as preferred; if none are anywhere, those that still serve while they end.
fn cluster(endpoints: &[Endpoint], preference: &Preference<'_>) -> Vec<Target> {
    let is_preferred = |endpoint: &Endpoint| match preference {
        Preference::None => true,
        Preference::SameNode(node) => endpoint.nodes.iter().any(|hint| hint == node),
        Preference::SameZone(zone) => endpoint.zones.iter().any(|hint| hint == zone),
    };
    let ready = targets(endpoints, |endpoint| endpoint.ready && is_preferred(endpoint));
    if ready.is_empty() { targets(endpoints, ends_serving) } else { ready }
}

/// The same of this node.
fn local(endpoints: &[Endpoint]) -> Vec<Target> {
    let ready = targets(endpoints, |endpoint| endpoint.local && endpoint.ready);
    if ready.is_empty() {
        targets(endpoints, |endpoint| endpoint.local && ends_serving(endpoint))
    } else {
        ready
    }
}

fn ends_serving(endpoint: &Endpoint) -> bool {
    endpoint.serving && endpoint.terminating
}

fn targets(endpoints: &[Endpoint], is_one: impl Fn(&Endpoint) -> bool) -> Vec<Target> {
    let chosen = endpoints.iter().filter(|endpoint| is_one(endpoint));
    chosen.map(|endpoint| Target { address: endpoint.address, local: endpoint.local }).collect()
}

#[cfg(test)]
mod tests;
