//! The node itself: registers it, renews its lease, reports what is known of the machine and tells what happens to it.

mod capacity;
mod described;
mod news;

use std::sync::Arc;
use std::time::Duration;

use corten_api::{Value, meta, time, value};
use corten_client::{Error, Key, Patch, kinds};
use corten_reconcile::Event;

use crate::configuration::Configuration;
use crate::machine::Machine;
use news::News;

pub(crate) use capacity::Reserved;

const LEASES: &str = "kube-node-lease";
/// How long to wait before pods are limited again, if that failed.
const ENFORCE_AGAIN: Duration = Duration::from_secs(60);

/// What a node says of itself, and how often.
#[derive(Debug, Clone)]
pub struct NodeOptions {
    /// Whether it makes its own object; somebody else does otherwise.
    pub register: bool,
    /// What it is labelled and tainted with when it is registered.
    pub labels: Vec<(String, String)>,
    pub taints: Vec<Value>,
    pub provider_id: String,
    pub max_pods: i64,
    /// As many pods for each of the machine's processors; any number if 0.
    pub pods_per_core: i64,
    /// As many images are told of; all if not said.
    pub max_images: Option<usize>,
    /// How long its lease lasts.
    pub lease: Duration,
    /// How often it looks at itself, and how often it reports although nothing changed.
    pub update: Duration,
    pub report: Duration,
}

impl NodeOptions {
    /// As a configuration says.
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
    /// As upstream's kubelet does it unless told otherwise.
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

/// Registers the node, then renews its lease and reports, for good.
pub(crate) async fn beat(machine: Arc<Machine>) {
    let clock = machine.clock.clone();
    tell(&machine, false, "Starting", "Starting kubelet.".to_owned());
    while let Err(error) = register(&machine).await {
        tracing::warn!(%error, "the node could not be registered");
        clock.sleep(Duration::from_secs(1)).await;
    }
    let mut last = Value::Null;
    let mut reported = clock.now();
    // A lease is renewed four times before it is over.
    let beat = machine.node.update.min(machine.node.lease / 4);
    loop {
        let _ = clock.timeout(beat, machine.news.notified()).await;
        let result = async {
            renew(&machine).await?;
            let status = described::status(&machine).await;
            let due = clock.now() >= reported + machine.node.report;
            if due || status != last || !is_known(&machine, &status) {
                report(&machine, &status).await?;
                last = status;
                reported = clock.now();
            }
            Ok::<(), Error>(())
        };
        if let Err(error) = result.await {
            tracing::warn!(%error, "the node could not report");
        }
    }
}

/// Keeps pods from using what is not theirs, for good.
pub(crate) async fn enforce(machine: Arc<Machine>) {
    let limits = described::capacity(&machine).limits(&machine.reserved);
    while let Err(error) = machine.cgroups.limit(&limits) {
        let message = format!("Failed to update Node Allocatable Limits [\"kubepods\"]: {error}");
        tell(&machine, true, "FailedNodeAllocatableEnforcement", message);
        machine.clock.sleep(ENFORCE_AGAIN).await;
    }
    let message = "Updated Node Allocatable limit across pods".to_owned();
    tell(&machine, false, "NodeAllocatableEnforced", message);
}

/// Follows what others do to the node's object.
pub(crate) fn follow(machine: &Arc<Machine>) {
    let (following, closed) = (machine.clone(), parking_lot::Mutex::new(false));
    machine.caches.of(&machine.own_node).subscribe(move |change| {
        let Some(node) = &change.new else { return };
        let node = node.tree();
        let mut closed = closed.lock();
        if let Some(News { warning, reason, message }) = news::schedulable(*closed, &node) {
            *closed = !*closed;
            tell(&following, warning, reason, message);
        }
    });
}

/// The node as the API server has it; as it would be registered, as long as that is not known.
pub(crate) fn known(machine: &Machine) -> Value {
    let node = machine.caches.of(&machine.own_node).get(&key(machine));
    node.map(|node| node.tree()).filter(|node| node.at(&["status", "allocatable"]).is_some()).unwrap_or_else(
        || {
            let mut node = described::object(machine);
            node.set(&["status", "allocatable"], described::allocatable(machine));
            node
        },
    )
}

/// What the node has for pods.
pub(crate) fn allocatable(machine: &Machine) -> Value {
    known(machine).at(&["status", "allocatable"]).cloned().unwrap_or_default()
}

/// Tells something of the node.
pub(crate) fn tell(machine: &Machine, warning: bool, reason: &'static str, message: String) {
    let name = machine.config.node_name.as_str();
    let known = machine.caches.of(&machine.own_node).get(&key(machine));
    // Whoever looks for events of a node looks under its name, too.
    let uid = known.map_or_else(|| name.to_owned(), |node| node.uid.to_string());
    let node = value!({"kind": "Node", "apiVersion": "v1", "metadata": {"name": (name), "uid": (uid)}});
    let event = match warning {
        true => Event::warning("kubelet", &node, reason, message),
        false => Event::normal("kubelet", &node, reason, message),
    };
    machine.recorder.record(Event { host: name.into(), ..event });
}

/// All the memory of the machine, in bytes.
pub(crate) fn memory() -> i64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kilobytes = line.and_then(|rest| rest.trim().trim_end_matches(" kB").parse::<i64>().ok());
    kilobytes.unwrap_or(0) * 1024
}

/// Whether the API server has it as the node says it: a node that was cut off has been given up meanwhile.
fn is_known(machine: &Machine, status: &Value) -> bool {
    let node = machine.caches.of(&machine.own_node).get(&key(machine));
    node.is_none_or(|node| agrees(&node.tree(), status))
}

/// Whether a Node says of every condition what is said here.
fn agrees(node: &Value, status: &Value) -> bool {
    let known = node.items_at(&["status", "conditions"]);
    let same = |said: &Value| {
        let status = known.iter().find(|known| known.str_at(&["type"]) == said.str_at(&["type"]));
        status.is_some_and(|known| known.str_at(&["status"]) == said.str_at(&["status"]))
    };
    status.items_at(&["conditions"]).iter().all(same)
}

fn key(machine: &Machine) -> Key {
    Key::new("", machine.config.node_name.as_str())
}

async fn register(machine: &Machine) -> Result<(), Error> {
    let name = &machine.config.node_name;
    let status = described::status(machine).await;
    let node = match machine.node.register {
        true => {
            let mut node = described::object(machine);
            node.set(&["status"], described::dated(&status, &Value::Null, machine.clock.now()));
            machine.client.create(&kinds::NODES, &node).await
        }
        false => machine.client.get(&kinds::NODES, &key(machine)).await,
    };
    let node = match node {
        Err(error) if error.already_exists() => {
            // What others said of it stays; what follows from the machine is said again.
            let patch = Patch::Merge(value!({"metadata": {"labels": (described::own_labels(name))}}));
            machine.client.patch(&kinds::NODES, &key(machine), &patch, "").await?
        }
        node => {
            let node = node?;
            if machine.node.register {
                tell_news(machine, &Value::Null, &status);
            }
            node
        }
    };
    report(machine, &status).await?;
    let mut lease = kinds::LEASES.new_object(LEASES, name);
    lease.set(
        &["metadata", "ownerReferences"],
        value!([{"apiVersion": "v1", "kind": "Node", "name": (name.as_str()), "uid": (meta::uid(&node))}]),
    );
    let now = time::format_micro(machine.clock.now());
    let lease_seconds = i64::try_from(machine.node.lease.as_secs()).unwrap_or(i64::MAX);
    lease.set(
        &["spec"],
        value!({"holderIdentity": (name.as_str()), "leaseDurationSeconds": (lease_seconds), "renewTime": (now)}),
    );
    match machine.client.create(&kinds::LEASES, &lease).await {
        Err(error) if error.already_exists() => renew(machine).await,
        result => result.map(drop),
    }
}

async fn renew(machine: &Machine) -> Result<(), Error> {
    let now = time::format_micro(machine.clock.now());
    let patch = Patch::Merge(value!({"spec": {"renewTime": (now)}}));
    let lease = Key::new(LEASES, machine.config.node_name.as_str());
    machine.client.patch(&kinds::LEASES, &lease, &patch, "").await.map(drop)
}

async fn report(machine: &Machine, status: &Value) -> Result<(), Error> {
    let node = machine.client.get(&kinds::NODES, &key(machine)).await?;
    let mut dated = described::dated(status, &node, machine.clock.now());
    if let Some(addresses) = dated.get_mut("addresses").and_then(Value::as_array_mut) {
        // They would be merged by their type, of which there may be two.
        addresses.push(value!({"$patch": "replace"}));
    }
    let patch = Patch::Strategic(value!({"status": (dated)}));
    machine.client.patch(&kinds::NODES, &key(machine), &patch, "status").await?;
    tell_news(machine, &node, status);
    Ok(())
}

/// Tells what has changed, once the API server knows it.
fn tell_news(machine: &Machine, before: &Value, status: &Value) {
    for News { warning, reason, message } in news::news(&machine.config.node_name, before, status) {
        tell(machine, warning, reason, message);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_was_given_up_is_told_of_again() {
        let said = value!({"conditions": [
            {"type": "Ready", "status": "True"}, {"type": "DiskPressure", "status": "False"}
        ]});
        let node = |ready: &str| {
            value!({"status": {"conditions": [
                {"type": "NetworkUnavailable", "status": "False"}, {"type": "DiskPressure", "status": "False"},
                {"type": "Ready", "status": (ready)}
            ]}})
        };
        assert!(agrees(&node("True"), &said));
        assert!(!agrees(&node("Unknown"), &said));
        assert!(!agrees(&value!({}), &said));
    }
}
