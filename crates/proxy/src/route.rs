//! Selects the endpoints of a port, by its traffic policies, hints and the location of endpoints.

use std::net::{IpAddr, SocketAddr};

use corten_api::Str;

use crate::endpoints::Endpoint;
use crate::service::ServicePort;

/// The facts of the node that the proxy runs on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Node {
    pub name: Str,
    pub zone: Str,
    /// At most one of each family.
    pub addresses: Vec<IpAddr>,
}

impl Node {
    pub fn address(&self, ipv4: bool) -> Option<IpAddr> {
        self.addresses.iter().copied().find(|address| address.is_ipv4() == ipv4)
    }
}

/// An endpoint that packets are sent to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Target {
    pub address: SocketAddr,
    pub local: bool,
}

/// A port of a Service with its selected endpoints.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Routed {
    pub port: ServicePort,
    /// The endpoints of traffic that may leave the node.
    pub cluster: Vec<Target>,
    /// The endpoints of traffic that must stay on the node.
    pub local: Vec<Target>,
    /// The union of both, in order.
    pub reachable: Vec<Target>,
    /// True if there is an endpoint on any node.
    pub has_endpoints: bool,
    /// All serving endpoints, terminating or not: their connections stay.
    pub serving: Vec<SocketAddr>,
}

impl Routed {
    /// True if traffic to the cluster IP has endpoints.
    pub fn has_internal_endpoints(&self) -> bool {
        self.has_endpoints && (!self.port.internal_local || !self.local.is_empty())
    }

    /// True if traffic from outside to the other addresses has endpoints.
    pub fn has_external_endpoints(&self) -> bool {
        self.has_endpoints && (!self.port.external_local || !self.local.is_empty())
    }
}

/// Selects the endpoints of one port.
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

/// The hints that apply.
enum Preference<'a> {
    None,
    SameNode(&'a str),
    SameZone(&'a str),
}

/// Hints apply only if every ready endpoint has them and some are for this node or zone: otherwise the hinted endpoints
/// would be overloaded.
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

/// The ready endpoints that the hints select; without any ready one, those that serve while they terminate.
fn cluster(endpoints: &[Endpoint], preference: &Preference<'_>) -> Vec<Target> {
    let is_preferred = |endpoint: &Endpoint| match preference {
        Preference::None => true,
        Preference::SameNode(node) => endpoint.nodes.iter().any(|hint| hint == node),
        Preference::SameZone(zone) => endpoint.zones.iter().any(|hint| hint == zone),
    };
    let ready = targets(endpoints, |endpoint| endpoint.ready && is_preferred(endpoint));
    if ready.is_empty() { targets(endpoints, ends_serving) } else { ready }
}

/// The same for endpoints of this node, without hints.
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
