//! The zone of the cluster: its namespaces, Services and endpoints, as far as DNS records need them.
//!
//! Changed one object at a time, so that the cost of a change does not depend on the size of the cluster.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;

use corten_api::{Str, Value, meta};

use crate::name::Name;

/// The label with the name of an EndpointSlice's Service.
const SERVICE_NAME: &str = "kubernetes.io/service-name";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Port {
    pub(crate) name: Str,
    pub(crate) protocol: Str,
    /// `None` if no port is declared.
    pub(crate) number: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    /// With cluster IPs.
    Addressed(Vec<IpAddr>),
    /// Resolves to its endpoints.
    Headless,
    /// The target of an ExternalName; `None` if it is not a valid name.
    External(Option<Name>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Service {
    pub(crate) kind: Kind,
    pub(crate) ports: Vec<Port>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Endpoint {
    pub(crate) address: IpAddr,
    /// The endpoint's label within its Service.
    pub(crate) host: Str,
}

/// An EndpointSlice: endpoints with common ports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Slice {
    service: Str,
    pub(crate) endpoints: Vec<Endpoint>,
    pub(crate) ports: Vec<Port>,
}

/// A Service and its EndpointSlices.
#[derive(Debug, Default)]
pub(crate) struct Entry {
    pub(crate) service: Option<Service>,
    pub(crate) slices: BTreeMap<Str, Slice>,
}

#[derive(Debug, Default)]
struct Namespace {
    exists: bool,
    entries: HashMap<Str, Entry>,
}

/// The owner of an address. Services sort before endpoints.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Holder {
    Service { namespace: Str, name: Str },
    Endpoint { namespace: Str, service: Str, host: Str, slice: Str },
}

#[derive(Debug, Default)]
pub(crate) struct Zone {
    namespaces: HashMap<Str, Namespace>,
    holders: HashMap<IpAddr, BTreeSet<Holder>>,
    /// The Service of each slice, by the slice's namespace and name.
    services_of_slices: HashMap<(Str, Str), Str>,
}

impl Zone {
    pub(crate) fn has_namespace(&self, namespace: &str) -> bool {
        self.namespaces.get(namespace).is_some_and(|namespace| namespace.exists)
    }

    pub(crate) fn entry(&self, namespace: &str, name: &str) -> Option<&Entry> {
        self.namespaces.get(namespace)?.entries.get(name)
    }

    /// The names of an address, below the domain: that of the Service, or those of all endpoints.
    pub(crate) fn at(&self, address: IpAddr) -> Vec<Vec<&str>> {
        let Some(holders) = self.holders.get(&address) else { return Vec::new() };
        if let Some(Holder::Service { namespace, name }) = holders.first() {
            return vec![vec![name, namespace, "svc"]];
        }
        let endpoints = holders.iter().filter_map(|holder| match holder {
            Holder::Endpoint { namespace, service, host, .. } => {
                Some(vec![host.as_str(), service, namespace, "svc"])
            }
            Holder::Service { .. } => None,
        });
        let mut names: Vec<_> = endpoints.collect();
        names.dedup();
        names
    }

    pub(crate) fn set_namespace(&mut self, name: &Str, exists: bool) {
        self.namespaces.entry(name.clone()).or_default().exists = exists;
        self.tidy(name, None);
    }

    pub(crate) fn set_service(&mut self, namespace: &Str, name: &Str, service: Option<Service>) {
        let holder = Holder::Service { namespace: namespace.clone(), name: name.clone() };
        let known = self.entry(namespace, name).and_then(|entry| entry.service.as_ref());
        for address in addresses(known).to_vec() {
            self.release(address, &holder);
        }
        for address in addresses(service.as_ref()) {
            self.holders.entry(*address).or_default().insert(holder.clone());
        }
        let entries = &mut self.namespaces.entry(namespace.clone()).or_default().entries;
        entries.entry(name.clone()).or_default().service = service;
        self.tidy(namespace, Some(name));
    }

    pub(crate) fn set_slice(&mut self, namespace: &Str, name: &Str, slice: Option<Slice>) {
        let key = (namespace.clone(), name.clone());
        if let Some(service) = self.services_of_slices.remove(&key) {
            self.remove_slice(namespace, &service, name);
        }
        let Some(slice) = slice else { return };
        let service = slice.service.clone();
        for endpoint in &slice.endpoints {
            let holder = holder(namespace, &slice, endpoint, name);
            self.holders.entry(endpoint.address).or_default().insert(holder);
        }
        self.services_of_slices.insert(key, service.clone());
        let entries = &mut self.namespaces.entry(namespace.clone()).or_default().entries;
        entries.entry(service).or_default().slices.insert(name.clone(), slice);
    }

    fn remove_slice(&mut self, namespace: &Str, service: &Str, name: &Str) {
        let entries = self.namespaces.get_mut(namespace).map(|namespace| &mut namespace.entries);
        let entry = entries.and_then(|entries| entries.get_mut(service));
        let Some(old) = entry.and_then(|entry| entry.slices.remove(name)) else { return };
        for endpoint in &old.endpoints {
            self.release(endpoint.address, &holder(namespace, &old, endpoint, name));
        }
        self.tidy(namespace, Some(service));
    }

    fn release(&mut self, address: IpAddr, holder: &Holder) {
        if let Some(holders) = self.holders.get_mut(&address) {
            holders.remove(holder);
            if holders.is_empty() {
                self.holders.remove(&address);
            }
        }
    }

    /// Removes empty entries.
    fn tidy(&mut self, namespace: &Str, name: Option<&Str>) {
        let Some(found) = self.namespaces.get_mut(namespace) else { return };
        if let Some(name) = name
            && found.entries.get(name).is_some_and(|entry| entry.service.is_none() && entry.slices.is_empty())
        {
            found.entries.remove(name);
        }
        if !found.exists && found.entries.is_empty() {
            self.namespaces.remove(namespace);
        }
    }
}

fn holder(namespace: &Str, slice: &Slice, endpoint: &Endpoint, name: &Str) -> Holder {
    Holder::Endpoint {
        namespace: namespace.clone(),
        service: slice.service.clone(),
        host: endpoint.host.clone(),
        slice: name.clone(),
    }
}

fn addresses(service: Option<&Service>) -> &[IpAddr] {
    match service.map(|service| &service.kind) {
        Some(Kind::Addressed(addresses)) => addresses,
        _ => &[],
    }
}

impl Service {
    pub(crate) fn of(tree: &Value) -> Service {
        let ports = tree.items_at(&["spec", "ports"]).iter().map(Port::of).collect();
        Service { kind: Kind::of(tree), ports: Port::at_least_one(ports) }
    }
}

impl Kind {
    fn of(tree: &Value) -> Kind {
        if tree.str_at(&["spec", "type"]) == Some("ExternalName") {
            let name = tree.str_at(&["spec", "externalName"]).unwrap_or_default();
            let is_address = name.parse::<IpAddr>().is_ok();
            return Kind::External(Name::parse(name).filter(|_| !is_address && !name.is_empty()));
        }
        let mut addresses: Vec<&str> =
            tree.items_at(&["spec", "clusterIPs"]).iter().filter_map(Value::as_str).collect();
        if addresses.is_empty() {
            addresses.extend(tree.str_at(&["spec", "clusterIP"]));
        }
        match addresses.first() {
            Some(&"None") => Kind::Headless,
            _ => Kind::Addressed(addresses.iter().filter_map(|address| address.parse().ok()).collect()),
        }
    }
}

impl Slice {
    /// Parses an EndpointSlice; `None` if it has no Service.
    pub(crate) fn of(tree: &Value) -> Option<Slice> {
        let service = meta::labels(tree)?.get(SERVICE_NAME)?.as_str()?;
        let is_ready = |endpoint: &&Value| endpoint.bool_at(&["conditions", "ready"]).unwrap_or(true);
        let endpoints = tree.items_at(&["endpoints"]).iter().filter(is_ready);
        let ports = tree.items_at(&["ports"]).iter().map(Port::of).collect();
        Some(Slice {
            service: service.into(),
            endpoints: endpoints.flat_map(Endpoint::all).collect(),
            ports: Port::at_least_one(ports),
        })
    }
}

impl Endpoint {
    fn all(tree: &Value) -> Vec<Endpoint> {
        let named = tree.str_at(&["hostname"]).filter(|name| !name.is_empty());
        let addresses = tree.items_at(&["addresses"]).iter().filter_map(Value::as_str);
        let host = |text: &str| named.map_or_else(|| dashed(text), Str::new);
        addresses
            .filter_map(|text| Some(Endpoint { address: text.parse().ok()?, host: host(text) }))
            .collect()
    }
}

impl Port {
    fn of(tree: &Value) -> Port {
        let text = |key: &str| Str::new(tree.str_at(&[key]).unwrap_or_default());
        let number = tree.int_at(&["port"]).and_then(|number| u16::try_from(number).ok());
        Port { name: text("name"), protocol: text("protocol"), number }
    }

    /// Adds an unnamed port to an empty list, so that endpoints without ports still have addresses.
    fn at_least_one(ports: Vec<Port>) -> Vec<Port> {
        if ports.is_empty() {
            return vec![Port { name: Str::default(), protocol: Str::default(), number: None }];
        }
        ports
    }
}

/// An address as a label, for endpoints without a hostname.
fn dashed(address: &str) -> Str {
    let mut label = address.replace(['.', ':'], "-");
    if label.ends_with('-') {
        label.push('0');
    }
    label.into()
}
