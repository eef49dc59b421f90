//! The API objects as far as the proxy needs them, and the Services that changed since the last sync.
//!
//! A change that does not affect packets, such as an annotation's, is no change here.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use corten_api::{Str, Value, meta};
use corten_client::{Change, Key};
use corten_net::Cidr;
use jiff::Timestamp;

use crate::endpoints::{Slice, merge, service_of};
use crate::limits::Limits;
use crate::node::NodeState;
use crate::reserved::{Reserved, is_api_service};
use crate::route::{Node, Routed, route};
use crate::service::Service;

const TRIGGERED: &str = "endpoints.kubernetes.io/last-change-trigger-time";

#[derive(Debug, Default)]
pub struct Inputs {
    services: HashMap<Key, Service>,
    /// By Service and name.
    slices: HashMap<Key, BTreeMap<Str, Slice>>,
    service_cidrs: BTreeMap<Str, Vec<Cidr>>,
    pub node: NodeState,
    reserved: Reserved,
    changed: BTreeSet<Key>,
    /// The limits by IP family, IPv4 first.
    limits: [Limits; 2],
    /// True if a change affects all Services.
    changed_all: bool,
    /// The trigger times of the changes since the last sync.
    triggers: Vec<Timestamp>,
    /// The number of changes since the start.
    pub service_changes: u64,
    pub endpoint_changes: u64,
}

/// The changes since the last sync.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Changed {
    pub services: BTreeSet<Key>,
    pub triggers: Vec<Timestamp>,
}

impl Inputs {
    /// Applies a change of a Service. Returns true if it affects rules.
    pub fn service(&mut self, change: &Change) -> bool {
        let key = &change.object().key;
        let new = change.new.as_ref().and_then(|object| Service::of(&object.tree()));
        if self.services.get(key) == new.as_ref() {
            return false;
        }
        match new {
            Some(service) => drop(self.services.insert(key.clone(), service)),
            None => drop(self.services.remove(key)),
        }
        self.service_changes += 1;
        self.changed.insert(key.clone());
        true
    }

    /// Applies a change of an EndpointSlice. Returns true if it affects rules.
    pub fn slice(&mut self, change: &Change) -> bool {
        let name = &change.object().key.name;
        let tree = change.new.as_ref().map(|object| object.tree());
        let owner = |tree: &Value| service_of(tree).map(|service| Key::new(meta::namespace(tree), service));
        let new = tree.as_ref().and_then(|tree| Some((owner(tree)?, Slice::of(tree)?)));
        let old = change.old.as_ref().and_then(|object| owner(&object.tree()));
        let moved = old.filter(|old| new.as_ref().is_none_or(|(owner, _)| owner != old));
        let mut means_something = moved.is_some_and(|old| self.put_slice(old, name, None));
        if let Some((service, slice)) = new {
            means_something |= self.put_slice(service, name, Some(slice));
        }
        if means_something {
            self.endpoint_changes += 1;
            self.triggers.extend(tree.as_ref().and_then(triggered));
        }
        means_something
    }

    /// Applies a change of a ServiceCIDR. Returns true if it affects rules.
    pub fn service_cidr(&mut self, change: &Change) -> bool {
        let name = &change.object().key.name;
        let cidrs = change.new.as_ref().map(|object| {
            let tree = object.tree();
            let cidrs = tree.items_at(&["spec", "cidrs"]).iter();
            cidrs.filter_map(|cidr| cidr.as_str()?.parse().ok()).collect::<Vec<Cidr>>()
        });
        if self.service_cidrs.get(name) == cidrs.as_ref() {
            return false;
        }
        match cidrs {
            Some(cidrs) => drop(self.service_cidrs.insert(name.clone(), cidrs)),
            None => drop(self.service_cidrs.remove(name)),
        }
        self.mark_external();
        true
    }

    /// Applies a change of any node's addresses. Returns true if it affects rules.
    pub fn any_node(&mut self, change: &Change) -> bool {
        let tree = change.new.as_ref().map(|object| object.tree());
        let means_something = self.reserved.node(&change.object().key.name, tree.as_ref());
        means_something && self.mark_external()
    }

    /// Marks Services with external addresses as changed, because the reserved addresses changed. Returns true if there are any.
    fn mark_external(&mut self) -> bool {
        let external = self.services.iter().filter(|(_, service)| service.has_outside_addresses());
        let external: Vec<Key> = external.map(|(key, _)| key.clone()).collect();
        let are_any = !external.is_empty();
        self.changed.extend(external);
        are_any
    }

    /// Applies a change of this node. Returns true if it affects rules.
    pub fn node(&mut self, change: &Change) -> bool {
        let new = change.new.as_ref().map(|object| NodeState::of(&object.tree())).unwrap_or_default();
        if self.node == new {
            return false;
        }
        self.changed_all |= self.node.facts != new.facts;
        self.node = new;
        true
    }

    fn put_slice(&mut self, service: Key, name: &Str, slice: Option<Slice>) -> bool {
        let slices = self.slices.entry(service.clone()).or_default();
        let is_same = slices.get(name) == slice.as_ref();
        match slice {
            Some(slice) => drop(slices.insert(name.clone(), slice)),
            None => drop(slices.remove(name)),
        }
        if slices.is_empty() {
            self.slices.remove(&service);
        }
        if !is_same {
            if is_api_service(&service.namespace, &service.name) {
                let slices = self.slices.get(&service).into_iter().flat_map(BTreeMap::values);
                let api_servers = slices.flat_map(Slice::addresses).collect();
                if self.reserved.api_servers(api_servers) {
                    self.mark_external();
                }
            }
            self.changed.insert(service);
        }
        !is_same
    }

    /// The Service CIDRs of a family.
    pub fn service_cidrs(&self, ipv4: bool) -> Vec<Cidr> {
        self.service_cidrs.values().flatten().copied().filter(|cidr| cidr.is_ipv4() == ipv4).collect()
    }

    /// Returns and clears the changes since the last call.
    pub fn take_changed(&mut self) -> Changed {
        let mut services = std::mem::take(&mut self.changed);
        if std::mem::take(&mut self.changed_all) {
            services.extend(self.services.keys().cloned());
        }
        Changed { services, triggers: std::mem::take(&mut self.triggers) }
    }

    /// The number of changed Services.
    pub fn pending(&self) -> usize {
        self.changed.len()
    }

    /// The ports of a Service with their endpoints; empty if it has no address of this family.
    pub fn routed(&mut self, key: &Key, ipv4: bool, node: &Node) -> Vec<Routed> {
        let limits = &mut self.limits[usize::from(!ipv4)];
        let Some(service) = self.services.get(key) else {
            limits.allow(key, 0);
            return Vec::new();
        };
        let slices = self.slices.get(key).into_iter().flat_map(BTreeMap::values);
        let slices: Vec<&Slice> = slices.filter(|slice| slice.is_ipv4() == ipv4).collect();
        if service.ports(key, ipv4).next().is_none() {
            limits.allow(key, 0);
            return Vec::new();
        }
        let names = service.port_names();
        let pairs = slices.iter().fold(0_usize, |sum, slice| sum.saturating_add(slice.pairs(&names)));
        let mut endpoints = merge(&slices, &names, limits.allow(key, pairs), &node.name);
        let service_cidrs = self.service_cidrs(ipv4);
        let ports = service.ports(key, ipv4).map(|mut port| {
            for addresses in [&mut port.external_ips, &mut port.load_balancer_ips] {
                addresses.retain(|address| !self.reserved.has(*address, &service_cidrs));
            }
            let found = endpoints.remove(&(port.name.port.clone(), port.name.protocol));
            route(port, &found.unwrap_or_default(), node)
        });
        ports.collect()
    }

    /// The health check node port of a Service, and its ready endpoints on this node.
    pub fn health(&self, key: &Key, ipv4: bool, node: &Node) -> Option<(u16, usize)> {
        let port = self.services.get(key)?.health_check_port()?;
        let slices = self.slices.get(key).into_iter().flat_map(BTreeMap::values);
        let slices = slices.filter(|slice| slice.is_ipv4() == ipv4);
        let ready: HashSet<_> = slices.flat_map(|slice| slice.ready_on(&node.name)).collect();
        Some((port, ready.len()))
    }
}

/// The trigger time of a slice's last change.
fn triggered(slice: &Value) -> Option<Timestamp> {
    slice.str_at(&["metadata", "annotations", TRIGGERED])?.parse().ok()
}

#[cfg(test)]
mod tests;
