//! The quota usage of a pod: its count, and the requests and limits of its containers until it has terminated.

use std::collections::HashMap;

use corten_api::{Str, Value};
use jiff::{SignedDuration, Timestamp};

use crate::resource_list::{self, ResourceList};
use crate::scopes;
use crate::usage::{Item, number};

const KNOWN: [&str; 11] = [
    "count/pods",
    "pods",
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
];

/// The resources that every container must specify once a quota limits them: their names in quotas, by list.
const MUST_STATE: [(&str, &str, &[&str]); 4] = [
    ("requests", "cpu", &["cpu", "requests.cpu"]),
    ("requests", "memory", &["memory", "requests.memory"]),
    ("limits", "cpu", &["limits.cpu"]),
    ("limits", "memory", &["limits.memory"]),
];

const DEVICE_CLASS: &str = "deviceclass.resource.kubernetes.io/";

/// True if a quota's resource name applies to pods.
pub(super) fn knows(name: &str) -> bool {
    KNOWN.contains(&name)
        || name.starts_with("hugepages-")
        || name.starts_with("requests.hugepages-")
        || is_extended_request(name)
}

/// True for `requests.` and the name of an extended resource, such as a device's.
pub(super) fn is_extended_request(name: &str) -> bool {
    name.strip_prefix("requests.").is_some_and(|rest| is_extended(name) || rest.starts_with(DEVICE_CLASS))
}

/// True if a resource is not one of Kubernetes' own.
fn is_extended(name: &str) -> bool {
    name.contains('/') && !name.contains("kubernetes.io/")
}

/// True if every container must specify a limited resource.
pub fn must_be_stated(name: &str) -> bool {
    MUST_STATE.iter().any(|(_, _, names)| names.contains(&name))
}

pub(super) fn item(pod: &Value, now: Timestamp) -> Item {
    Item { usage: usage(pod, now), facts: scopes::of_pod(pod), containers: containers(pod) }
}

/// The usage of a pod: every stored pod is counted; only those that have not terminated use resources.
pub(super) fn usage(pod: &Value, now: Timestamp) -> ResourceList {
    let mut usage = ResourceList::from([(Str::new_static("count/pods"), number(1))]);
    if is_terminated(pod, now) {
        return usage;
    }
    usage.insert(Str::new_static("pods"), number(1));
    for (resource, amount) in requests(pod) {
        let is_plain = matches!(resource.as_str(), "cpu" | "memory" | "ephemeral-storage");
        if is_plain || resource.starts_with("hugepages-") {
            usage.insert(resource.clone(), amount.clone());
        } else if !is_extended(&resource) && !resource.starts_with(DEVICE_CLASS) {
            continue;
        }
        usage.insert(Str::from(format!("requests.{resource}")), amount);
    }
    for (resource, amount) in limits(pod) {
        if matches!(resource.as_str(), "cpu" | "memory" | "ephemeral-storage") {
            usage.insert(Str::from(format!("limits.{resource}")), amount);
        }
    }
    usage
}

/// True if a pod has terminated, or its deletion grace period has passed: a lost node must not block its namespace.
fn is_terminated(pod: &Value, now: Timestamp) -> bool {
    if matches!(pod.str_at(&["status", "phase"]), Some("Failed" | "Succeeded")) {
        return true;
    }
    let Some(grace) = pod.int_at(&["metadata", "deletionGracePeriodSeconds"]) else { return false };
    let deleted = pod.str_at(&["metadata", "deletionTimestamp"]);
    let Some(deleted) = deleted.and_then(|text| corten_api::time::parse(text).ok()) else { return false };
    deleted.saturating_add(SignedDuration::from_secs(grace)).is_ok_and(|gone| now > gone)
}

/// The requests of a pod: during a resize, the maximum of desired, allocated and actual resources.
fn requests(pod: &Value) -> ResourceList {
    let mut lists: Vec<ResourceList> = Vec::new();
    let infeasible = is_resize_infeasible(pod);
    if !infeasible {
        lists.push(resource_list::of_containers(pod, "requests"));
    }
    if has_container_statuses(pod) {
        let statuses = statuses(pod);
        let status = |container: &Value| statuses.get(name(container)).copied();
        let spec = |container: &Value| match infeasible {
            true => ResourceList::new(),
            false => resource_list::read(container.at(&["resources", "requests"])),
        };
        lists.push(resource_list::together(pod, |container| {
            match status(container).and_then(|s| s.get("allocatedResources")) {
                Some(allocated) => resource_list::read(Some(allocated)),
                None => spec(container),
            }
        }));
        lists.push(resource_list::together(pod, |container| {
            let status = status(container);
            let actual = status.and_then(|s| s.at(&["resources", "requests"]));
            match actual.or_else(|| status.and_then(|s| s.get("allocatedResources"))) {
                Some(actual) => resource_list::read(Some(actual)),
                None => spec(container),
            }
        }));
    }
    resource_list::finish_pod(pod, "requests", most(lists))
}

fn limits(pod: &Value) -> ResourceList {
    let mut lists: Vec<ResourceList> = Vec::new();
    let infeasible = is_resize_infeasible(pod);
    if !infeasible {
        lists.push(resource_list::of_containers(pod, "limits"));
    }
    if has_container_statuses(pod) {
        let statuses = statuses(pod);
        lists.push(resource_list::together(pod, |container| {
            let actual = statuses.get(name(container)).and_then(|s| s.at(&["resources", "limits"]));
            match actual {
                Some(actual) => resource_list::read(Some(actual)),
                None if infeasible => ResourceList::new(),
                None => resource_list::read(container.at(&["resources", "limits"])),
            }
        }));
    }
    resource_list::finish_pod(pod, "limits", most(lists))
}

fn most(lists: Vec<ResourceList>) -> ResourceList {
    lists.into_iter().fold(ResourceList::new(), |mut most, list| {
        resource_list::raise(&mut most, &list);
        most
    })
}

fn is_resize_infeasible(pod: &Value) -> bool {
    let conditions = pod.items_at(&["status", "conditions"]);
    let pending = conditions.iter().find(|c| c.str_at(&["type"]) == Some("PodResizePending"));
    pending.is_some_and(|c| c.str_at(&["reason"]) == Some("Infeasible"))
}

fn has_container_statuses(pod: &Value) -> bool {
    pod.at(&["status", "containerStatuses"]).is_some()
        || pod.at(&["status", "initContainerStatuses"]).is_some()
}

fn name(item: &Value) -> &str {
    item.str_at(&["name"]).unwrap_or_default()
}

/// The statuses of a pod's containers by name; the first of several with one name.
fn statuses(pod: &Value) -> HashMap<&str, &Value> {
    let mut statuses = HashMap::new();
    for list in ["containerStatuses", "initContainerStatuses"] {
        for status in pod.items_at(&["status", list]) {
            statuses.entry(name(status)).or_insert(status);
        }
    }
    statuses
}

/// The containers of a pod with the resources that they specify of those in `MUST_STATE`; none if the pod has pod-level
/// resources.
fn containers(pod: &Value) -> Vec<(Str, Vec<&'static str>)> {
    let own = ["requests", "limits"].into_iter().any(|list| {
        let list = pod.at(&["spec", "resources", list]).and_then(Value::as_object);
        list.is_some_and(|list| list.keys().any(|name| resource_list::is_pod_level(name)))
    });
    if own {
        return Vec::new();
    }
    let all = ["containers", "initContainers"].into_iter().flat_map(|list| pod.items_at(&["spec", list]));
    all.map(|container| {
        let states = |list: &str, resource: &str| container.at(&["resources", list, resource]).is_some();
        let stated = MUST_STATE.iter().filter(|(list, resource, _)| states(list, resource));
        (Str::new(name(container)), stated.flat_map(|(_, _, names)| names.iter().copied()).collect())
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use corten_api::{json, value};

    use super::*;

    fn shown(pod: &Value) -> String {
        let now = corten_api::time::parse("2030-01-01T00:00:00Z").unwrap();
        json::write_to_string(&resource_list::write(&usage(pod, now)))
    }

    #[test]
    fn resource_names_of_pods() {
        let table = [
            ("pods", true),
            ("requests.nvidia.com/gpu", true),
            ("nvidia.com/gpu", false),
            ("requests.deviceclass.resource.kubernetes.io/gpu", true),
            ("requests.storage", false),
            ("requests.hugepages-2Mi", true),
            ("gold.storageclass.storage.k8s.io/requests.storage", false),
            ("services", false),
        ];
        for (name, expected) in table {
            assert_eq!(knows(name), expected, "{name}");
        }
    }

    #[test]
    fn a_pod_uses_the_requests_of_its_containers() {
        let pod = value!({"spec": {"containers": [{"resources": {
            "requests": {"cpu": "1", "nvidia.com/gpu": "2", "hugepages-2Mi": "4Mi"},
            "limits": {"cpu": "2", "memory": "1Gi"},
        }}]}});
        assert_eq!(
            shown(&pod),
            concat!(
                r#"{"count/pods":"1","cpu":"1","hugepages-2Mi":"4Mi","limits.cpu":"2","limits.memory":"1Gi","pods":"1","#,
                r#""requests.cpu":"1","requests.hugepages-2Mi":"4Mi","requests.nvidia.com/gpu":"2"}"#
            )
        );
    }

    #[test]
    fn a_terminated_pod_uses_no_resources() {
        let over = [
            value!({"status": {"phase": "Succeeded"}}),
            value!({"metadata": {"deletionTimestamp": "2029-12-31T23:59:00Z", "deletionGracePeriodSeconds": 30}}),
        ];
        for pod in over {
            assert_eq!(shown(&pod), r#"{"count/pods":"1"}"#, "{pod:?}");
        }
        let going = value!({"metadata": {"deletionTimestamp": "2029-12-31T23:59:50Z", "deletionGracePeriodSeconds": 30}});
        assert_eq!(shown(&going), r#"{"count/pods":"1","pods":"1"}"#);
    }

    #[test]
    fn a_pod_during_a_resize_uses_the_maximum() {
        let mut pod = value!({
            "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
            "status": {"containerStatuses": [
                {"name": "c", "allocatedResources": {"cpu": "2"}, "resources": {"requests": {"cpu": "3"}}},
            ]},
        });
        assert!(shown(&pod).contains(r#""requests.cpu":"3""#));
        pod.set(
            &["status", "containerStatuses"],
            vec![value!({"name": "c", "allocatedResources": {"cpu": "500m"}})],
        );
        assert!(shown(&pod).contains(r#""requests.cpu":"1""#));
        pod.set(
            &["status", "conditions"],
            vec![value!({"type": "PodResizePending", "reason": "Infeasible"})],
        );
        assert!(shown(&pod).contains(r#""requests.cpu":"500m""#));
    }
}
