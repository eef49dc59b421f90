//! The predicates that keep a pod from running on a node. Pure, in upstream's order and words.

use corten_api::placement::{self, Place};
use corten_api::{Map, Str, Value, meta};

use super::Rejection;
use crate::pod::{Pod, Role};
use crate::resources::allocation::{Lack, lacks};

const OS: &str = "kubernetes.io/os";
/// The value of `kubernetes.io/os` on this node.
const LINUX: &str = "linux";
/// A port on this address is taken on every address.
const EVERY_ADDRESS: &str = "0.0.0.0";

/// A predicate that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Failure {
    /// A resource is lacking; preemption could free it.
    Lack(Lack),
    /// The pod does not match the node.
    Mismatch { predicate: &'static str, why: &'static str },
}

impl Failure {
    pub(super) fn rejection(&self) -> Rejection {
        match self {
            Failure::Lack(lack) => Rejection { reason: lack.reason(), message: lack.to_string() },
            Failure::Mismatch { predicate, why } => Rejection {
                reason: (*predicate).to_owned(),
                message: format!("Predicate {predicate} failed: {why}"),
            },
        }
    }
}

/// The rejection of a pod that could never run here.
pub(super) fn impossible(pod: &Pod, node: &Value) -> Option<Rejection> {
    let rejection = |reason: &str, message: &str| {
        Some(Rejection { reason: reason.to_owned(), message: message.to_owned() })
    };
    let tree = pod.tree();
    if meta::labels(tree).and_then(|labels| labels.get(OS)).is_some_and(|os| os.as_str() != Some(LINUX)) {
        let message = "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label";
        return rejection("PodOSSelectorNodeLabelDoesNotMatch", message);
    }
    if tree.str_at(&["spec", "os", "name"]).is_some_and(|os| os != LINUX) {
        return rejection("PodOSNotSupported", "Failed to admit pod as the OS field doesn't match node OS");
    }
    let policy = tree.str_at(&["spec", "securityContext", "supplementalGroupsPolicy"]);
    if policy == Some("Strict")
        && node.bool_at(&["status", "features", "supplementalGroupsPolicy"]) != Some(true)
    {
        let message = "SupplementalGroupsPolicy=Strict is not supported in this node";
        return rejection("SupplementalGroupsPolicyNotSupported", message);
    }
    None
}

/// All predicates that fail for a pod on a node with other pods.
pub(super) fn failures(pod: &Pod, others: &[Pod], node: &Value) -> Vec<Failure> {
    let spec = pod.tree().get("spec").cloned().unwrap_or_default();
    let allocatable = node.at(&["status", "allocatable"]).cloned().unwrap_or_default();
    let mut found: Vec<Failure> = lacks(pod, others, &allocatable).into_iter().map(Failure::Lack).collect();
    let mut fail = |predicate, why| found.push(Failure::Mismatch { predicate, why });

    let none = Map::new();
    let (name, labels) = (meta::name(node), meta::labels(node).unwrap_or(&none));
    if !placement::is_required(&spec, Place { name, labels }) {
        fail("NodeAffinity", "node(s) didn't match Pod's node affinity/selector");
    }
    let named = spec.str_at(&["nodeName"]).unwrap_or_default();
    if !named.is_empty() && named != name {
        fail("NodeName", "node(s) didn't match the requested node name");
    }
    let taken: Vec<HostPort> = others.iter().flat_map(host_ports).collect();
    if host_ports(pod).iter().any(|port| taken.iter().any(|other| port.excludes(other))) {
        fail("NodePorts", "node(s) didn't have free ports for the requested pod ports");
    }
    let taints = node.items_at(&["spec", "taints"]);
    if !pod.is_static() && !placement::tolerates(spec.items_at(&["tolerations"]), taints, &["NoExecute"]) {
        fail("TaintToleration", "node(s) had taints that the pod didn't tolerate");
    }
    found
}

/// A host port of a pod.
#[derive(Debug, PartialEq, Eq)]
struct HostPort {
    address: Str,
    protocol: Str,
    port: i64,
}

impl HostPort {
    fn excludes(&self, other: &HostPort) -> bool {
        let addresses = [&self.address, &other.address];
        let meet =
            self.address == other.address || addresses.into_iter().any(|address| address == EVERY_ADDRESS);
        meet && (self.port, &self.protocol) == (other.port, &other.protocol)
    }
}

fn host_ports(pod: &Pod) -> Vec<HostPort> {
    let lasting = pod.containers().iter().filter(|c| matches!(c.role, Role::Main | Role::Sidecar));
    let ports = lasting.flat_map(|container| container.tree.items_at(&["ports"]));
    ports
        .filter_map(|port| {
            let text = |field: &str, default: &'static str| {
                Str::new(port.str_at(&[field]).filter(|text| !text.is_empty()).unwrap_or(default))
            };
            let number = port.int_at(&["hostPort"]).filter(|number| *number > 0)?;
            Some(HostPort {
                address: text("hostIP", EVERY_ADDRESS),
                protocol: text("protocol", "TCP"),
                port: number,
            })
        })
        .collect()
}
