//! The Node object: registers it, renews its lease, reports its status and records its events.

mod capacity;
mod events;
pub(crate) mod kernel;
pub(crate) mod oom_watcher;
mod status;

use std::sync::Arc;
use std::time::Duration;

use corten_api::{Value, meta, time, value};
use corten_base::Clock;
use corten_client::{Error, Key, Patch, kinds};
use tokio::sync::Notify;

use crate::api_server::ApiServer;
use crate::configuration::Configuration;
use crate::kubelet::Kubelet;

pub(crate) use capacity::Reserved;

const LEASES: &str = "kube-node-lease";
/// The time before a failed enforcement of node allocatable is retried.
const ENFORCE_RETRY: Duration = Duration::from_secs(60);

/// The settings of the Node object, its lease and its status.
#[derive(Debug, Clone)]
pub struct NodeOptions {
    /// True if the kubelet creates its own Node; an administrator does otherwise.
    pub register: bool,
    /// The labels of the Node when it is registered.
    pub labels: Vec<(String, String)>,
    /// The taints of the Node when it is registered.
    pub taints: Vec<Value>,
    /// The provider id of the Node.
    pub provider_id: String,
    /// The maximum number of pods.
    pub max_pods: i64,
    /// The maximum number of pods for each CPU; unlimited if 0.
    pub pods_per_core: i64,
    /// The maximum number of images in the node status; all if `None`.
    pub max_images: Option<usize>,
    /// The duration of the node's lease.
    pub lease: Duration,
    /// The time between updates of the node status.
    pub update: Duration,
    /// The time between reports of an unchanged node status.
    pub report: Duration,
}

impl NodeOptions {
    /// The options of a configuration.
    pub fn of(configuration: &Configuration) -> NodeOptions {
        let period = |path: &str| configuration.duration(path).unwrap_or_default();
        let lease = u64::try_from(configuration.int("nodeLeaseDurationSeconds")).unwrap_or_default();
        NodeOptions {
            register: configuration.bool("registerNode"),
            labels: Vec::new(),
            taints: configuration.items("registerWithTaints").to_vec(),
            provider_id: configuration.text("providerID").to_owned(),
            max_pods: configuration.int("maxPods"),
            pods_per_core: configuration.int("podsPerCore"),
            max_images: usize::try_from(configuration.int("nodeStatusMaxImages")).ok(),
            lease: Duration::from_secs(lease),
            update: period("nodeStatusUpdateFrequency"),
            report: period("nodeStatusReportFrequency"),
        }
    }
}

impl Default for NodeOptions {
    /// The defaults of upstream's kubelet.
    fn default() -> NodeOptions {
        NodeOptions {
            register: true,
            labels: Vec::new(),
            taints: Vec::new(),
            provider_id: String::new(),
            max_pods: 110,
            pods_per_core: 0,
            max_images: Some(50),
            lease: Duration::from_secs(40),
            update: Duration::from_secs(10),
            report: Duration::from_secs(300),
        }
    }
}

/// The node's settings.
pub(crate) struct Node {
    pub(crate) options: NodeOptions,
    pub(crate) reserved: Reserved,
    /// The node's addresses, the primary one first.
    pub(crate) addresses: Vec<String>,
    /// The port of the kubelet's API; 0 without one.
    pub(crate) api_port: u16,
    /// Notified when the node's status may have changed.
    pub(crate) changed: Notify,
}

impl Node {
    pub(crate) fn new(
        options: NodeOptions,
        reserved: Reserved,
        addresses: Vec<String>,
        api_port: u16,
    ) -> Node {
        Node { options, reserved, addresses, api_port, changed: Notify::new() }
    }
}

/// Registers the node, then renews its lease and reports its status, for good.
pub(crate) async fn run(kubelet: Arc<Kubelet>) {
    let clock = kubelet.clock.clone();
    let options = &kubelet.node.options;
    kubelet.api.record_node_event(false, "Starting", "Starting kubelet.".to_owned());
    while let Err(err) = register(&kubelet).await {
        tracing::warn!(node = kubelet.api.node_name, %err, "cannot register node; retrying");
        clock.sleep(Duration::from_secs(1)).await;
    }
    let mut last = Value::Null;
    let mut reported = clock.now();
    // A lease is renewed four times before it expires.
    let period = options.update.min(options.lease / 4);
    loop {
        let _ = clock.timeout(period, kubelet.node.changed.notified()).await;
        let result = async {
            renew_lease(&kubelet.api, &clock).await?;
            let status = status::status(&kubelet).await;
            let due = clock.now() >= reported + options.report;
            if due || status != last || !is_reported(&kubelet.api, &status) {
                report_status(&kubelet.api, &clock, &status).await?;
                last = status;
                reported = clock.now();
            }
            Ok::<(), Error>(())
        };
        if let Err(err) = result.await {
            tracing::warn!(node = kubelet.api.node_name, %err, "cannot renew lease or report node status; retrying");
        }
    }
}

/// Limits all pods together to the node's allocatable resources. Retried until it succeeds.
pub(crate) async fn enforce_allocatable(kubelet: Arc<Kubelet>) {
    let limits = status::capacity(&kubelet).limits(&kubelet.node.reserved);
    while let Err(err) = kubelet.resources.cgroups.limit(&limits) {
        let message = format!("Failed to update Node Allocatable Limits [\"kubepods\"]: {err}");
        kubelet.api.record_node_event(true, "FailedNodeAllocatableEnforcement", message);
        kubelet.clock.sleep(ENFORCE_RETRY).await;
    }
    let message = "Updated Node Allocatable limit across pods".to_owned();
    kubelet.api.record_node_event(false, "NodeAllocatableEnforced", message);
}

/// Records an event when the node becomes schedulable or unschedulable.
pub(crate) fn watch_own_node(api: &ApiServer) {
    let (recording, unschedulable) = (api.clone(), parking_lot::Mutex::new(false));
    api.own_nodes().subscribe(move |change| {
        let Some(node) = &change.new else { return };
        let mut unschedulable = unschedulable.lock();
        if let Some(event) = events::schedulable(*unschedulable, &node.tree()) {
            *unschedulable = !*unschedulable;
            recording.record_node_event(event.warning, event.reason, event.message);
        }
    });
}

/// The cached Node; before it is cached, the Node as it would be registered.
pub(crate) fn cached(kubelet: &Kubelet) -> Value {
    let node = kubelet.api.own_node().map(|node| node.tree());
    node.filter(|node| node.at(&["status", "allocatable"]).is_some()).unwrap_or_else(|| {
        let mut node = status::object(kubelet);
        node.set(&["status", "allocatable"], status::allocatable(kubelet));
        node
    })
}

/// The node's allocatable resources.
pub(crate) fn allocatable(kubelet: &Kubelet) -> Value {
    cached(kubelet).at(&["status", "allocatable"]).cloned().unwrap_or_default()
}

/// The memory of the machine, in bytes.
pub(crate) fn memory() -> i64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kilobytes = line.and_then(|rest| rest.trim().trim_end_matches(" kB").parse::<i64>().ok());
    kilobytes.unwrap_or(0) * 1024
}

/// Returns true if the cached Node has the conditions that were reported. The node lifecycle controller changes them
/// while the node is unreachable.
fn is_reported(api: &ApiServer, status: &Value) -> bool {
    api.own_node().is_none_or(|node| has_conditions(&node.tree(), status))
}

/// Returns true if a Node has every condition with the same status.
fn has_conditions(node: &Value, status: &Value) -> bool {
    let actual = node.items_at(&["status", "conditions"]);
    let same = |desired: &Value| {
        let found = actual.iter().find(|found| found.str_at(&["type"]) == desired.str_at(&["type"]));
        found.is_some_and(|found| found.str_at(&["status"]) == desired.str_at(&["status"]))
    };
    status.items_at(&["conditions"]).iter().all(same)
}

/// Creates the Node (or updates its labels) and its lease, and reports its status.
async fn register(kubelet: &Kubelet) -> Result<(), Error> {
    let (api, clock, options) = (&kubelet.api, &kubelet.clock, &kubelet.node.options);
    let name = &api.node_name;
    let status = status::status(kubelet).await;
    let node = match options.register {
        true => {
            let mut node = status::object(kubelet);
            node.set(&["status"], status::dated(&status, &Value::Null, clock.now()));
            api.client.create(&kinds::NODES, &node).await
        }
        false => api.client.get(&kinds::NODES, &api.node_key()).await,
    };
    let node = match node {
        Err(err) if err.already_exists() => {
            // Labels of others stay; those that follow from the machine are set again.
            let patch = Patch::Merge(value!({"metadata": {"labels": (status::own_labels(name))}}));
            api.client.patch(&kinds::NODES, &api.node_key(), &patch, "").await?
        }
        node => {
            let node = node?;
            if options.register {
                record_changes(api, &Value::Null, &status);
            }
            node
        }
    };
    report_status(api, clock, &status).await?;
    let mut lease = kinds::LEASES.new_object(LEASES, name);
    lease.set(
        &["metadata", "ownerReferences"],
        value!([{"apiVersion": "v1", "kind": "Node", "name": (name.as_str()), "uid": (meta::uid(&node))}]),
    );
    let now = time::format_micro(clock.now());
    let lease_seconds = i64::try_from(options.lease.as_secs()).unwrap_or(i64::MAX);
    lease.set(
        &["spec"],
        value!({"holderIdentity": (name.as_str()), "leaseDurationSeconds": (lease_seconds), "renewTime": (now)}),
    );
    match api.client.create(&kinds::LEASES, &lease).await {
        Err(err) if err.already_exists() => renew_lease(api, clock).await,
        result => result.map(drop),
    }
}

async fn renew_lease(api: &ApiServer, clock: &Clock) -> Result<(), Error> {
    let now = time::format_micro(clock.now());
    let patch = Patch::Merge(value!({"spec": {"renewTime": (now)}}));
    let lease = Key::new(LEASES, api.node_name.as_str());
    api.client.patch(&kinds::LEASES, &lease, &patch, "").await.map(drop)
}

async fn report_status(api: &ApiServer, clock: &Clock, status: &Value) -> Result<(), Error> {
    let node = api.client.get(&kinds::NODES, &api.node_key()).await?;
    let mut dated = status::dated(status, &node, clock.now());
    if let Some(addresses) = dated.get_mut("addresses").and_then(Value::as_array_mut) {
        // A strategic merge by type would lose one of two addresses of the same type.
        addresses.push(value!({"$patch": "replace"}));
    }
    let patch = Patch::Strategic(value!({"status": (dated)}));
    api.client.patch(&kinds::NODES, &api.node_key(), &patch, "status").await?;
    record_changes(api, &node, status);
    Ok(())
}

/// Records the events of a status change, once it is reported.
fn record_changes(api: &ApiServer, before: &Value, status: &Value) {
    for event in events::changes(&api.node_name, before, status) {
        api.record_node_event(event.warning, event.reason, event.message);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_conditions_are_reported_again() {
        let status = value!({"conditions": [
            {"type": "Ready", "status": "True"}, {"type": "DiskPressure", "status": "False"}
        ]});
        let node = |ready: &str| {
            value!({"status": {"conditions": [
                {"type": "NetworkUnavailable", "status": "False"}, {"type": "DiskPressure", "status": "False"},
                {"type": "Ready", "status": (ready)}
            ]}})
        };
        assert!(has_conditions(&node("True"), &status));
        assert!(!has_conditions(&node("Unknown"), &status));
        assert!(!has_conditions(&value!({}), &status));
    }
}
