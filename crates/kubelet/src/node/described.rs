//! What the node says of itself: its labels, what it has, what holds of it.

use corten_api::{Value, time, value};
use corten_client::kinds;
use corten_container::{Image, RuntimeStatus};
use jiff::Timestamp;

use super::capacity::Capacity;
use crate::eviction::Condition;
use crate::machine::Machine;

const VERSION: &str = "v1.37.0";
/// As many names of an image are told at most.
const NAMES_PER_IMAGE: usize = 5;

/// A node that is new, without its status.
pub(super) fn object(machine: &Machine) -> Value {
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
    node
}

/// What every node says of its machine.
pub(super) fn own_labels(name: &str) -> Value {
    let arch = architecture();
    value!({
        "kubernetes.io/hostname": (name), "kubernetes.io/os": "linux", "kubernetes.io/arch": (arch),
        "beta.kubernetes.io/os": "linux", "beta.kubernetes.io/arch": (arch),
    })
}

/// What the machine has.
pub(super) fn capacity(machine: &Machine) -> Capacity {
    Capacity::measure(machine.config.memory, machine.node.max_pods, machine.node.pods_per_core)
}

/// What of it is there for pods.
pub(super) fn allocatable(machine: &Machine) -> Value {
    let hard = &machine.housekeeping.eviction.thresholds;
    capacity(machine).allocatable(&machine.reserved, hard).written()
}

/// The node's status, without times.
pub(super) async fn status(machine: &Machine) -> Value {
    let version = machine.runtime.version().await.unwrap_or_default();
    let runtime = machine.runtime.status().await;
    let text = |path: &str| std::fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    let mut addresses: Vec<Value> =
        machine.host_ips.iter().map(|ip| value!({"type": "InternalIP", "address": (ip.as_str())})).collect();
    addresses.push(value!({"type": "Hostname", "address": (machine.config.node_name.as_str())}));
    let mut status = value!({
        "capacity": (capacity(machine).written()), "allocatable": (allocatable(machine)), "addresses": (addresses),
        "conditions": (conditions(machine, runtime.as_ref())),
        "daemonEndpoints": {"kubeletEndpoint": {"Port": (i64::from(machine.api_port))}},
        "nodeInfo": {
            "architecture": (architecture()), "operatingSystem": "linux", "osImage": (os_name()),
            "kernelVersion": (text("/proc/sys/kernel/osrelease")), "machineID": (text("/etc/machine-id")),
            "systemUUID": (text("/sys/class/dmi/id/product_uuid")),
            "bootID": (text("/proc/sys/kernel/random/boot_id")), "kubeletVersion": (VERSION), "kubeProxyVersion": "",
            "containerRuntimeVersion": (format!("{}://{}", version.runtime_name, version.runtime_version)),
        },
    });
    if let Ok(runtime) = runtime {
        status.set(&["runtimeHandlers"], handlers(&runtime));
        status.set(&["features"], value!({"supplementalGroupsPolicy": (runtime.supplemental_groups_policy)}));
    }
    if let Ok(found) = machine.images.list().await {
        status.set(&["images"], images(found, machine.node.max_images));
    }
    status
}

fn handlers(runtime: &RuntimeStatus) -> Vec<Value> {
    let handler = |handler: &corten_container::RuntimeHandler| {
        let recursive = handler.recursive_read_only_mounts;
        // Whatever the runtime can do: pods that ask for user namespaces are refused (`config::check_pod`).
        let features = value!({"recursiveReadOnlyMounts": (recursive), "userNamespaces": false});
        value!({"name": (handler.name.as_str()), "features": (features)})
    };
    runtime.handlers.iter().map(handler).collect()
}

/// The largest images that are here.
fn images(mut found: Vec<Image>, most: Option<usize>) -> Vec<Value> {
    found.sort_by(|a, b| b.size.cmp(&a.size).then_with(|| a.id.cmp(&b.id)));
    let told = found.iter().take(most.unwrap_or(usize::MAX)).map(|image| {
        let names = image.repo_digests.iter().chain(&image.repo_tags).take(NAMES_PER_IMAGE);
        let names: Vec<Value> = names.map(|name| Value::from(name.as_str())).collect();
        value!({"names": (names), "sizeBytes": (i64::try_from(image.size).unwrap_or(i64::MAX))})
    });
    told.collect()
}

/// What holds of the node, without times.
fn conditions(machine: &Machine, runtime: Result<&RuntimeStatus, &corten_container::Error>) -> Vec<Value> {
    let said = |kind: &str, status: &str, reason: &str, message: &str| value!({"type": (kind), "status": (status), "reason": (reason), "message": (message)});
    let ready = match runtime {
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
    Condition::ALL.into_iter().map(pressure).chain([ready]).collect()
}

/// A status with its conditions' times: when they were said, and since when they hold.
pub(super) fn dated(status: &Value, node: &Value, now: Timestamp) -> Value {
    let mut dated = status.clone();
    for condition in dated.get_mut("conditions").and_then(Value::as_array_mut).into_iter().flatten() {
        let kind = condition.str_at(&["type"]);
        let before = node.items_at(&["status", "conditions"]).iter().find(|c| c.str_at(&["type"]) == kind);
        let same = before.filter(|c| c.str_at(&["status"]) == condition.str_at(&["status"]));
        let since = same.and_then(|c| c.str_at(&["lastTransitionTime"]).map(str::to_owned));
        condition.set(&["lastHeartbeatTime"], time::format(now));
        condition.set(&["lastTransitionTime"], since.unwrap_or_else(|| time::format(now).to_string()));
    }
    dated
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_images_come_first() {
        let image = |id: &str, size, names: &[&str]| Image {
            id: id.to_owned(),
            size,
            repo_tags: names.iter().map(|name| (*name).to_owned()).collect(),
            repo_digests: vec![format!("{id}@sha256:0")],
            ..Image::default()
        };
        let found = || {
            vec![
                image("a", 1, &["a:1"]),
                image("b", 3, &["b:1", "b:2", "b:3", "b:4", "b:5"]),
                image("c", 2, &[]),
            ]
        };
        let all = images(found(), None);
        assert_eq!(all[0], value!({"names": ["b@sha256:0", "b:1", "b:2", "b:3", "b:4"], "sizeBytes": 3}));
        assert_eq!(all.len(), 3);
        assert_eq!(images(found(), Some(1)).len(), 1);
    }

    #[test]
    fn conditions_keep_the_time_of_their_last_change() {
        let now: Timestamp = "2026-01-02T00:00:00Z".parse().unwrap();
        let node = value!({"status": {"conditions": [
            {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"},
            {"type": "DiskPressure", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"},
        ]}});
        let status = value!({"conditions": [{"type": "Ready", "status": "True"}, {"type": "DiskPressure", "status": "False"}]});
        let dated = dated(&status, &node, now);
        let since: Vec<_> =
            dated.items_at(&["conditions"]).iter().map(|c| c.str_at(&["lastTransitionTime"])).collect();
        assert_eq!(since, [Some("2026-01-01T00:00:00Z"), Some("2026-01-02T00:00:00Z")]);
    }
}
