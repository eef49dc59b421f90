//! Pods, as several controllers see them: whether they are active, ready and available, and their order of deletion.

use std::cmp::Reverse;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use corten_api::{Str, Value, meta, time};
use corten_client::{DeleteOptions, Object, View, kinds};
use corten_reconcile::{Action, Event, Outcome};
use jiff::Timestamp;

use crate::conditions;
use crate::job::Tracking;

/// The fields of a pod that are read often.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PodView {
    pub(crate) phase: Str,
    pub(crate) node: Str,
    pub(crate) ready: bool,
    pub(crate) ready_since: Option<Timestamp>,
    pub(crate) created: Option<Timestamp>,
    pub(crate) deletion_cost: i64,
    /// The highest restart count of any container, and of any ordinary init container.
    pub(crate) restarts: (i64, i64),
    /// The time of its DisruptionTarget condition, unless the kubelet set it.
    pub(crate) disrupted_since: Option<Timestamp>,
    /// Its volumes with claims, ephemeral ones included: volume names and claim names.
    pub(crate) claims: Box<[(Str, Str)]>,
    pub(crate) ips: Box<[IpAddr]>,
    pub(crate) hostname: Str,
    pub(crate) subdomain: Str,
    /// The named ports of containers that run for the whole life of the pod.
    pub(crate) ports: Box<[NamedPort]>,
    /// The tracking fields of a job's pod.
    pub(crate) tracking: Option<Arc<Tracking>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NamedPort {
    pub(crate) name: Str,
    pub(crate) protocol: Str,
    pub(crate) number: i64,
}

/// Parses an IP address; IPv4 octets may have leading zeros.
pub(crate) fn address(text: &str) -> Option<IpAddr> {
    if let Ok(ip) = text.parse::<IpAddr>() {
        return Some(ip.to_canonical());
    }
    // Octets may have leading zeros.
    let octets: Vec<_> = text.split('.').map(str::parse::<u8>).collect::<Result<_, _>>().ok()?;
    Some(IpAddr::from(<[u8; 4]>::try_from(octets).ok()?))
}

fn named_ports(pod: &Value) -> Box<[NamedPort]> {
    let sidecars = pod.items_at(&["spec", "initContainers"]).iter();
    let sidecars = sidecars.filter(|container| container.str_at(&["restartPolicy"]) == Some("Always"));
    let containers = pod.items_at(&["spec", "containers"]).iter().chain(sidecars);
    containers
        .flat_map(|container| container.items_at(&["ports"]))
        .filter_map(|port| {
            Some(NamedPort {
                name: port.str_at(&["name"])?.into(),
                protocol: port.str_at(&["protocol"]).unwrap_or("TCP").into(),
                number: port.int_at(&["containerPort"])?,
            })
        })
        .collect()
}

impl View for PodView {
    fn of(pod: &Value) -> PodView {
        let text = |path: &[&str]| Str::new(pod.str_at(path).unwrap_or_default());
        let at = |value: Option<&Value>| value.and_then(Value::as_str).and_then(|t| time::parse(t).ok());
        let ready = conditions::condition(pod, "Ready");
        let most = |list: &str| {
            let statuses = pod.items_at(&["status", list]);
            statuses.iter().filter_map(|s| s.int_at(&["restartCount"])).max().unwrap_or(0)
        };
        let cost = ["metadata", "annotations", "controller.kubernetes.io/pod-deletion-cost"];
        PodView {
            phase: text(&["status", "phase"]),
            node: text(&["spec", "nodeName"]),
            ready: conditions::is_true(pod, "Ready"),
            ready_since: at(ready.and_then(|c| c.get("lastTransitionTime"))),
            created: at(pod.at(&["metadata", "creationTimestamp"])),
            deletion_cost: pod.str_at(&cost).and_then(|text| text.parse().ok()).unwrap_or(0),
            restarts: (most("containerStatuses"), most("initContainerStatuses")),
            disrupted_since: disrupted(pod).and_then(|c| at(c.get("lastTransitionTime"))),
            claims: pod.items_at(&["spec", "volumes"]).iter().filter_map(|v| claim(pod, v)).collect(),
            ips: pod
                .items_at(&["status", "podIPs"])
                .iter()
                .filter_map(|ip| address(ip.str_at(&["ip"])?))
                .collect(),
            hostname: text(&["spec", "hostname"]),
            subdomain: text(&["spec", "subdomain"]),
            ports: named_ports(pod),
            tracking: Tracking::of_job_pod(pod),
        }
    }
}

/// The DisruptionTarget condition of a pod, unless the kubelet set it: the kubelet may take any time to terminate the
/// pod.
fn disrupted(pod: &Value) -> Option<&Value> {
    let condition = conditions::condition(pod, "DisruptionTarget")?;
    let text = |key: &str| condition.str_at(&[key]);
    (text("status") == Some("True") && text("reason") != Some("TerminationByKubelet")).then_some(condition)
}

fn claim(pod: &Value, volume: &Value) -> Option<(Str, Str)> {
    Some((volume.str_at(&["name"])?.into(), claim_of_volume(pod, volume)?))
}

/// The claim of one of a pod's volumes.
pub(crate) fn claim_of_volume(pod: &Value, volume: &Value) -> Option<Str> {
    if let Some(name) = volume.str_at(&["persistentVolumeClaim", "claimName"]) {
        return Some(name.into());
    }
    volume.get("ephemeral")?;
    let volume = volume.str_at(&["name"]).unwrap_or_default();
    Some(format!("{}-{volume}", meta::name(pod)).into())
}

/// A pod and its view.
#[derive(Debug, Clone)]
pub(crate) struct Pod {
    pub(crate) object: Arc<Object>,
    pub(crate) view: Arc<PodView>,
}

impl From<Arc<Object>> for Pod {
    fn from(object: Arc<Object>) -> Pod {
        Pod { view: object.view(), object }
    }
}

impl Pod {
    /// True if it is neither finished nor terminating.
    pub(crate) fn is_active(&self) -> bool {
        !self.is_finished() && !self.object.deleting
    }

    pub(crate) fn is_finished(&self) -> bool {
        matches!(self.view.phase.as_str(), "Succeeded" | "Failed")
    }

    pub(crate) fn is_terminating(&self) -> bool {
        !self.is_finished() && self.object.deleting
    }

    /// True if it has been ready for `min_ready`.
    pub(crate) fn is_available(&self, min_ready: Duration, now: Timestamp) -> bool {
        self.view.ready && self.available_in(min_ready, now) == Some(Duration::ZERO)
    }

    /// The time until it has been ready for `min_ready`, if it stays ready.
    pub(crate) fn available_in(&self, min_ready: Duration, now: Timestamp) -> Option<Duration> {
        if !self.view.ready {
            return None;
        }
        if min_ready.is_zero() {
            return Some(Duration::ZERO);
        }
        let ready_for = Duration::try_from(now.duration_since(self.view.ready_since?)).unwrap_or_default();
        Some(min_ready.saturating_sub(ready_for))
    }
}

/// Sorts pods by their order of deletion: unassigned, then pending, then not ready, then cheap, then those on nodes
/// with more pods of the same workload, then ready for the shortest time, then more restarts, then the newest. Times
/// are compared by order of magnitude, so that the choice among pods of about the same age is random.
///
/// Sorted by keys, never by pairwise comparison: the order is total for any pods.
pub(crate) fn order_for_deletion(pods: &mut [Pod], same_node: impl Fn(&Pod) -> usize, now: Timestamp) {
    pods.sort_by_cached_key(|pod| {
        let view = &pod.view;
        let is_up = (!view.node.is_empty(), phase_rank(&view.phase), view.ready);
        let ready_for = view.ready.then(|| magnitude(view.ready_since, now));
        let age = magnitude(view.created, now);
        (
            is_up,
            view.deletion_cost,
            Reverse(same_node(pod)),
            ready_for,
            Reverse(view.restarts),
            age,
            pod.object.uid.clone(),
        )
    });
}

fn phase_rank(phase: &str) -> u8 {
    match phase {
        "Pending" => 0,
        "Unknown" => 1,
        _ => 2,
    }
}

/// The order of magnitude of an age; `None` if it is unknown.
fn magnitude(at: Option<Timestamp>, now: Timestamp) -> Option<i64> {
    let nanoseconds = now.duration_since(at?).as_nanos();
    Some(if nanoseconds <= 0 { -1 } else { (nanoseconds as f64).log2() as i64 })
}

/// Deletes this very pod.
pub(crate) fn delete(pod: &Pod) -> Action {
    let options = DeleteOptions { uid: Some(pod.object.uid.clone()), ..DeleteOptions::default() };
    Action::Delete { kind: &kinds::PODS, key: pod.object.key.clone(), options }
}

/// The event about a pod that was created or deleted, or that could not be.
pub(crate) fn event(component: &'static str, owner: &Value, outcome: &Outcome) -> Option<Event> {
    if *outcome.action.kind() != kinds::PODS {
        return None;
    }
    match (&outcome.action, &outcome.result) {
        (Action::Create { .. }, Ok(pod)) => {
            let message = format!("Created pod: {}", meta::name(pod));
            Some(Event::normal(component, owner, "SuccessfulCreate", message))
        }
        (Action::Create { .. }, Err(error)) if !error.has_cause("NamespaceTerminating") => {
            Some(Event::warning(component, owner, "FailedCreate", format!("Error creating: {error}")))
        }
        (Action::Delete { key, .. }, Ok(_)) => {
            Some(Event::normal(component, owner, "SuccessfulDelete", format!("Deleted pod: {}", key.name)))
        }
        (Action::Delete { .. }, Err(error)) => {
            Some(Event::warning(component, owner, "FailedDelete", format!("Error deleting: {error}")))
        }
        _ => None,
    }
}
