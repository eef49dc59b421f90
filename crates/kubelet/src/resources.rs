//! What a container and its pod may use, in the numbers the kernel knows.
//!
//! Pure; the numbers are upstream's, so that a pod weighs the same on any node.

use corten_api::Value;
use corten_api::quantity::Quantity;
use corten_container::LinuxContainerResources;
use corten_quota::resource_list::{self, ResourceList};

use crate::pod::{Container, Pod, Role};

const MIN_SHARES: i64 = 2;
const MAX_SHARES: i64 = 262_144;
const SHARES_PER_CPU: i64 = 1024;
/// Microseconds over which a quota is spent.
pub(crate) const CPU_PERIOD: i64 = 100_000;
const MIN_QUOTA: i64 = 1000;

/// Below this nothing is ever killed for want of memory before others.
const GUARANTEED_OOM: i64 = -997;
const BEST_EFFORT_OOM: i64 = 1000;
/// Pods of this priority are what the node itself needs.
const NODE_CRITICAL: i64 = 2_000_001_000;

/// How well a pod is served when there is not enough for all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Qos {
    Guaranteed,
    Burstable,
    BestEffort,
}

impl Qos {
    /// As the API server found it.
    pub(crate) fn of(pod: &Pod) -> Qos {
        match pod.tree().str_at(&["status", "qosClass"]) {
            Some("Guaranteed") => Qos::Guaranteed,
            Some("Burstable") => Qos::Burstable,
            _ => Qos::BestEffort,
        }
    }

    /// Where pods of this class have their cgroups, below the root of all pods.
    pub(crate) fn cgroup(self) -> &'static str {
        match self {
            Qos::Guaranteed => "",
            Qos::Burstable => "burstable",
            Qos::BestEffort => "besteffort",
        }
    }

    /// Where a pod of this class has its cgroup.
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

/// What is listed under `requests` or `limits`.
pub(crate) fn listed(resources: &Value, list: &str, name: &str) -> Option<Quantity> {
    Quantity::parse(resources.str_at(&[list, name])?).ok()
}

/// What a container asks for; what it may use at most stands for what it does not say.
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

/// What a container may use at most; what its pod may use stands for what it does not say.
pub(crate) fn limit(pod: &Pod, resources: &Value, name: &str) -> Option<Quantity> {
    let own = listed(resources, "limits", name).filter(|quantity| !quantity.is_zero());
    own.or_else(|| pod_level(pod, "limits", name))
}

fn pod_level(pod: &Pod, list: &str, name: &str) -> Option<Quantity> {
    listed(pod.tree().at(&["spec", "resources"])?, list, name).filter(|quantity| !quantity.is_zero())
}

/// What the runtime is told of a container. `memory` is all that the node has.
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

/// What a pod's cgroup is given: what its containers ask for together, and a limit if each of them has one. What the pod
/// says for itself counts before that.
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

/// What a pod is limited to as a whole: what it says itself, or what each of its containers says.
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

/// What a pod requests or is limited to, with all it has. What a container may use at most stands for what it does not ask
/// for.
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

/// What all containers together ask for.
pub(crate) fn asked_together(pod: &Pod, name: &str) -> i64 {
    amounts(pod, "requests").get(name).map_or(0, |amount| amount.quantity.value())
}

/// What all containers together may use at most, if any of them says so.
pub(crate) fn limit_together(pod: &Pod, name: &str) -> Option<Quantity> {
    amounts(pod, "limits").get(name).map(|amount| amount.quantity)
}

/// How readily the kernel kills a container when memory runs out: the more of the node it asked for, the later.
fn oom_score(pod: &Pod, container: &Container, memory: i64) -> i64 {
    match Qos::of(pod) {
        _ if pod.tree().int_at(&["spec", "priority"]).is_some_and(|p| p >= NODE_CRITICAL) => GUARANTEED_OOM,
        Qos::Guaranteed => GUARANTEED_OOM,
        Qos::BestEffort => BEST_EFFORT_OOM,
        Qos::Burstable => {
            let mut asked = memory_request(container);
            if container.role == Role::Sidecar {
                // Not before those whom it serves.
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

/// Each container's part of what the pod asks for beyond what they ask for themselves.
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
    fn cpu_is_shares_and_quota() {
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
    fn a_pod_has_what_its_containers_have_together() {
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
    fn what_a_pod_says_for_itself_counts_first() {
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
    fn who_asked_for_more_memory_is_killed_later() {
        let score =
            |class, memory: &str| resources(class, value!({"requests": {"memory": (memory)}})).oom_score_adj;
        assert_eq!(score("Guaranteed", "1"), -997);
        assert_eq!(score("BestEffort", "0"), 1000);
        assert_eq!(score("Burstable", "0"), 999);
        assert_eq!(score("Burstable", "1G"), 750);
        assert_eq!(score("Burstable", "4G"), 3);
    }
}
