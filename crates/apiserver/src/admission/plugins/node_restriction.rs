//! NodeRestriction: a node writes only its own objects: its Node and Lease, its CSINode and resource slices, the status of
//! its pods, and tokens and certificates for them.
//!
//! The node authorizer decides which objects a node may access; this plugin restricts their content. It ignores users that
//! are not nodes.

mod certificates;
mod nodes;
mod pods;
#[cfg(test)]
mod tests;
mod tokens;

#[cfg(test)]
pub(super) use tests::{check_node, check_pod};

use corten_api::{Status, Value, meta};
use corten_auth::User;

use super::{Admit, CREATE, DELETE, Plugin, UPDATE, Validate};
use crate::admission::certificate_requests::subject;
use crate::admission::{Attributes, Operation};

pub(super) const PLUGIN: Plugin = Plugin {
    name: "NodeRestriction",
    operations: CREATE | UPDATE | DELETE,
    admit: Admit::Look(restrict),
    validate: Validate::Nothing,
};

const NODE_LEASES: &str = "kube-node-lease";

/// The node name of a user that is a node.
fn node_of(user: &User) -> Option<&str> {
    user.name.strip_prefix("system:node:").filter(|_| user.is_in("system:nodes"))
}

/// The reason of a refusal.
enum Refusal {
    Forbidden(String),
    /// A status other than `Forbidden`, such as `NotFound`.
    Other(Status),
}

impl<T: Into<String>> From<T> for Refusal {
    fn from(why: T) -> Self {
        Refusal::Forbidden(why.into())
    }
}

type Outcome = Result<(), Refusal>;

fn restrict(attributes: &Attributes<'_>, object: Option<&Value>) -> Result<(), Status> {
    let Some(node) = node_of(&attributes.call.user) else { return Ok(()) };
    if node.is_empty() {
        let why = format!("could not determine node from user {:?}", attributes.call.user.name);
        return Err(attributes.forbidden(object, why));
    }
    dispatch(attributes, node, object).map_err(|refusal| match refusal {
        Refusal::Forbidden(why) => attributes.forbidden(object, why),
        Refusal::Other(status) => status,
    })
}

fn dispatch(attributes: &Attributes<'_>, node: &str, object: Option<&Value>) -> Outcome {
    match (attributes.resource(), attributes.subresource) {
        (("", "pods"), "") => pods::pod(attributes, node, object),
        (("", "pods"), "status") => pods::status(attributes, node, object),
        (("", "pods"), "eviction") => pods::eviction(attributes, node),
        (("", "pods"), other) => {
            Err(format!("unexpected pod subresource {other:?}, only 'status' and 'eviction' are allowed")
                .into())
        }
        (("", "nodes"), _) => nodes::node(attributes, node, object),
        (("", "persistentvolumeclaims"), "status") => nodes::claim_status(attributes, node, object),
        (("", "persistentvolumeclaims"), _) => Err("may only update PVC status".into()),
        (("", "serviceaccounts"), "token") if attributes.creates() => {
            object.map_or(Ok(()), |request| tokens::token(attributes, node, request))
        }
        (("certificates.k8s.io", "podcertificaterequests"), _) => {
            certificates::pod_certificate(attributes, node, object)
        }
        (("coordination.k8s.io", "leases"), _) => lease(attributes, node, object),
        (("storage.k8s.io", "csinodes"), sub) => {
            if attributes.name(object) != node {
                return Err("can only access CSINode with the same name as the requesting node".into());
            }
            if sub == "status" {
                return Err("CSIVolumeHealth feature gate is disabled".into());
            }
            Ok(())
        }
        (("resource.k8s.io", "resourceslices"), _) => resource_slice(attributes, node, object),
        (("certificates.k8s.io", "certificatesigningrequests"), _) if attributes.creates() => {
            object.map_or(Ok(()), |request| signing_request(node, request))
        }
        _ => Ok(()),
    }
}

fn lease(attributes: &Attributes<'_>, node: &str, object: Option<&Value>) -> Outcome {
    if attributes.namespace() != NODE_LEASES {
        return Err(format!("can only access leases in the {NODE_LEASES:?} system namespace").into());
    }
    let name = match attributes.operation {
        Operation::Create => object.map(meta::name).unwrap_or_default(),
        _ => attributes.name(object),
    };
    if name != node {
        return Err("can only access node lease with the same name as the requesting node".into());
    }
    Ok(())
}

/// Checks the node of a new resource slice. Updates need no check: the authorizer checks the slice's node, which is
/// immutable.
fn resource_slice(attributes: &Attributes<'_>, node: &str, object: Option<&Value>) -> Outcome {
    let is_own = |slice: Option<&Value>| slice.is_some_and(|s| s.str_at(&["spec", "nodeName"]) == Some(node));
    match attributes.operation {
        Operation::Create if !is_own(object) => {
            Err("can only create ResourceSlice with the same NodeName as the requesting node".into())
        }
        Operation::Delete if !is_own(attributes.old) => {
            Err("can only delete ResourceSlice with the same NodeName as the requesting node".into())
        }
        _ => Ok(()),
    }
}

/// Checks that a node requests certificates only for its own user name.
fn signing_request(node: &str, request: &Value) -> Outcome {
    let signer = request.str_at(&["spec", "signerName"]).unwrap_or_default();
    if !matches!(signer, "kubernetes.io/kubelet-serving" | "kubernetes.io/kube-apiserver-client-kubelet") {
        return Ok(());
    }
    let subject = subject(request).map_err(|why| format!("unable to parse csr: {why}"))?;
    if subject.common_name != format!("system:node:{node}") {
        return Err(format!("can only create a node CSR with CN=system:node:{node}").into());
    }
    Ok(())
}
