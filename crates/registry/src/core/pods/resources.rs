//! A pod's own resources, completed from those of its containers.
//!
//! Only for a pod with resources of its own: then its requests are the sum of its containers' requests,
//! or else its limits; its limits are the sum of the containers' limits, if all
//! have one. This comes after admission, which may have added containers.

use corten_api::quantity::Quantity;
use corten_api::resource_list::{self, ResourceList};
use corten_api::{Str, Value, pods};

/// Completes `spec.resources`.
pub(super) fn complete(pod: &mut Value) {
    let own = |list: &str| pod.at(&["spec", "resources", list]).and_then(Value::as_object);
    if own("requests").is_none_or(|list| list.is_empty()) && own("limits").is_none_or(|list| list.is_empty())
    {
        return;
    }
    let (requested, limited) = (together(pod, "requests"), together(pod, "limits"));
    for (name, amount) in limited.iter().filter(|(name, _)| is_huge_page(name)) {
        if !has(pod, "requests", name) {
            fill(pod, "limits", name, amount.text());
        }
    }
    for (name, amount) in requested.iter().filter(|(name, _)| !is_huge_page(name)) {
        fill(pod, "requests", name, amount.text());
    }
    for (name, limit) in list_of(pod, "limits") {
        fill(pod, "requests", &name, limit);
    }
    for (name, request) in list_of(pod, "requests") {
        let Some(amount) = limited.get(&name).filter(|_| all_limit(pod, &name)) else { continue };
        let least = Quantity::parse(&request).unwrap_or(Quantity::ZERO);
        fill(pod, "limits", &name, if least > amount.quantity { request } else { amount.text() });
    }
}

fn is_huge_page(name: &str) -> bool {
    name.starts_with("hugepages-")
}

fn has(pod: &Value, list: &str, name: &str) -> bool {
    pod.at(&["spec", "resources", list, name]).is_some()
}

fn fill(pod: &mut Value, list: &str, name: &str, amount: Str) {
    if !has(pod, list, name) {
        pod.set(&["spec", "resources", list, name], amount);
    }
}

/// The pod's own entries, of what it can have.
fn list_of(pod: &Value, list: &str) -> Vec<(Str, Str)> {
    let entries = pod.at(&["spec", "resources", list]).and_then(Value::as_object);
    let entries = entries.into_iter().flat_map(|entries| entries.iter());
    let supported = entries.filter(|(name, _)| resource_list::is_pod_level(name));
    supported.map(|(name, amount)| (name.clone(), Str::new(amount.as_str().unwrap_or_default()))).collect()
}

/// Returns true if every container limits a resource.
fn all_limit(pod: &Value, name: &str) -> bool {
    let mut containers = pod.get("spec").into_iter().flat_map(pods::containers);
    containers.all(|container| container.at(&["resources", "limits", name]).is_some())
}

/// The most that containers need at the same time, of the resources that a pod can have of its own.
fn together(pod: &Value, list: &str) -> ResourceList {
    resource_list::together(pod, |container| {
        let mut amounts = resource_list::read(container.at(&["resources", list]));
        amounts.retain(|name, _| resource_list::is_pod_level(name));
        amounts
    })
}

#[cfg(test)]
mod tests {
    use corten_api::{json, value};

    use super::*;

    #[track_caller]
    fn check(spec: &str, expected: &str) {
        let mut pod = value!({"spec": (json::parse(spec.as_bytes()).unwrap())});
        complete(&mut pod);
        assert_eq!(json::write_to_string(pod.at(&["spec", "resources"]).unwrap_or(&Value::Null)), expected);
        let once = pod.clone();
        complete(&mut pod);
        assert_eq!(pod, once);
    }

    #[test]
    fn a_pod_that_says_nothing_gets_nothing() {
        check(r#"{"containers":[{"resources":{"limits":{"cpu":"1"}}}]}"#, "null");
        check(r#"{"resources":{},"containers":[{"resources":{"limits":{"cpu":"1"}}}]}"#, "{}");
    }

    #[test]
    fn requests_are_the_containers_or_else_the_limits() {
        check(
            r#"{"resources":{"limits":{"cpu":"4","memory":"1Gi"}},
                "containers":[{"resources":{"requests":{"cpu":"500m"}}},{"resources":{"requests":{"cpu":"1"}}}]}"#,
            r#"{"limits":{"cpu":"4","memory":"1Gi"},"requests":{"cpu":"1500m","memory":"1Gi"}}"#,
        );
    }

    #[test]
    fn limits_are_the_containers_where_all_have_one() {
        check(
            r#"{"resources":{"requests":{"cpu":"1","memory":"5Gi"}},"containers":[
                {"resources":{"limits":{"cpu":"2","memory":"1Gi"}}},{"resources":{"limits":{"memory":"1Gi"}}}]}"#,
            r#"{"limits":{"memory":"5Gi"},"requests":{"cpu":"1","memory":"5Gi"}}"#,
        );
        check(
            r#"{"resources":{"requests":{"cpu":"1"}},"containers":[
                {"resources":{"limits":{"cpu":"2"}}},{"resources":{"limits":{"cpu":"500m"}}}]}"#,
            r#"{"limits":{"cpu":"2500m"},"requests":{"cpu":"1"}}"#,
        );
    }

    #[test]
    fn huge_pages_are_limited_first() {
        check(
            r#"{"resources":{"requests":{"cpu":"1"}},
                "containers":[{"resources":{"limits":{"hugepages-2Mi":"4Mi"},"requests":{"hugepages-2Mi":"4Mi"}}}]}"#,
            r#"{"limits":{"hugepages-2Mi":"4Mi"},"requests":{"cpu":"1","hugepages-2Mi":"4Mi"}}"#,
        );
    }

    #[test]
    fn containers_that_start_count_with_the_sidecars_before_them() {
        check(
            r#"{"resources":{"limits":{"cpu":"9"}},
                "initContainers":[
                    {"restartPolicy":"Always","resources":{"requests":{"cpu":"1"}}},
                    {"resources":{"requests":{"cpu":"3","memory":"1024Mi","example.com/gpu":"1"}}}],
                "containers":[{"resources":{"requests":{"cpu":"2"}}}]}"#,
            r#"{"limits":{"cpu":"9"},"requests":{"cpu":"4","memory":"1024Mi"}}"#,
        );
    }
}
