//! Checks that the node has room for a pod's requests beside the allocations of others. Pure, in upstream's order and
//! words.

use corten_api::Value;
use corten_quota::resource_list::{self, ResourceList};

use crate::pod::Pod;
use crate::resources;

/// A resource of which the node has too little.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "Node didn't have enough resource: {resource}, requested: {requested}, used: {used}, capacity: {capacity}"
)]
pub(crate) struct Lack {
    pub(crate) resource: String,
    requested: i64,
    used: i64,
    capacity: i64,
}

impl Lack {
    /// The reason as statuses and events name it.
    pub(crate) fn reason(&self) -> String {
        format!("OutOf{}", self.resource)
    }

    /// The amount that is lacking.
    pub(crate) fn missing(&self) -> i64 {
        self.requested - (self.capacity - self.used)
    }
}

/// The resources that are checked first, in this order.
const FIRST: [&str; 4] = [PODS, "cpu", "memory", "ephemeral-storage"];
/// The resource that each pod uses one of.
const PODS: &str = "pods";

/// The resources that a pod lacks beside others. A resource that the node does not list is not checked.
pub(crate) fn lacks(pod: &Pod, others: &[Pod], allocatable: &Value) -> Vec<Lack> {
    let has = resource_list::read(Some(allocatable));
    let asked = Requests::of(pod);
    let others: Vec<Requests> = others.iter().map(Requests::of).collect();
    let rest = asked.0.keys().map(corten_api::Str::as_str).filter(|name| !FIRST.contains(name));
    FIRST
        .into_iter()
        .chain(rest)
        .filter(|resource| has.contains_key(*resource))
        .filter_map(|resource| {
            let (requested, used) =
                (asked.amount(resource), others.iter().map(|other| other.amount(resource)).sum());
            let capacity = counted(&has, resource);
            let lack = Lack { resource: resource.to_owned(), requested, used, capacity };
            (requested > 0 && lack.missing() > 0).then_some(lack)
        })
        .collect()
}

/// The requests of a pod.
pub(crate) struct Requests(ResourceList);

impl Requests {
    pub(crate) fn of(pod: &Pod) -> Requests {
        Requests(resources::amounts(pod, "requests"))
    }

    pub(crate) fn amount(&self, resource: &str) -> i64 {
        if resource == PODS { 1 } else { counted(&self.0, resource) }
    }
}

/// Returns true if a pod requests more cpu or memory than it is allocated.
pub(super) fn requests_more(wanted: &Pod, allocated: &Pod) -> bool {
    let (wanted, allocated) = (Requests::of(wanted), Requests::of(allocated));
    ["cpu", "memory"].into_iter().any(|resource| wanted.amount(resource) > allocated.amount(resource))
}

/// Cpu in thousandths, everything else in whole units.
fn counted(list: &ResourceList, resource: &str) -> i64 {
    let Some(amount) = list.get(resource) else { return 0 };
    if resource == "cpu" { amount.quantity.milli_value() } else { amount.quantity.value() }
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::*;
    use crate::pod::Source;

    fn pod(requests: Value) -> Pod {
        Pod::new(
            value!({"spec": {"containers": [{"name": "a", "resources": {"requests": (requests)}}]}}),
            Source::Api,
        )
    }

    #[track_caller]
    fn check(requests: Value, expected: &[&str]) {
        let node =
            value!({"cpu": "4", "memory": "4Gi", "pods": "2", "example.com/a": "1", "example.com/none": "0"});
        let other = [pod(value!({"cpu": "2", "memory": "2Gi", "example.com/a": "1"}))];
        let found: Vec<String> = lacks(&pod(requests), &other, &node)
            .iter()
            .map(|lack| format!("{}: {lack}", lack.reason()))
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn all_lacking_resources_are_found() {
        check(value!({"cpu": "2", "memory": "2Gi"}), &[]);
        let memory = "OutOfmemory: Node didn't have enough resource: memory, requested: 4718592000, \
                      used: 2147483648, capacity: 4294967296";
        check(value!({"memory": "4500Mi"}), &[memory]);
        let cpu =
            "OutOfcpu: Node didn't have enough resource: cpu, requested: 5000, used: 2000, capacity: 4000";
        check(value!({"cpu": "5", "memory": "4500Mi"}), &[cpu, memory]);
    }

    #[test]
    fn extended_resources_count_on_nodes_that_have_them() {
        check(
            value!({"example.com/a": "1", "example.com/none": "1", "example.com/elsewhere": "1"}),
            &[
                "OutOfexample.com/a: Node didn't have enough resource: example.com/a, requested: 1, used: 1, capacity: 1",
                "OutOfexample.com/none: Node didn't have enough resource: example.com/none, requested: 1, used: 0, \
                 capacity: 0",
            ],
        );
    }

    #[test]
    fn pods_without_requests_are_counted() {
        let (node, asks_nothing) = (value!({"pods": "2"}), || pod(value!({})));
        assert_eq!(lacks(&asks_nothing(), &[asks_nothing()], &node), []);
        let full = lacks(&asks_nothing(), &[asks_nothing(), asks_nothing()], &node);
        let told: Vec<String> = full.iter().map(Lack::to_string).collect();
        assert_eq!(told, ["Node didn't have enough resource: pods, requested: 1, used: 2, capacity: 2"]);
        assert_eq!(lacks(&asks_nothing(), &[asks_nothing()], &Value::Null), []);
    }
}
