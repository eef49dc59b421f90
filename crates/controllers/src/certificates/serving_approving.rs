//! Approves the certificate signing requests by which kubelets become servers: those that a node makes for itself, under
//! names and addresses that its Node object has.
//!
//! Watches certificate signing requests and nodes. Adds one condition to a request that is beyond doubt; leaves all
//! others to people, as upstream leaves all of them. Never denies one.

use corten_api::{Value, value};
use corten_client::{Caches, Key, kinds};
use corten_pki::CertificateRequest;
use corten_reconcile::{Action, Controller, Plan, Watch};
use jiff::Timestamp;

use super::approving::is_pending;
use super::rules::{self, KUBELET_SERVING};
use super::{APPROVED, patience, request, signer_name, usages, with_condition};

const MESSAGE: &str = "Auto approving kubelet server certificate for the names and addresses of its node.";

pub(crate) struct ServingApproving;

/// A request for a server's certificate, with the node that it is for.
pub(crate) struct World {
    csr: Value,
    node: Option<Value>,
}

impl Controller for ServingApproving {
    type World = Option<World>;

    fn name(&self) -> &'static str {
        "kubelet-serving-approving-controller"
    }

    fn account(&self) -> &'static str {
        "kubelet-serving-approver"
    }

    fn watches(&self) -> Vec<Watch> {
        // Nodes are followed to be looked up; a request is looked at again by itself.
        let nodes = Watch { kind: &kinds::NODES, keys: |_, _, _| {} };
        vec![Watch::own(&kinds::CERTIFICATE_SIGNING_REQUESTS), nodes]
    }

    fn observe(&self, caches: &Caches, key: &Key) -> Option<World> {
        let csr = caches.of(&kinds::CERTIFICATE_SIGNING_REQUESTS).get(key)?.tree();
        if signer_name(&csr) != KUBELET_SERVING || !is_pending(&csr) {
            return None;
        }
        let name = node_name(&csr)?.to_owned();
        let node = caches.of(&kinds::NODES).get(&Key::new("", name)).map(|node| node.tree());
        Some(World { csr, node })
    }

    fn plan(&self, _: &Key, world: &Option<World>, now: Timestamp) -> Plan {
        let Some(World { csr, node }) = world else { return Plan::done() };
        if !is_beyond_doubt(csr, node.as_ref()) {
            // The node may say more of itself later.
            return Plan::done().again_after(patience(csr, now));
        }
        let approval =
            value!({"type": APPROVED, "status": "True", "reason": "AutoApproved", "message": MESSAGE});
        Plan::done().then(Action::Update {
            kind: &kinds::CERTIFICATE_SIGNING_REQUESTS,
            object: with_condition(csr, approval),
            subresource: "approval",
        })
    }
}

/// Which node asks.
fn node_name(csr: &Value) -> Option<&str> {
    let groups = csr.items_at(&["spec", "groups"]);
    let is_node = groups.iter().any(|group| group.as_str() == Some("system:nodes"));
    csr.str_at(&["spec", "username"])?.strip_prefix("system:node:").filter(|_| is_node)
}

/// Whether a node asks for itself, and for nothing that is not its own.
fn is_beyond_doubt(csr: &Value, node: Option<&Value>) -> bool {
    let (Some(name), Some(node), Some(request)) = (node_name(csr), node, request(csr)) else { return false };
    rules::check(KUBELET_SERVING, &request, &usages(csr)).is_ok()
        && csr.str_at(&["spec", "username"]) == Some(request.subject.common_name.as_str())
        && names(&request).all(|asked| asked == name || has_address(node, &asked))
}

fn names(request: &CertificateRequest) -> impl Iterator<Item = String> {
    let addresses = request.ip_addresses.iter().map(ToString::to_string);
    request.dns_names.iter().cloned().chain(addresses)
}

fn has_address(node: &Value, asked: &str) -> bool {
    let mut addresses = node.items_at(&["status", "addresses"]).iter();
    addresses.any(|address| address.str_at(&["address"]) == Some(asked))
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use corten_pki::{Sans, ask};

    use super::*;
    use crate::testing::at;

    fn csr(user: &str, sans: &Sans) -> Value {
        let request = ask("system:node:n1", "system:nodes", sans).unwrap().request_pem;
        value!({
            "metadata": {"name": "csr"},
            "spec": {
                "request": (STANDARD.encode(request)), "signerName": (KUBELET_SERVING), "username": (user),
                "groups": ["system:nodes", "system:authenticated"], "usages": ["digital signature", "server auth"],
            },
        })
    }

    fn node() -> Value {
        value!({"metadata": {"name": "n1"}, "status": {"addresses": [
            {"type": "InternalIP", "address": "192.0.2.1"}, {"type": "Hostname", "address": "n1"}
        ]}})
    }

    fn is_approved(csr: Value, node: Option<Value>) -> bool {
        let plan = ServingApproving.plan(&Key::new("", "csr"), &Some(World { csr, node }), at(5));
        assert_eq!(
            plan.steps.is_empty(),
            plan.requeue_after.is_some(),
            "what is not approved is looked at again"
        );
        !plan.steps.is_empty()
    }

    #[test]
    fn only_a_nodes_own_names_are_approved() {
        let own = || Sans::default().with_host("n1").unwrap().with_address([192, 0, 2, 1].into());
        assert!(is_approved(csr("system:node:n1", &own()), Some(node())));
        assert!(!is_approved(csr("system:node:n1", &own()), None), "a node that is not there");
        assert!(!is_approved(csr("system:node:n2", &own()), Some(node())), "somebody else asks");
        let more = own().with_address([192, 0, 2, 9].into());
        assert!(!is_approved(csr("system:node:n1", &more), Some(node())), "an address of somebody else's");
        let named = own().with_host("kubernetes.default.svc").unwrap();
        assert!(!is_approved(csr("system:node:n1", &named), Some(node())), "a name of somebody else's");
        assert!(!is_approved(csr("system:node:n1", &Sans::default()), Some(node())), "no name at all");
    }

    #[test]
    fn whoever_is_no_node_is_left_to_people() {
        let mut other = csr("system:node:n1", &Sans::default());
        other.set(&["spec", "groups"], value!(["system:authenticated"]));
        assert_eq!(node_name(&other), None);
        assert_eq!(node_name(&csr("kubernetes-admin", &Sans::default())), None);
    }
}
