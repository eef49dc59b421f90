//! What controllers ask of pods: whether they count, are ready, are available, and which go first.

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

/// What is read off pods again and again.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PodView {
    pub(crate) phase: Str,
    pub(crate) node: Str,
    pub(crate) ready: bool,
    pub(crate) ready_since: Option<Timestamp>,
    pub(crate) created: Option<Timestamp>,
    pub(crate) deletion_cost: i64,
    /// The most any container restarted, and the most any ordinary init container did.
    pub(crate) restarts: (i64, i64),
    /// Since when it is marked as about to be disrupted, by anybody but its node.
    pub(crate) disrupted_since: Option<Timestamp>,
    /// Its volumes that are claims, those that are made for it included: which volume is which claim.
    pub(crate) claims: Box<[(Str, Str)]>,
    pub(crate) ips: Box<[IpAddr]>,
    pub(crate) hostname: Str,
    pub(crate) subdomain: Str,
    /// The ports that have names, of everything that runs for as long as the pod does.
    pub(crate) ports: Box<[NamedPort]>,
    /// What only pods of jobs have.
    pub(crate) tracking: Option<Arc<Tracking>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NamedPort {
    pub(crate) name: Str,
    pub(crate) protocol: Str,
    pub(crate) number: i64,
}

/// Reads an address, however its numbers are written.
pub(crate) fn address(text: &str) -> Option<IpAddr> {
    if let Ok(ip) = text.parse::<IpAddr>() {
        return Some(ip.to_canonical());
    }
    // Octets may begin with zeros, which say nothing.
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

/// The mark of a pod that somebody said is about to be disrupted. Its node may take as long as it likes after that.
fn disrupted(pod: &Value) -> Option<&Value> {
    let condition = conditions::condition(pod, "DisruptionTarget")?;
    let text = |key: &str| condition.str_at(&[key]);
    (text("status") == Some("True") && text("reason") != Some("TerminationByKubelet")).then_some(condition)
}

fn claim(pod: &Value, volume: &Value) -> Option<(Str, Str)> {
    Some((volume.str_at(&["name"])?.into(), claim_of_volume(pod, volume)?))
}

/// The claim that one of a pod's volumes stands for.
pub(crate) fn claim_of_volume(pod: &Value, volume: &Value) -> Option<Str> {
    if let Some(name) = volume.str_at(&["persistentVolumeClaim", "claimName"]) {
        return Some(name.into());
    }
    volume.get("ephemeral")?;
    let volume = volume.str_at(&["name"]).unwrap_or_default();
    Some(format!("{}-{volume}", meta::name(pod)).into())
}

/// A pod with what is read off it.
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
    /// Whether it counts: neither finished nor going.
    pub(crate) fn is_active(&self) -> bool {
        !self.is_finished() && !self.object.deleting
    }

    pub(crate) fn is_finished(&self) -> bool {
        matches!(self.view.phase.as_str(), "Succeeded" | "Failed")
    }

    pub(crate) fn is_terminating(&self) -> bool {
        !self.is_finished() && self.object.deleting
    }

    /// Whether it has been ready long enough.
    pub(crate) fn is_available(&self, min_ready: Duration, now: Timestamp) -> bool {
        self.view.ready && self.available_in(min_ready, now) == Some(Duration::ZERO)
    }

    /// How long until it has been ready long enough, if it stays ready.
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

/// Puts those that should go first to the front: unassigned, then pending, then not ready, then cheap, then where
/// there are more of the same on a node, then the ones ready for the shortest time, then those that restarted
/// more, then the newest. Times count by their order of magnitude, so that which of about equally old pods goes is
/// up to chance.
///
/// By keys, never by comparing two at a time: whatever pods there are, there is one order.
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

/// How long ago something was, by its order of magnitude; `None` if nobody knows.
fn magnitude(at: Option<Timestamp>, now: Timestamp) -> Option<i64> {
    let nanoseconds = now.duration_since(at?).as_nanos();
    Some(if nanoseconds <= 0 { -1 } else { (nanoseconds as f64).log2() as i64 })
}

/// Deletes this very pod.
pub(crate) fn delete(pod: &Pod) -> Action {
    let options = DeleteOptions { uid: Some(pod.object.uid.clone()), ..DeleteOptions::default() };
    Action::Delete { kind: &kinds::PODS, key: pod.object.key.clone(), options }
}

/// What people are told of a pod that was made or deleted, or could not be.
pub(crate) fn told(component: &'static str, owner: &Value, outcome: &Outcome) -> Option<Event> {
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
