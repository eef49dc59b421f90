//! EndpointSlices as far as the proxy needs them: merges the slices of a Service into endpoints by port.

use std::collections::{BTreeMap, HashSet};
use std::net::{IpAddr, SocketAddr};

use corten_api::{Str, Value, meta};
use corten_net::Protocol;

use crate::service::{number, protocol};

const SERVICE: &str = "kubernetes.io/service-name";
const OTHER_PROXY: &str = "service.kubernetes.io/service-proxy-name";
const HEADLESS: &str = "service.kubernetes.io/headless";

/// One EndpointSlice.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Slice {
    ipv4: bool,
    ports: Vec<(Str, Protocol, u16)>,
    endpoints: Vec<Listed>,
}

/// An endpoint of a slice, which serves at each of the slice's ports.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Listed {
    address: IpAddr,
    node: Str,
    ready: bool,
    serving: bool,
    terminating: bool,
    zones: Vec<Str>,
    nodes: Vec<Str>,
}

/// An endpoint of one port of a Service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    pub address: SocketAddr,
    /// True if the endpoint is on this node.
    pub local: bool,
    /// True if the endpoint is serving and not terminating, or its Service publishes endpoints that are not ready.
    pub ready: bool,
    /// True if the endpoint is serving, terminating or not.
    pub serving: bool,
    pub terminating: bool,
    /// The zones whose traffic the endpoint is hinted for; all if empty.
    pub zones: Vec<Str>,
    pub nodes: Vec<Str>,
}

/// The name of a slice's Service.
pub fn service_of(tree: &Value) -> Option<Str> {
    let labels = meta::labels(tree)?;
    if labels.contains_key(OTHER_PROXY) || labels.contains_key(HEADLESS) {
        return None;
    }
    labels.get(SERVICE)?.as_str().filter(|name| !name.is_empty()).map(Str::new)
}

impl Slice {
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.endpoints.iter().map(|endpoint| endpoint.address)
    }

    pub fn is_ipv4(&self) -> bool {
        self.ipv4
    }

    /// The number of pairs of an endpoint and a port of the Service.
    pub fn pairs(&self, ports: &PortNames) -> usize {
        let wanted =
            self.ports.iter().filter(|(name, protocol, _)| ports.contains(&(name.clone(), *protocol)));
        wanted.count().saturating_mul(self.endpoints.len())
    }

    /// The addresses of the endpoints that are ready on a node.
    pub fn ready_on(&self, node: &str) -> impl Iterator<Item = IpAddr> {
        let ready = |listed: &&Listed| !self.ports.is_empty() && listed.ready && listed.is_on(node);
        self.endpoints.iter().filter(ready).map(|listed| listed.address)
    }

    /// Parses a slice; `None` for the address type FQDN, which cannot be proxied.
    pub fn of(tree: &Value) -> Option<Slice> {
        let ipv4 = match tree.str_at(&["addressType"])? {
            "IPv4" => true,
            "IPv6" => false,
            _ => return None,
        };
        let ports = tree.items_at(&["ports"]).iter().filter_map(|port| {
            let name = port.str_at(&["name"]).unwrap_or_default();
            Some((name.into(), protocol(port)?, number(port.at(&["port"]))?))
        });
        let endpoints = tree.items_at(&["endpoints"]).iter().filter_map(listed);
        Some(Slice {
            ipv4,
            ports: ports.collect(),
            endpoints: endpoints.filter(|endpoint| endpoint.address.is_ipv4() == ipv4).collect(),
        })
    }
}

fn listed(endpoint: &Value) -> Option<Listed> {
    let condition = |name: &str| endpoint.bool_at(&["conditions", name]);
    let hints = |key: &str| -> Vec<Str> {
        let items = endpoint.items_at(&["hints", key]).iter();
        items.filter_map(|hint| hint.str_at(&["name"]).map(Str::new)).collect()
    };
    Some(Listed {
        // Further addresses are of the same endpoint, and fungible with the first.
        address: endpoint.items_at(&["addresses"]).first()?.as_str()?.parse().ok()?,
        node: endpoint.str_at(&["nodeName"]).unwrap_or_default().into(),
        ready: condition("ready").unwrap_or(true),
        serving: condition("serving").unwrap_or(true),
        terminating: condition("terminating").unwrap_or(false),
        zones: hints("forZones"),
        nodes: hints("forNodes"),
    })
}

/// The ports of a Service, by name and protocol.
pub type PortNames = HashSet<(Str, Protocol)>;

/// The endpoints of a Service's ports, by name and protocol, in order of address.
pub type Merged = BTreeMap<(Str, Protocol), Vec<Endpoint>>;

/// Merges the endpoints of a Service's ports from its slices of one family: at most `most`, evenly divided among the ports.
/// If there are more, endpoints that are ready on this node come first, then other ready ones. The cost is that of the slices
/// and of the result.
pub fn merge(slices: &[&Slice], ports: &PortNames, most: usize, node: &str) -> Merged {
    let pairs = slices.iter().fold(0_usize, |sum, slice| sum.saturating_add(slice.pairs(ports)));
    let ranks: &[fn(&Listed, &str) -> bool] = if pairs <= most {
        &[|_, _| true]
    } else {
        &[
            |listed, node| listed.ready && listed.is_on(node),
            |listed, node| listed.ready && !listed.is_on(node),
            |listed, _| !listed.ready,
        ]
    };
    let of_each = most.checked_div(ports.len()).unwrap_or(most).max(1);
    let of_each = if pairs <= most { usize::MAX } else { of_each };
    let (mut merged, mut left) = (BTreeMap::<_, BTreeMap<SocketAddr, Endpoint>>::new(), most);
    for is_of_rank in ranks {
        for slice in slices {
            let chosen: Vec<&Listed> = slice.endpoints.iter().filter(|l| is_of_rank(l, node)).collect();
            if chosen.is_empty() {
                continue;
            }
            for (name, protocol, port) in &slice.ports {
                let name = (name.clone(), *protocol);
                if !ports.contains(&name) {
                    continue;
                }
                let found = merged.entry(name).or_default();
                for listed in &chosen {
                    let address = SocketAddr::new(listed.address, *port);
                    let is_new = !found.contains_key(&address);
                    if is_new && (left == 0 || found.len() >= of_each) {
                        break;
                    }
                    // An address may be reused by a new pod while the terminating one is still listed: the new
                    // one wins.
                    if is_new || !listed.terminating {
                        found.insert(address, listed.at(address, node));
                        left -= usize::from(is_new);
                    }
                }
            }
        }
    }
    let merged = merged.into_iter().filter(|(_, found)| !found.is_empty());
    merged.map(|(port, found)| (port, found.into_values().collect())).collect()
}

impl Listed {
    fn is_on(&self, node: &str) -> bool {
        !node.is_empty() && self.node == node
    }

    fn at(&self, address: SocketAddr, node: &str) -> Endpoint {
        Endpoint {
            address,
            local: self.is_on(node),
            ready: self.ready,
            serving: self.serving,
            terminating: self.terminating,
            zones: self.zones.clone(),
            nodes: self.nodes.clone(),
        }
    }
}

#[cfg(test)]
mod tests;
