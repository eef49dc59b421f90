//! The writes of pods that a node may do: create its mirror pods, report the status of its pods, delete its pods.

use corten_api::{Status, Value, meta};

use super::{Outcome, Refusal};
use crate::admission::{Attributes, Operation, lookup, pod};

pub(super) fn pod(attributes: &Attributes<'_>, node: &str, object: Option<&Value>) -> Outcome {
    match (attributes.operation, object, attributes.old) {
        (Operation::Create, Some(pod), _) => {
            let uid = lookup::node(attributes.backend(), node).map(|n| meta::uid(n.parsed()).to_owned());
            mirror(node, uid.as_deref(), pod)
        }
        (Operation::Delete, _, Some(old)) if pod::node_name(old) == node => Ok(()),
        (Operation::Delete, ..) => {
            Err(format!("node {node:?} can only delete pods with spec.nodeName set to itself").into())
        }
        _ => Err(format!(
            "unexpected operation \"UPDATE\", node {node:?} can only create and delete mirror pods"
        )
        .into()),
    }
}

/// Checks a mirror pod: it is bound to and owned by the node, and references no API object.
pub(super) fn mirror(node: &str, node_uid: Option<&str>, pod: &Value) -> Outcome {
    if !pod::is_mirror(pod) {
        return Err(format!(
            "pod does not have {:?} annotation, node {node:?} can only create mirror pods",
            pod::MIRROR_ANNOTATION
        )
        .into());
    }
    if pod::node_name(pod) != node {
        return Err(format!("node {node:?} can only create pods with spec.nodeName set to itself").into());
    }
    owned_by(node, node_uid, pod.items_at(&["metadata", "ownerReferences"]))?;
    match corten_registry::api_reference(pod) {
        Ok(None) => Ok(()),
        Ok(Some(what)) => Err(format!("node {node:?} can not create pods that reference {what}").into()),
        Err(why) => Err(format!("error checking mirror pod for API references: {why}").into()),
    }
}

fn owned_by(node: &str, node_uid: Option<&str>, owners: &[Value]) -> Outcome {
    let [owner] = owners else {
        let how = if owners.is_empty() { "an" } else { "a single" };
        return Err(
            format!("node {node:?} can only create pods with {how} owner reference set to itself").into()
        );
    };
    let is = |field: &str, wanted: &str| owner.str_at(&[field]) == Some(wanted);
    if !(is("apiVersion", "v1") && is("kind", "Node") && is("name", node)) {
        return Err(
            format!("node {node:?} can only create pods with an owner reference set to itself").into()
        );
    }
    if owner.bool_at(&["controller"]) != Some(true) {
        return Err(format!(
            "node {node:?} can only create pods with a controller owner reference set to itself"
        )
        .into());
    }
    if owner.bool_at(&["blockOwnerDeletion"]) == Some(true) {
        return Err(format!("node {node:?} must not set blockOwnerDeletion on an owner reference").into());
    }
    let Some(found) = node_uid else { return Err(Refusal::Other(Status::not_found("", "nodes", node))) };
    let given = owner.str_at(&["uid"]).unwrap_or_default();
    if given != found {
        return Err(format!("node {node} UID mismatch: expected {given} got {found}").into());
    }
    Ok(())
}

pub(super) fn status(attributes: &Attributes<'_>, node: &str, object: Option<&Value>) -> Outcome {
    match (attributes.operation, object, attributes.old) {
        (Operation::Update, Some(new), Some(old)) => report(node, new, old),
        _ => Err("unexpected operation \"CREATE\"".into()),
    }
}

/// Checks a status report of a node, which must not change fields that controllers decide.
pub(super) fn report(node: &str, new: &Value, old: &Value) -> Outcome {
    if pod::node_name(old) != node {
        return Err(format!(
            "node {node:?} can only update pod status for pods with spec.nodeName set to itself"
        )
        .into());
    }
    let differs = |path: &[&str]| {
        let part = |pod: &Value| pod.at(path).filter(|v| !v.is_null() && !is_empty(v)).cloned();
        part(new) != part(old)
    };
    let decided: [(&[&str], &str); 4] = [
        (&["metadata", "labels"], "update labels through pod status"),
        (&["status", "resourceClaimStatuses"], "update resource claim statues"),
        (&["status", "extendedResourceClaimStatus"], "update extended resource claim status"),
        (
            &["status", "nodeAllocatableResourceClaimStatuses"],
            "update node allocatable resource claim statuses",
        ),
    ];
    match decided.into_iter().find(|(path, _)| differs(path)) {
        Some((_, what)) => Err(format!("node {node:?} cannot {what}").into()),
        None => Ok(()),
    }
}

fn is_empty(value: &Value) -> bool {
    value.as_object().is_some_and(|map| map.is_empty()) || value.as_array().is_some_and(<[Value]>::is_empty)
}

pub(super) fn eviction(attributes: &Attributes<'_>, node: &str) -> Outcome {
    let (namespace, name) = (attributes.namespace(), attributes.name(None));
    let Some(pod) = lookup::get(attributes.backend(), ("", "pods"), namespace, name) else {
        return Err(Refusal::Other(Status::not_found("", "pods", name)));
    };
    if lookup::field(attributes.backend(), ("", "pods"), &pod, "spec.nodeName") != node {
        return Err(format!("node {node} can only evict pods with spec.nodeName set to itself").into());
    }
    Ok(())
}
