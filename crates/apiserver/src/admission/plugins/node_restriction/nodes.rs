//! The writes that a node may do of its own Node, and of claims that it resizes.

use corten_api::{Map, Value, meta};

use super::Outcome;
use crate::admission::{Attributes, Operation};

/// Kubernetes labels that a node may set.
const KUBELET_LABELS: [&str; 11] = [
    "kubernetes.io/hostname",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "beta.kubernetes.io/instance-type",
    "node.kubernetes.io/instance-type",
    "kubernetes.io/os",
    "kubernetes.io/arch",
    "beta.kubernetes.io/os",
    "beta.kubernetes.io/arch",
];

pub(super) fn node(attributes: &Attributes<'_>, node: &str, object: Option<&Value>) -> Outcome {
    let name = attributes.name(object);
    if name != node {
        return Err(format!("node {node:?} is not allowed to modify node {name:?}").into());
    }
    match (attributes.operation, object, attributes.old) {
        (Operation::Create, Some(new), _) => register(node, new),
        (Operation::Update, Some(new), Some(old)) => change(node, new, old),
        _ => Ok(()),
    }
}

pub(super) fn register(node: &str, new: &Value) -> Outcome {
    if new.at(&["spec", "configSource"]).is_some() {
        return Err(format!("node {node:?} is not allowed to create pods with a non-nil configSource").into());
    }
    if has_pod_cidrs(new) {
        return Err(format!("node {node:?} is not allowed to set podCIDRs").into());
    }
    let labels = forbidden_labels(new, &Value::Null);
    if !labels.is_empty() {
        let list = labels.join(", ");
        return Err(format!("node {node:?} is not allowed to set the following labels: {list}").into());
    }
    Ok(())
}

/// Checks an update of the node's own Node: it must not change fields that schedule pods to it.
pub(super) fn change(node: &str, new: &Value, old: &Value) -> Outcome {
    const SOURCE: [&str; 2] = ["spec", "configSource"];
    if new.at(&SOURCE).is_some() && new.at(&SOURCE) != old.at(&SOURCE) {
        return Err(format!(
            "node {node:?} is not allowed to update configSource to a new non-nil configSource"
        )
        .into());
    }
    let differs = |path: &[&str]| new.items_at(path) != old.items_at(path);
    if differs(&["spec", "taints"]) {
        return Err(format!("node {node:?} is not allowed to modify taints").into());
    }
    if differs(&["metadata", "ownerReferences"]) {
        return Err(format!("node {node:?} is not allowed to modify ownerReferences").into());
    }
    if differs(&["spec", "podCIDRs"]) || new.str_at(&["spec", "podCIDR"]) != old.str_at(&["spec", "podCIDR"])
    {
        return Err(format!("node {node:?} is not allowed to modify podCIDRs").into());
    }
    let labels = forbidden_labels(new, old);
    if !labels.is_empty() {
        return Err(format!("is not allowed to modify labels: {}", labels.join(", ")).into());
    }
    Ok(())
}

/// True if a Node has pod CIDRs. Unlike upstream, a node must not set them: other nodes route these networks to it, so it
/// could get other pods' packets. No kubelet sets them; the node IPAM controller does.
fn has_pod_cidrs(node: &Value) -> bool {
    !node.items_at(&["spec", "podCIDRs"]).is_empty()
        || node.str_at(&["spec", "podCIDR"]).is_some_and(|cidr| !cidr.is_empty())
}

/// The changed labels that a node may not set.
fn forbidden_labels(new: &Value, old: &Value) -> Vec<String> {
    let label = |object: &Value, key: &str| meta::labels(object).and_then(|labels| labels.get(key)).cloned();
    let keys = [new, old].into_iter().filter_map(meta::labels).flat_map(Map::keys);
    let changed = keys.filter(|key| label(new, key) != label(old, key));
    let mut forbidden: Vec<String> =
        changed.filter(|key| is_forbidden(key)).map(ToString::to_string).collect();
    forbidden.sort();
    forbidden.dedup();
    forbidden
}

fn is_forbidden(label: &str) -> bool {
    let domain = label.split_once('/').map_or("", |(domain, _)| domain);
    let is_in = |parent: &str| {
        domain == parent || domain.strip_suffix(parent).is_some_and(|rest| rest.ends_with('.'))
    };
    let is_kubelets =
        KUBELET_LABELS.contains(&label) || is_in("kubelet.kubernetes.io") || is_in("node.kubernetes.io");
    is_in("node-restriction.kubernetes.io") || ((is_in("kubernetes.io") || is_in("k8s.io")) && !is_kubelets)
}

pub(super) fn claim_status(attributes: &Attributes<'_>, node: &str, object: Option<&Value>) -> Outcome {
    match (attributes.operation, object, attributes.old) {
        (Operation::Update, Some(new), Some(old)) => resize_report(node, new, old),
        _ => Err("unexpected operation \"CREATE\"".into()),
    }
}

/// Checks that a node changes only the resize status of a claim.
pub(super) fn resize_report(node: &str, new: &Value, old: &Value) -> Outcome {
    let rest = |claim: &Value| {
        let mut claim = claim.clone();
        let reported = ["capacity", "conditions", "allocatedResourceStatuses", "allocatedResources"];
        for path in reported.map(|field| ["status", field]) {
            claim.remove(&path);
        }
        for path in [["metadata", "resourceVersion"], ["metadata", "managedFields"]] {
            claim.remove(&path);
        }
        claim.remove(&["kind"]);
        claim.remove(&["apiVersion"]);
        claim
    };
    if rest(new) != rest(old) {
        return Err(format!(
            "node {node:?} is not allowed to update fields other than status.quantity and status.conditions"
        )
        .into());
    }
    Ok(())
}
