//! Priority: a pod's priority comes from its priority class, or from the default one; there is at most one default.

use std::sync::Arc;

use corten_api::{Status, Value};

use super::{Admit, CREATE, DELETE, Plugin, UPDATE, Validate};
use crate::admission::{Attributes, lookup};
use crate::object::Object;

pub(super) const PLUGIN: Plugin = Plugin {
    name: "Priority",
    operations: CREATE | UPDATE | DELETE,
    admit: Admit::Now(admit),
    validate: Validate::Now(validate),
};

const CLASSES: (&str, &str) = ("scheduling.k8s.io", "priorityclasses");

fn admit(attributes: &Attributes<'_>, object: &mut Value) -> Result<(), Status> {
    if !attributes.subresource.is_empty() {
        return Ok(());
    }
    match (attributes.resource(), attributes.old) {
        (("", "pods"), Some(old)) if attributes.updates() => {
            keep_computed(object, old);
            Ok(())
        }
        (("", "pods"), None) if attributes.creates() => {
            let class = resolve(attributes, object)?;
            set(object, &class, POD).map_err(|why| attributes.forbidden(Some(object), why))
        }
        (("scheduling.k8s.io", "podgroups"), None) if attributes.creates() => {
            let class = resolve(attributes, object)?;
            set(object, &class, POD_GROUP).map_err(|why| attributes.forbidden(Some(object), why))
        }
        (("scheduling.k8s.io", "compositepodgroups"), None) if attributes.creates() => {
            let class = resolve(attributes, object)?;
            set(object, &class, COMPOSITE).map_err(|why| attributes.forbidden(Some(object), why))
        }
        _ => Ok(()),
    }
}

fn validate(attributes: &Attributes<'_>, object: Option<&Value>) -> Result<(), Status> {
    let Some(class) = object.filter(|_| attributes.is_object(CLASSES.0, CLASSES.1)) else { return Ok(()) };
    if class.bool_at(&["globalDefault"]) != Some(true) {
        return Ok(());
    }
    let all = lookup::list(attributes.backend(), CLASSES, "");
    match default_class(&all) {
        Some(other) if attributes.creates() || other.name != attributes.name(Some(class)) => {
            let why = format!(
                "PriorityClass {} is already marked as default. Only one default can exist",
                other.name
            );
            Err(attributes.forbidden(Some(class), why))
        }
        _ => Ok(()),
    }
}

/// The priority and preemption policy of a class.
#[derive(Debug, PartialEq)]
struct Resolved {
    name: String,
    value: i64,
    preemption: Option<String>,
}

impl Resolved {
    fn of(object: &Object) -> Resolved {
        let class = object.parsed();
        Resolved {
            name: object.name.to_string(),
            value: class.int_at(&["value"]).unwrap_or(0),
            preemption: class.str_at(&["preemptionPolicy"]).map(str::to_owned),
        }
    }

    /// The values without a default class.
    fn nothing() -> Resolved {
        Resolved { name: String::new(), value: 0, preemption: Some("PreemptLowerPriority".into()) }
    }
}

fn resolve(attributes: &Attributes<'_>, object: &Value) -> Result<Resolved, Status> {
    let backend = attributes.backend();
    match object.str_at(&["spec", "priorityClassName"]).unwrap_or_default() {
        "" => {
            let all = lookup::list(backend, CLASSES, "");
            Ok(default_class(&all).map_or_else(Resolved::nothing, |class| Resolved::of(class)))
        }
        name => lookup::get(backend, CLASSES, "", name).map(|class| Resolved::of(&class)).ok_or_else(|| {
            attributes.forbidden(Some(object), format!("no PriorityClass with name {name} was found"))
        }),
    }
}

/// The default class; of several, which only concurrent writes can create, the one with the lowest value.
fn default_class(all: &[Arc<Object>]) -> Option<&Arc<Object>> {
    let defaults = all.iter().filter(|class| class.parsed().bool_at(&["globalDefault"]) == Some(true));
    defaults.min_by_key(|class| class.parsed().int_at(&["value"]).unwrap_or(0))
}

/// The messages about a priority that differs from the class's.
#[derive(Clone, Copy)]
struct Wording {
    priority: fn(i64, i64) -> String,
    /// True if the kind has a preemption policy.
    preempts: bool,
}

const POD: Wording = Wording {
    priority: |given, computed| {
        format!(
            "the integer value of priority ({given}) must not be provided in pod spec; priority admission controller computed {computed} from the given PriorityClass name"
        )
    },
    preempts: true,
};

const POD_GROUP: Wording = Wording {
    priority: |given, computed| {
        format!(
            "priority set in the pod group ({given}) must match the priority computed ({computed}) based on the priority class set in the spec"
        )
    },
    preempts: false,
};

const COMPOSITE: Wording = Wording {
    priority: |given, computed| {
        format!(
            "priority set in the composite pod group ({given}) must match the priority computed ({computed}) based on the priority class set in the spec"
        )
    },
    preempts: false,
};

/// Sets an object's priority from its class; another priority in the object is an error.
fn set(object: &mut Value, class: &Resolved, wording: Wording) -> Result<(), String> {
    if !class.name.is_empty() {
        object.set(&["spec", "priorityClassName"], class.name.as_str());
    }
    match object.int_at(&["spec", "priority"]) {
        Some(given) if given != class.value => return Err((wording.priority)(given, class.value)),
        _ => object.set(&["spec", "priority"], class.value),
    }
    let Some(policy) = class.preemption.as_deref().filter(|_| wording.preempts) else { return Ok(()) };
    match object.str_at(&["spec", "preemptionPolicy"]) {
        Some(given) if given != policy => Err(format!(
            "the string value of PreemptionPolicy ({given}) must not be provided in pod spec; priority admission controller computed {policy} from the given PriorityClass name"
        )),
        _ => {
            object.set(&["spec", "preemptionPolicy"], policy);
            Ok(())
        }
    }
}

/// Restores the computed fields that an update leaves out.
pub(super) fn keep_computed(pod: &mut Value, old: &Value) {
    for field in ["priority", "preemptionPolicy"] {
        if let (None, Some(computed)) = (pod.at(&["spec", field]), old.at(&["spec", field])) {
            pod.set(&["spec", field], computed.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::*;

    fn high() -> Resolved {
        Resolved { name: "high".into(), value: 1000, preemption: Some("Never".into()) }
    }

    #[test]
    fn a_pod_gets_the_priority_of_its_class() {
        let mut pod = value!({"spec": {"priorityClassName": "high"}});
        set(&mut pod, &high(), POD).unwrap();
        let complete =
            value!({"spec": {"priorityClassName": "high", "priority": 1000, "preemptionPolicy": "Never"}});
        assert_eq!(pod, complete);
        set(&mut pod, &high(), POD).unwrap();
        assert_eq!(pod, complete, "its own priority may be stated");
        let mut plain = value!({"spec": {}});
        set(&mut plain, &Resolved::nothing(), POD).unwrap();
        assert_eq!(plain, value!({"spec": {"priority": 0, "preemptionPolicy": "PreemptLowerPriority"}}));
    }

    #[test]
    fn another_priority_is_refused() {
        let mut pod = value!({"spec": {"priority": 7}});
        assert_eq!(
            set(&mut pod, &high(), POD).unwrap_err(),
            "the integer value of priority (7) must not be provided in pod spec; priority admission controller computed 1000 from the given PriorityClass name"
        );
        let mut pod = value!({"spec": {"preemptionPolicy": "PreemptLowerPriority"}});
        assert_eq!(
            set(&mut pod, &high(), POD).unwrap_err(),
            "the string value of PreemptionPolicy (PreemptLowerPriority) must not be provided in pod spec; priority admission controller computed Never from the given PriorityClass name"
        );
        let mut group = value!({"spec": {"priority": 7}});
        assert_eq!(
            set(&mut group, &high(), POD_GROUP).unwrap_err(),
            "priority set in the pod group (7) must match the priority computed (1000) based on the priority class set in the spec"
        );
    }

    #[test]
    fn updates_keep_the_computed_priority() {
        let old = value!({"spec": {"priority": 5, "preemptionPolicy": "Never"}});
        let mut new = value!({"spec": {"priority": 6}});
        keep_computed(&mut new, &old);
        assert_eq!(new, value!({"spec": {"priority": 6, "preemptionPolicy": "Never"}}));
    }
}
