//! Resource lists: the requests and limits of containers and pods, and their sums. Only arithmetic.

use std::collections::BTreeMap;

use crate::quantity::Quantity;
use crate::{Map, Str, Value};

/// An amount, with its original text while nothing was added to it.
#[derive(Debug, Clone, PartialEq)]
pub struct Amount {
    pub quantity: Quantity,
    shown: Option<Str>,
}

impl Amount {
    pub fn text(&self) -> Str {
        self.shown.clone().unwrap_or_else(|| self.quantity.to_str())
    }
}

impl From<Quantity> for Amount {
    fn from(quantity: Quantity) -> Self {
        Amount { quantity, shown: None }
    }
}

pub type ResourceList = BTreeMap<Str, Amount>;

/// Reads a resource list. Entries that are no quantities are left out; validation reports them.
pub fn read(list: Option<&Value>) -> ResourceList {
    let amount = |(name, value): (&Str, &Value)| {
        let shown = Str::new(value.as_str()?);
        Some((name.clone(), Amount { quantity: Quantity::parse(&shown).ok()?, shown: Some(shown) }))
    };
    let entries = list.and_then(Value::as_object).into_iter().flat_map(Map::iter);
    entries.filter_map(amount).collect()
}

/// Writes a resource list as objects hold it.
pub fn write(list: &ResourceList) -> Value {
    Value::Object(list.iter().map(|(name, amount)| (name.clone(), Value::from(amount.text()))).collect())
}

/// Adds each amount of a list to a sum.
pub fn add(sum: &mut ResourceList, more: &ResourceList) {
    for (name, amount) in more {
        match sum.get_mut(name) {
            Some(held) => {
                held.quantity.add(amount.quantity);
                held.shown = None;
            }
            None => {
                sum.insert(name.clone(), amount.clone());
            }
        }
    }
}

/// Raises each amount to at least that of another list.
pub fn raise(most: &mut ResourceList, other: &ResourceList) {
    for (name, amount) in other {
        if most.get(name).is_none_or(|held| amount.quantity > held.quantity) {
            most.insert(name.clone(), amount.clone());
        }
    }
}

/// The amounts by which one list exceeds another; never negative.
pub fn increase(new: &ResourceList, old: &ResourceList) -> ResourceList {
    let difference = |(name, amount): (&Str, &Amount)| {
        let mut quantity = amount.quantity;
        if let Some(old) = old.get(name) {
            quantity.sub(old.quantity);
        }
        (!quantity.is_zero() && !quantity.is_negative()).then(|| (name.clone(), quantity.into()))
    };
    new.iter().filter_map(difference).collect()
}

/// The most that a pod's containers need at the same time: all regular ones and sidecars, or an init container and the
/// sidecars before it. `needs` returns the amounts of one container.
///
/// Each container costs only the resources it names itself, because a resource that it does not name was already raised when
/// a sidecar changed it.
pub fn together(pod: &Value, needs: impl Fn(&Value) -> ResourceList) -> ResourceList {
    let mut total = ResourceList::new();
    for container in pod.items_at(&["spec", "containers"]) {
        add(&mut total, &needs(container));
    }
    let (mut sidecars, mut starting) = (ResourceList::new(), ResourceList::new());
    for container in pod.items_at(&["spec", "initContainers"]) {
        let mut own = needs(container);
        if container.str_at(&["restartPolicy"]) == Some("Always") {
            add(&mut total, &own);
            add(&mut sidecars, &own);
            let changed = own.into_keys().filter_map(|name| sidecars.get_key_value(&name));
            raise(&mut starting, &changed.map(|(name, amount)| (name.clone(), amount.clone())).collect());
        } else {
            for (name, amount) in &mut own {
                if let Some(before) = sidecars.get(name) {
                    amount.quantity.add(before.quantity);
                    amount.shown = None;
                }
            }
            raise(&mut starting, &own);
        }
    }
    raise(&mut total, &starting);
    total
}

/// The requests or limits in the spec of a pod's containers, taken together.
pub fn of_containers(pod: &Value, list: &str) -> ResourceList {
    together(pod, |container| read(container.at(&["resources", list])))
}

/// True if a pod can request a resource for itself, besides its containers.
pub fn is_pod_level(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || name.starts_with("hugepages-")
}

/// Overrides the sum of the containers with the pod's own resources, and adds its overhead.
pub fn finish_pod(pod: &Value, list: &str, mut total: ResourceList) -> ResourceList {
    for (name, amount) in read(pod.at(&["spec", "resources", list])) {
        if is_pod_level(&name) {
            total.insert(name, amount);
        }
    }
    let mut overhead = read(pod.at(&["spec", "overhead"]));
    if list == "limits" {
        // The overhead does not give a pod without a limit one.
        overhead.retain(|name, _| total.get(name).is_some_and(|limit| !limit.quantity.is_zero()));
    }
    add(&mut total, &overhead);
    total
}

#[cfg(test)]
mod tests {
    use crate::{json, value};

    use super::*;

    fn shown(list: &ResourceList) -> String {
        json::write_to_string(&write(list))
    }

    fn list(value: &Value) -> ResourceList {
        read(Some(value))
    }

    #[test]
    fn sums_and_differences() {
        let mut sum = list(&value!({"cpu": "500m", "memory": "1024Mi"}));
        assert_eq!(shown(&sum), r#"{"cpu":"500m","memory":"1024Mi"}"#);
        add(&mut sum, &list(&value!({"cpu": "1500m", "example.com/gpu": "1"})));
        assert_eq!(shown(&sum), r#"{"cpu":"2","example.com/gpu":"1","memory":"1024Mi"}"#);
        let more = increase(&sum, &list(&value!({"cpu": "1", "memory": "2Gi", "gone": "7"})));
        assert_eq!(shown(&more), r#"{"cpu":"1","example.com/gpu":"1"}"#);
    }

    #[test]
    fn a_pod_needs_the_maximum_over_its_phases() {
        let pod = value!({"spec": {
            "overhead": {"cpu": "100m", "memory": "1Mi"},
            "initContainers": [
                {"restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}},
                {"resources": {"requests": {"cpu": "3"}}},
            ],
            "containers": [{"resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "2"}}}],
        }});
        let requests = of_containers(&pod, "requests");
        assert_eq!(shown(&requests), r#"{"cpu":"4"}"#);
        assert_eq!(shown(&finish_pod(&pod, "requests", requests)), r#"{"cpu":"4100m","memory":"1Mi"}"#);
        let limits = of_containers(&pod, "limits");
        assert_eq!(shown(&finish_pod(&pod, "limits", limits)), r#"{"cpu":"2100m"}"#);
        let mut own = pod.clone();
        own.set(&["spec", "resources", "requests", "cpu"], "7");
        let requests = finish_pod(&own, "requests", of_containers(&own, "requests"));
        assert_eq!(shown(&requests), r#"{"cpu":"7100m","memory":"1Mi"}"#);
    }
}
