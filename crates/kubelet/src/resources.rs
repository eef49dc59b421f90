//! Resources of containers and pods in the kernel's units.
//!
//! Pure; the numbers are upstream's, so that a pod has the same weight on any node.

pub(crate) mod allocation;
pub(crate) mod cgroups;
pub(crate) mod resize;

use corten_api::Value;
use corten_api::quantity::Quantity;
use corten_container::LinuxContainerResources;
use corten_quota::resource_list::{self, ResourceList};

use crate::admission::AdmissionHandler;
use crate::pod::{Container, Pod, Role};
use allocation::AllocationManager;
use cgroups::PodCgroups;

/// The node's resources, as far as pods share them.
pub(crate) struct Resources {
    pub(crate) cgroups: PodCgroups,
    pub(crate) admission: AdmissionHandler,
    pub(crate) allocations: AllocationManager,
}

const MIN_SHARES: i64 = 2;
const MAX_SHARES: i64 = 262_144;
const SHARES_PER_CPU: i64 = 1024;
/// The period of cpu quotas, in microseconds.
pub(crate) const CPU_PERIOD: i64 = 100_000;
const MIN_QUOTA: i64 = 1000;

/// The OOM score of containers that are killed last.
const GUARANTEED_OOM: i64 = -997;
const BEST_EFFORT_OOM: i64 = 1000;
/// The priority of pods that are critical for the node.
const NODE_CRITICAL: i64 = 2_000_001_000;

/// The QoS class of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Qos {
    Guaranteed,
    Burstable,
    BestEffort,
}

impl Qos {
    /// The class that the API server set.
    pub(crate) fn of(pod: &Pod) -> Qos {
        match pod.tree().str_at(&["status", "qosClass"]) {
            Some("Guaranteed") => Qos::Guaranteed,
            Some("Burstable") => Qos::Burstable,
            _ => Qos::BestEffort,
        }
    }

    /// The cgroup of the class, relative to that of all pods.
    pub(crate) fn cgroup(self) -> &'static str {
        match self {
            Qos::Guaranteed => "",
            Qos::Burstable => "burstable",
            Qos::BestEffort => "besteffort",
        }
    }

    /// The cgroup of a pod of the class.
    pub(crate) fn cgroup_of(self, uid: &str) -> String {
        match self.cgroup() {
            "" => format!("/kubepods/pod{uid}"),
            class => format!("/kubepods/{class}/pod{uid}"),
        }
    }
}

/// A pod's cgroup, such as `/kubepods/burstable/pod<uid>`.
pub(crate) fn cgroup_of(pod: &Pod) -> String {
    Qos::of(pod).cgroup_of(pod.uid())
}

/// An entry of `requests` or `limits`.
pub(crate) fn listed(resources: &Value, list: &str, name: &str) -> Option<Quantity> {
    Quantity::parse(resources.str_at(&[list, name])?).ok()
}

/// A container's request; its limit stands for a request that is not set.
fn request(resources: &Value, name: &str) -> Option<Quantity> {
    listed(resources, "requests", name).or_else(|| listed(resources, "limits", name))
}

pub(crate) fn shares(milli_cpu: i64) -> i64 {
    if milli_cpu == 0 {
        return MIN_SHARES;
    }
    (milli_cpu * SHARES_PER_CPU / 1000).clamp(MIN_SHARES, MAX_SHARES)
}

pub(crate) fn quota(milli_cpu: i64) -> i64 {
    if milli_cpu == 0 { 0 } else { (milli_cpu * CPU_PERIOD / 1000).max(MIN_QUOTA) }
}

/// A container's limit; the pod's limit stands for one that is not set.
pub(crate) fn limit(pod: &Pod, resources: &Value, name: &str) -> Option<Quantity> {
    let own = listed(resources, "limits", name).filter(|quantity| !quantity.is_zero());
    own.or_else(|| pod_level(pod, "limits", name))
}

fn pod_level(pod: &Pod, list: &str, name: &str) -> Option<Quantity> {
    listed(pod.tree().at(&["spec", "resources"])?, list, name).filter(|quantity| !quantity.is_zero())
}

/// The runtime's resources of a container. `memory` is the node's.
pub(crate) fn of_container(pod: &Pod, container: &Container, memory: i64) -> LinuxContainerResources {
    let empty = Value::object();
    let resources = container.tree.get("resources").unwrap_or(&empty);
    let milli = |quantity: Option<Quantity>| quantity.map_or(0, |q| q.milli_value());
    let most = milli(limit(pod, resources, "cpu"));
    let asked = listed(resources, "requests", "cpu").or_else(|| limit(pod, resources, "cpu"));
    LinuxContainerResources {
        cpu_shares: shares(milli(asked)),
        cpu_quota: quota(most),
        cpu_period: if most == 0 { 0 } else { CPU_PERIOD },
        memory_limit_in_bytes: limit(pod, resources, "memory").map_or(0, |q| q.value()),
        oom_score_adj: oom_score(pod, container, memory),
        ..LinuxContainerResources::default()
    }
}

/// The resources of a pod's cgroup: the sum of its containers' requests, and a limit if each of them has one. The
/// pod's own resources count first.
pub(crate) fn of_pod(pod: &Pod) -> LinuxContainerResources {
    let cpu = amounts(pod, "requests").get("cpu").map_or(0, |amount| amount.quantity.milli_value());
    let limits = limits_in_force(pod);
    let limit = |name: &str| limits.get(name).map(|amount| amount.quantity);
    let cpu_limit = limit("cpu").map(|quantity| quantity.milli_value());
    LinuxContainerResources {
        cpu_shares: shares(cpu),
        cpu_quota: cpu_limit.map_or(0, quota),
        cpu_period: if cpu_limit.is_some() { CPU_PERIOD } else { 0 },
        memory_limit_in_bytes: limit("memory").map_or(0, |quantity| quantity.value()),
        ..LinuxContainerResources::default()
    }
}

/// The limits of a pod as a whole: its own, or the sum if each of its containers has one.
pub(crate) fn limits_in_force(pod: &Pod) -> ResourceList {
    let has =
        |c: &Container, name: &str| c.tree.get("resources").and_then(|r| listed(r, "limits", name)).is_some();
    let mut limits = amounts(pod, "limits");
    limits.retain(|name, _| {
        let mut lasting = pod.containers().iter().filter(|c| c.role != Role::Ephemeral);
        pod_level(pod, "limits", name).is_some() || lasting.all(|c| has(c, name))
    });
    limits
}

/// The requests or limits of a pod with all its containers and overhead. A container's limit stands for a request
/// that is not set.
pub(crate) fn amounts(pod: &Pod, list: &str) -> ResourceList {
    let tree = pod.tree();
    let together = resource_list::together(tree, |container| {
        let mut own = match list {
            "requests" => resource_list::read(container.at(&["resources", "limits"])),
            _ => ResourceList::new(),
        };
        own.extend(resource_list::read(container.at(&["resources", list])));
        own
    });
    resource_list::finish_pod(tree, list, together)
}

/// The sum of all containers' requests.
pub(crate) fn total_requests(pod: &Pod, name: &str) -> i64 {
    amounts(pod, "requests").get(name).map_or(0, |amount| amount.quantity.value())
}

/// The sum of all containers' limits, if any has one.
pub(crate) fn total_limit(pod: &Pod, name: &str) -> Option<Quantity> {
    amounts(pod, "limits").get(name).map(|amount| amount.quantity)
}

/// The OOM score of a container: the more memory it requested, the later the kernel kills it.
fn oom_score(pod: &Pod, container: &Container, memory: i64) -> i64 {
    match Qos::of(pod) {
        _ if pod.tree().int_at(&["spec", "priority"]).is_some_and(|p| p >= NODE_CRITICAL) => GUARANTEED_OOM,
        Qos::Guaranteed => GUARANTEED_OOM,
        Qos::BestEffort => BEST_EFFORT_OOM,
        Qos::Burstable => {
            let mut asked = memory_request(container);
            if container.role == Role::Sidecar {
                // A sidecar is not killed before the containers it serves.
                asked = asked.max(pod.with_role(Role::Main).map(memory_request).min().unwrap_or(0));
            }
            let score = 1000 - 1000 * (asked + spare_memory(pod)) / memory.max(1);
            score.clamp(1000 + GUARANTEED_OOM, BEST_EFFORT_OOM - 1)
        }
    }
}

fn memory_request(container: &Container) -> i64 {
    container.tree.get("resources").and_then(|r| request(r, "memory")).map_or(0, |quantity| quantity.value())
}

/// Each container's share of the memory that the pod requests beyond its containers' requests.
fn spare_memory(pod: &Pod) -> i64 {
    let Some(all) = pod_level(pod, "requests", "memory") else { return 0 };
    let lasting = pod.containers().iter().filter(|c| matches!(c.role, Role::Main | Role::Sidecar));
    let (count, asked) = lasting.fold((0, 0), |(n, sum), c| (n + 1, sum + memory_request(c)));
    (all.value() - asked).max(0) / count.max(1)
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::*;
    use crate::pod::Source;

    fn resources(class: &str, resources: Value) -> LinuxContainerResources {
        let tree = value!({
            "spec": {"containers": [{"name": "a", "resources": (resources)}]},
            "status": {"qosClass": (class)},
        });
        let pod = Pod::new(tree, Source::Api);
        of_container(&pod, &pod.containers()[0], 4_000_000_000)
    }

    #[test]
    fn cpu_becomes_shares_and_quota() {
        let both = resources("Burstable", value!({"requests": {"cpu": "100m"}, "limits": {"cpu": "1500m"}}));
        assert_eq!((both.cpu_shares, both.cpu_quota, both.cpu_period), (102, 150_000, 100_000));
        let limit = resources("Burstable", value!({"limits": {"cpu": "2"}}));
        assert_eq!((limit.cpu_shares, limit.cpu_quota), (2048, 200_000));
        let none = resources("BestEffort", value!({}));
        assert_eq!((none.cpu_shares, none.cpu_quota, none.cpu_period), (2, 0, 0));
        let tiny = resources("Burstable", value!({"limits": {"cpu": "1m"}}));
        assert_eq!((tiny.cpu_shares, tiny.cpu_quota), (2, 1000));
    }

    #[test]
    fn a_pods_cgroup_has_the_sum_of_its_containers() {
        let with = |cpu: &str| value!({"limits": {"cpu": (cpu), "memory": "64Mi"}});
        let tree = value!({"spec": {
            "initContainers": [
                {"name": "s", "restartPolicy": "Always", "resources": (with("100m"))},
                {"name": "i", "resources": (with("1"))},
            ],
            "containers": [{"name": "a", "resources": (with("200m"))}, {"name": "b", "resources": (with("300m"))}],
        }});
        let found = of_pod(&Pod::new(tree.clone(), Source::Api));
        assert_eq!((found.cpu_quota, found.memory_limit_in_bytes), (110_000, 3 * 64 * 1024 * 1024));
        let mut one_without = tree;
        one_without.set(&["spec", "containers"], value!([{"name": "a"}]));
        let found = of_pod(&Pod::new(one_without, Source::Api));
        assert_eq!((found.cpu_quota, found.memory_limit_in_bytes, found.cpu_shares), (0, 0, 1126));
    }

    #[test]
    fn pod_level_resources_count_first() {
        let tree = value!({
            "spec": {
                "resources": {"requests": {"cpu": "1", "memory": "1G"}, "limits": {"cpu": "2", "memory": "2G"}},
                "containers": [{"name": "a", "resources": {"limits": {"cpu": "500m"}}}, {"name": "b"}],
            },
            "status": {"qosClass": "Burstable"},
        });
        let pod = Pod::new(tree, Source::Api);
        let found = of_pod(&pod);
        assert_eq!(
            (found.cpu_shares, found.cpu_quota, found.memory_limit_in_bytes),
            (1024, 200_000, 2_000_000_000)
        );
        let of = |index: usize| of_container(&pod, &pod.containers()[index], 4_000_000_000);
        assert_eq!((of(0).cpu_quota, of(0).memory_limit_in_bytes), (50_000, 2_000_000_000));
        assert_eq!((of(1).cpu_quota, of(1).oom_score_adj), (200_000, 875));
    }

    #[test]
    fn more_requested_memory_means_a_lower_oom_score() {
        let score =
            |class, memory: &str| resources(class, value!({"requests": {"memory": (memory)}})).oom_score_adj;
        assert_eq!(score("Guaranteed", "1"), -997);
        assert_eq!(score("BestEffort", "0"), 1000);
        assert_eq!(score("Burstable", "0"), 999);
        assert_eq!(score("Burstable", "1G"), 750);
        assert_eq!(score("Burstable", "4G"), 3);
    }
}
