//! What a pod's status says: pure, from what is wanted, what is there and what is known of both.
//!
//! Never forgets: what the runtime no longer knows of a container is kept from the status it had before. Conditions
//! keep the time of their last change.

mod conditions;
mod containers;
mod phase;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

use corten_api::{Map, Value, time, value};
use corten_container::ContainerStatus;
use corten_quota::resource_list::{self, ResourceList};
use jiff::Timestamp;

use crate::allocation::{Given, Resizing};
use crate::observed::Observed;
use crate::pod::{HostNamespace, Pod, Role};
use crate::resources;

/// Why a container does not run, as the last attempt to start it found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Waiting {
    pub reason: String,
    pub message: String,
}

/// What else a status depends on.
#[derive(Debug, Clone, Default)]
pub struct Known {
    /// By container name.
    pub waiting: HashMap<String, Waiting>,
    /// By container id: whether it has passed its startup probe and its readiness probe.
    pub probed: HashMap<String, Readiness>,
    /// The node's addresses, the primary one first.
    pub host_ips: Vec<String>,
    /// As container ids name the runtime: `corten`, `containerd`.
    pub runtime: String,
    /// Why the node ended the pod, if it did.
    pub ended: Option<Ended>,
    /// What running containers have, if it is not what the pod was given.
    pub(crate) actuated: Option<Given>,
    pub(crate) resizing: Resizing,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Readiness {
    pub started: bool,
    pub ready: bool,
}

/// A pod that the node itself gave up.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ended {
    pub reason: String,
    pub message: String,
    /// How long its containers have to end, in place of what the pod says.
    pub grace: Option<std::time::Duration>,
    /// How it ended for the sake of others, if it did.
    pub disrupted: Option<String>,
    /// Whether it never began.
    pub rejected: bool,
}

impl Known {
    fn readiness(&self, status: &ContainerStatus) -> Readiness {
        self.probed.get(&status.id).copied().unwrap_or_default()
    }
}

/// The status of a pod now. `over` once nothing of it will run again.
pub fn status(pod: &Pod, observed: &Observed, known: &Known, over: bool, now: Timestamp) -> Value {
    let old = pod.tree().get("status").cloned().unwrap_or_else(Value::object);
    if let Some(ended) = known.ended.as_ref().filter(|ended| ended.rejected) {
        return rejected(ended, &old, now);
    }
    let of = |roles: &[Role], list: &str| -> Vec<Value> {
        let wanted = pod.containers().iter().filter(|c| roles.contains(&c.role));
        wanted.map(|c| containers::status(pod, c, observed, known, old.items_at(&[list]), over)).collect()
    };
    let init = of(&[Role::Init, Role::Sidecar], "initContainerStatuses");
    let main = of(&[Role::Main], "containerStatuses");
    let ephemeral = of(&[Role::Ephemeral], "ephemeralContainerStatuses");
    let phase = match &known.ended {
        Some(_) => "Failed",
        None => phase::phase(pod, &init, &main, over, old.str_at(&["phase"]).unwrap_or_default()),
    };

    let mut status = Map::new();
    copy(&old, &mut status, &["nominatedNodeName", "resize", "resourceClaimStatuses", "qosClass"]);
    let started = old.get("startTime").filter(|at| !at.is_null()).cloned();
    status.insert("startTime", started.unwrap_or_else(|| Value::from(time::format(now))));
    status.insert("phase", phase);
    if let Some(Ended { reason, message, .. }) = &known.ended {
        status.insert("reason", reason.as_str());
        status.insert("message", message.as_str());
    }
    if let Some(generation) = pod.tree().int_at(&["metadata", "generation"]).filter(|g| *g != 0) {
        status.insert("observedGeneration", generation);
    }
    addresses(pod, observed, known, &old, &mut status);
    let disrupted = known.ended.as_ref().and_then(|ended| ended.disrupted.as_deref());
    let parts = conditions::Parts { init: &init, main: &main, phase, disrupted };
    status.insert("conditions", conditions::conditions(pod, observed, &parts, &old, now, known));
    for (name, list) in [
        ("initContainerStatuses", init),
        ("containerStatuses", main),
        ("ephemeralContainerStatuses", ephemeral),
    ] {
        if !list.is_empty() {
            status.insert(name, list);
        }
    }
    given(pod, known, &old, &mut status);
    Value::Object(status)
}

/// What the pod has as a whole: what it was given, and what it has of that.
fn given(pod: &Pod, known: &Known, old: &Value, status: &mut Map) {
    let insert = |map: &mut Map, key: &'static str, amounts: &ResourceList| {
        if !amounts.is_empty() {
            map.insert(key, resource_list::write(amounts));
        }
    };
    insert(status, "allocatedResources", &resources::amounts(pod, "requests"));
    let runs = old.str_at(&["phase"]) == Some("Running");
    let actuated = known.actuated.as_ref().filter(|_| runs);
    let has = actuated.map_or_else(|| pod.clone(), |actuated| actuated.in_place(pod));
    let limits = if runs { resources::limits_in_force(&has) } else { resources::amounts(&has, "limits") };
    let mut all = Map::new();
    insert(&mut all, "limits", &limits);
    insert(&mut all, "requests", &resources::amounts(&has, "requests"));
    status.insert("resources", Value::Object(all));
}

/// Of a pod that was not taken on there is nothing to say but why.
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

/// Addresses that are gone stay written down until others come.
fn addresses(pod: &Pod, observed: &Observed, known: &Known, old: &Value, status: &mut Map) {
    let listed = |ips: &[String]| ips.iter().map(|ip| value!({"ip": (ip.as_str())})).collect::<Vec<_>>();
    if let Some(first) = known.host_ips.first() {
        status.insert("hostIP", first.as_str());
        status.insert("hostIPs", listed(&known.host_ips));
    }
    let ips = match pod.uses_host(HostNamespace::Network) {
        true => known.host_ips.as_slice(),
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
