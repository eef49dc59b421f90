//! The nodes themselves: their objects, their leases and their reports.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use corten_api::{Str, Value, meta, time, value};
use corten_base::Clock;
use corten_client::{Caches, Client, Error, Key, Patch, kinds};
use jiff::Timestamp;

use crate::Identities;
use crate::conditions::{self, Condition};

/// The renewal period of leases, and their duration.
const RENEW_PERIOD: Duration = Duration::from_secs(10);
const LEASE_SECONDS: i64 = 40;
/// The number of renewals after which a node reports its status although nothing changed: five minutes.
const RENEWALS_PER_REPORT: u64 = 30;
/// Annotation: the node stops all heartbeats, as if it had lost its network.
pub const UNPLUGGED: &str = "simulator.corten.dev/unplugged";

/// The pod capacity of a node.
pub(crate) const MAX_PODS: usize = 110;
const LEASES: &str = "kube-node-lease";
const VERSION: &str = "v1.37.0";

pub(crate) struct Node {
    pub(crate) name: Str,
    pub(crate) client: Client,
    /// The node's own address.
    pub(crate) address: Ipv4Addr,
    /// The node's own pod CIDR, a /24, unless a controller allocates one.
    own_network: Ipv4Addr,
    network_assigned: bool,
}

impl Node {
    pub(crate) fn new(index: usize, identities: &Identities, network_assigned: bool) -> Node {
        let name = Str::from(format!("simulated-{index}"));
        let client = identities(&format!("system:node:{name}"), &["system:nodes"]);
        let [_, _, high, low] = u32::try_from(index).unwrap_or(u32::MAX).to_be_bytes();
        let address = Ipv4Addr::from(u32::from(Ipv4Addr::new(172, 31, high, low)).saturating_add(1));
        let own_network = Ipv4Addr::new(10, 244u8.wrapping_add(high), low, 0);
        Node { name, client, address, own_network, network_assigned }
    }

    /// The network of the node's pod CIDR, once it has one.
    pub(crate) fn network(&self, node: &Value) -> Option<Ipv4Addr> {
        let assigned = node.items_at(&["spec", "podCIDRs"]);
        if assigned.is_empty() {
            return (!self.network_assigned).then_some(self.own_network);
        }
        let first = |cidr: &Value| cidr.as_str()?.split('/').next()?.parse().ok();
        Some(assigned.iter().find_map(first).unwrap_or(self.own_network))
    }

    fn key(&self) -> Key {
        Key::new("", self.name.clone())
    }

    /// Creates the Node object and its Lease.
    async fn register(&self, now: Timestamp) -> Result<(), Error> {
        let node = match self.client.create(&kinds::NODES, &self.object(now)).await {
            Err(error) if error.already_exists() => self.client.get(&kinds::NODES, &self.key()).await?,
            node => node?,
        };
        self.report(&node, now).await?;
        match self.client.create(&kinds::LEASES, &self.lease(&node, now)).await {
            Err(error) if !error.already_exists() => Err(error),
            _ => self.renew(now).await,
        }
    }

    async fn renew(&self, now: Timestamp) -> Result<(), Error> {
        let renewed = Patch::Merge(value!({"spec": {"renewTime": (time::format_micro(now))}}));
        let lease = Key::new(LEASES, self.name.clone());
        self.client.patch(&kinds::LEASES, &lease, &renewed, "").await.map(drop)
    }

    async fn report(&self, node: &Value, now: Timestamp) -> Result<(), Error> {
        let report = Patch::Strategic(value!({"status": (self.status(node, now))}));
        self.client.patch(&kinds::NODES, &self.key(), &report, "status").await.map(drop)
    }

    fn object(&self, now: Timestamp) -> Value {
        let mut node = kinds::NODES.new_object("", &self.name);
        node.set(
            &["metadata", "labels"],
            value!({
                "kubernetes.io/hostname": (self.name.clone()),
                "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux",
                "beta.kubernetes.io/arch": "amd64", "beta.kubernetes.io/os": "linux",
            }),
        );
        let status = self.status(&node, now);
        node.set(&["status"], status);
        node
    }

    fn lease(&self, node: &Value, now: Timestamp) -> Value {
        let mut lease = kinds::LEASES.new_object(LEASES, &self.name);
        lease.set(
            &["metadata", "ownerReferences"],
            value!([{"apiVersion": "v1", "kind": "Node", "name": (self.name.clone()), "uid": (meta::uid(node))}]),
        );
        lease.set(
            &["spec"],
            value!({
                "holderIdentity": (self.name.clone()), "leaseDurationSeconds": (LEASE_SECONDS),
                "renewTime": (time::format_micro(now)),
            }),
        );
        lease
    }

    /// The status of a healthy node.
    fn status(&self, node: &Value, now: Timestamp) -> Value {
        let resources = value!({
            "cpu": "32", "memory": "256Gi", "ephemeral-storage": "1Ti", "pods": (MAX_PODS.to_string()),
            "hugepages-1Gi": "0", "hugepages-2Mi": "0",
        });
        let conditions: Vec<Value> = report().iter().map(|c| heartbeat(c, node, now)).collect();
        value!({
            "capacity": (resources.clone()), "allocatable": (resources),
            "conditions": (Value::Array(conditions)),
            "addresses": [
                {"type": "InternalIP", "address": (self.address.to_string())},
                {"type": "Hostname", "address": (self.name.clone())},
            ],
            "nodeInfo": {
                "architecture": "amd64", "operatingSystem": "linux", "osImage": "Simulated",
                "kernelVersion": "6.0.0-simulated", "containerRuntimeVersion": "simulated://1.0",
                "kubeletVersion": (VERSION), "kubeProxyVersion": "", "machineID": (self.name.clone()),
                "systemUUID": (self.name.clone()), "bootID": (self.name.clone()),
            },
        })
    }
}

/// A condition with a new heartbeat time.
fn heartbeat(condition: &Condition, node: &Value, now: Timestamp) -> Value {
    let mut patch = condition.patch(node, now);
    patch.insert("lastHeartbeatTime", time::format(now));
    Value::Object(patch)
}

fn report() -> [Condition; 4] {
    let said =
        |kind, holds, reason, message: &str| Condition { kind, holds, reason, message: message.into() };
    [
        said(
            "MemoryPressure",
            false,
            "KubeletHasSufficientMemory",
            "kubelet has sufficient memory available",
        ),
        said("DiskPressure", false, "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        said("PIDPressure", false, "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        said("Ready", true, "KubeletReady", "kubelet is posting ready status"),
    ]
}

/// True if the node's heartbeats are stopped.
pub(crate) fn is_unplugged(node: &Value) -> bool {
    node.at(&["metadata", "annotations", UNPLUGGED]).is_some()
}

pub(crate) fn is_ready(node: &Value) -> bool {
    conditions::is_true(node, "Ready")
}

/// Registers the nodes, one after another.
pub(crate) async fn register(nodes: Arc<[Node]>, clock: Clock) {
    for node in nodes.iter() {
        while let Err(error) = node.register(clock.now()).await {
            tracing::warn!(node = %node.name, err = %error, "cannot register node; retrying");
            clock.sleep(RENEW_PERIOD).await;
        }
    }
}

/// Renews the leases of all registered nodes, and reports their status periodically.
pub(crate) async fn renew_leases(nodes: Arc<[Node]>, caches: Caches, clock: Clock) {
    let known = caches.of(&kinds::NODES);
    for renewal in 1u64.. {
        clock.sleep(RENEW_PERIOD).await;
        for node in nodes.iter() {
            // Like a kubelet, it does not register again after a user deleted the node.
            let Some(object) = known.get(&node.key()) else { continue };
            let object = object.tree();
            if is_unplugged(&object) {
                continue;
            }
            let now = clock.now();
            let due = renewal.is_multiple_of(RENEWALS_PER_REPORT) || !is_ready(&object);
            let result = match node.renew(now).await {
                Ok(()) if due => node.report(&object, now).await,
                result => result,
            };
            if let Err(error) = result {
                tracing::debug!(node = %node.name, err = %error, "cannot update node lease or status; retrying");
            }
        }
    }
}
