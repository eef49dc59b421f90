//! The Node authorizer's rules, kind by kind.

use std::ops::Deref;

use corten_api::status::quoted;

use super::graph::{Graph, Vertex, VertexKind};
use super::node_name;
use crate::rbac::Rule;
use crate::{Attributes, Decision};

const LEASE_NAMESPACE: &str = "kube-node-lease";

/// Whether a node may do what is asked; `shared` is what all nodes may. The graph is asked for only where
/// the answer depends on it.
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
    /// No, and why, if there is something to say.
    No(String),
    /// If the object is one that the node needs.
    IfRelated(VertexKind),
}

fn no(reason: impl Into<String>) -> Outcome {
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
        _ => no(""),
    }
}

/// One object at a time, by name.
fn get(kind: VertexKind, asked: &Attributes<'_>) -> Outcome {
    if asked.verb != "get" {
        no("can only get individual resources of this type")
    } else if !asked.subresource.is_empty() {
        no("cannot get subresource")
    } else {
        Outcome::IfRelated(kind)
    }
}

/// Single objects, also by listing or watching one.
fn read(kind: VertexKind, asked: &Attributes<'_>) -> Outcome {
    if !asked.is_read_only() {
        no("can only read resources of this type")
    } else if !asked.subresource.is_empty() {
        no("cannot read subresource")
    } else if asked.namespace.is_empty() {
        no("can only read namespaced object of this type")
    } else {
        Outcome::IfRelated(kind)
    }
}

fn update_claim_status(asked: &Attributes<'_>) -> Outcome {
    match asked.verb {
        "update" | "patch" => Outcome::IfRelated(VertexKind::PersistentVolumeClaim),
        _ => no("can only get/update/patch this type"),
    }
}

/// Accounts of the node's pods: to read, and to make tokens for.
fn service_account(asked: &Attributes<'_>) -> Outcome {
    if asked.verb == "get" && asked.subresource.is_empty() {
        return read(VertexKind::ServiceAccount, asked);
    }
    if asked.verb != "create" || asked.name.is_empty() {
        return no("can only create tokens for individual service accounts");
    }
    if asked.subresource != "token" {
        return no("can only create token subresource of serviceaccount");
    }
    Outcome::IfRelated(VertexKind::ServiceAccount)
}

/// The name is not known yet when something is created: admission looks at it then.
fn is_own(node: &str, asked: &Attributes<'_>) -> bool {
    asked.verb == "create" || asked.name == node
}

fn lease(node: &str, asked: &Attributes<'_>) -> Outcome {
    if !matches!(asked.verb, "get" | "create" | "update" | "patch" | "delete") {
        no("can only get, create, update, patch, or delete a node lease")
    } else if asked.namespace != LEASE_NAMESPACE {
        no(format!("can only access leases in the {} system namespace", quoted(LEASE_NAMESPACE)))
    } else if !is_own(node, asked) {
        no("can only access node lease with the same name as the requesting node")
    } else {
        Outcome::Allow
    }
}

fn csi_node(node: &str, asked: &Attributes<'_>) -> Outcome {
    match asked.subresource {
        "" if !matches!(asked.verb, "get" | "create" | "update" | "patch" | "delete") => {
            no("can only get, create, update, patch, or delete a CSINode")
        }
        "" if !is_own(node, asked) => no("can only access CSINode with the same name as the requesting node"),
        "" => Outcome::Allow,
        "status" => no("CSINode status access requires CSIVolumeHealth feature"),
        _ => no("cannot authorize CSINode subresources"),
    }
}

/// Whether a list is limited to what is on the node.
fn selects_node(node: &str, asked: &Attributes<'_>) -> bool {
    let required = asked.field_selector.map(|selector| selector.requirements()).unwrap_or_default();
    required.iter().any(|r| r.field == "spec.nodeName" && r.equal && r.value == node)
}

fn resource_slice(node: &str, asked: &Attributes<'_>) -> Outcome {
    if !asked.subresource.is_empty() {
        return no("cannot authorize ResourceSlice subresources");
    }
    match asked.verb {
        "create" => Outcome::Allow,
        "get" | "update" | "patch" | "delete" => Outcome::IfRelated(VertexKind::ResourceSlice),
        "watch" | "list" | "deletecollection" if selects_node(node, asked) => Outcome::Allow,
        "watch" | "list" | "deletecollection" => {
            no("can only list/watch/deletecollection resourceslices with nodeName field selector")
        }
        _ => no(
            "only the following verbs are allowed for a ResourceSlice: get, watch, list, create, update, patch, delete, deletecollection",
        ),
    }
}

fn certificate_request(node: &str, asked: &Attributes<'_>) -> Outcome {
    if !asked.subresource.is_empty() {
        return no("nodes may not access the status subresource of PodCertificateRequests");
    }
    match asked.verb {
        "create" => Outcome::Allow,
        "get" => Outcome::IfRelated(VertexKind::PodCertificateRequest),
        "list" | "watch" if selects_node(node, asked) => Outcome::Allow,
        "list" | "watch" => no("can only list/watch podcertificaterequests with nodeName field selector"),
        verb => no(format!("nodes may not {verb} podcertificaterequests")),
    }
}

/// By name and not by the graph: a node asks for itself before it exists.
fn own_node(node: &str, asked: &Attributes<'_>) -> Outcome {
    match (asked.subresource, asked.verb) {
        ("", "create" | "update" | "patch") | ("status", "update" | "patch") => Outcome::Allow,
        ("", "get" | "list" | "watch") => match asked.name {
            name if name == node => Outcome::Allow,
            "" => no(format!("node '{node}' cannot read all nodes, only its own Node object")),
            other => no(format!("node '{node}' cannot read '{other}', only its own Node object")),
        },
        _ => no(""),
    }
}

fn pod(node: &str, asked: &Attributes<'_>) -> Outcome {
    match (asked.subresource, asked.verb) {
        ("", "get") => Outcome::IfRelated(VertexKind::Pod),
        ("", "list" | "watch") if selects_node(node, asked) => Outcome::Allow,
        ("", "list" | "watch") if !asked.name.is_empty() => Outcome::IfRelated(VertexKind::Pod),
        ("", "list" | "watch") => no("can only list/watch pods with spec.nodeName field selector"),
        // Mirror pods, what the node reports on its pods, and evictions of them.
        ("", "create" | "delete") | ("status", "update" | "patch") | ("eviction", "create") => Outcome::Allow,
        _ => no(""),
    }
}

#[cfg(test)]
mod tests;
