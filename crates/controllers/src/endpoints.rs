//! Endpoints controller: one Endpoints object per service with a selector, the older form of EndpointSlices.
//!
//! Owns the Endpoints named like such services. Watches services, pods and Endpoints. Deletes Endpoints whose service
//! is gone. Never touches those of services without selectors, and never writes more than a thousand addresses.

pub(crate) mod subsets;
#[cfg(test)]
mod tests;

use std::net::IpAddr;
use std::time::Duration;

use corten_api::{Map, Value, meta, value};
use corten_client::{Caches, Change, DeleteOptions, Key, Kind, Object, kinds};
use corten_reconcile::{Action, Controller, Event, Plan, Report, Watch};
use jiff::Timestamp;

use crate::pods::Pod;
use crate::services::{self, Triggers};
use subsets::Collected;

/// The value of its managed-by label, and the component of its events.
const COMPONENT: &str = "endpoint-controller";
const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";
const OVER_CAPACITY: &str = "endpoints.kubernetes.io/over-capacity";
/// The annotation of Endpoints that are a leader election lock.
pub(crate) const LEADER: &str = "control-plane.alpha.kubernetes.io/leader";

/// Options of the Endpoints controller.
#[derive(Debug, Clone)]
pub struct EndpointsOptions {
    /// The time for which changes of pods are collected before Endpoints are written.
    pub updates_batch_period: Duration,
    /// The number of services that are reconciled concurrently.
    pub concurrent_syncs: usize,
}

impl Default for EndpointsOptions {
    fn default() -> EndpointsOptions {
        EndpointsOptions { updates_batch_period: Duration::ZERO, concurrent_syncs: 5 }
    }
}

pub(crate) struct Endpoints {
    options: EndpointsOptions,
    triggers: Triggers,
}

impl Endpoints {
    pub(crate) fn new(options: EndpointsOptions) -> Endpoints {
        Endpoints { options, triggers: Triggers::default() }
    }
}

/// The state of one service.
#[derive(Debug)]
pub(crate) enum World {
    /// The service does not exist; its Endpoints, if any are left.
    Gone(Option<Value>),
    /// The service has no selector: other clients manage its Endpoints.
    Foreign,
    Selecting(Box<Selecting>),
}

#[derive(Debug)]
pub(crate) struct Selecting {
    service: Value,
    pods: Vec<Pod>,
    endpoints: Option<Value>,
    /// The time of the change that triggered this reconcile.
    trigger: Option<Timestamp>,
}

impl Controller for Endpoints {
    type World = World;

    fn name(&self) -> &'static str {
        "endpoints-controller"
    }

    fn account(&self) -> &'static str {
        "endpoint-controller"
    }

    fn watches(&self) -> Vec<Watch> {
        vec![
            Watch::own(&kinds::SERVICES),
            Watch { kind: &kinds::PODS, keys: services::of_pod },
            Watch { kind: &kinds::ENDPOINTS, keys: gone_or_left },
        ]
    }

    fn settle(&self, kind: &Kind) -> Duration {
        if *kind == kinds::PODS { self.options.updates_batch_period } else { Duration::ZERO }
    }

    fn observe(&self, caches: &Caches, key: &Key) -> World {
        let endpoints = caches.of(&kinds::ENDPOINTS).get(key).map(|endpoints| endpoints.tree());
        let Some(object) = caches.of(&kinds::SERVICES).get(key) else {
            self.triggers.forget(key);
            return World::Gone(endpoints);
        };
        let service = object.tree();
        let Some(selector) = services::selector(&service) else { return World::Foreign };
        let pods = caches.of(&kinds::PODS).select(&key.namespace, &selector);
        let pods: Vec<_> = pods.into_iter().map(Pod::from).collect();
        let trigger = self.triggers.since_last_reconcile(key, &service, &pods);
        World::Selecting(Box::new(Selecting { service, pods, endpoints, trigger }))
    }

    fn plan(&self, key: &Key, world: &World, _: Timestamp) -> Plan {
        match world {
            World::Gone(Some(endpoints)) if endpoints.at(&["metadata", "annotations", LEADER]).is_none() => {
                let options =
                    DeleteOptions { uid: Some(meta::uid(endpoints).into()), ..DeleteOptions::default() };
                Plan::done().then(Action::Delete { kind: &kinds::ENDPOINTS, key: key.clone(), options })
            }
            World::Gone(_) | World::Foreign => Plan::done(),
            World::Selecting(world) => world.plan(),
        }
    }

    fn conclude(&self, key: &Key, _: &World, report: &Report, _: Timestamp) -> Plan {
        let reported = |(action, error): (&Action, &corten_client::Error)| match action {
            _ if error.has_cause("NamespaceTerminating") => None,
            Action::Create { object, .. } => {
                let message = format!("Failed to create endpoint for service {key}: {error}");
                Some(Event::warning(COMPONENT, object, "FailedToCreateEndpoint", message))
            }
            Action::Update { object, .. } => {
                let message = format!("Failed to update endpoint {key}: {error}");
                Some(Event::warning(COMPONENT, object, "FailedToUpdateEndpoint", message))
            }
            _ => None,
        };
        Plan { events: report.failures().filter_map(reported).collect(), ..Plan::done() }
    }

    fn workers(&self) -> usize {
        self.options.concurrent_syncs
    }
}

/// Deleted Endpoints may have to be created again; those that exist at the start are reconciled once, as their service
/// may have been deleted meanwhile.
fn gone_or_left(caches: &Caches, change: &Change, keys: &mut Vec<Key>) {
    if change.new.is_none() || !caches.of(&kinds::ENDPOINTS).is_synced() {
        keys.push(change.object().key.clone());
    }
}

impl Selecting {
    fn plan(&self) -> Plan {
        let mut subsets = self.subsets();
        let is_truncated = subsets::truncate(&mut subsets);
        if self.endpoints.as_ref().is_some_and(|known| self.is_right(known, &subsets, is_truncated)) {
            return Plan::done();
        }
        let kind = &kinds::ENDPOINTS;
        let (namespace, name) = (meta::namespace(&self.service), meta::name(&self.service));
        let mut object = self.endpoints.clone().unwrap_or_else(|| kind.new_object(namespace, name));
        object.set(&["metadata", "labels"], self.labels());
        services::set_trigger_time(&mut object, self.trigger);
        if is_truncated {
            object.set(&["metadata", "annotations", OVER_CAPACITY], "truncated");
        } else {
            object.remove(&["metadata", "annotations", OVER_CAPACITY]);
        }
        match subsets.is_empty() {
            true => drop(object.remove(&["subsets"])),
            false => object.set(&["subsets"], subsets),
        }
        Plan::done().then(match &self.endpoints {
            Some(_) => Action::Update { kind, object, subresource: "" },
            None => Action::Create { kind, object },
        })
    }

    /// True if nothing has to be written.
    fn is_right(&self, endpoints: &Value, subsets: &[Value], is_truncated: bool) -> bool {
        // The headless label hardly ever changes, and is not worth a write.
        let compared = |mut labels: Map| {
            labels.remove(services::HEADLESS);
            labels
        };
        let labels = meta::labels(endpoints).cloned().unwrap_or_default();
        let says_truncated = endpoints.at(&["metadata", "annotations", OVER_CAPACITY]).is_some();
        compared(labels) == compared(self.labels())
            && says_truncated == is_truncated
            && subsets::repack(&without_versions(endpoints.items_at(&["subsets"]))) == subsets
    }

    fn labels(&self) -> Map {
        let mut labels = meta::labels(&self.service).cloned().unwrap_or_default();
        if services::is_headless(&self.service) {
            labels.insert(services::HEADLESS, "");
        } else {
            labels.remove(services::HEADLESS);
        }
        labels.insert(MANAGED_BY, COMPONENT);
        labels
    }

    fn subsets(&self) -> Vec<Value> {
        let object = Object::of(&self.service);
        let ports = self.service.items_at(&["spec", "ports"]);
        let published = services::publishes_not_ready(&self.service);
        let mut collected = Collected::default();
        for pod in self.pods.iter().filter(|pod| !pod.is_finished() && (published || !pod.object.deleting)) {
            let Some(address) = address(&self.service, &object, pod) else { continue };
            let ready = published || pod.view.ready;
            if ports.is_empty() && self.service.str_at(&["spec", "clusterIP"]) == Some("None") {
                collected.add(&address, None, ready);
            }
            for port in ports {
                if let Some(number) = services::target_port(port, pod) {
                    collected.add(&address, Some(&endpoint_port(port, number)), ready);
                }
            }
        }
        collected.into_subsets()
    }
}

/// The address of a pod in the IP family of a service.
fn address(service: &Value, object: &Object, pod: &Pod) -> Option<Value> {
    let family = service.items_at(&["spec", "ipFamilies"]).first().and_then(Value::as_str);
    let own = service.str_at(&["spec", "clusterIP"]).and_then(|ip| ip.parse::<IpAddr>().ok());
    let is_ipv6 = match (family, own) {
        (Some(family), _) => family == "IPv6",
        (None, Some(own)) => own.is_ipv6(),
        (None, None) => pod.view.ips.first()?.is_ipv6(),
    };
    let ip = pod.view.ips.iter().find(|ip| ip.is_ipv6() == is_ipv6)?;
    let mut address = value!({
        "ip": (ip.to_string()),
        "targetRef": {
            "kind": "Pod", "namespace": (pod.object.key.namespace.clone()),
            "name": (pod.object.key.name.clone()), "uid": (pod.object.uid.clone()),
        },
    });
    if !pod.view.node.is_empty() {
        address.set(&["nodeName"], pod.view.node.clone());
    }
    if let Some(hostname) = services::hostname(pod, object) {
        address.set(&["hostname"], hostname.clone());
    }
    Some(address)
}

fn endpoint_port(port: &Value, number: i64) -> Value {
    let mut out = Map::new();
    out.insert("port", number);
    out.insert("protocol", services::protocol(port));
    for key in ["name", "appProtocol"] {
        if let Some(text) = port.str_at(&[key]).filter(|text| !text.is_empty()) {
            out.insert(key, text);
        }
    }
    Value::Object(out)
}

/// The resource version of a pod does not matter to clients.
fn without_versions(subsets: &[Value]) -> Vec<Value> {
    let mut subsets = subsets.to_vec();
    for list in ["addresses", "notReadyAddresses"] {
        let lists = subsets.iter_mut().filter_map(|subset| subset.get_mut(list)?.as_array_mut());
        for address in lists.flatten() {
            address.remove(&["targetRef", "resourceVersion"]);
        }
    }
    subsets
}
