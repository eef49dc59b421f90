//! EndpointSlice controller: the endpoints of every service with a selector, in slices of at most a hundred.
//!
//! Owns the slices that are labelled as its own. Watches services, pods, those slices, and nodes for their zones.
//! Writes only the slices that change: a pod that becomes ready among thousands costs one write. Never touches slices
//! of other managers, nor those of services without selectors; slices of deleted services are left to the garbage
//! collector.

mod endpoint;
mod lookup;
mod pack;
mod slice;
#[cfg(test)]
mod tests;
mod topology;

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use corten_api::{Str, Value, meta};
use corten_client::{Caches, Key, Kind, Object, kinds};
use corten_reconcile::{Action, Controller, Event, Manager, Plan, Report, Step, Watch};
use jiff::Timestamp;

use crate::pods::Pod;
use crate::services::{self, Remembered, ServiceView, Triggers};
use endpoint::{Endpoint, Hints, Target};
use pack::{Group, Packed, Rules};
use slice::{Draft, Slice};

pub(crate) use lookup::{SLICES, services_of_slice, slices_of};
pub(crate) use slice::{MANAGED_BY_LABEL, Port, SERVICE_NAME_LABEL, list};

/// The value of its managed-by label, and the component of its events.
const MANAGED_BY: &str = "endpointslice-controller.k8s.io";
const COMPONENT: &str = "endpoint-slice-controller";
/// The time for which changes of slices are collected: one service may have many.
const SLICES_SETTLE: Duration = Duration::from_secs(1);

/// Options of the EndpointSlice controller.
#[derive(Debug, Clone)]
pub struct EndpointSliceOptions {
    /// The most endpoints in one slice.
    pub max_endpoints_per_slice: usize,
    /// The time for which changes of pods are collected before slices are written.
    pub updates_batch_period: Duration,
    /// The number of services that are reconciled concurrently.
    pub concurrent_syncs: usize,
}

impl Default for EndpointSliceOptions {
    fn default() -> EndpointSliceOptions {
        EndpointSliceOptions {
            max_endpoints_per_slice: 100,
            updates_batch_period: Duration::ZERO,
            concurrent_syncs: 5,
        }
    }
}

pub(crate) fn start(manager: &Manager, options: EndpointSliceOptions) {
    manager.caches().index(&SLICES);
    manager.run(EndpointSlices::new(options));
}

struct EndpointSlices {
    options: EndpointSliceOptions,
    triggers: Triggers,
    /// The services that had topology hints at their last reconcile.
    by_capacity: Remembered,
}

impl EndpointSlices {
    fn new(options: EndpointSliceOptions) -> EndpointSlices {
        EndpointSlices { options, triggers: Triggers::default(), by_capacity: Remembered::default() }
    }
}

/// The state of one service.
#[derive(Debug)]
struct World {
    object: Arc<Object>,
    service: Value,
    pods: Vec<Pod>,
    slices: Vec<Slice>,
    /// The zones of the existing nodes.
    nodes: HashMap<Str, Option<Str>>,
    /// The time of the change that triggered this reconcile.
    trigger: Option<Timestamp>,
    /// The zones' shares of all CPUs, if the service wants topology hints by them.
    shares: Option<topology::Shares>,
    was_by_capacity: bool,
}

impl World {
    fn is_own(&self, slice: &Slice) -> bool {
        slice.is_owned_by(&self.object)
    }
}

impl Controller for EndpointSlices {
    /// `None` if the service does not exist, or has no selector.
    type World = Option<World>;

    fn name(&self) -> &'static str {
        "endpointslice-controller"
    }

    fn watches(&self) -> Vec<Watch> {
        vec![
            Watch::own(&kinds::SERVICES),
            Watch { kind: &kinds::PODS, keys: services::of_pod },
            Watch {
                kind: &kinds::ENDPOINT_SLICES,
                keys: |_, c, keys| services_of_slice(MANAGED_BY, c, keys),
            },
            Watch { kind: &kinds::NODES, keys: lookup::services_of_node },
        ]
    }

    fn settle(&self, kind: &Kind) -> Duration {
        let period = self.options.updates_batch_period;
        if *kind == kinds::PODS {
            period
        } else if *kind == kinds::ENDPOINT_SLICES {
            period.max(SLICES_SETTLE)
        } else {
            Duration::ZERO
        }
    }

    fn observe(&self, caches: &Caches, key: &Key) -> Option<World> {
        let Some(object) = caches.of(&kinds::SERVICES).get(key) else {
            self.triggers.forget(key);
            self.by_capacity.replace(key, false);
            return None;
        };
        let view = object.view::<ServiceView>();
        let pods = caches.of(&kinds::PODS).select(&key.namespace, view.selector.as_ref()?);
        let pods: Vec<_> = pods.into_iter().map(Pod::from).collect();
        let service = object.tree();
        let nodes = caches.of(&kinds::NODES);
        Some(World {
            nodes: lookup::zones(&nodes, &pods),
            slices: slices_of(MANAGED_BY, caches, key).into_iter().map(Slice::from).collect(),
            trigger: self.triggers.since_last_reconcile(key, &service, &pods),
            shares: if view.by_capacity { topology::shares(&nodes) } else { None },
            was_by_capacity: self.by_capacity.replace(key, view.by_capacity),
            object,
            service,
            pods,
        })
    }

    fn plan(&self, _: &Key, world: &Option<World>, _: Timestamp) -> Plan {
        let Some(world) = world else { return Plan::done() };
        let mut plan = Plan::done();
        let families = address_types(&world.service);
        let (mut all, mut problems) = (Packed::default(), Vec::new());
        all.delete =
            world.slices.iter().filter(|s| !families.contains(&s.view.address_type)).cloned().collect();
        for family in &families {
            let mut packed = self.pack(world, family, &mut problems);
            plan.events.extend(hint(world, family, &mut packed));
            packed.recycle(|slice| world.is_own(slice));
            all.create.append(&mut packed.create);
            all.update.append(&mut packed.update);
            all.delete.append(&mut packed.delete);
        }
        plan.steps = steps(world, &all);
        if problems.is_empty() {
            return plan;
        }
        problems.dedup();
        plan.event(failure(&world.service, &joined(&problems))).retry()
    }

    fn conclude(&self, _: &Key, world: &Option<World>, report: &Report, _: Timestamp) -> Plan {
        let Some(World { service, .. }) = world else { return Plan::done() };
        let name = format!("{}/{}", meta::namespace(service), meta::name(service));
        let reported = |(action, error): (&Action, &corten_client::Error)| match action {
            _ if error.has_cause("NamespaceTerminating") => None,
            Action::Create { .. } => {
                Some(format!("failed to create EndpointSlice for Service {name}: {error}"))
            }
            Action::Update { object, .. } => {
                let slice = meta::name(object);
                Some(format!("failed to update {slice} EndpointSlice for Service {name}: {error}"))
            }
            Action::Delete { key, .. } => {
                Some(format!("failed to delete {} EndpointSlice for Service {name}: {error}", key.name))
            }
            _ => None,
        };
        match report.failures().find_map(reported) {
            Some(message) => Plan::done().event(failure(service, &message)),
            None => Plan::done(),
        }
    }

    fn workers(&self) -> usize {
        self.options.concurrent_syncs
    }
}

impl EndpointSlices {
    /// The slices of one address type, without topology hints.
    fn pack(&self, world: &World, family: &Str, problems: &mut Vec<String>) -> Packed {
        let by_capacity = services::is_by_capacity(&world.service);
        let (service, most) = (&world.service, self.options.max_endpoints_per_slice);
        let rules = Rules { service, address_type: family, most, hinted: !by_capacity };
        let mut packed = Packed::default();
        let mut by_ports: BTreeMap<&[Port], Vec<Slice>> = BTreeMap::new();
        let existing: Vec<_> = world.slices.iter().filter(|s| s.view.address_type == *family).collect();
        for slice in &existing {
            if world.is_own(slice) {
                by_ports.entry(&slice.view.ports).or_default().push((*slice).clone());
            } else {
                packed.delete.push((*slice).clone());
            }
        }
        for (ports, group) in groups(world, family, problems) {
            pack::pack(&mut packed, &group, by_ports.remove(&ports[..]).unwrap_or_default(), rules);
        }
        packed.delete.extend(by_ports.into_values().flatten());
        if existing.len() == packed.delete.len() && packed.create.is_empty() {
            hold_place(&mut packed, rules);
        }
        packed
    }
}

/// A service always has a slice, if only an empty one.
fn hold_place(packed: &mut Packed, rules: Rules<'_>) {
    let holds_place = |slice: &Slice| {
        slice.view.ports.is_empty()
            && slice.view.endpoints.is_empty()
            && slice.object.labels == slice::labels(rules.service)
            && slice.object.owners.iter().any(|owner| owner.uid == meta::uid(rules.service))
    };
    match &packed.delete[..] {
        [slice] if holds_place(slice) => packed.unchanged.append(&mut packed.delete),
        _ => packed.create.push(Draft {
            of: None,
            address_type: rules.address_type.clone(),
            ports: Vec::new(),
            endpoints: Vec::new(),
        }),
    }
}

/// The endpoints of one address type by their ports.
fn groups(world: &World, family: &Str, problems: &mut Vec<String>) -> BTreeMap<Vec<Port>, Group> {
    let mut groups: BTreeMap<Vec<Port>, Group> = BTreeMap::new();
    let service = &world.service;
    for pod in world.pods.iter().filter(|pod| !pod.is_finished() && !pod.view.ips.is_empty()) {
        let ports = ports(service, pod);
        let mut sorted = ports.clone();
        sorted.sort_unstable();
        let group = groups.entry(sorted).or_default();
        group.ports = ports;
        let zone = world.nodes.get(&pod.view.node);
        if zone.is_none() && !services::publishes_not_ready(service) {
            problems.push(format!(
                "skipping Pod {} for Service {}: Node {} Not Found",
                pod.object.key.name, world.object.key, pod.view.node
            ));
            continue;
        }
        let endpoint = endpoint(world, pod, zone.cloned().flatten(), family);
        if !endpoint.addresses.is_empty() {
            group.endpoints.push((endpoint.print(), endpoint));
        }
    }
    groups
}

/// The ports of a pod that a service's ports refer to. Ports that the pod does not have are left out.
fn ports(service: &Value, pod: &Pod) -> Vec<Port> {
    let ports = service.items_at(&["spec", "ports"]).iter();
    ports.filter_map(|port| Some(Port::of_service(port, services::target_port(port, pod)?))).collect()
}

/// The endpoint of a pod.
fn endpoint(world: &World, pod: &Pod, zone: Option<Str>, family: &Str) -> Endpoint {
    let is_of_family = |ip: &&IpAddr| ip.is_ipv6() == (family == "IPv6");
    let mut addresses: Vec<_> =
        pod.view.ips.iter().filter(is_of_family).map(|ip| Str::from(ip.to_string())).collect();
    addresses.sort_unstable();
    let (serving, terminating) = (pod.view.ready, pod.object.deleting);
    // Clients that only check `ready` must not use terminating endpoints, unless the service publishes not-ready
    // addresses.
    let ready = services::publishes_not_ready(&world.service) || (serving && !terminating);
    let node = Some(&pod.view.node).filter(|node| !node.is_empty()).cloned();
    Endpoint {
        addresses,
        hostname: services::hostname(pod, &world.object).cloned(),
        target: Some(Target {
            kind: Str::new_static("Pod"),
            namespace: pod.object.key.namespace.clone(),
            name: pod.object.key.name.clone(),
            uid: pod.object.uid.clone(),
        }),
        hints: if ready { closest(&world.service, zone.as_ref(), node.as_ref()) } else { Hints::default() },
        node,
        zone,
        ready: Some(ready),
        serving: Some(serving),
        terminating: Some(terminating),
    }
}

/// The hints of an endpoint by the service's traffic distribution.
fn closest(service: &Value, zone: Option<&Str>, node: Option<&Str>) -> Hints {
    let distribution = match service.str_at(&["spec", "trafficDistribution"]) {
        Some(distribution) if !services::is_by_capacity(service) => distribution,
        _ => return Hints::default(),
    };
    let only = |name: Option<&Str>| name.into_iter().cloned().collect();
    match distribution {
        "PreferClose" | "PreferSameZone" => Hints { zones: only(zone), nodes: Vec::new() },
        "PreferSameNode" => Hints { zones: only(zone), nodes: only(node) },
        _ => Hints::default(),
    }
}

/// Decides about topology hints. Returns an event if they are added or removed.
fn hint(world: &World, family: &Str, packed: &mut Packed) -> Option<Event> {
    let service = &world.service;
    let had_hints = world.slices.iter().any(|s| s.view.address_type == *family && s.has_hints());
    let reported = |why: &str| format!("{why}, addressType: {family}");
    let disabled =
        |why: &str| Some(Event::warning(COMPONENT, service, "TopologyAwareHintsDisabled", reported(why)));
    if !services::is_by_capacity(service) {
        let over = world.was_by_capacity && had_hints;
        return if over { disabled("Topology Aware Hints has been disabled") } else { None };
    }
    match topology::hint(packed, world.shares.as_ref()) {
        Err(why) => disabled(&why),
        Ok(()) if had_hints && world.was_by_capacity => None,
        Ok(()) => {
            let message = reported("Topology Aware Hints has been enabled");
            Some(Event::normal(COMPONENT, service, "TopologyAwareHintsEnabled", message))
        }
    }
}

/// The requests, creations first. Nothing is created for a terminating service, so that the garbage collector can
/// finish.
fn steps(world: &World, packed: &Packed) -> Vec<Step> {
    let kind = &kinds::ENDPOINT_SLICES;
    let value = |draft: &Draft| {
        let mut object = draft.to_value(&world.service);
        services::set_trigger_time(&mut object, world.trigger);
        object
    };
    let create = |draft| Action::Create { kind, object: value(draft) };
    let update = |draft| Action::Update { kind, object: value(draft), subresource: "" };
    let mut steps = Vec::new();
    if !world.object.deleting {
        steps.push(Step::Together(packed.create.iter().map(create).collect()));
    }
    steps.push(Step::Together(packed.update.iter().map(update).collect()));
    steps.push(Step::Together(packed.delete.iter().map(Slice::delete).collect()));
    steps.retain(|step| !matches!(step, Step::Together(actions) if actions.is_empty()));
    steps
}

fn failure(service: &Value, why: &str) -> Event {
    let name = format!("{}/{}", meta::namespace(service), meta::name(service));
    let message = format!("Error updating Endpoint Slices for Service {name}: {why}");
    Event::warning(COMPONENT, service, "FailedToUpdateEndpointSlices", message)
}

fn joined(problems: &[String]) -> String {
    match problems {
        [one] => one.clone(),
        many => format!("[{}]", many.join(", ")),
    }
}

/// The address types of a service: its IP families; else that of its cluster IP; else both.
fn address_types(service: &Value) -> Vec<Str> {
    let named = service.items_at(&["spec", "ipFamilies"]).iter().filter_map(Value::as_str);
    let named: Vec<_> = named.filter(|f| ["IPv4", "IPv6"].contains(f)).map(Str::new).collect();
    if !named.is_empty() {
        return named;
    }
    match service.str_at(&["spec", "clusterIP"]).and_then(|ip| ip.parse::<IpAddr>().ok()) {
        Some(IpAddr::V4(_)) => vec![Str::new_static("IPv4")],
        Some(IpAddr::V6(_)) => vec![Str::new_static("IPv6")],
        None => vec![Str::new_static("IPv4"), Str::new_static("IPv6")],
    }
}
