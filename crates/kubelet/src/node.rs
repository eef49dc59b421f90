//! The node itself: its object, its lease and what it reports about the machine.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use corten_api::{Value, meta, time, value};
use corten_client::{Error, Key, Patch, kinds};
use corten_container::RuntimeStatus;
use jiff::Timestamp;

use crate::configuration::Configuration;
use crate::eviction::Condition;
use crate::machine::Machine;

const LEASES: &str = "kube-node-lease";
const VERSION: &str = "v1.37.0";

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
            lease: Duration::from_secs(40),
            update: Duration::from_secs(10),
            report: Duration::from_secs(300),
        }
    }
}

/// Registers the node, then renews its lease and reports, for good.
pub(crate) async fn beat(machine: Arc<Machine>) {
    let clock = machine.clock.clone();
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
            let conditions = conditions(&machine).await;
            let due = clock.now() >= reported + machine.node.report;
            if due || conditions != last {
                report(&machine).await?;
                last = conditions;
                reported = clock.now();
            }
            Ok::<(), Error>(())
        };
        if let Err(error) = result.await {
            tracing::warn!(%error, "the node could not report");
        }
    }
}

fn key(machine: &Machine) -> Key {
    Key::new("", machine.config.node_name.as_str())
}

async fn register(machine: &Machine) -> Result<(), Error> {
    let name = &machine.config.node_name;
    let node = match machine.node.register {
        true => machine.client.create(&kinds::NODES, &object(machine).await).await,
        false => machine.client.get(&kinds::NODES, &key(machine)).await,
    };
    let node = match node {
        Err(error) if error.already_exists() => {
            // What others said of it stays; what follows from the machine is said again.
            let patch = Patch::Merge(value!({"metadata": {"labels": (own_labels(name))}}));
            machine.client.patch(&kinds::NODES, &key(machine), &patch, "").await?
        }
        node => node?,
    };
    report(machine).await?;
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

/// What every node says of its machine.
fn own_labels(name: &str) -> Value {
    let arch = architecture();
    value!({
        "kubernetes.io/hostname": (name), "kubernetes.io/os": "linux", "kubernetes.io/arch": (arch),
        "beta.kubernetes.io/os": "linux", "beta.kubernetes.io/arch": (arch),
    })
}

/// A node that is new.
async fn object(machine: &Machine) -> Value {
    let name = &machine.config.node_name;
    let mut node = kinds::NODES.new_object("", name);
    node.set(&["metadata", "labels"], own_labels(name));
    for (key, value) in &machine.node.labels {
        node.set(&["metadata", "labels", key], value.as_str());
    }
    if !machine.node.taints.is_empty() {
        node.set(&["spec", "taints"], machine.node.taints.clone());
    }
    if !machine.node.provider_id.is_empty() {
        node.set(&["spec", "providerID"], machine.node.provider_id.as_str());
    }
    node.set(&["status"], status(machine, &Value::Null).await);
    node
}

async fn renew(machine: &Machine) -> Result<(), Error> {
    let now = time::format_micro(machine.clock.now());
    let patch = Patch::Merge(value!({"spec": {"renewTime": (now)}}));
    let lease = Key::new(LEASES, machine.config.node_name.as_str());
    machine.client.patch(&kinds::LEASES, &lease, &patch, "").await.map(drop)
}

async fn report(machine: &Machine) -> Result<(), Error> {
    let node = machine.client.get(&kinds::NODES, &key(machine)).await?;
    let patch = Patch::Strategic(value!({"status": (status(machine, &node).await)}));
    machine.client.patch(&kinds::NODES, &key(machine), &patch, "status").await.map(drop)
}

async fn status(machine: &Machine, node: &Value) -> Value {
    let capacity = value!({
        "cpu": (cpus().to_string()), "memory": (format!("{}Ki", machine.config.memory / 1024)), "pods": (machine.node.max_pods.to_string()),
        "ephemeral-storage": (format!("{}Ki", disk_kilobytes())),
    });
    let version = machine.runtime.version().await.unwrap_or_default();
    let text = |path: &str| std::fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    let mut addresses: Vec<Value> =
        machine.host_ips.iter().map(|ip| value!({"type": "InternalIP", "address": (ip.as_str())})).collect();
    addresses.push(value!({"type": "Hostname", "address": (machine.config.node_name.as_str())}));
    let now = machine.clock.now();
    let conditions: Vec<Value> = match conditions(machine).await {
        Value::Array(list) => list.iter().map(|condition| dated(condition, node, now)).collect(),
        _ => Vec::new(),
    };
    value!({
        "capacity": (capacity.clone()), "allocatable": (capacity), "addresses": (addresses),
        "conditions": (conditions),
        "daemonEndpoints": {"kubeletEndpoint": {"Port": (i64::from(machine.api_port))}},
        "nodeInfo": {
            "architecture": (architecture()), "operatingSystem": "linux", "osImage": (os_name()),
            "kernelVersion": (text("/proc/sys/kernel/osrelease")), "machineID": (text("/etc/machine-id")),
            "systemUUID": (text("/sys/class/dmi/id/product_uuid")),
            "bootID": (text("/proc/sys/kernel/random/boot_id")), "kubeletVersion": (VERSION), "kubeProxyVersion": "",
            "containerRuntimeVersion": (format!("{}://{}", version.runtime_name, version.runtime_version)),
        },
    })
}

/// What holds of the node, without times.
async fn conditions(machine: &Machine) -> Value {
    let said = |kind: &str, status: &str, reason: &str, message: &str| value!({"type": (kind), "status": (status), "reason": (reason), "message": (message)});
    let ready = match machine.runtime.status().await {
        Err(error) => {
            said("Ready", "False", "KubeletNotReady", &format!("container runtime is down: {error}"))
        }
        Ok(status) => {
            let unready = [RuntimeStatus::RUNTIME_READY, RuntimeStatus::NETWORK_READY]
                .into_iter()
                .filter_map(|kind| status.condition(kind))
                .find(|condition| !condition.status);
            match unready {
                Some(condition) => said("Ready", "False", "KubeletNotReady", &condition.message),
                None => said("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
            }
        }
    };
    let short = machine.evictions.conditions();
    let pressure = |condition: Condition| {
        let holds = short.contains(&condition);
        let (reason, message) = condition.said(holds);
        said(condition.name(), if holds { "True" } else { "False" }, reason, message)
    };
    Value::Array(Condition::ALL.into_iter().map(pressure).chain([ready]).collect())
}

/// A condition with its times: when it was said, and since when it holds.
fn dated(condition: &Value, node: &Value, now: Timestamp) -> Value {
    let kind = condition.str_at(&["type"]);
    let before = node.items_at(&["status", "conditions"]).iter().find(|c| c.str_at(&["type"]) == kind);
    let same = before.filter(|c| c.str_at(&["status"]) == condition.str_at(&["status"]));
    let since = same.and_then(|c| c.str_at(&["lastTransitionTime"]).map(str::to_owned));
    let mut dated = condition.clone();
    dated.set(&["lastHeartbeatTime"], time::format(now));
    dated.set(&["lastTransitionTime"], since.unwrap_or_else(|| time::format(now).to_string()));
    dated
}

fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// All the memory of the machine, in bytes.
pub(crate) fn memory() -> i64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kilobytes = line.and_then(|rest| rest.trim().trim_end_matches(" kB").parse::<i64>().ok());
    kilobytes.unwrap_or(0) * 1024
}

fn disk_kilobytes() -> u64 {
    rustix::fs::statvfs(Path::new("/")).map_or(0, |stat| stat.f_blocks * stat.f_frsize / 1024)
}

fn os_name() -> String {
    let text = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    line.unwrap_or("Linux").trim_matches('"').to_owned()
}

fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}
