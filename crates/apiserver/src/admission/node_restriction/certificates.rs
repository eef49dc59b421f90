//! The certificates a node may ask for: for pods it runs, from signers they mount certificates of.

use corten_api::{Status, Value, meta};

use super::super::{Attributes, lookup, pod};
use super::tokens::is_authorized;
use super::{Outcome, Refusal};

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

/// Something that may be true a moment later, unlike what is forbidden.
fn not_now(why: String) -> Refusal {
    Refusal::Other(Status::unexplained(why))
}

fn missing(what: &str, shown: &str, resource: &str, name: &str) -> Refusal {
    let message = Status::not_found("", resource, name).message;
    not_now(format!("while retrieving {what} {shown:?} named in the PodCertificateRequest: {message}"))
}

impl Request<'_> {
    fn field(&self, name: &str) -> &str {
        self.object.str_at(&["spec", name]).unwrap_or_default()
    }

    /// Namespace and name of the pod, as they are shown.
    fn pod_name(&self) -> String {
        format!("{}/{}", self.attributes.namespace(), self.field("podName"))
    }

    /// The node asks for itself, as it is now.
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
            return Err(not_now(format!(
                "PodCertificateRequest for pod {:?} names node UID {given:?}, inconsistent with the running node ({uid:?})",
                self.pod_name()
            )));
        }
        Ok(())
    }

    /// The pod runs on the node, and is no mirror of one of its files.
    fn check_pod(&self, node: &str) -> Result<Value, Refusal> {
        let (name, shown) = (self.field("podName"), self.pod_name());
        let namespace = self.attributes.namespace();
        let Some(pod) = lookup::get(self.attributes.backend(), ("", "pods"), namespace, name) else {
            return Err(missing("pod", &shown, "pods", name));
        };
        let pod = pod.tree();
        let (uid, given) = (meta::uid(&pod), self.field("podUID"));
        if uid != given {
            return Err(not_now(format!(
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

    /// The service account is the one the pod runs as.
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
            return Err(not_now(format!(
                "PodCertificateRequest for pod {:?} names service account UID {given:?}, which differs from the running service account ({uid:?})",
                self.pod_name()
            )));
        }
        Ok(())
    }

    /// The pod mounts certificates of the signer, or the node was given leave.
    fn check_signer(&self, pod: &Value) -> Outcome {
        let signer = self.field("signerName");
        let verb = "request-serviceaccounts-podcertificate-signer";
        let account = self.field("serviceAccountName");
        // A slash would be a subresource to the authorizer.
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
