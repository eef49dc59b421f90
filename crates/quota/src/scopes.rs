//! The scopes of quotas, and the objects that they match.

use corten_api::{Str, Value};

/// The properties of an object that scopes match.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Facts {
    /// An object that no scope matches.
    #[default]
    Nothing,
    Pod {
        terminating: bool,
        best_effort: bool,
        priority_class: Str,
        crosses_namespaces: bool,
    },
    /// The current, desired and pending attribute classes of a volume claim.
    VolumeClaim {
        attributes_classes: Vec<Str>,
    },
}

/// One scope of a quota: a name, and for some a condition on a class.
#[derive(Debug, Clone, PartialEq)]
pub struct Scope {
    name: Str,
    operator: Str,
    values: Vec<Str>,
}

/// The scopes of a quota; all of them must match.
fn of_quota(quota: &Value) -> Vec<Scope> {
    let text = |value: &Value| Str::new(value.as_str().unwrap_or_default());
    let plain = quota.items_at(&["spec", "scopes"]).iter().map(|scope| Scope {
        name: text(scope),
        operator: Str::new_static("Exists"),
        values: Vec::new(),
    });
    let selected = quota.items_at(&["spec", "scopeSelector", "matchExpressions"]).iter().map(|expression| {
        let field = |name: &str| expression.get(name).map(text).unwrap_or_default();
        Scope {
            name: field("scopeName"),
            operator: field("operator"),
            values: expression.items_at(&["values"]).iter().map(text).collect(),
        }
    });
    plain.chain(selected).collect()
}

impl Scope {
    /// The scopes of a quota, which applies to objects that match all of them.
    pub fn all(quota: &Value) -> Vec<Scope> {
        of_quota(quota)
    }

    pub fn holds(&self, facts: &Facts) -> bool {
        match (facts, self.name.as_str()) {
            (Facts::Pod { terminating, .. }, "Terminating") => *terminating,
            (Facts::Pod { terminating, .. }, "NotTerminating") => !terminating,
            (Facts::Pod { best_effort, .. }, "BestEffort") => *best_effort,
            (Facts::Pod { best_effort, .. }, "NotBestEffort") => !best_effort,
            (Facts::Pod { crosses_namespaces, .. }, "CrossNamespacePodAffinity") => *crosses_namespaces,
            (Facts::Pod { priority_class, .. }, "PriorityClass") => {
                self.selects(Some(priority_class).filter(|class| !class.is_empty()))
            }
            (Facts::VolumeClaim { attributes_classes }, "VolumeAttributesClass") => {
                match attributes_classes.is_empty() {
                    true => self.selects(None),
                    false => attributes_classes.iter().any(|class| self.selects(Some(class))),
                }
            }
            _ => false,
        }
    }

    fn selects(&self, class: Option<&Str>) -> bool {
        match (self.operator.as_str(), class) {
            ("Exists", class) => class.is_some(),
            ("DoesNotExist", class) => class.is_none(),
            ("In", Some(class)) => self.values.contains(class),
            ("NotIn", Some(class)) => !self.values.contains(class),
            ("NotIn", None) => true,
            _ => false,
        }
    }
}

/// True if a pod has an active deadline.
pub fn is_terminating(pod: &Value) -> bool {
    pod.int_at(&["spec", "activeDeadlineSeconds"]).is_some_and(|seconds| seconds >= 0)
}

pub(super) fn of_pod(pod: &Value) -> Facts {
    Facts::Pod {
        terminating: is_terminating(pod),
        best_effort: pod.str_at(&["status", "qosClass"]) == Some("BestEffort"),
        priority_class: Str::new(pod.str_at(&["spec", "priorityClassName"]).unwrap_or_default()),
        crosses_namespaces: crosses_namespaces(pod),
    }
}

/// True if a pod's affinity selects pods of other namespaces.
fn crosses_namespaces(pod: &Value) -> bool {
    let crosses =
        |term: &Value| !term.items_at(&["namespaces"]).is_empty() || term.get("namespaceSelector").is_some();
    ["podAffinity", "podAntiAffinity"].into_iter().any(|affinity| {
        let terms = |list: &str| pod.items_at(&["spec", "affinity", affinity, list]).iter();
        terms("requiredDuringSchedulingIgnoredDuringExecution").any(crosses)
            || terms("preferredDuringSchedulingIgnoredDuringExecution")
                .any(|weighted| weighted.get("podAffinityTerm").is_some_and(crosses))
    })
}

#[cfg(test)]
mod tests {
    use corten_api::{json, value};

    use super::*;

    fn scope(text: &str) -> Scope {
        of_quota(&json::parse(text.as_bytes()).unwrap()).remove(0)
    }

    fn plain(name: &str) -> Scope {
        scope(&format!(r#"{{"spec":{{"scopes":["{name}"]}}}}"#))
    }

    fn classes(name: &str, operator: &str) -> Scope {
        scope(&format!(
            r#"{{"spec":{{"scopeSelector":{{"matchExpressions":[{{"scopeName":"{name}","operator":"{operator}","values":["a"]}}]}}}}}}"#
        ))
    }

    #[test]
    fn pods_by_scope() {
        let pod = of_pod(&value!({
            "spec": {"activeDeadlineSeconds": 5, "priorityClassName": "a", "affinity": {"podAntiAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [{"podAffinityTerm": {"namespaceSelector": {}}}],
            }}},
            "status": {"qosClass": "BestEffort"},
        }));
        let other = of_pod(&value!({"spec": {"affinity": {"podAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone"}],
        }}}, "status": {"qosClass": "Burstable"}}));
        let table = [
            (plain("Terminating"), true, false),
            (plain("NotTerminating"), false, true),
            (plain("BestEffort"), true, false),
            (plain("NotBestEffort"), false, true),
            (plain("CrossNamespacePodAffinity"), true, false),
            (plain("PriorityClass"), true, false),
            (plain("VolumeAttributesClass"), false, false),
            (classes("PriorityClass", "In"), true, false),
            (classes("PriorityClass", "NotIn"), false, true),
            (classes("PriorityClass", "DoesNotExist"), false, true),
        ];
        for (scope, first, second) in table {
            assert_eq!((scope.holds(&pod), scope.holds(&other)), (first, second), "{scope:?}");
            assert!(!scope.holds(&Facts::Nothing), "{scope:?}");
        }
    }

    #[test]
    fn claims_by_attributes_class() {
        let claim = |names: &[&str]| Facts::VolumeClaim {
            attributes_classes: names.iter().map(|name| Str::new(*name)).collect(),
        };
        let table = [
            ("In", false, true, true),
            ("NotIn", true, false, true),
            ("Exists", false, true, true),
            ("DoesNotExist", true, false, false),
        ];
        for (operator, none, a, both) in table {
            let scope = classes("VolumeAttributesClass", operator);
            let found =
                (scope.holds(&claim(&[])), scope.holds(&claim(&["a"])), scope.holds(&claim(&["a", "b"])));
            assert_eq!(found, (none, a, both), "{operator}");
        }
    }
}
