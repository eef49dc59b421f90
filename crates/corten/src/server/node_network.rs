//! What the cluster has to have for the networks of its nodes: what nodes may read beyond their own pods, and the service
//! that pods ask for names.
//!
//! The service is made once and then left as people make it; `--disable=dns` takes it away again if it is still ours.

use std::net::IpAddr;

use corten_api::{Value, value};
use corten_client::{Client, DeleteOptions, Error, Key, Patch, kinds};
use corten_dns::{NAMESPACE, OURS, PROXY_NAME, SERVICE};

const ROLE: &str = "corten:node-network";

/// Brings it all to where it should be; a cluster without it is a cluster all the same. No addresses for no service.
pub(super) async fn install(client: &Client, dns: &[IpAddr]) {
    let result = if dns.is_empty() { remove(client).await } else { add(client, dns).await };
    if let Err(error) = result {
        tracing::warn!(%error, "the service for names could not be brought up to date");
    }
    if let Err(error) = renew_role(client).await {
        tracing::warn!(role = ROLE, %error, "what nodes may read could not be brought up to date");
    }
}

/// A role that an earlier version made may allow more than this one's.
async fn renew_role(client: &Client) -> Result<(), Error> {
    match client.get(&kinds::CLUSTER_ROLES, &Key::new("", ROLE)).await {
        Err(error) if error.is_not_found() => Ok(()),
        Err(error) => Err(error),
        Ok(_) => let_nodes_read(client).await,
    }
}

/// Lets nodes read what their networks need. Only a cluster that machines are invited to has to: the server's own node
/// reads it as the server does, and nodes of other making read no more than their own pods.
pub(crate) async fn let_nodes_read(client: &Client) -> Result<(), Error> {
    let may = |group: &str, resources: Value, verbs: Value| value!({"apiGroups": [(group)], "resources": (resources), "verbs": (verbs)});
    let rule = |group: &str, resources: Value| may(group, resources, value!(["get", "list", "watch"]));
    let mut role = kinds::CLUSTER_ROLES.new_object("", ROLE);
    role.set(
        &["rules"],
        value!([
            (rule("", value!(["namespaces", "nodes", "services"]))),
            // In lists and watches the server shows nodes no more of pods than addresses and labels; single pods are shown
            // whole, to the nodes they are on.
            (may("", value!(["pods"]), value!(["list", "watch"]))),
            (rule("discovery.k8s.io", value!(["endpointslices"]))),
            (rule("networking.k8s.io", value!(["networkpolicies", "servicecidrs"]))),
        ]),
    );
    let mut binding = kinds::CLUSTER_ROLE_BINDINGS.new_object("", ROLE);
    binding.set(
        &["roleRef"],
        value!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": (ROLE)}),
    );
    binding.set(
        &["subjects"],
        value!([{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:nodes"}]),
    );
    for (kind, object) in [(&kinds::CLUSTER_ROLES, role), (&kinds::CLUSTER_ROLE_BINDINGS, binding)] {
        let patch = Patch::Apply { manager: "corten", force: true, object };
        client.patch(kind, &Key::new("", ROLE), &patch, "").await?;
    }
    Ok(())
}

async fn add(client: &Client, addresses: &[IpAddr]) -> Result<(), Error> {
    // Not made blindly: it would hear that its address is taken, not by whom.
    let found = match client.get(&kinds::SERVICES, &key()).await {
        Err(error) if error.is_not_found() => {
            return client.create(&kinds::SERVICES, &service(addresses)).await.map(drop);
        }
        found => found?,
    };
    let wanted = addresses.first().map(ToString::to_string);
    if found.str_at(&["spec", "clusterIP"]) != wanted.as_deref() {
        tracing::warn!("the service kube-dns has another address than --cluster-dns says");
    }
    Ok(())
}

async fn remove(client: &Client) -> Result<(), Error> {
    let found = match client.get(&kinds::SERVICES, &key()).await {
        Err(error) if error.is_not_found() => return Ok(()),
        found => found?,
    };
    if found.str_at(&["metadata", "labels", PROXY_NAME]) != Some(OURS) {
        return Ok(());
    }
    client.delete(&kinds::SERVICES, &key(), &DeleteOptions::default()).await.map(drop)
}

fn key() -> Key {
    Key::new(NAMESPACE, SERVICE)
}

fn service(addresses: &[IpAddr]) -> Value {
    let mut service = kinds::SERVICES.new_object(NAMESPACE, SERVICE);
    service.set(
        &["metadata", "labels"],
        value!({
            "k8s-app": "kube-dns", "kubernetes.io/cluster-service": "true", "kubernetes.io/name": "KubeDNS",
        }),
    );
    service.set(&["metadata", "labels", PROXY_NAME], OURS);
    service.set(
        &["metadata", "annotations"],
        value!({"prometheus.io/port": "9153", "prometheus.io/scrape": "true"}),
    );
    let port = |name: &str, protocol: &str, port: i64| value!({"name": (name), "protocol": (protocol), "port": (port), "targetPort": (port)});
    let addresses: Vec<Value> = addresses.iter().map(|address| Value::from(address.to_string())).collect();
    let policy = if addresses.len() > 1 { "RequireDualStack" } else { "SingleStack" };
    service.set(
        &["spec"],
        value!({
            "clusterIP": (addresses.first().cloned().unwrap_or_default()), "clusterIPs": (addresses),
            "ipFamilyPolicy": (policy), "internalTrafficPolicy": "Local",
            "ports": [(port("dns", "UDP", 53)), (port("dns-tcp", "TCP", 53)), (port("metrics", "TCP", 9153))],
        }),
    );
    service
}
