//! Services and their pods, as the controllers of endpoints see them.

use std::collections::{HashMap, HashSet};

use corten_api::selector::LabelSelector;
use corten_api::{Str, Value, time};
use corten_client::{Caches, Change, Key, Object, View, kinds};
use jiff::Timestamp;
use parking_lot::Mutex;

use crate::pods::{Pod, PodView};

/// The fields of a service that are read with every change of a pod.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ServiceView {
    /// `None` if other clients manage its endpoints.
    pub(crate) selector: Option<LabelSelector>,
    /// True if it wants topology hints by capacity.
    pub(crate) by_capacity: bool,
}

impl View for ServiceView {
    fn of(service: &Value) -> ServiceView {
        ServiceView { selector: selector(service), by_capacity: is_by_capacity(service) }
    }
}

/// The selector of a service; `None` if it has none. An empty selector selects everything.
pub(crate) fn selector(service: &Value) -> Option<LabelSelector> {
    if service.str_at(&["spec", "type"]) == Some("ExternalName") {
        return None;
    }
    service.at(&["spec", "selector"]).and_then(Value::as_object).map(LabelSelector::from_labels)
}

/// True if the annotation enables topology hints; the older name takes precedence.
pub(crate) fn is_by_capacity(service: &Value) -> bool {
    let said = |name: &str| service.str_at(&["metadata", "annotations", name]);
    let mode = said("service.kubernetes.io/topology-aware-hints")
        .or_else(|| said("service.kubernetes.io/topology-mode"));
    matches!(mode, Some("Auto" | "auto"))
}

pub(crate) fn is_headless(service: &Value) -> bool {
    matches!(service.str_at(&["spec", "clusterIP"]), None | Some("" | "None"))
}

pub(crate) fn publishes_not_ready(service: &Value) -> bool {
    service.bool_at(&["spec", "publishNotReadyAddresses"]) == Some(true)
}

/// The services whose endpoints a change of a pod may affect.
pub(crate) fn of_pod(caches: &Caches, change: &Change, keys: &mut Vec<Key>) {
    let states: Vec<_> = change.states().cloned().map(Pod::from).collect();
    if let [old, new] = &states[..] {
        let relabelled = old.object.labels != new.object.labels;
        if !relabelled && !changes_endpoints(old, new) {
            return;
        }
    }
    let is_concerned = |service: &Object| {
        let view = service.view::<ServiceView>();
        view.selector.as_ref().is_some_and(|s| states.iter().any(|pod| pod.object.is_selected_by(s)))
    };
    let services = caches.of(&kinds::SERVICES).filter(&change.object().key.namespace, is_concerned);
    keys.extend(services.into_iter().map(|service| service.key.clone()));
}

/// True if two states of a pod have different endpoints.
fn changes_endpoints(old: &Pod, new: &Pod) -> bool {
    let reported = |view: &PodView| {
        (view.ready, view.ips.clone(), view.hostname.clone(), view.subdomain.clone(), view.node.clone())
    };
    old.object.deleting != new.object.deleting
        || old.is_finished() != new.is_finished()
        || reported(&old.view) != reported(&new.view)
}

/// The hostname of a pod within the domain of a service.
pub(crate) fn hostname<'p>(pod: &'p Pod, service: &Object) -> Option<&'p Str> {
    let is_named = !pod.view.hostname.is_empty() && pod.view.subdomain == service.key.name;
    is_named.then_some(&pod.view.hostname)
}

/// The number of the pod's port that a service's port refers to.
pub(crate) fn target_port(service_port: &Value, pod: &Pod) -> Option<i64> {
    match service_port.get("targetPort") {
        Some(Value::String(name)) => {
            let protocol = protocol(service_port);
            let mut ports = pod.view.ports.iter();
            ports.find(|port| port.name == *name && port.protocol == protocol).map(|port| port.number)
        }
        Some(number) => number.as_int(),
        None => service_port.int_at(&["port"]),
    }
}

pub(crate) fn protocol(port: &Value) -> &str {
    port.str_at(&["protocol"]).unwrap_or("TCP")
}

/// The last observed states of services and pods, which tell when a change of endpoints was triggered.
#[derive(Debug, Default)]
pub(crate) struct Triggers(Mutex<HashMap<Key, HashMap<Str, Timestamp>>>);

impl Triggers {
    /// The time of the first change since the last reconcile: of a pod that became ready or not ready, or of a new
    /// service. `None` if it is unknown.
    pub(crate) fn since_last_reconcile(&self, key: &Key, service: &Value, pods: &[Pod]) -> Option<Timestamp> {
        let seen: HashMap<Str, Timestamp> = pods
            .iter()
            .filter_map(|pod| Some((pod.object.key.name.clone(), pod.view.ready_since?)))
            .collect();
        let mut known = self.0.lock();
        let Some(before) = known.insert(key.clone(), seen) else {
            return service
                .str_at(&["metadata", "creationTimestamp"])
                .and_then(|text| time::parse(text).ok());
        };
        let seen = &known[key];
        seen.iter().filter(|(name, at)| before.get(*name).is_none_or(|b| b < at)).map(|(_, at)| *at).min()
    }

    pub(crate) fn forget(&self, key: &Key) {
        self.0.lock().remove(key);
    }
}

/// A set of keys; setting one returns whether it was there.
#[derive(Debug, Default)]
pub(crate) struct Remembered(Mutex<HashSet<Key>>);

impl Remembered {
    pub(crate) fn replace(&self, key: &Key, now: bool) -> bool {
        let mut keys = self.0.lock();
        if now { !keys.insert(key.clone()) } else { keys.remove(key) }
    }
}

/// The annotation with the time of the change that triggered an update.
pub(crate) const TRIGGER_TIME: &str = "endpoints.kubernetes.io/last-change-trigger-time";
pub(crate) const HEADLESS: &str = "service.kubernetes.io/headless";

/// Sets or removes the trigger time annotation.
pub(crate) fn set_trigger_time(object: &mut Value, trigger: Option<Timestamp>) {
    match trigger {
        Some(at) => object.set(&["metadata", "annotations", TRIGGER_TIME], time::format(at)),
        None => drop(object.remove(&["metadata", "annotations", TRIGGER_TIME])),
    }
}
