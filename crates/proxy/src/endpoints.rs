//! What of EndpointSlices concerns the proxy: who answers at which port, put together from all slices of a Service.

use std::collections::BTreeMap;
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

/// An endpoint as a slice lists it: at each of the slice's ports.
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

/// Somebody who answers at one port of a Service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    pub address: SocketAddr,
    /// Runs on this node.
    pub local: bool,
    /// Serves, and is not about to end; or its Service asks for endpoints that are not ready, too.
    pub ready: bool,
    /// Serves, whether or not it is about to end.
    pub serving: bool,
    pub terminating: bool,
    /// Whose traffic it is meant for; anybody's if empty.
    pub zones: Vec<Str>,
    pub nodes: Vec<Str>,
}

/// The Service that a slice is of.
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

    /// `None` for names, which nobody can send packets to.
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
        // Further addresses are the same endpoint's and add nothing.
        address: endpoint.items_at(&["addresses"]).first()?.as_str()?.parse().ok()?,
        node: endpoint.str_at(&["nodeName"]).unwrap_or_default().into(),
        ready: condition("ready").unwrap_or(true),
        serving: condition("serving").unwrap_or(true),
        terminating: condition("terminating").unwrap_or(false),
        zones: hints("forZones"),
        nodes: hints("forNodes"),
    })
}

/// Who answers at a Service's ports, by name and protocol, in order of address.
pub fn merge<'a>(
    slices: impl Iterator<Item = &'a Slice>,
    ipv4: bool,
    node: &str,
) -> BTreeMap<(Str, Protocol), Vec<Endpoint>> {
    let mut merged: BTreeMap<(Str, Protocol), BTreeMap<SocketAddr, Endpoint>> = BTreeMap::new();
    for slice in slices.filter(|slice| slice.ipv4 == ipv4) {
        for (name, protocol, port) in &slice.ports {
            let found = merged.entry((name.clone(), *protocol)).or_default();
            for listed in &slice.endpoints {
                let address = SocketAddr::new(listed.address, *port);
                // An address may pass from a pod that ends to a new one before the first is gone: the new one counts.
                if !listed.terminating || !found.contains_key(&address) {
                    found.insert(address, listed.at(address, node));
                }
            }
        }
    }
    let merged = merged.into_iter().filter(|(_, found)| !found.is_empty());
    merged.map(|(port, found)| (port, found.into_values().collect())).collect()
}

impl Listed {
    fn at(&self, address: SocketAddr, node: &str) -> Endpoint {
        Endpoint {
            address,
            local: !node.is_empty() && self.node == node,
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
