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
pub(super) struct Lack {
    resource: String,
    requested: i64,
    used: i64,
    capacity: i64,
}

impl Lack {
    /// As statuses and events call it.
    pub(super) fn reason(&self) -> String {
        format!("OutOf{}", self.resource)
    }
}

/// What is looked at, in this order.
const COUNTED: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

/// Whether a pod has room beside others. A node that has not said what it has has room.
pub(super) fn fits(pod: &Pod, others: &[Pod], allocatable: &Value) -> Result<(), Lack> {
    let (asked, has) = (requests(pod), resource_list::read(Some(allocatable)));
    let used: Vec<ResourceList> = others.iter().map(requests).collect();
    for resource in COUNTED {
        let amount = |list: &ResourceList| list.get(resource).map_or(0, |amount| counted(resource, amount));
        let (requested, used) = (amount(&asked), used.iter().map(amount).sum::<i64>());
        if requested == 0 || !has.contains_key(resource) {
            continue;
        }
        let capacity = amount(&has);
        if requested > capacity - used {
            return Err(Lack { resource: resource.to_owned(), requested, used, capacity });
        }
    }
    Ok(())
}

/// Whether a pod asks for more of cpu or memory than it has.
pub(super) fn asks_more(wanted: &Pod, allocated: &Pod) -> bool {
    let (wanted, allocated) = (requests(wanted), requests(allocated));
    ["cpu", "memory"].into_iter().any(|resource| {
        let amount = |list: &ResourceList| list.get(resource).map_or(0, |amount| counted(resource, amount));
        amount(&wanted) > amount(&allocated)
    })
}

fn requests(pod: &Pod) -> ResourceList {
    resources::amounts(pod, "requests")
}

/// Cpu in thousandths, everything else in whole units.
fn counted(resource: &str, amount: &corten_quota::Amount) -> i64 {
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

    #[test]
    fn the_first_lack_is_told() {
        let node = value!({"cpu": "4", "memory": "4Gi", "pods": "110"});
        let other = [pod(value!({"cpu": "2", "memory": "2Gi"}))];
        let told = |requests: Value| fits(&pod(requests), &other, &node).map_err(|lack| lack.to_string());
        assert_eq!(told(value!({"cpu": "2", "memory": "2Gi"})), Ok(()));
        assert_eq!(
            told(value!({"cpu": "5", "memory": "4500Mi"})),
            Err("Node didn't have enough resource: cpu, requested: 5000, used: 2000, capacity: 4000".into())
        );
        assert_eq!(
            told(value!({"memory": "4500Mi"})),
            Err("Node didn't have enough resource: memory, requested: 4718592000, used: 2147483648, capacity: 4294967296".into())
        );
        assert_eq!(fits(&pod(value!({"cpu": "5"})), &[], &Value::Null), Ok(()));
    }
}
