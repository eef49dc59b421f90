//! RuntimeClass: a pod with a runtime class gets its overhead, node selector and tolerations.

use corten_api::{Map, Status, Value};
use corten_quota::resource_list;

use super::{Admit, CREATE, Plugin, Validate};

use crate::admission::{Attributes, lookup};

pub(super) const PLUGIN: Plugin = Plugin {
    name: "RuntimeClass",
    operations: CREATE,
    admit: Admit::Now(admit),
    validate: Validate::Now(validate),
};

fn admit(attributes: &Attributes<'_>, object: &mut Value) -> Result<(), Status> {
    if !attributes.is_object("", "pods") || !attributes.creates() {
        return Ok(());
    }
    let Some(class) = find(attributes, object)? else { return Ok(()) };
    let class = class.parsed();
    let outcome = set_overhead(class, object).and_then(|()| set_scheduling(class, object));
    outcome.map_err(|why| attributes.forbidden(Some(object), why))
}

fn validate(attributes: &Attributes<'_>, object: Option<&Value>) -> Result<(), Status> {
    let Some(pod) = object.filter(|_| attributes.is_object("", "pods") && attributes.creates()) else {
        return Ok(());
    };
    let class = find(attributes, pod)?;
    check_overhead(class.as_ref().map(|class| class.parsed()), pod)
        .map_err(|why| attributes.forbidden(Some(pod), why))
}

fn find(
    attributes: &Attributes<'_>,
    pod: &Value,
) -> Result<Option<std::sync::Arc<crate::object::Object>>, Status> {
    let Some(name) = pod.str_at(&["spec", "runtimeClassName"]) else { return Ok(None) };
    match lookup::get(attributes.backend(), ("node.k8s.io", "runtimeclasses"), "", name) {
        Some(class) => Ok(Some(class)),
        None => {
            let why = format!("pod rejected: RuntimeClass {name:?} not found");
            Err(attributes.forbidden(Some(pod), why))
        }
    }
}

const MISMATCH: &str = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead";

fn overhead(class: &Value) -> Option<&Value> {
    class.get("overhead").filter(|overhead| !overhead.is_null())
}

fn same_overhead(class: &Value, pod: &Value) -> bool {
    let lists = [class.at(&["overhead", "podFixed"]), pod.at(&["spec", "overhead"])];
    let [of_class, of_pod] = lists.map(|list| {
        resource_list::read(list)
            .into_iter()
            .map(|(name, amount)| (name, amount.quantity))
            .collect::<Vec<_>>()
    });
    of_class == of_pod
}

fn states_overhead(pod: &Value) -> bool {
    pod.at(&["spec", "overhead"]).and_then(Value::as_object).is_some_and(|list| !list.is_empty())
}

fn set_overhead(class: &Value, pod: &mut Value) -> Result<(), String> {
    if overhead(class).is_none() {
        return Ok(());
    }
    if states_overhead(pod) && !same_overhead(class, pod) {
        return Err(MISMATCH.to_owned());
    }
    if let Some(fixed) = class.at(&["overhead", "podFixed"]) {
        pod.set(&["spec", "overhead"], fixed.clone());
    }
    Ok(())
}

fn check_overhead(class: Option<&Value>, pod: &Value) -> Result<(), &'static str> {
    match class.filter(|class| overhead(class).is_some()) {
        Some(class) if !same_overhead(class, pod) => Err(MISMATCH),
        None if states_overhead(pod) => {
            Err("pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead")
        }
        _ => Ok(()),
    }
}

pub(super) fn set_scheduling(class: &Value, pod: &mut Value) -> Result<(), String> {
    let Some(scheduling) = class.get("scheduling").filter(|s| !s.is_null()) else { return Ok(()) };
    let wanted = scheduling.get("nodeSelector").and_then(Value::as_object);
    for (key, value) in wanted.into_iter().flat_map(Map::iter) {
        let value = value.as_str().unwrap_or_default();
        match pod.str_at(&["spec", "nodeSelector", key]) {
            Some(own) if own != value => {
                return Err(format!(
                    "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; pod.spec.nodeSelector[{key}] = {own}"
                ));
            }
            _ => pod.set(&["spec", "nodeSelector", key], value),
        }
    }
    let tolerations = merged(pod.items_at(&["spec", "tolerations"]), scheduling.items_at(&["tolerations"]));
    if !tolerations.is_empty() {
        pod.set(&["spec", "tolerations"], tolerations);
    }
    Ok(())
}

/// With more tolerations than this, covered ones are not dropped: that needs a comparison of each with each.
const MOST_COMPARED: usize = 512;

/// The tolerations of two lists, without those that others cover.
fn merged(first: &[Value], second: &[Value]) -> Vec<Value> {
    let all: Vec<&Value> = first.iter().chain(second).collect();
    if all.len() > MOST_COMPARED {
        return all.into_iter().cloned().collect();
    }
    let mut kept: Vec<Value> = Vec::new();
    for (i, toleration) in all.iter().enumerate() {
        let covered = kept.iter().any(|other| covers(other, toleration))
            || all[i + 1..].iter().any(|other| other != toleration && covers(other, toleration));
        if !covered {
            kept.push((*toleration).clone());
        }
    }
    kept
}

/// True if a toleration tolerates all taints that another one does.
fn covers(wide: &Value, narrow: &Value) -> bool {
    if wide == narrow {
        return true;
    }
    let text =
        |toleration: &'_ Value, field: &str| toleration.str_at(&[field]).unwrap_or_default().to_owned();
    let (key, operator, effect) = (text(wide, "key"), text(wide, "operator"), text(wide, "effect"));
    if text(narrow, "key") != key && !(key.is_empty() && operator == "Exists") {
        return false;
    }
    if text(narrow, "effect") != effect && !effect.is_empty() {
        return false;
    }
    let seconds = |toleration: &Value| toleration.int_at(&["tolerationSeconds"]);
    if effect == "NoExecute"
        && let Some(most) = seconds(wide)
        && seconds(narrow).is_none_or(|own| own > most)
    {
        return false;
    }
    match operator.as_str() {
        "Equal" | "" => text(narrow, "operator") == "Equal" && text(narrow, "value") == text(wide, "value"),
        "Exists" => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::*;

    fn class() -> Value {
        value!({
            "overhead": {"podFixed": {"cpu": "100m"}},
            "scheduling": {
                "nodeSelector": {"runtime": "kata"},
                "tolerations": [{"key": "kata", "operator": "Exists", "effect": "NoSchedule"}],
            },
        })
    }

    #[test]
    fn overhead_comes_from_the_class() {
        let mut pod = value!({"spec": {}});
        set_overhead(&class(), &mut pod).unwrap();
        assert_eq!(pod, value!({"spec": {"overhead": {"cpu": "100m"}}}));
        assert_eq!(check_overhead(Some(&class()), &pod), Ok(()));
        let mut same = value!({"spec": {"overhead": {"cpu": "0.1"}}});
        set_overhead(&class(), &mut same).unwrap();
        let mut other = value!({"spec": {"overhead": {"cpu": "200m"}}});
        assert_eq!(set_overhead(&class(), &mut other).unwrap_err(), MISMATCH);
        assert_eq!(
            check_overhead(None, &other),
            Err("pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead")
        );
        assert_eq!(check_overhead(None, &value!({"spec": {}})), Ok(()));
    }

    #[test]
    fn scheduling_is_merged() {
        let mut pod = value!({"spec": {"nodeSelector": {"disk": "ssd"}}});
        set_scheduling(&class(), &mut pod).unwrap();
        assert_eq!(
            pod,
            value!({"spec": {
                "nodeSelector": {"disk": "ssd", "runtime": "kata"},
                "tolerations": [{"key": "kata", "operator": "Exists", "effect": "NoSchedule"}],
            }})
        );
        let mut other = value!({"spec": {"nodeSelector": {"runtime": "runc"}}});
        assert_eq!(
            set_scheduling(&class(), &mut other).unwrap_err(),
            "conflict: runtimeClass.scheduling.nodeSelector[runtime] = kata; pod.spec.nodeSelector[runtime] = runc"
        );
    }

    #[test]
    fn covered_tolerations_are_dropped() {
        let all = || value!({"operator": "Exists"});
        let one = || value!({"key": "a", "operator": "Equal", "value": "v", "effect": "NoSchedule"});
        let brief =
            || value!({"key": "b", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5});
        let long = || value!({"key": "b", "operator": "Exists", "effect": "NoExecute"});
        assert_eq!(merged(&[one()], &[all()]), [all()]);
        assert_eq!(merged(&[all()], &[one()]), [all()]);
        assert_eq!(merged(&[one()], &[one()]), [one()]);
        assert_eq!(merged(&[brief()], &[long()]), [long()]);
        assert_eq!(merged(&[one()], &[brief()]), [one(), brief()]);
    }
}
