//! The resource requests of a pod.
//!
//! Containers run concurrently, so their requests are added; init containers run one after the other beside the
//! sidecars that started before them, so the largest counts. Requests of the pod as a whole override the sum.

use std::collections::HashMap;

use corten_api::Value;

use crate::resources::{CPU, MEMORY, Resources};

/// The default request of a container in scores.
const DEFAULT_MILLI_CPU: i64 = 100;
const DEFAULT_MEMORY: i64 = 200 << 20;

/// The requests of a pod, and those with defaults for scores.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Requests {
    pub(crate) resources: Resources,
    pub(crate) non_zero: (i64, i64),
}

impl Requests {
    pub(crate) fn of(pod: &Value) -> Requests {
        let resources = total(pod, Missing::default());
        let whole = pod.at(&["spec", "resources", "requests"]);
        let says = |name: &str| whole.is_some_and(|list| list.get(name).is_some());
        let missing = Missing {
            milli_cpu: if says(CPU) { 0 } else { DEFAULT_MILLI_CPU },
            memory: if says(MEMORY) { 0 } else { DEFAULT_MEMORY },
        };
        let counted = total(pod, missing);
        Requests { resources, non_zero: (counted.milli_cpu, counted.memory) }
    }
}

/// The defaults for missing requests.
#[derive(Clone, Copy, Default)]
struct Missing {
    milli_cpu: i64,
    memory: i64,
}

fn total(pod: &Value, missing: Missing) -> Resources {
    let statuses = by_name(pod.items_at(&["status", "containerStatuses"]));
    let mut sum = Resources::default();
    for container in pod.items_at(&["spec", "containers"]) {
        sum.add(&of_container(container, &statuses, missing));
    }
    let init_statuses = by_name(pod.items_at(&["status", "initContainerStatuses"]));
    let (mut sidecars, mut highest) = (Resources::default(), Resources::default());
    for container in pod.items_at(&["spec", "initContainers"]) {
        // A container costs what it names itself, never what all sidecars before it name: those amounts were already
        // raised when a sidecar changed them.
        let mut needed = of_container(container, &init_statuses, missing);
        if container.str_at(&["restartPolicy"]) == Some("Always") {
            sum.add(&needed);
            sidecars.add(&needed);
            highest.raise_named(&sidecars, &needed);
        } else {
            needed.add_known(&sidecars);
            highest.raise(&needed);
        }
    }
    sum.raise(&highest);
    let whole = Resources::of(pod.at(&["spec", "resources", "requests"]));
    for (name, _) in pod
        .at(&["spec", "resources", "requests"])
        .and_then(Value::as_object)
        .into_iter()
        .flat_map(|list| list.iter())
    {
        sum.set(name, whole.get(name));
    }
    sum.add(&Resources::of(pod.at(&["spec", "overhead"])));
    sum
}

/// The statuses of containers by name; the first of several with one name.
fn by_name(statuses: &[Value]) -> HashMap<&str, &Value> {
    let named = statuses.iter().rev().map(|status| (status.str_at(&["name"]).unwrap_or_default(), status));
    named.collect()
}

/// The requests of a container; during a resize, the largest of allocated, actual and desired.
fn of_container(container: &Value, statuses: &HashMap<&str, &Value>, missing: Missing) -> Resources {
    let asked = container.at(&["resources", "requests"]);
    let mut needed = Resources::of(asked);
    let name = container.str_at(&["name"]).unwrap_or_default();
    if let Some(status) = statuses.get(name) {
        needed.raise(&Resources::of(status.at(&["resources", "requests"])));
        needed.raise(&Resources::of(status.at(&["allocatedResources"])));
    }
    let says = |name: &str| asked.is_some_and(|list| list.get(name).is_some());
    if !says(CPU) {
        needed.milli_cpu = needed.milli_cpu.max(missing.milli_cpu);
    }
    if !says(MEMORY) {
        needed.memory = needed.memory.max(missing.memory);
    }
    needed
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::*;

    fn container(name: &str, cpu: &str) -> Value {
        value!({"name": (name), "resources": {"requests": {"cpu": (cpu)}}})
    }

    #[track_caller]
    fn check(spec: &Value, milli_cpu: i64, counted: i64) {
        let requests = Requests::of(&value!({"spec": (spec.clone())}));
        assert_eq!((requests.resources.milli_cpu, requests.non_zero.0), (milli_cpu, counted), "{spec:?}");
    }

    #[test]
    fn requests_of_containers_and_pods_add_up() {
        let one = container("a", "1");
        let silent = value!({"name": "s"});
        check(&value!({"containers": [(one.clone()), (container("b", "500m"))]}), 1500, 1500);
        check(&value!({"containers": [(silent.clone())]}), 0, 100);
        check(&value!({"containers": [(one.clone()), (silent.clone())]}), 1000, 1100);
        check(
            &value!({"containers": [(one.clone())], "initContainers": [(container("i", "3"))]}),
            3000,
            3000,
        );
        check(&value!({"containers": [(one.clone())], "overhead": {"cpu": "250m"}}), 1250, 1250);
        check(
            &value!({"containers": [(silent.clone())], "resources": {"requests": {"cpu": "2"}}}),
            2000,
            2000,
        );
        let mut sidecar = container("proxy", "2");
        sidecar.set(&["restartPolicy"], "Always");
        check(&value!({"containers": [(one.clone())], "initContainers": [(sidecar.clone())]}), 3000, 3000);
        let after = value!([(sidecar.clone()), (container("i", "4"))]);
        check(&value!({"containers": [(one.clone())], "initContainers": (after)}), 6000, 6000);
        let before = value!([(container("i", "4")), (sidecar)]);
        check(&value!({"containers": [(one)], "initContainers": (before)}), 4000, 4000);
    }

    #[test]
    fn a_resize_counts_with_the_largest_amount() {
        let pod = value!({
            "spec": {"containers": [{"name": "a", "resources": {"requests": {"cpu": "1"}}}]},
            "status": {"containerStatuses": [{"name": "a", "allocatedResources": {"cpu": "3"},
                "resources": {"requests": {"cpu": "2"}}}]},
        });
        assert_eq!(Requests::of(&pod).resources.milli_cpu, 3000);
    }

    /// An attack: init containers that each ask for a resource of their own, beside all sidecars before them.
    #[test]
    fn requests_cost_what_the_pod_is_large() {
        use crate::meter::{excess, settle};
        fn container(i: usize) -> Value {
            let requests =
                Value::Object([(format!("example.com/r{i}").into(), Value::from("1"))].into_iter().collect());
            let mut container = value!({"name": (format!("c{i}")), "resources": {"requests": (requests)}});
            if !i.is_multiple_of(3) {
                container.set(&["restartPolicy"], "Always");
            }
            container
        }
        let pod = |n: usize| {
            let all: Vec<Value> = (0..n).map(container).collect();
            let status = |i| value!({"name": (format!("c{i}")), "allocatedResources": {"cpu": "1"}});
            let statuses: Vec<Value> = (0..n).map(status).collect();
            value!({
                "spec": {"containers": (all.clone()), "initContainers": (all)},
                "status": {"containerStatuses": (statuses.clone()), "initContainerStatuses": (statuses)},
            })
        };
        let size = |pod: &Value| corten_api::json::write_to_string(pod).len();
        settle(&Vec::from_iter(excess("requests", 500, pod, size, Requests::of)));
    }

    #[test]
    fn sidecars_count_beside_init_containers_that_name_other_resources() {
        let container = |name: &str, resource: &str, amount: &str, sidecar: bool| {
            let mut container = value!({"name": name, "resources": {"requests": {}}});
            container.set(&["resources", "requests", resource], amount);
            if sidecar {
                container.set(&["restartPolicy"], "Always");
            }
            container
        };
        let requests = Requests::of(&value!({"spec": {"containers": [], "initContainers": [
            (container("a", "x.com/a", "2", true)), (container("i", "x.com/b", "5", false)),
            (container("b", "x.com/b", "1", true)), (container("j", "x.com/a", "4", false)),
            (container("c", "x.com/a", "1", true)),
        ]}}));
        let of = |name| requests.resources.scalar(name);
        assert_eq!((of("x.com/a"), of("x.com/b")), (6, 5));
    }
}
