//! The Node authorizer's rules, kind by kind.

use std::ops::Deref;

use corten_api::status::quoted;

use super::graph::{Graph, Vertex, VertexKind};
use super::node_name;
use crate::rbac::Rule;
use crate::{Attributes, Decision};

const LEASE_NAMESPACE: &str = "kube-node-lease";

/// Decides about a node's request; `shared` are the rules of all nodes. The graph is locked only if the decision depends on
/// it.
pub fn authorize<G: Deref<Target = Graph>>(
    asked: &Attributes<'_>,
    shared: &[Rule],
    graph: impl FnOnce() -> G,
) -> Decision {
    let Some(node) = node_name(asked.user) else { return Decision::NoOpinion(String::new()) };
    let outcome = match node {
        "" => Outcome::No(format!("unknown node for user {}", quoted(&asked.user.name))),
        node => decide(node, asked, shared),
    };
    match outcome {
        Outcome::Allow => Decision::Allow(String::new()),
        Outcome::No(reason) => Decision::NoOpinion(reason),
        Outcome::IfRelated(_) if asked.name.is_empty() => Decision::NoOpinion("No Object name found".into()),
        Outcome::IfRelated(kind) => {
            let wanted = Vertex::new(kind, asked.namespace, asked.name);
            match graph().reaches(node, &wanted) {
                true => Decision::Allow(String::new()),
                false => Decision::NoOpinion(format!(
                    "no relationship found between node '{node}' and this object"
                )),
            }
        }
    }
}

enum Outcome {
    Allow,
    /// Refused, with the reason if there is one.
    No(String),
    /// Allowed if the graph relates the object to the node.
    IfRelated(VertexKind),
}

fn refuse(reason: impl Into<String>) -> Outcome {
    Outcome::No(reason.into())
}

fn decide(node: &str, asked: &Attributes<'_>, shared: &[Rule]) -> Outcome {
    let kind = if asked.is_resource_request() { (asked.group, asked.resource) } else { ("", "") };
    match kind {
        ("", "secrets") => read(VertexKind::Secret, asked),
        ("", "configmaps") => read(VertexKind::ConfigMap, asked),
        ("", "persistentvolumeclaims") if asked.subresource == "status" => update_claim_status(asked),
        ("", "persistentvolumeclaims") => get(VertexKind::PersistentVolumeClaim, asked),
        ("", "persistentvolumes") => get(VertexKind::PersistentVolume, asked),
        ("resource.k8s.io", "resourceclaims") => get(VertexKind::ResourceClaim, asked),
        ("storage.k8s.io", "volumeattachments") => get(VertexKind::VolumeAttachment, asked),
        ("", "serviceaccounts") => service_account(asked),
        ("coordination.k8s.io", "leases") => lease(node, asked),
        ("storage.k8s.io", "csinodes") => csi_node(node, asked),
        ("resource.k8s.io", "resourceslices") => resource_slice(node, asked),
        ("", "nodes") => own_node(node, asked),
        ("", "pods") => pod(node, asked),
        ("certificates.k8s.io", "podcertificaterequests") => certificate_request(node, asked),
        _ if shared.iter().any(|rule| rule.allows(asked)) => Outcome::Allow,
        _ => refuse(""),
    }
}

/// `get` of single objects.
fn get(kind: VertexKind, asked: &Attributes<'_>) -> Outcome {
    if asked.verb != "get" {
        refuse("can only get individual resources of this type")
    } else if !asked.subresource.is_empty() {
        refuse("cannot get subresource")
    } else {
        Outcome::IfRelated(kind)
    }
}

/// Reads of single objects, also by listing or watching one.
fn read(kind: VertexKind, asked: &Attributes<'_>) -> Outcome {
    if !asked.is_read_only() {
        refuse("can only read resources of this type")
    } else if !asked.subresource.is_empty() {
        refuse("cannot read subresource")
    } else if asked.namespace.is_empty() {
        refuse("can only read namespaced object of this type")
    } else {
        Outcome::IfRelated(kind)
    }
}

fn update_claim_status(asked: &Attributes<'_>) -> Outcome {
    match asked.verb {
        "update" | "patch" => Outcome::IfRelated(VertexKind::PersistentVolumeClaim),
        _ => refuse("can only get/update/patch this type"),
    }
}

/// Service accounts of the node's pods: reads, and token requests.
fn service_account(asked: &Attributes<'_>) -> Outcome {
    if asked.verb == "get" && asked.subresource.is_empty() {
        return read(VertexKind::ServiceAccount, asked);
    }
    if asked.verb != "create" || asked.name.is_empty() {
        return refuse("can only create tokens for individual service accounts");
    }
    if asked.subresource != "token" {
        return refuse("can only create token subresource of serviceaccount");
    }
    Outcome::IfRelated(VertexKind::ServiceAccount)
}

/// True if the object is named like the node. A create has no name yet: admission checks it.
fn is_own(node: &str, asked: &Attributes<'_>) -> bool {
    asked.verb == "create" || asked.name == node
}

fn lease(node: &str, asked: &Attributes<'_>) -> Outcome {
    if !matches!(asked.verb, "get" | "create" | "update" | "patch" | "delete") {
        refuse("can only get, create, update, patch, or delete a node lease")
    } else if asked.namespace != LEASE_NAMESPACE {
        refuse(format!("can only access leases in the {} system namespace", quoted(LEASE_NAMESPACE)))
    } else if !is_own(node, asked) {
        refuse("can only access node lease with the same name as the requesting node")
    } else {
        Outcome::Allow
    }
}

fn csi_node(node: &str, asked: &Attributes<'_>) -> Outcome {
    match asked.subresource {
        "" if !matches!(asked.verb, "get" | "create" | "update" | "patch" | "delete") => {
            refuse("can only get, create, update, patch, or delete a CSINode")
        }
        "" if !is_own(node, asked) => {
            refuse("can only access CSINode with the same name as the requesting node")
        }
        "" => Outcome::Allow,
        "status" => refuse("CSINode status access requires CSIVolumeHealth feature"),
        _ => refuse("cannot authorize CSINode subresources"),
    }
}

/// True if a field selector limits the request to objects of the node.
fn selects_node(node: &str, asked: &Attributes<'_>) -> bool {
    let required = asked.field_selector.map(|selector| selector.requirements()).unwrap_or_default();
    required.iter().any(|r| r.field == "spec.nodeName" && r.equal && r.value == node)
}

fn resource_slice(node: &str, asked: &Attributes<'_>) -> Outcome {
    if !asked.subresource.is_empty() {
        return refuse("cannot authorize ResourceSlice subresources");
    }
    match asked.verb {
        "create" => Outcome::Allow,
        "get" | "update" | "patch" | "delete" => Outcome::IfRelated(VertexKind::ResourceSlice),
        "watch" | "list" | "deletecollection" if selects_node(node, asked) => Outcome::Allow,
        "watch" | "list" | "deletecollection" => {
            refuse("can only list/watch/deletecollection resourceslices with nodeName field selector")
        }
        _ => refuse(
            "only the following verbs are allowed for a ResourceSlice: get, watch, list, create, update, patch, delete, deletecollection",
        ),
    }
}

fn certificate_request(node: &str, asked: &Attributes<'_>) -> Outcome {
    if !asked.subresource.is_empty() {
        return refuse("nodes may not access the status subresource of PodCertificateRequests");
    }
    match asked.verb {
        "create" => Outcome::Allow,
        "get" => Outcome::IfRelated(VertexKind::PodCertificateRequest),
        "list" | "watch" if selects_node(node, asked) => Outcome::Allow,
        "list" | "watch" => refuse("can only list/watch podcertificaterequests with nodeName field selector"),
        verb => refuse(format!("nodes may not {verb} podcertificaterequests")),
    }
}

/// Requests on the node's own Node, decided by name: the node reads it before it exists.
fn own_node(node: &str, asked: &Attributes<'_>) -> Outcome {
    match (asked.subresource, asked.verb) {
        ("", "create" | "update" | "patch") | ("status", "update" | "patch") => Outcome::Allow,
        ("", "get" | "list" | "watch") => match asked.name {
            name if name == node => Outcome::Allow,
            "" => refuse(format!("node '{node}' cannot read all nodes, only its own Node object")),
            other => refuse(format!("node '{node}' cannot read '{other}', only its own Node object")),
        },
        _ => refuse(""),
    }
}

fn pod(node: &str, asked: &Attributes<'_>) -> Outcome {
    match (asked.subresource, asked.verb) {
        ("", "get") => Outcome::IfRelated(VertexKind::Pod),
        ("", "list" | "watch") if selects_node(node, asked) => Outcome::Allow,
        ("", "list" | "watch") if !asked.name.is_empty() => Outcome::IfRelated(VertexKind::Pod),
        ("", "list" | "watch") => refuse("can only list/watch pods with spec.nodeName field selector"),
        // Mirror pods, status reports and evictions.
        ("", "create" | "delete") | ("status", "update" | "patch") | ("eviction", "create") => Outcome::Allow,
        _ => refuse(""),
    }
}

#[cfg(test)]
mod tests;
