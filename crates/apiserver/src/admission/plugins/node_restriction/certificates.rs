//! The pod certificates that a node may request: for its pods, from signers whose certificates they mount.

use corten_api::{Status, Value, meta};

use super::tokens::is_authorized;
use super::{Outcome, Refusal};
use crate::admission::{Attributes, lookup, pod};

pub(super) fn pod_certificate(attributes: &Attributes<'_>, node: &str, object: Option<&Value>) -> Outcome {
    let Some(request) = object.filter(|_| attributes.creates()) else {
        let operation = if attributes.updates() { "UPDATE" } else { "DELETE" };
        return Err(format!("unexpected operation {operation}").into());
    };
    if !attributes.subresource.is_empty() {
        return Err(format!("unexpected subresource {}", attributes.subresource).into());
    }
    let request = Request { attributes, object: request };
    request.check_node(node)?;
    let pod = request.check_pod(node)?;
    request.check_account(&pod)?;
    request.check_signer(&pod)
}

struct Request<'a> {
    attributes: &'a Attributes<'a>,
    object: &'a Value,
}

/// A conflict with the current state, which the node may retry.
fn retryable(why: String) -> Refusal {
    Refusal::Other(Status::unexplained(why))
}

fn missing(what: &str, shown: &str, resource: &str, name: &str) -> Refusal {
    let message = Status::not_found("", resource, name).message;
    retryable(format!("while retrieving {what} {shown:?} named in the PodCertificateRequest: {message}"))
}

impl Request<'_> {
    fn field(&self, name: &str) -> &str {
        self.object.str_at(&["spec", name]).unwrap_or_default()
    }

    /// Namespace and name of the pod, for messages.
    fn pod_name(&self) -> String {
        format!("{}/{}", self.attributes.namespace(), self.field("podName"))
    }

    /// Checks that the request names the node itself, with its current uid.
    fn check_node(&self, node: &str) -> Outcome {
        let named = self.field("nodeName");
        if named != node {
            return Err(format!(
                "PodCertificateRequest.Spec.NodeName={named:?}, which is not the requesting node {node:?}"
            )
            .into());
        }
        let Some(found) = lookup::node(self.attributes.backend(), node) else {
            return Err(missing("node", node, "nodes", node));
        };
        let (uid, given) = (meta::uid(found.parsed()), self.field("nodeUID"));
        if uid != given {
            return Err(retryable(format!(
                "PodCertificateRequest for pod {:?} names node UID {given:?}, inconsistent with the running node ({uid:?})",
                self.pod_name()
            )));
        }
        Ok(())
    }

    /// Checks that the pod is bound to the node and is not a mirror pod.
    fn check_pod(&self, node: &str) -> Result<Value, Refusal> {
        let (name, shown) = (self.field("podName"), self.pod_name());
        let namespace = self.attributes.namespace();
        let Some(pod) = lookup::get(self.attributes.backend(), ("", "pods"), namespace, name) else {
            return Err(missing("pod", &shown, "pods", name));
        };
        let pod = pod.tree();
        let (uid, given) = (meta::uid(&pod), self.field("podUID"));
        if uid != given {
            return Err(retryable(format!(
                "PodCertificateRequest for pod {shown:?} contains pod UID ({given:?}) which differs from running pod {uid:?}"
            )));
        }
        if pod::node_name(&pod) != node {
            return Err(format!(
                "pod {shown:?} is not running on node {node:?} named in the PodCertificateRequest"
            )
            .into());
        }
        if pod::is_mirror(&pod) {
            return Err(format!("pod {shown:?} is a mirror pod").into());
        }
        Ok(pod)
    }

    /// Checks that the service account is the pod's.
    fn check_account(&self, pod: &Value) -> Outcome {
        let account = pod.str_at(&["spec", "serviceAccountName"]).unwrap_or_default();
        let given = self.field("serviceAccountName");
        if given != account {
            return Err(format!(
                "PodCertificateRequest for pod {:?} contains serviceAccountName ({given:?}) that differs from running pod ({account:?})",
                self.pod_name()
            )
            .into());
        }
        let namespace = self.attributes.namespace();
        let found = lookup::get(self.attributes.backend(), ("", "serviceaccounts"), namespace, account);
        let Some(found) = found else {
            let shown = format!("{namespace}/{account}");
            return Err(missing("service account", &shown, "serviceaccounts", account));
        };
        let (uid, given) = (meta::uid(found.parsed()), self.field("serviceAccountUID"));
        if uid != given {
            return Err(retryable(format!(
                "PodCertificateRequest for pod {:?} names service account UID {given:?}, which differs from the running service account ({uid:?})",
                self.pod_name()
            )));
        }
        Ok(())
    }

    /// Checks that the pod mounts certificates of the signer, or that the node has an explicit permission.
    fn check_signer(&self, pod: &Value) -> Outcome {
        let signer = self.field("signerName");
        let verb = "request-serviceaccounts-podcertificate-signer";
        let account = self.field("serviceAccountName");
        // The authorizer would take a slash for a subresource.
        if mounts(pod, signer) || is_authorized(self.attributes, verb, &signer.replace('/', ":"), account) {
            return Ok(());
        }
        let shown = self.pod_name();
        Err(format!("pod {shown:?} does not mount a podCertificate projected volume for signer {signer:?}")
            .into())
    }
}

fn mounts(pod: &Value, signer: &str) -> bool {
    let mut sources = pod.items_at(&["spec", "volumes"]).iter().flat_map(pod::projections);
    sources.any(|source| source.str_at(&["podCertificate", "signerName"]) == Some(signer))
}
