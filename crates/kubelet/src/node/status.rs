//! The Node's labels, status and conditions.

use corten_api::{Value, time, value};
use corten_client::kinds;
use corten_container::{Image, RuntimeStatus};
use jiff::Timestamp;

use super::capacity::Capacity;
use crate::eviction::Condition;
use crate::kubelet::Kubelet;

const VERSION: &str = "v1.37.0";
/// The maximum number of names of an image in the node status.
const NAMES_PER_IMAGE: usize = 5;

/// A new Node, without its status.
pub(super) fn object(kubelet: &Kubelet) -> Value {
    let name = &kubelet.api.node_name;
    let mut node = kinds::NODES.new_object("", name);
    node.set(&["metadata", "labels"], own_labels(name));
    for (key, value) in &kubelet.node.options.labels {
        node.set(&["metadata", "labels", key], value.as_str());
    }
    if !kubelet.node.options.taints.is_empty() {
        node.set(&["spec", "taints"], kubelet.node.options.taints.clone());
    }
    if !kubelet.node.options.provider_id.is_empty() {
        node.set(&["spec", "providerID"], kubelet.node.options.provider_id.as_str());
    }
    node
}

/// The labels that follow from the machine.
pub(super) fn own_labels(name: &str) -> Value {
    let arch = architecture();
    value!({
        "kubernetes.io/hostname": (name), "kubernetes.io/os": "linux", "kubernetes.io/arch": (arch),
        "beta.kubernetes.io/os": "linux", "beta.kubernetes.io/arch": (arch),
    })
}

/// The capacity of the machine.
pub(super) fn capacity(kubelet: &Kubelet) -> Capacity {
    Capacity::measure(
        kubelet.containers.config.memory,
        kubelet.node.options.max_pods,
        kubelet.node.options.pods_per_core,
        kubelet.volumes.root(),
    )
}

/// The allocatable resources.
pub(super) fn allocatable(kubelet: &Kubelet) -> Value {
    let hard = &kubelet.eviction.options.thresholds;
    capacity(kubelet).allocatable(&kubelet.node.reserved, hard).written()
}

/// The node's status, without timestamps.
pub(super) async fn status(kubelet: &Kubelet) -> Value {
    let version = kubelet.containers.runtime.version().await.unwrap_or_default();
    let runtime = kubelet.containers.runtime.status().await;
    let text = |path: &str| std::fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    let mut addresses: Vec<Value> = kubelet
        .node
        .addresses
        .iter()
        .map(|ip| value!({"type": "InternalIP", "address": (ip.as_str())}))
        .collect();
    addresses.push(value!({"type": "Hostname", "address": (kubelet.api.node_name.as_str())}));
    let mut status = value!({
        "capacity": (capacity(kubelet).written()), "allocatable": (allocatable(kubelet)), "addresses": (addresses),
        "conditions": (conditions(kubelet, runtime.as_ref())),
        "daemonEndpoints": {"kubeletEndpoint": {"Port": (i64::from(kubelet.node.api_port))}},
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
    if let Ok(found) = kubelet.containers.images.list().await {
        status.set(&["images"], images(found, kubelet.node.options.max_images));
    }
    status
}

fn handlers(runtime: &RuntimeStatus) -> Vec<Value> {
    let handler = |handler: &corten_container::RuntimeHandler| {
        let recursive = handler.recursive_read_only_mounts;
        // Whatever the runtime supports: pods with user namespaces are refused (`runtime_config::check_pod`).
        let features = value!({"recursiveReadOnlyMounts": (recursive), "userNamespaces": false});
        value!({"name": (handler.name.as_str()), "features": (features)})
    };
    runtime.handlers.iter().map(handler).collect()
}

/// The largest images, up to a maximum.
fn images(mut found: Vec<Image>, most: Option<usize>) -> Vec<Value> {
    found.sort_by(|a, b| b.size.cmp(&a.size).then_with(|| a.id.cmp(&b.id)));
    let listed = found.iter().take(most.unwrap_or(usize::MAX)).map(|image| {
        let names = image.repo_digests.iter().chain(&image.repo_tags).take(NAMES_PER_IMAGE);
        let names: Vec<Value> = names.map(|name| Value::from(name.as_str())).collect();
        value!({"names": (names), "sizeBytes": (i64::try_from(image.size).unwrap_or(i64::MAX))})
    });
    listed.collect()
}

/// The node's conditions, without timestamps.
fn conditions(kubelet: &Kubelet, runtime: Result<&RuntimeStatus, &corten_container::Error>) -> Vec<Value> {
    let said = |kind: &str, status: &str, reason: &str, message: &str| value!({"type": (kind), "status": (status), "reason": (reason), "message": (message)});
    let ready = match runtime {
        Err(err) => said("Ready", "False", "KubeletNotReady", &format!("container runtime is down: {err}")),
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
    let short = kubelet.eviction.conditions();
    let pressure = |condition: Condition| {
        let holds = short.contains(&condition);
        let (reason, message) = condition.reason_and_message(holds);
        said(condition.name(), if holds { "True" } else { "False" }, reason, message)
    };
    Condition::ALL.into_iter().map(pressure).chain([ready]).collect()
}

/// A status with the heartbeat and transition times of its conditions.
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
    fn the_largest_images_are_listed_first() {
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
