//! The status of a pod. Pure, from its desired and actual state and the facts about both.
//!
//! The status of a container that the runtime no longer has is kept. Conditions keep the time of their last
//! transition.

mod conditions;
mod containers;
pub(crate) mod manager;
mod phase;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

use corten_api::{Map, Value, time, value};
use corten_container::ContainerStatus;
use corten_quota::resource_list::{self, ResourceList};
use jiff::Timestamp;

use crate::containers::observed::Observed;
use crate::pod::{HostNamespace, Pod, Role};
use crate::resources;
use crate::resources::allocation::{PodResources, Resizing};

/// The reason why a container waits, from the last attempt to start it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Waiting {
    pub reason: String,
    pub message: String,
}

/// The facts that a status depends on besides the pod and its actual state.
#[derive(Debug, Clone, Default)]
pub struct StatusFacts {
    /// By container name.
    pub waiting: HashMap<String, Waiting>,
    /// By container id.
    pub probed: HashMap<String, Readiness>,
    /// The node's addresses, the primary one first.
    pub host_ips: Vec<String>,
    /// The runtime's name in container ids: `corten`, `containerd`.
    pub runtime: String,
    /// The kubelet's own reason for the end of the pod, if there is one.
    pub ended: Option<Ended>,
    /// The actuated resources of running containers.
    pub(crate) actuated: Option<PodResources>,
    pub(crate) resizing: Resizing,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Readiness {
    pub started: bool,
    pub ready: bool,
}

/// The end of a pod by the kubelet itself: eviction, preemption, deadline or rejection.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ended {
    pub reason: String,
    pub message: String,
    /// The grace period of its containers, instead of the pod's.
    pub grace: Option<std::time::Duration>,
    /// The message of the `DisruptionTarget` condition, if it is set.
    pub disrupted: Option<String>,
    /// True if the pod was rejected at admission.
    pub rejected: bool,
}

impl StatusFacts {
    fn readiness(&self, status: &ContainerStatus) -> Readiness {
        self.probed.get(&status.id).copied().unwrap_or_default()
    }
}

/// The status of a pod. `over` once no container of it will run again.
pub fn status(pod: &Pod, observed: &Observed, facts: &StatusFacts, over: bool, now: Timestamp) -> Value {
    let old = pod.tree().get("status").cloned().unwrap_or_else(Value::object);
    if let Some(ended) = facts.ended.as_ref().filter(|ended| ended.rejected) {
        return rejected(ended, &old, now);
    }
    let of = |roles: &[Role], list: &str| -> Vec<Value> {
        let wanted = pod.containers().iter().filter(|c| roles.contains(&c.role));
        wanted.map(|c| containers::status(pod, c, observed, facts, old.items_at(&[list]), over)).collect()
    };
    let init = of(&[Role::Init, Role::Sidecar], "initContainerStatuses");
    let main = of(&[Role::Main], "containerStatuses");
    let ephemeral = of(&[Role::Ephemeral], "ephemeralContainerStatuses");
    let phase = match &facts.ended {
        Some(_) => "Failed",
        None => phase::phase(pod, &init, &main, over, old.str_at(&["phase"]).unwrap_or_default()),
    };

    let mut status = Map::new();
    copy(&old, &mut status, &["nominatedNodeName", "resize", "resourceClaimStatuses", "qosClass"]);
    let started = old.get("startTime").filter(|at| !at.is_null()).cloned();
    status.insert("startTime", started.unwrap_or_else(|| Value::from(time::format(now))));
    status.insert("phase", phase);
    if let Some(Ended { reason, message, .. }) = &facts.ended {
        status.insert("reason", reason.as_str());
        status.insert("message", message.as_str());
    }
    if let Some(generation) = pod.tree().int_at(&["metadata", "generation"]).filter(|g| *g != 0) {
        status.insert("observedGeneration", generation);
    }
    addresses(pod, observed, facts, &old, &mut status);
    let disrupted = facts.ended.as_ref().and_then(|ended| ended.disrupted.as_deref());
    let parts = conditions::Parts { init: &init, main: &main, phase, disrupted };
    status.insert("conditions", conditions::conditions(pod, observed, &parts, &old, now, facts));
    for (name, list) in [
        ("initContainerStatuses", init),
        ("containerStatuses", main),
        ("ephemeralContainerStatuses", ephemeral),
    ] {
        if !list.is_empty() {
            status.insert(name, list);
        }
    }
    pod_resources(pod, facts, &old, &mut status);
    Value::Object(status)
}

/// The allocated and actuated resources of the pod as a whole.
fn pod_resources(pod: &Pod, facts: &StatusFacts, old: &Value, status: &mut Map) {
    let insert = |map: &mut Map, key: &'static str, amounts: &ResourceList| {
        if !amounts.is_empty() {
            map.insert(key, resource_list::write(amounts));
        }
    };
    insert(status, "allocatedResources", &resources::amounts(pod, "requests"));
    let runs = old.str_at(&["phase"]) == Some("Running");
    let actuated = facts.actuated.as_ref().filter(|_| runs);
    let has = actuated.map_or_else(|| pod.clone(), |actuated| actuated.apply_to(pod));
    let limits = if runs { resources::limits_in_force(&has) } else { resources::amounts(&has, "limits") };
    let mut all = Map::new();
    insert(&mut all, "limits", &limits);
    insert(&mut all, "requests", &resources::amounts(&has, "requests"));
    status.insert("resources", Value::Object(all));
}

/// The status of a rejected pod: only the reason.
fn rejected(ended: &Ended, old: &Value, now: Timestamp) -> Value {
    let mut status = Map::new();
    copy(old, &mut status, &["qosClass", "conditions"]);
    status.insert("startTime", time::format(now));
    status.insert("phase", "Failed");
    status.insert("reason", ended.reason.as_str());
    status.insert("message", ended.message.as_str());
    Value::Object(status)
}

fn copy(old: &Value, status: &mut Map, keys: &[&'static str]) {
    for key in keys {
        if let Some(value) = old.get(key).filter(|value| !value.is_null()) {
            status.insert(*key, value.clone());
        }
    }
}

/// The addresses of node and pod. Old ones are kept until there are new ones.
fn addresses(pod: &Pod, observed: &Observed, facts: &StatusFacts, old: &Value, status: &mut Map) {
    let listed = |ips: &[String]| ips.iter().map(|ip| value!({"ip": (ip.as_str())})).collect::<Vec<_>>();
    if let Some(first) = facts.host_ips.first() {
        status.insert("hostIP", first.as_str());
        status.insert("hostIPs", listed(&facts.host_ips));
    }
    let ips = match pod.uses_host(HostNamespace::Network) {
        true => facts.host_ips.as_slice(),
        false => observed.ips(),
    };
    match ips.first() {
        Some(first) => {
            status.insert("podIP", first.as_str());
            status.insert("podIPs", listed(ips));
        }
        None => copy(old, status, &["podIP", "podIPs"]),
    }
}
