//! Approves the certificate signing requests for kubelet serving certificates: those that a node makes for its own name
//! and for the address that the API server sees it at, and for further addresses that an administrator vouches for.
//!
//! Watches certificate signing requests, nodes, service networks and the addresses of the API servers. Adds one condition to a request for which
//! [`super::ownership`] finds proof; leaves all others to administrators (`kubectl certificate approve`), as upstream
//! leaves all of them. Never denies one.

use corten_api::{Value, value};
use corten_client::{Caches, Key, kinds};
use corten_reconcile::{Action, Controller, Plan, Watch};
use jiff::Timestamp;

use super::approving::is_pending;
use super::ownership::{self, Claims, Reserved};
use super::rules::{self, KUBELET_SERVING};
use super::{APPROVED, request, retry_delay, signer_name, usages, with_condition};

const MESSAGE: &str =
    "Auto approving kubelet server certificate for the node's name and the address it connects from.";

pub(crate) struct ServingApproving {
    pub(crate) reserved: Reserved,
}

/// A request for a serving certificate, with its node and the claims of other objects.
pub(crate) struct World {
    csr: Value,
    node: Option<Value>,
    claims: Claims,
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
        // Nodes and networks are only looked up; a pending request is requeued.
        let looked_up = |kind| Watch { kind, keys: |_, _, _| {} };
        vec![
            Watch::own(&kinds::CERTIFICATE_SIGNING_REQUESTS),
            looked_up(&kinds::NODES),
            looked_up(&kinds::SERVICE_CIDRS),
            looked_up(&kinds::ENDPOINTS),
        ]
    }

    fn observe(&self, caches: &Caches, key: &Key) -> Option<World> {
        let csr = caches.of(&kinds::CERTIFICATE_SIGNING_REQUESTS).get(key)?.tree();
        if signer_name(&csr) != KUBELET_SERVING || !is_pending(&csr) {
            return None;
        }
        let name = node_name(&csr)?.to_owned();
        let node = caches.of(&kinds::NODES).get(&Key::new("", name.as_str())).map(|node| node.tree());
        Some(World { csr, node, claims: claims(caches, &name) })
    }

    fn plan(&self, _: &Key, world: &Option<World>, now: Timestamp) -> Plan {
        let Some(world) = world else { return Plan::done() };
        if !world.is_proven(&self.reserved) {
            // The node may report its addresses later.
            return Plan::done().requeue_after(retry_delay(&world.csr, now));
        }
        let approval =
            value!({"type": APPROVED, "status": "True", "reason": "AutoApproved", "message": MESSAGE});
        Plan::done().then(Action::Update {
            kind: &kinds::CERTIFICATE_SIGNING_REQUESTS,
            object: with_condition(&world.csr, approval),
            subresource: "approval",
        })
    }
}

/// The claims on addresses other than this node's: addresses of other nodes and of API servers on other machines, and the
/// networks of services and pods.
fn claims(caches: &Caches, node: &str) -> Claims {
    let mut claims = Claims::default();
    for found in caches.of(&kinds::NODES).list("") {
        let tree = found.tree();
        claims.networks.extend(strings(&tree, &["spec", "podCIDRs"]));
        if found.key.name != node {
            claims.others.push(found.key.name.to_string());
            claims.others.extend(ownership::addresses(&tree).map(str::to_owned));
        }
    }
    if let Some(servers) = caches.of(&kinds::ENDPOINTS).get(&Key::new("default", "kubernetes")) {
        claims.servers = ownership::endpoint_addresses(&servers.tree());
    }
    for cidr in caches.of(&kinds::SERVICE_CIDRS).list("") {
        claims.networks.extend(strings(&cidr.tree(), &["spec", "cidrs"]));
    }
    claims
}

fn strings(object: &Value, path: &[&str]) -> Vec<String> {
    object.items_at(path).iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// The name of the requesting node.
fn node_name(csr: &Value) -> Option<&str> {
    let groups = csr.items_at(&["spec", "groups"]);
    let is_node = groups.iter().any(|group| group.as_str() == Some("system:nodes"));
    csr.str_at(&["spec", "username"])?.strip_prefix("system:node:").filter(|_| is_node)
}

impl World {
    /// True if a node requests the certificate for itself, and only for names and addresses that are proven to be its
    /// own.
    fn is_proven(&self, reserved: &Reserved) -> bool {
        let (csr, claims) = (&self.csr, &self.claims);
        let (Some(name), Some(node), Some(request)) = (node_name(csr), &self.node, request(csr)) else {
            return false;
        };
        rules::check(KUBELET_SERVING, &request, &usages(csr)).is_ok()
            && csr.str_at(&["spec", "username"]) == Some(request.subject.common_name.as_str())
            && request.dns_names.iter().all(|asked| ownership::is_own_name(asked, name, reserved, claims))
            && request
                .ip_addresses
                .iter()
                .all(|asked| ownership::is_own_address(*asked, csr, node, reserved, claims))
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use corten_auth::authentication::REMOTE_ADDRESS;
    use corten_pki::{Sans, signing_request};

    use super::*;
    use crate::testing::at;

    fn csr(user: &str, sans: &Sans, remote: &str) -> Value {
        let request = signing_request(user, "system:nodes", sans).unwrap().request_pem;
        let mut csr = value!({
            "metadata": {"name": "csr"},
            "spec": {
                "request": (STANDARD.encode(request)), "signerName": (KUBELET_SERVING), "username": (user),
                "groups": ["system:nodes", "system:authenticated"], "usages": ["digital signature", "server auth"],
            },
        });
        if !remote.is_empty() {
            csr.set(&["spec", "extra", REMOTE_ADDRESS], value!([(remote)]));
        }
        csr
    }

    fn node(name: &str, address: &str) -> Value {
        value!({"metadata": {"name": (name)}, "status": {"addresses": [
            {"type": "InternalIP", "address": (address)}, {"type": "Hostname", "address": (name)}
        ]}})
    }

    fn is_approved(csr: Value, node: Option<Value>) -> bool {
        let names = ["kubernetes", "kubernetes.default", "kubernetes.default.svc", "control-plane-1"];
        let reserved = Reserved {
            names: names.map(str::to_owned).into(),
            addresses: vec![[192, 0, 2, 250].into()],
            cluster_domain: "cluster.local".to_owned(),
        };
        let claims = Claims {
            others: ["n2", "192.0.2.2", "db.example"].map(str::to_owned).into(),
            networks: ["10.96.0.0/12", "10.244.0.0/24", "10.244.1.0/24"].map(str::to_owned).into(),
            servers: vec![[192, 0, 2, 251].into()],
        };
        let approving = ServingApproving { reserved };
        let plan = approving.plan(&Key::new("", "csr"), &Some(World { csr, node, claims }), at(5));
        let (approves, waits) = (!plan.steps.is_empty(), plan.requeue_after.is_some());
        assert_ne!(approves, waits, "requests that are not approved are requeued");
        approves
    }

    fn sans(hosts: &[&str]) -> Sans {
        hosts.iter().fold(Sans::default(), |sans, host| sans.with_host(host).unwrap())
    }

    #[test]
    fn only_a_nodes_own_name_and_address_are_approved() {
        let own = || sans(&["n1", "192.0.2.1"]);
        let n1 = || Some(node("n1", "192.0.2.1"));
        assert!(is_approved(csr("system:node:n1", &own(), "192.0.2.1"), n1()));
        assert!(is_approved(csr("system:node:n1", &sans(&["n1"]), ""), n1()), "its name alone");
        assert!(!is_approved(csr("system:node:n1", &own(), "192.0.2.1"), None), "a node that is not there");
        assert!(
            !is_approved(csr("system:node:n1", &sans(&["n1", "other"]), "192.0.2.1"), n1()),
            "a name more"
        );
        assert!(!is_approved(csr("system:node:n1", &Sans::default(), "192.0.2.1"), n1()), "no name at all");
        let mut for_another = csr("system:node:n2", &own(), "192.0.2.1");
        for_another.set(&["spec", "username"], "system:node:n1");
        assert!(!is_approved(for_another, n1()), "another node's subject");
    }

    #[test]
    fn addresses_in_the_node_object_prove_nothing() {
        let wanted = |address: &str, remote: &str| {
            let csr = csr("system:node:n1", &sans(&["n1", address]), remote);
            is_approved(csr, Some(node("n1", address)))
        };
        assert!(wanted("192.0.2.1", "192.0.2.1"));
        assert!(!wanted("192.0.2.1", ""), "no address was seen");
        assert!(!wanted("192.0.2.1", "192.0.2.9"), "it is elsewhere");
        let reserved = [
            ("10.96.0.1", "a service"),
            ("10.244.1.7", "a pod"),
            ("192.0.2.2", "another node"),
            ("192.0.2.250", "the API server"),
            ("192.0.2.251", "another API server"),
            ("127.0.0.1", "every machine"),
            ("::1", "every machine"),
            ("169.254.169.254", "a link"),
            ("fe80::1", "a link"),
            ("224.0.0.1", "many"),
        ];
        for (address, whose) in reserved {
            assert!(!wanted(address, address), "{address} is the address of {whose}");
        }
        let mut said = csr("system:node:n1", &sans(&["n1", "192.0.2.1"]), "192.0.2.1");
        said.set(&["spec", "extra", REMOTE_ADDRESS], value!(["192.0.2.9", "192.0.2.1"]));
        assert!(!is_approved(said, Some(node("n1", "192.0.2.1"))), "two addresses are none");
    }

    #[test]
    fn a_second_address_is_approved_if_an_administrator_vouches_for_it() {
        let dual = |vouched: &[&str], asked: &[&str]| {
            let mut node = value!({"metadata": {"name": "n1"}, "status": {"addresses": [
                {"type": "InternalIP", "address": "192.0.2.1"}, {"type": "InternalIP", "address": "2001:db8::7"},
            ]}});
            for address in vouched {
                node.set(&["metadata", "labels", &ownership::vouching_label(address.parse().unwrap())], "");
            }
            is_approved(csr("system:node:n1", &sans(asked), "192.0.2.1"), Some(node))
        };
        let both = ["n1", "192.0.2.1", "2001:db8::7"];
        assert!(dual(&["2001:db8::7"], &both));
        assert!(!dual(&[], &both), "the node's own word for its second address is none");
        assert!(!dual(&["2001:db8::8"], &both), "another address is vouched for");
        assert!(!dual(&["2001:db8::8"], &["n1", "2001:db8::8"]), "the node does not have it");
        assert!(dual(&[], &both[..2]), "the first alone needs no label");
        for (address, whose) in
            [("10.96.0.1", "a service"), ("192.0.2.2", "another node"), ("fe80::1", "a link")]
        {
            let mut node = node("n1", address);
            node.set(&["metadata", "labels", &ownership::vouching_label(address.parse().unwrap())], "");
            let csr = csr("system:node:n1", &sans(&["n1", address]), "192.0.2.1");
            assert!(!is_approved(csr, Some(node)), "{address} is the address of {whose}");
        }
        let label = ownership::vouching_label("2001:db8::7".parse().unwrap());
        assert_eq!(label, "node-restriction.kubernetes.io/address-2001-0db8-0000-0000-0000-0000-0000-0007");
    }

    #[test]
    fn no_node_is_certified_under_a_name_of_the_cluster() {
        let reserved = [
            "kubernetes",
            "kubernetes.default",
            "kubernetes.default.svc",
            "web.prod.svc",
            "web.prod.svc.example",
            "svc",
            "web.prod.svc.cluster.local",
            "cluster.local",
            "localhost",
            "x.localhost",
            "control-plane-1",
            "db.example",
            "n2",
        ];
        for name in reserved {
            let user = format!("system:node:{name}");
            let csr = csr(&user, &sans(&[name]), "192.0.2.1");
            assert!(!is_approved(csr, Some(node(name, "192.0.2.1"))), "{name}");
        }
        let fine = csr("system:node:svcs.example", &sans(&["svcs.example"]), "192.0.2.1");
        assert!(is_approved(fine, Some(node("svcs.example", "192.0.2.1"))));
    }

    #[test]
    fn requests_of_users_that_are_no_nodes_are_left_to_administrators() {
        let mut other = csr("system:node:n1", &Sans::default(), "");
        other.set(&["spec", "groups"], value!(["system:authenticated"]));
        assert_eq!(node_name(&other), None);
        assert_eq!(node_name(&csr("kubernetes-admin", &Sans::default(), "")), None);
    }
}
