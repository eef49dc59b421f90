//! The objects that the networks of nodes need: the role that lets nodes read more than their own pods, and the DNS Service.
//!
//! Nodes of other distributions never get that role. The server's own node has a binding of its own; the binding for all
//! nodes comes with the first token, because only then do machines join that run Corten.
//!
//! The Service is created once and left as users change it; `--disable=dns` deletes it if it is still ours.

use std::net::IpAddr;
use std::time::Duration;

use corten_api::{Value, value};
use corten_base::Clock;
use corten_client::{Client, DeleteOptions, Error, Key, Patch, kinds};
use corten_dns::{NAMESPACE, OURS, PROXY_NAME, SERVICE};

use crate::node::user_name;

/// The role, and its binding for all nodes.
const ROLE: &str = "corten:node-network";
/// The prefix of its bindings for the nodes in servers' processes, each with the node's name.
const SERVER_NODE_BINDING: &str = "corten:node-network:server";
const RBAC: &str = "rbac.authorization.k8s.io";
/// The delay between attempts to bind the role.
const RETRY: Duration = Duration::from_secs(5);

/// Reconciles these objects. `dns` has the addresses of the DNS Service, none for no Service; `name` is the name of this
/// machine's node, which is in this process if `has_node`. A failure is logged: the API server works without them. The role is retried, because the node's DNS server and
/// network policies need it.
pub(super) async fn install(client: &Client, dns: &[IpAddr], name: &str, has_node: bool) {
    let result = if dns.is_empty() { remove(client).await } else { add(client, dns).await };
    if let Err(err) = result {
        tracing::warn!(service = %key(), %err, "cannot reconcile the DNS service");
    }
    if let Err(err) = reconcile_own_node(client, name, has_node).await {
        tracing::warn!(role = ROLE, %err, backoff = ?RETRY, "cannot reconcile the role of the node network; retrying");
        let (client, name) = (client.clone(), name.to_owned());
        tokio::spawn(async move {
            let clock = Clock::real();
            while let Err(err) = reconcile_own_node(&client, &name, has_node).await {
                tracing::debug!(role = ROLE, %err, "cannot reconcile the role of the node network");
                clock.sleep(RETRY).await;
            }
        });
    }
}

/// Binds the role to the node in this process, or removes its binding. Other servers' nodes have bindings of their own.
async fn reconcile_own_node(client: &Client, node: &str, has_node: bool) -> Result<(), Error> {
    let binding = format!("{SERVER_NODE_BINDING}:{node}");
    if !has_node {
        return withdraw_own_node(client, &binding).await;
    }
    apply_role(client).await?;
    apply_binding(client, &binding, "User", &user_name(node)).await
}

/// Lets all nodes read what their networks need. For clusters that machines join with a token of Corten.
pub(crate) async fn authorize_all_nodes(client: &Client) -> Result<(), Error> {
    apply_role(client).await?;
    apply_binding(client, ROLE, "Group", "system:nodes").await
}

/// Deletes the binding of an earlier run. The role stays if other nodes have it, in this version's form: an earlier
/// version's may allow more.
async fn withdraw_own_node(client: &Client, binding: &str) -> Result<(), Error> {
    let binding = Key::new("", binding);
    match client.delete(&kinds::CLUSTER_ROLE_BINDINGS, &binding, &DeleteOptions::default()).await {
        Err(error) if !error.is_not_found() => return Err(error),
        _ => {}
    }
    match client.get(&kinds::CLUSTER_ROLES, &Key::new("", ROLE)).await {
        Err(error) if error.is_not_found() => Ok(()),
        Err(error) => Err(error),
        Ok(_) => apply_role(client).await,
    }
}

async fn apply_role(client: &Client) -> Result<(), Error> {
    let rule = |group: &str, resources: Value, verbs: Value| value!({"apiGroups": [(group)], "resources": (resources), "verbs": (verbs)});
    let read = |group: &str, resources: Value| rule(group, resources, value!(["get", "list", "watch"]));
    let mut role = kinds::CLUSTER_ROLES.new_object("", ROLE);
    role.set(
        &["rules"],
        value!([
            (read("", value!(["namespaces", "nodes", "services"]))),
            // Lists and watches show a node only addresses and labels of other nodes' pods. Single pods are shown whole, to
            // the nodes they are bound to.
            (rule("", value!(["pods"]), value!(["list", "watch"]))),
            (read("discovery.k8s.io", value!(["endpointslices"]))),
            (read("networking.k8s.io", value!(["networkpolicies", "servicecidrs"]))),
        ]),
    );
    let patch = Patch::Apply { manager: "corten", force: true, object: role };
    client.patch(&kinds::CLUSTER_ROLES, &Key::new("", ROLE), &patch, "").await.map(drop)
}

async fn apply_binding(client: &Client, name: &str, kind: &str, subject: &str) -> Result<(), Error> {
    let mut binding = kinds::CLUSTER_ROLE_BINDINGS.new_object("", name);
    binding.set(&["roleRef"], value!({"apiGroup": (RBAC), "kind": "ClusterRole", "name": (ROLE)}));
    binding.set(&["subjects"], value!([{"apiGroup": (RBAC), "kind": (kind), "name": (subject)}]));
    let patch = Patch::Apply { manager: "corten", force: true, object: binding };
    client.patch(&kinds::CLUSTER_ROLE_BINDINGS, &Key::new("", name), &patch, "").await.map(drop)
}

async fn add(client: &Client, addresses: &[IpAddr]) -> Result<(), Error> {
    // Read first: a create would fail because the address is taken, without saying that this Service has it.
    let found = match client.get(&kinds::SERVICES, &key()).await {
        Err(error) if error.is_not_found() => {
            return client.create(&kinds::SERVICES, &service(addresses)).await.map(drop);
        }
        found => found?,
    };
    let desired = addresses.first().map(ToString::to_string);
    let actual = found.str_at(&["spec", "clusterIP"]).unwrap_or_default();
    if Some(actual) != desired.as_deref() {
        tracing::warn!(service = %key(), clusterIP = actual, "Service kube-dns has another cluster IP than --cluster-dns; pods cannot resolve names");
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
