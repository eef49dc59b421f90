//! EndpointSlice mirroring: mirrors Endpoints that users write for services without selectors to slices.
//!
//! Owns the slices that are labelled as its own: one for the ports and address type of each subset. Watches Endpoints,
//! services and those slices. Never mirrors Endpoints with the skip-mirror label or a leader election lock, and never
//! touches Endpoints themselves.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use corten_api::{Map, Str, Value, meta, value};
use corten_client::{Caches, Change, DeleteOptions, Key, Kind, Object, kinds};
use corten_reconcile::{Action, Controller, Event, Manager, Plan, Step, Watch};
use jiff::Timestamp;

use crate::endpoints::{LEADER, subsets};
use crate::endpointslice::{self, MANAGED_BY_LABEL, Port, SERVICE_NAME_LABEL};
use crate::{claims, pods, services};

const MANAGED_BY: &str = "endpointslicemirroring-controller.k8s.io";
const COMPONENT: &str = "endpoint-slice-mirroring-controller";
const SKIP: &str = "endpointslice.kubernetes.io/skip-mirror";
/// Annotations of Endpoints that slices do not repeat.
const NOT_MIRRORED: [&str; 2] = [services::TRIGGER_TIME, "kubectl.kubernetes.io/last-applied-configuration"];

/// Options of the mirroring controller.
#[derive(Debug, Clone)]
pub struct MirroringOptions {
    /// The most addresses of one subset that are mirrored.
    pub max_endpoints_per_subset: usize,
    /// The time for which changes of slices are collected.
    pub updates_batch_period: Duration,
    /// The number of Endpoints that are reconciled concurrently.
    pub concurrent_syncs: usize,
}

impl Default for MirroringOptions {
    fn default() -> MirroringOptions {
        MirroringOptions {
            max_endpoints_per_subset: 1000,
            updates_batch_period: Duration::ZERO,
            concurrent_syncs: 5,
        }
    }
}

pub(crate) fn start(manager: &Manager, options: MirroringOptions) {
    manager.caches().index(&endpointslice::SLICES);
    manager.run(Mirroring { options });
}

struct Mirroring {
    options: MirroringOptions,
}

/// The state of one Endpoints object.
#[derive(Debug, Default)]
struct World {
    /// `None` if there is nothing to mirror.
    endpoints: Option<Value>,
    slices: Vec<Value>,
}

impl Controller for Mirroring {
    type World = World;

    fn name(&self) -> &'static str {
        "endpointslice-mirroring-controller"
    }

    fn account(&self) -> &'static str {
        "endpointslicemirroring-controller"
    }

    fn watches(&self) -> Vec<Watch> {
        vec![
            Watch { kind: &kinds::ENDPOINTS, keys: own },
            Watch { kind: &kinds::SERVICES, keys: own_of_service },
            Watch {
                kind: &kinds::ENDPOINT_SLICES,
                keys: |_, change, keys| endpointslice::services_of_slice(MANAGED_BY, change, keys),
            },
        ]
    }

    fn settle(&self, kind: &Kind) -> Duration {
        if *kind == kinds::ENDPOINT_SLICES { self.options.updates_batch_period } else { Duration::ZERO }
    }

    fn observe(&self, caches: &Caches, key: &Key) -> World {
        let slices = endpointslice::slices_of(MANAGED_BY, caches, key);
        let service = caches.of(&kinds::SERVICES).get(key);
        let is_selecting = |service: &Arc<Object>| service.tree().at(&["spec", "selector"]).is_some();
        let endpoints = match service.filter(|service| !is_selecting(service)) {
            Some(_) => caches.of(&kinds::ENDPOINTS).get(key).map(|endpoints| endpoints.tree()),
            None => None,
        };
        World {
            endpoints: endpoints.filter(is_mirrored),
            slices: slices.iter().map(|slice| slice.tree()).collect(),
        }
    }

    fn plan(&self, _: &Key, world: &World, _: Timestamp) -> Plan {
        let Some(endpoints) = &world.endpoints else {
            return in_steps([vec![], vec![], world.slices.iter().map(delete).collect()]);
        };
        let wanted = self.wanted(endpoints);
        let mut plan = actions(endpoints, &wanted, &world.slices);
        let mut say = |reason, message: String| {
            plan.events.push(Event::warning(COMPONENT, endpoints, reason, message));
        };
        let (invalid, skipped) = (wanted.invalid, wanted.skipped);
        if invalid > 0 {
            let message = format!("Skipped {invalid} invalid IP addresses when mirroring to EndpointSlices");
            say("InvalidIPAddress", message);
        }
        if skipped > invalid {
            let most = self.options.max_endpoints_per_subset;
            let message = format!(
                "A max of {most} addresses can be mirrored to EndpointSlices per Endpoints subset. {skipped} \
                 addresses were skipped"
            );
            say("TooManyAddressesToMirror", message);
        }
        plan
    }

    fn workers(&self) -> usize {
        self.options.concurrent_syncs
    }
}

/// Endpoints that are or were mirrored.
fn own(_: &Caches, change: &Change, keys: &mut Vec<Key>) {
    if change.states().any(|endpoints| text(&endpoints.labels, SKIP) != "true") {
        keys.push(change.object().key.clone());
    }
}

/// Services that are added or deleted, or whose selector appears or disappears.
fn own_of_service(_: &Caches, change: &Change, keys: &mut Vec<Key>) {
    let is_selecting = |service: &Arc<Object>| service.view::<services::ServiceView>().selector.is_some();
    let states: Vec<_> = change.states().map(is_selecting).collect();
    let concerns = match states[..] {
        [before, after] => before != after,
        _ => states.contains(&false),
    };
    if concerns {
        keys.push(change.object().key.clone());
    }
}

fn text<'l>(labels: &'l Map, label: &str) -> &'l str {
    labels.get(label).and_then(Value::as_str).unwrap_or_default()
}

fn is_mirrored(endpoints: &Value) -> bool {
    meta::labels(endpoints).is_none_or(|labels| text(labels, SKIP) != "true")
        && endpoints.at(&["metadata", "annotations", LEADER]).is_none()
}

/// The desired slices.
#[derive(Debug, Default)]
struct Wanted {
    slices: BTreeMap<Sort, Contents>,
    /// The number of invalid addresses.
    invalid: usize,
    /// The number of addresses that are not mirrored, because they are invalid or too many.
    skipped: usize,
}

/// Slices are distinguished by address type and ports, in order.
type Sort = (&'static str, Vec<Port>);

#[derive(Debug, Default)]
struct Contents {
    ports: Vec<Port>,
    /// By addresses, host name, node and target.
    endpoints: BTreeMap<Identity, Value>,
}

type Identity = (Vec<Str>, Str, Str, Str);

fn identity(endpoint: &Value) -> Identity {
    let text = |path: &[&str]| Str::new(endpoint.str_at(path).unwrap_or_default());
    let addresses = endpoint.items_at(&["addresses"]).iter().filter_map(Value::as_str).map(Str::new);
    let target = (text(&["targetRef", "namespace"]), text(&["targetRef", "name"]));
    (addresses.collect(), text(&["hostname"]), target.0, target.1)
}

impl Mirroring {
    fn wanted(&self, endpoints: &Value) -> Wanted {
        let mut wanted = Wanted::default();
        for subset in subsets::repack(endpoints.items_at(&["subsets"])) {
            let ports: Vec<_> = subset.items_at(&["ports"]).iter().map(Port::of).collect();
            let mut sorted = ports.clone();
            sorted.sort_unstable();
            let mut left = self.options.max_endpoints_per_subset;
            for (list, ready) in [("addresses", true), ("notReadyAddresses", false)] {
                for address in subset.items_at(&[list]) {
                    if left == 0 {
                        wanted.skipped += 1;
                        continue;
                    }
                    let Some((kind, endpoint)) = mirrored(address, ready) else {
                        wanted.skipped += 1;
                        wanted.invalid += 1;
                        continue;
                    };
                    left -= 1;
                    let contents = wanted.slices.entry((kind, sorted.clone())).or_default();
                    contents.ports.clone_from(&ports);
                    contents.endpoints.insert(identity(&endpoint), endpoint);
                }
            }
        }
        wanted
    }
}

/// The endpoint of an address, and its address type.
fn mirrored(address: &Value, ready: bool) -> Option<(&'static str, Value)> {
    let ip = pods::address(address.str_at(&["ip"])?)?;
    let mut endpoint = value!({"addresses": [(ip.to_string())], "conditions": {"ready": ready}});
    for key in ["targetRef", "nodeName", "hostname"] {
        if let Some(said) = address.get(key) {
            endpoint.set(&[key], said.clone());
        }
    }
    let kind = match ip {
        IpAddr::V4(_) => "IPv4",
        IpAddr::V6(_) => "IPv6",
    };
    Some((kind, endpoint))
}

/// The actions that lead to the desired slices.
fn actions(endpoints: &Value, wanted: &Wanted, slices: &[Value]) -> Plan {
    let mut by_sort: BTreeMap<(&str, Vec<Port>), Vec<&Value>> = BTreeMap::new();
    for slice in slices {
        let mut ports: Vec<_> = slice.items_at(&["ports"]).iter().map(Port::of).collect();
        ports.sort_unstable();
        let kind = slice.str_at(&["addressType"]).unwrap_or_default();
        by_sort.entry((kind, ports)).or_default().push(slice);
    }
    let (mut create, mut update, mut surplus) = (Vec::new(), Vec::new(), Vec::new());
    for ((kind, sorted), contents) in &wanted.slices {
        let mut known = by_sort.remove(&(*kind, sorted.clone())).unwrap_or_default().into_iter();
        match known.next() {
            None => create.push((*kind, contents)),
            Some(slice) if is_right(slice, endpoints, contents) => {}
            Some(slice) => update.push(written(slice.clone(), endpoints, kind, contents)),
        }
        surplus.extend(known);
    }
    surplus.extend(by_sort.into_values().flatten());
    // A slice that would be deleted is updated in place of a new one.
    create.retain(|(kind, contents)| {
        let Some(at) = surplus.iter().position(|slice| slice.str_at(&["addressType"]) == Some(kind)) else {
            return true;
        };
        update.push(written(surplus.remove(at).clone(), endpoints, kind, contents));
        false
    });
    if meta::is_deleting(endpoints) {
        create.clear();
    }
    let kind = &kinds::ENDPOINT_SLICES;
    let new = |(address_type, contents): (&str, &Contents)| {
        let mut slice = kind.new_object(meta::namespace(endpoints), "");
        slice.remove(&["metadata", "name"]);
        slice.set(&["metadata", "generateName"], format!("{}-", meta::name(endpoints)));
        Action::Create { kind, object: written(slice, endpoints, address_type, contents) }
    };
    in_steps([
        create.into_iter().map(new).collect(),
        update.into_iter().map(|object| Action::Update { kind, object, subresource: "" }).collect(),
        surplus.into_iter().map(delete).collect(),
    ])
}

fn in_steps(lists: [Vec<Action>; 3]) -> Plan {
    let steps = lists.into_iter().filter(|actions| !actions.is_empty()).map(Step::Together);
    Plan { steps: steps.collect(), ..Plan::done() }
}

fn delete(slice: &Value) -> Action {
    let options = DeleteOptions { uid: Some(meta::uid(slice).into()), ..DeleteOptions::default() };
    Action::Delete { kind: &kinds::ENDPOINT_SLICES, key: Key::of(slice), options }
}

fn labels(endpoints: &Value) -> Map {
    let mut labels = meta::labels(endpoints).cloned().unwrap_or_default();
    labels.insert(SERVICE_NAME_LABEL, meta::name(endpoints));
    labels.insert(MANAGED_BY_LABEL, MANAGED_BY);
    labels
}

fn annotations(endpoints: &Value) -> Map {
    let said = endpoints.at(&["metadata", "annotations"]).and_then(Value::as_object);
    let mut annotations = said.cloned().unwrap_or_default();
    annotations.retain(|name, _| !NOT_MIRRORED.contains(&name.as_str()));
    annotations
}

/// True if a slice mirrors these very Endpoints.
fn is_right(slice: &Value, endpoints: &Value, contents: &Contents) -> bool {
    let said = slice.at(&["metadata", "annotations"]).and_then(Value::as_object);
    let said = said.cloned().unwrap_or_default();
    let is_former = |owner: &corten_client::Owner| {
        owner.kind == "Endpoints" && owner.name == meta::name(endpoints) && owner.uid != meta::uid(endpoints)
    };
    meta::labels(slice) == Some(&labels(endpoints))
        && said == annotations(endpoints)
        && !corten_client::Owner::all(slice).iter().any(is_former)
        && is_said(slice.items_at(&["endpoints"]), contents)
}

/// True if endpoints are the desired ones, whatever the resource versions of their targets.
fn is_said(endpoints: &[Value], contents: &Contents) -> bool {
    let compared = |endpoint: &Value| {
        let mut endpoint = endpoint.clone();
        endpoint.remove(&["targetRef", "resourceVersion"]);
        endpoint
    };
    let is_wanted = |endpoint: &Value| {
        contents.endpoints.get(&identity(endpoint)).is_some_and(|w| compared(w) == compared(endpoint))
    };
    endpoints.len() == contents.endpoints.len() && endpoints.iter().all(is_wanted)
}

/// The slice with the mirrored contents.
fn written(mut slice: Value, endpoints: &Value, address_type: &str, contents: &Contents) -> Value {
    slice.set(&["metadata", "labels"], labels(endpoints));
    match annotations(endpoints) {
        none if none.is_empty() => drop(slice.remove(&["metadata", "annotations"])),
        some => slice.set(&["metadata", "annotations"], some),
    }
    slice.set(&["metadata", "ownerReferences"], vec![claims::reference(endpoints)]);
    slice.set(&["addressType"], address_type);
    slice.set(&["ports"], endpointslice::list(contents.ports.iter().map(Port::to_value)));
    slice.set(&["endpoints"], endpointslice::list(contents.endpoints.values().cloned()));
    slice
}
