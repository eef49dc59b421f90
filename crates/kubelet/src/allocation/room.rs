//! Whether the node has room for what a pod asks for, beside what others were given. Pure, in upstream's order and words.

use corten_api::Value;
use corten_quota::resource_list::{self, ResourceList};

use crate::pod::Pod;
use crate::resources;

/// What the node has too little of.
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
    /// As statuses and events call it.
    pub(crate) fn reason(&self) -> String {
        format!("OutOf{}", self.resource)
    }

    /// How much more there would have to be.
    pub(crate) fn missing(&self) -> i64 {
        self.requested - (self.capacity - self.used)
    }
}

/// What is looked at first, in this order; everything else after it.
const FIRST: [&str; 4] = [PODS, "cpu", "memory", "ephemeral-storage"];
/// Each pod is one of as many as the node takes.
const PODS: &str = "pods";

/// What a pod has no room for beside others. There is room for what the node does not say how much of it there is.
pub(crate) fn lacks(pod: &Pod, others: &[Pod], allocatable: &Value) -> Vec<Lack> {
    let has = resource_list::read(Some(allocatable));
    let asked = Asked::of(pod);
    let others: Vec<Asked> = others.iter().map(Asked::of).collect();
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

/// What a pod asks for of everything.
pub(crate) struct Asked(ResourceList);

impl Asked {
    pub(crate) fn of(pod: &Pod) -> Asked {
        Asked(resources::amounts(pod, "requests"))
    }

    pub(crate) fn amount(&self, resource: &str) -> i64 {
        if resource == PODS { 1 } else { counted(&self.0, resource) }
    }
}

/// Whether a pod asks for more of cpu or memory than it has.
pub(super) fn asks_more(wanted: &Pod, allocated: &Pod) -> bool {
    let (wanted, allocated) = (Asked::of(wanted), Asked::of(allocated));
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
    fn all_that_is_lacking_is_told() {
        check(value!({"cpu": "2", "memory": "2Gi"}), &[]);
        let memory = "OutOfmemory: Node didn't have enough resource: memory, requested: 4718592000, \
                      used: 2147483648, capacity: 4294967296";
        check(value!({"memory": "4500Mi"}), &[memory]);
        let cpu =
            "OutOfcpu: Node didn't have enough resource: cpu, requested: 5000, used: 2000, capacity: 4000";
        check(value!({"cpu": "5", "memory": "4500Mi"}), &[cpu, memory]);
    }

    #[test]
    fn what_only_some_nodes_have_counts_where_it_is_had() {
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
    fn pods_are_counted_even_if_they_ask_for_nothing() {
        let (node, asks_nothing) = (value!({"pods": "2"}), || pod(value!({})));
        assert_eq!(lacks(&asks_nothing(), &[asks_nothing()], &node), []);
        let full = lacks(&asks_nothing(), &[asks_nothing(), asks_nothing()], &node);
        let told: Vec<String> = full.iter().map(Lack::to_string).collect();
        assert_eq!(told, ["Node didn't have enough resource: pods, requested: 1, used: 2, capacity: 2"]);
        assert_eq!(lacks(&asks_nothing(), &[asks_nothing()], &Value::Null), []);
    }
}
