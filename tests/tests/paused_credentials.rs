//! Certificates and tokens on a clock that the test moves: their issuance and lifetime.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use corten_api::{Value, value};
use corten_client::{Client, Key, Kind, kinds};
use corten_testkit::Cluster;
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};

const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);
const CSRS: &Kind = &kinds::CERTIFICATE_SIGNING_REQUESTS;

/// The request of a kubelet with its bootstrap token.
fn request(common_name: &str, signer: &str) -> Value {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::OrganizationName, "system:nodes");
    params.distinguished_name.push(DnType::CommonName, common_name);
    let key = KeyPair::generate().expect("keys can be made");
    let pem = params.serialize_request(&key).and_then(|request| request.pem()).expect("a good request");
    value!({
        "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
        "metadata": {"name": "node-csr"},
        "spec": {
            "request": (STANDARD.encode(pem)), "signerName": signer,
            "usages": ["digital signature", "client auth"], "expirationSeconds": 86400,
        },
    })
}

fn secret(name: &str, kind: &str, more: &Value) -> Value {
    let mut secret = value!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": name, "namespace": "kube-system"}, "type": kind,
    });
    for (key, part) in more.as_object().expect("parts of a secret").iter() {
        secret.set(&[key], part.clone());
    }
    secret
}

fn reasons(csr: &Value) -> Vec<&str> {
    csr.items_at(&["status", "conditions"]).iter().filter_map(|c| c.str_at(&["reason"])).collect()
}

#[test]
fn a_kubelet_gets_a_certificate_once_it_is_authorized() {
    let cluster = Cluster::with_nodes(0);
    cluster.create(CSRS, &request("system:node:n1", "kubernetes.io/kube-apiserver-client-kubelet"));
    let issued = |cluster: &Cluster| {
        let csr = cluster.get(CSRS, "", "node-csr").unwrap_or_default();
        csr.str_at(&["status", "certificate"]).is_some()
    };
    // The administrator has all permissions, so that the request is approved at once.
    let took = cluster.until("a certificate", HOUR, issued);
    assert_eq!(took, Duration::ZERO);
    let csr = cluster.get(CSRS, "", "node-csr").unwrap();
    assert_eq!(reasons(&csr), ["AutoApproved"]);
    cluster.advance(HOUR - Duration::from_secs(1));
    assert!(cluster.get(CSRS, "", "node-csr").is_some());
    cluster.advance(Duration::from_secs(2));
    assert!(cluster.get(CSRS, "", "node-csr").is_none(), "deleted after an hour");
}

#[test]
fn an_unapproved_request_is_kept_for_a_day() {
    let cluster = Cluster::with_nodes(0);
    cluster.create(CSRS, &request("system:node:n1", "kubernetes.io/kube-apiserver-client"));
    cluster.advance(DAY - HOUR);
    let csr = cluster.get(CSRS, "", "node-csr").unwrap();
    assert!(reasons(&csr).is_empty());
    cluster.advance(HOUR + HOUR);
    assert!(cluster.get(CSRS, "", "node-csr").is_none());
}

#[test]
fn secrets_are_filled_with_tokens_and_go_with_their_account() {
    let cluster = Cluster::with_nodes(0);
    let account = kinds::SERVICE_ACCOUNTS.new_object("kube-system", "builder");
    cluster.create(&kinds::SERVICE_ACCOUNTS, &account);
    let annotations = value!({"metadata": {
        "name": "builder-token", "namespace": "kube-system",
        "annotations": {"kubernetes.io/service-account.name": "builder"},
    }});
    cluster.create(
        &kinds::SECRETS,
        &secret("builder-token", "kubernetes.io/service-account-token", &annotations),
    );
    cluster.settle();
    let filled = cluster.get(&kinds::SECRETS, "kube-system", "builder-token").unwrap();
    let token = STANDARD.decode(filled.str_at(&["data", "token"]).unwrap()).unwrap();
    let review = value!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview",
        "spec": {"token": (String::from_utf8(token).unwrap())},
    });
    let reviewed = cluster.create(&kinds::TOKEN_REVIEWS, &review);
    assert_eq!(
        reviewed.str_at(&["status", "user", "username"]),
        Some("system:serviceaccount:kube-system:builder")
    );
    cluster.delete(&kinds::SERVICE_ACCOUNTS, "kube-system", "builder");
    cluster.settle();
    assert!(cluster.get(&kinds::SECRETS, "kube-system", "builder-token").is_none());
}

/// A legacy token Secret of a service account.
#[test]
fn unused_legacy_tokens_are_marked_after_a_year_and_deleted_after_another() {
    let cluster = Cluster::with_nodes(0);
    let mut account = kinds::SERVICE_ACCOUNTS.new_object("kube-system", "old");
    account.set(&["secrets"], value!([{"name": "old-token"}]));
    cluster.create(&kinds::SERVICE_ACCOUNTS, &account);
    let annotations = value!({"metadata": {
        "name": "old-token", "namespace": "kube-system",
        "annotations": {"kubernetes.io/service-account.name": "old"},
    }});
    cluster
        .create(&kinds::SECRETS, &secret("old-token", "kubernetes.io/service-account-token", &annotations));
    let get = || cluster.get(&kinds::SECRETS, "kube-system", "old-token");
    let label = ["metadata", "labels", "kubernetes.io/legacy-token-invalid-since"];
    cluster.advance(365 * DAY);
    assert_eq!(get().unwrap().str_at(&label), None);
    cluster.advance(2 * DAY);
    assert_eq!(get().unwrap().str_at(&label), Some("2027-03-03"));
    cluster.advance(364 * DAY);
    assert!(get().is_some());
    cluster.advance(DAY);
    assert!(get().is_none());
    let account = cluster.get(&kinds::SERVICE_ACCOUNTS, "kube-system", "old").unwrap();
    assert!(account.items_at(&["secrets"]).is_empty(), "{account:?}");
}

#[test]
fn cluster_info_is_signed_by_tokens_until_they_expire() {
    let cluster = Cluster::with_nodes(0);
    let mut info = kinds::CONFIG_MAPS.new_object("kube-public", "cluster-info");
    info.set(&["data", "kubeconfig"], "apiVersion: v1");
    cluster.create(&kinds::CONFIG_MAPS, &info);
    let end = cluster.now() + jiff::SignedDuration::from_hours(24);
    let data = value!({"stringData": {
        "token-id": "abcdef", "token-secret": "0123456789abcdef",
        "usage-bootstrap-signing": "true", "expiration": (end.to_string()),
    }});
    cluster
        .create(&kinds::SECRETS, &secret("bootstrap-token-abcdef", "bootstrap.kubernetes.io/token", &data));
    let signature = || {
        let info = cluster.get(&kinds::CONFIG_MAPS, "kube-public", "cluster-info").unwrap();
        info.str_at(&["data", "jws-kubeconfig-abcdef"]).map(str::to_owned)
    };
    cluster.advance(DAY - HOUR);
    assert!(signature().is_some_and(|text| text.contains("..")));
    cluster.advance(HOUR);
    assert!(cluster.get(&kinds::SECRETS, "kube-system", "bootstrap-token-abcdef").is_none());
    assert_eq!(signature(), None);
}

#[test]
fn a_user_without_permission_is_not_approved() {
    let cluster = Cluster::with_nodes(0);
    let rights = value!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "asks"},
        "rules": [{"apiGroups": ["certificates.k8s.io"], "resources": ["certificatesigningrequests"], "verbs": ["create"]}],
    });
    cluster.create(&kinds::CLUSTER_ROLES, &rights);
    let bind = |name: &str, role: &str| {
        let binding = value!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane"}],
        });
        cluster.create(&kinds::CLUSTER_ROLE_BINDINGS, &binding);
    };
    bind("asks", "asks");
    let jane: Client = cluster.client_as("jane");
    let csr = request("system:node:n1", "kubernetes.io/kube-apiserver-client-kubelet");
    cluster.ask(jane.create(CSRS, &csr)).unwrap();
    cluster.advance(Duration::from_secs(60));
    assert!(reasons(&cluster.get(CSRS, "", "node-csr").unwrap()).is_empty());
    bind("may", "system:certificates.k8s.io:certificatesigningrequests:nodeclient");
    let approved = |cluster: &Cluster| !reasons(&cluster.get(CSRS, "", "node-csr").unwrap()).is_empty();
    let took = cluster.until("the right to count", HOUR, approved);
    assert!(took <= Duration::from_secs(120), "{took:?}: it is tried again after twice as long");
    assert!(cluster.ask(jane.get(CSRS, &Key::new("", "node-csr"))).is_err());
}
