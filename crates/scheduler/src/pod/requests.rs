//! How much of everything a pod asks for.
//!
//! Containers run side by side, so their requests add up; init containers run one after the other beside the
//! sidecars that started before them, so the largest counts. What is said for the pod as a whole overrides the sum.

use corten_api::Value;

use crate::resources::{CPU, MEMORY, Resources};

/// What a container that says nothing counts as when nodes are compared.
const DEFAULT_MILLI_CPU: i64 = 100;
const DEFAULT_MEMORY: i64 = 200 << 20;

/// What a pod asks for, and what it counts as when nodes are compared.
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

/// What to take for a request that is not there.
#[derive(Clone, Copy, Default)]
struct Missing {
    milli_cpu: i64,
    memory: i64,
}

fn total(pod: &Value, missing: Missing) -> Resources {
    let statuses = pod.items_at(&["status", "containerStatuses"]);
    let mut sum = Resources::default();
    for container in pod.items_at(&["spec", "containers"]) {
        sum.add(&of_container(container, statuses, missing));
    }
    let init_statuses = pod.items_at(&["status", "initContainerStatuses"]);
    let (mut sidecars, mut highest) = (Resources::default(), Resources::default());
    for container in pod.items_at(&["spec", "initContainers"]) {
        let mut needed = of_container(container, init_statuses, missing);
        if container.str_at(&["restartPolicy"]) == Some("Always") {
            sum.add(&needed);
            sidecars.add(&needed);
            highest.raise(&sidecars);
        } else {
            needed.add(&sidecars);
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

/// What a container asks for; while it is being resized, the most of what it had, has and shall have.
fn of_container(container: &Value, statuses: &[Value], missing: Missing) -> Resources {
    let asked = container.at(&["resources", "requests"]);
    let mut needed = Resources::of(asked);
    let name = container.str_at(&["name"]);
    if let Some(status) = statuses.iter().find(|status| status.str_at(&["name"]) == name) {
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
    fn what_pods_ask_for() {
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
    fn a_resize_counts_for_what_is_held() {
        let pod = value!({
            "spec": {"containers": [{"name": "a", "resources": {"requests": {"cpu": "1"}}}]},
            "status": {"containerStatuses": [{"name": "a", "allocatedResources": {"cpu": "3"},
                "resources": {"requests": {"cpu": "2"}}}]},
        });
        assert_eq!(Requests::of(&pod).resources.milli_cpu, 3000);
    }
}
