//! What the cluster has to have for machines to join it: what it says of itself to everybody, what invited machines may
//! do, and what nodes have to know. All of it as kubeadm makes it, under the same names, so that its users find it.

use std::net::IpAddr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use corten_api::{Value, value};
use corten_client::{Client, Error, Key, Kind, Patch, kinds};

/// The group of those who were invited.
pub(crate) const INVITED: &str = "system:bootstrappers:kubeadm:default-node-token";
/// What nodes have to know, in `kube-system`.
pub(crate) const NODE_SETTINGS: &str = "corten-node";
const RBAC: &str = "rbac.authorization.k8s.io";
const CLUSTER_INFO: &str = "kubeadm:bootstrap-signer-clusterinfo";

/// What is told to machines that join.
pub(super) struct Told {
    /// Where the server is reached from elsewhere.
    pub(super) server: String,
    pub(super) authority_pem: String,
    pub(super) cluster_dns: Vec<IpAddr>,
    pub(super) cluster_domain: String,
    pub(super) backend: String,
    /// Whether nodes answer for names themselves.
    pub(super) dns: bool,
}

/// Brings it all to where it should be; a cluster that nobody can join is a cluster all the same.
pub(super) async fn install(client: &Client, told: &Told) {
    for (kind, object) in objects(told) {
        if let Err(error) = apply(client, kind, object).await {
            tracing::warn!(kind = %kind.kind, %error, "machines may not be able to join");
        }
    }
}

async fn apply(client: &Client, kind: &'static Kind, object: Value) -> Result<(), Error> {
    let key = Key::of(&object);
    let patch = Patch::Apply { manager: "corten", force: true, object };
    client.patch(kind, &key, &patch, "").await.map(drop)
}

fn objects(told: &Told) -> Vec<(&'static Kind, Value)> {
    let addresses: Vec<String> = told.cluster_dns.iter().map(ToString::to_string).collect();
    let settings = value!({
        "cluster-dns": (addresses.join(",")), "cluster-domain": (told.cluster_domain.as_str()),
        "pod-network-backend": (told.backend.as_str()), "dns": (if told.dns { "nodes" } else { "elsewhere" }),
    });
    vec![
        invited_may("kubeadm:kubelet-bootstrap", "system:node-bootstrapper"),
        (
            &kinds::CLUSTER_ROLES,
            role(
                &kinds::CLUSTER_ROLES,
                "",
                "kubeadm:get-nodes",
                value!([{
                    "apiGroups": [""], "resources": ["nodes"], "verbs": ["get"],
                }]),
            ),
        ),
        invited_may("kubeadm:get-nodes", "kubeadm:get-nodes"),
        invited_may("kubeadm:node-autoapprove-bootstrap", &approving("nodeclient")),
        nodes_may("kubeadm:node-autoapprove-certificate-rotation", &approving("selfnodeclient")),
        (
            &kinds::CONFIG_MAPS,
            data("kube-public", "cluster-info", value!({"kubeconfig": (cluster_info(told))})),
        ),
        (&kinds::ROLES, role(&kinds::ROLES, "kube-public", CLUSTER_INFO, reading("cluster-info"))),
        (
            &kinds::ROLE_BINDINGS,
            binding("kube-public", CLUSTER_INFO, "Role", CLUSTER_INFO, "User", "system:anonymous"),
        ),
        (&kinds::CONFIG_MAPS, data("kube-system", NODE_SETTINGS, settings)),
        (&kinds::ROLES, role(&kinds::ROLES, "kube-system", NODE_SETTINGS, reading(NODE_SETTINGS))),
        (
            &kinds::ROLE_BINDINGS,
            binding("kube-system", NODE_SETTINGS, "Role", NODE_SETTINGS, "Group", "system:nodes"),
        ),
        (&kinds::CLUSTER_ROLES, serving_approver()),
        serving_approver_binding(),
    ]
}

fn invited_may(name: &str, role: &str) -> (&'static Kind, Value) {
    (&kinds::CLUSTER_ROLE_BINDINGS, binding("", name, "ClusterRole", role, "Group", INVITED))
}

fn nodes_may(name: &str, role: &str) -> (&'static Kind, Value) {
    (&kinds::CLUSTER_ROLE_BINDINGS, binding("", name, "ClusterRole", role, "Group", "system:nodes"))
}

fn approving(subresource: &str) -> String {
    format!("system:certificates.k8s.io:certificatesigningrequests:{subresource}")
}

/// What approves the certificates by which kubelets serve.
fn serving_approver() -> Value {
    role(
        &kinds::CLUSTER_ROLES,
        "",
        "corten:kubelet-serving-approver",
        value!([
            {"apiGroups": ["certificates.k8s.io"], "resources": ["certificatesigningrequests"], "verbs": ["get", "list", "watch"]},
            {"apiGroups": ["certificates.k8s.io"], "resources": ["certificatesigningrequests/approval"], "verbs": ["update"]},
            {
                "apiGroups": ["certificates.k8s.io"], "resources": ["signers"],
                "resourceNames": ["kubernetes.io/kubelet-serving"], "verbs": ["approve"],
            }
        ]),
    )
}

fn serving_approver_binding() -> (&'static Kind, Value) {
    let name = "corten:kubelet-serving-approver";
    let mut binding = binding("", name, "ClusterRole", name, "Group", "");
    binding.set(
        &["subjects"],
        value!([{"kind": "ServiceAccount", "name": "kubelet-serving-approver", "namespace": "kube-system"}]),
    );
    (&kinds::CLUSTER_ROLE_BINDINGS, binding)
}

fn reading(config_map: &str) -> Value {
    value!([{"apiGroups": [""], "resources": ["configmaps"], "resourceNames": [(config_map)], "verbs": ["get"]}])
}

fn role(kind: &Kind, namespace: &str, name: &str, rules: Value) -> Value {
    let mut role = kind.new_object(namespace, name);
    role.set(&["rules"], rules);
    role
}

fn binding(namespace: &str, name: &str, kind: &str, role: &str, subject: &str, who: &str) -> Value {
    let of = if namespace.is_empty() { &kinds::CLUSTER_ROLE_BINDINGS } else { &kinds::ROLE_BINDINGS };
    let mut binding = of.new_object(namespace, name);
    binding.set(&["roleRef"], value!({"apiGroup": (RBAC), "kind": (kind), "name": (role)}));
    binding.set(&["subjects"], value!([{"apiGroup": (RBAC), "kind": (subject), "name": (who)}]));
    binding
}

fn data(namespace: &str, name: &str, data: Value) -> Value {
    let mut map = kinds::CONFIG_MAPS.new_object(namespace, name);
    map.set(&["data"], data);
    map
}

/// A kubeconfig with nothing but the cluster, for everybody.
fn cluster_info(told: &Told) -> String {
    let (server, authority) = (&told.server, STANDARD.encode(&told.authority_pem));
    format!(
        "apiVersion: v1\nclusters:\n- cluster:\n    certificate-authority-data: {authority}\n    server: {server}\n  \
         name: \"\"\ncontexts: null\ncurrent-context: \"\"\nkind: Config\npreferences: {{}}\nusers: null\n"
    )
}
