//! The objects that machines need to join: the public `cluster-info`, the rights of bootstrap tokens, and the settings for
//! nodes. Names and content are kubeadm's, where kubeadm has them.

use std::net::IpAddr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use corten_api::{Value, value};
use corten_client::{Client, Error, Key, Kind, Patch, kinds};

/// The group of users who authenticate with a bootstrap token.
pub(crate) const BOOTSTRAPPERS: &str = "system:bootstrappers:kubeadm:default-node-token";
/// The ConfigMap in `kube-system` with the settings for nodes.
pub(crate) const NODE_SETTINGS: &str = "corten-node";
const RBAC: &str = "rbac.authorization.k8s.io";
const CLUSTER_INFO: &str = "kubeadm:bootstrap-signer-clusterinfo";

/// The settings for machines that join.
pub(super) struct JoinSettings {
    /// The server's URL for other machines.
    pub(super) server: String,
    pub(super) authority_pem: String,
    pub(super) cluster_dns: Vec<IpAddr>,
    pub(super) cluster_domain: String,
    pub(super) backend: String,
    /// True if nodes run DNS servers.
    pub(super) dns: bool,
}

/// Reconciles these objects. A failure is logged: the cluster works for the nodes that have joined.
pub(super) async fn install(client: &Client, settings: &JoinSettings) {
    for (kind, object) in objects(settings) {
        if let Err(error) = apply(client, kind, object).await {
            tracing::warn!(kind = %kind.kind, err = %error, "cannot reconcile an object that joining nodes need");
        }
    }
}

async fn apply(client: &Client, kind: &'static Kind, object: Value) -> Result<(), Error> {
    let key = Key::of(&object);
    let patch = Patch::Apply { manager: "corten", force: true, object };
    client.patch(kind, &key, &patch, "").await.map(drop)
}

fn objects(settings: &JoinSettings) -> Vec<(&'static Kind, Value)> {
    let addresses: Vec<String> = settings.cluster_dns.iter().map(ToString::to_string).collect();
    let node_settings = value!({
        "cluster-dns": (addresses.join(",")), "cluster-domain": (settings.cluster_domain.as_str()),
        "pod-network-backend": (settings.backend.as_str()), "dns": (if settings.dns { "nodes" } else { "elsewhere" }),
    });
    vec![
        bind_bootstrappers("kubeadm:kubelet-bootstrap", "system:node-bootstrapper"),
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
        bind_bootstrappers("kubeadm:get-nodes", "kubeadm:get-nodes"),
        bind_bootstrappers("kubeadm:node-autoapprove-bootstrap", &approval_role("nodeclient")),
        bind_nodes("kubeadm:node-autoapprove-certificate-rotation", &approval_role("selfnodeclient")),
        (
            &kinds::CONFIG_MAPS,
            data("kube-public", "cluster-info", value!({"kubeconfig": (cluster_info(settings))})),
        ),
        (&kinds::ROLES, role(&kinds::ROLES, "kube-public", CLUSTER_INFO, read_rules("cluster-info"))),
        (
            &kinds::ROLE_BINDINGS,
            binding("kube-public", CLUSTER_INFO, "Role", CLUSTER_INFO, "User", "system:anonymous"),
        ),
        (&kinds::CONFIG_MAPS, data("kube-system", NODE_SETTINGS, node_settings)),
        (&kinds::ROLES, role(&kinds::ROLES, "kube-system", NODE_SETTINGS, read_rules(NODE_SETTINGS))),
        (
            &kinds::ROLE_BINDINGS,
            binding("kube-system", NODE_SETTINGS, "Role", NODE_SETTINGS, "Group", "system:nodes"),
        ),
        (&kinds::CLUSTER_ROLES, serving_approver()),
        serving_approver_binding(),
    ]
}

fn bind_bootstrappers(name: &str, role: &str) -> (&'static Kind, Value) {
    (&kinds::CLUSTER_ROLE_BINDINGS, binding("", name, "ClusterRole", role, "Group", BOOTSTRAPPERS))
}

fn bind_nodes(name: &str, role: &str) -> (&'static Kind, Value) {
    (&kinds::CLUSTER_ROLE_BINDINGS, binding("", name, "ClusterRole", role, "Group", "system:nodes"))
}

fn approval_role(subresource: &str) -> String {
    format!("system:certificates.k8s.io:certificatesigningrequests:{subresource}")
}

/// The role of the approver of kubelet serving certificates.
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

fn read_rules(config_map: &str) -> Value {
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

/// The public kubeconfig of `cluster-info`: the cluster only, without a user.
fn cluster_info(settings: &JoinSettings) -> String {
    let (server, authority) = (&settings.server, STANDARD.encode(&settings.authority_pem));
    format!(
        "apiVersion: v1\nclusters:\n- cluster:\n    certificate-authority-data: {authority}\n    server: {server}\n  \
         name: \"\"\ncontexts: null\ncurrent-context: \"\"\nkind: Config\npreferences: {{}}\nusers: null\n"
    )
}
