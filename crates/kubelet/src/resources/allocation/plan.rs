//! The difference between allocated and actuated resources. Pure.

use corten_api::Value;
use corten_api::quantity::Quantity;
use corten_container::ContainerState;

use super::PodResources;
use crate::containers::observed::Observed;
use crate::pod::{Container, Pod, Role};
use crate::resources::{limit, listed};

/// A part of an allocation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// The pod's own resources.
    Pod,
    /// The resources of a container.
    Container(String),
}

/// The difference between a pod's allocated and actuated resources.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Resize {
    /// True if the pod's own resources differ.
    pub(crate) pod: bool,
    /// Running containers, by name and id.
    pub(crate) containers: Vec<(String, String)>,
}

impl Resize {
    pub(crate) fn is_nothing(&self) -> bool {
        !self.pod && self.containers.is_empty()
    }
}

/// The resize of a pod with allocated resources. Containers that do not run get theirs when they start.
pub(crate) fn resize(pod: &Pod, actuated: &PodResources, observed: &Observed) -> Resize {
    let before = actuated.apply_to(pod);
    let mut found = Resize { pod: own(pod) != own(&before), ..Resize::default() };
    for container in pod.containers().iter().filter(|c| matches!(c.role, Role::Main | Role::Sidecar)) {
        let running = observed.latest(&container.name).filter(|s| s.state == ContainerState::Running);
        let Some(status) = running else { continue };
        let had =
            before.container(&container.name).map(|before_container| numbers(&before, before_container));
        if had != Some(numbers(pod, container)) {
            found.containers.push((container.name.to_string(), status.id.clone()));
        }
    }
    found
}

/// Returns true if a container has to be restarted to get its allocated resources.
pub(crate) fn needs_restart(pod: &Pod, container: &Container, actuated: &PodResources) -> bool {
    let before = actuated.apply_to(pod);
    let Some(had) = before.container(&container.name) else { return false };
    let (had, has) = (numbers(&before, had), numbers(pod, container));
    let policies = container.tree.items_at(&["resizePolicy"]);
    let restarts = |resource: &str| {
        let policy = policies.iter().find(|policy| policy.str_at(&["resourceName"]) == Some(resource));
        policy.is_some_and(|policy| policy.str_at(&["restartPolicy"]) == Some("RestartContainer"))
    };
    (had.cpu != has.cpu && restarts("cpu")) || (had.memory != has.memory && restarts("memory"))
}

/// Requests and limits, in thousandths of a cpu and in bytes; 0 is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Numbers {
    cpu: (i64, i64),
    memory: (i64, i64),
}

fn numbers(pod: &Pod, container: &Container) -> Numbers {
    let empty = Value::object();
    let resources = container.tree.get("resources").unwrap_or(&empty);
    of(|name| listed(resources, "requests", name), |name| limit(pod, resources, name))
}

fn own(pod: &Pod) -> Numbers {
    let empty = Value::object();
    let resources = pod.tree().at(&["spec", "resources"]).unwrap_or(&empty);
    of(|name| listed(resources, "requests", name), |name| listed(resources, "limits", name))
}

fn of(request: impl Fn(&str) -> Option<Quantity>, limit: impl Fn(&str) -> Option<Quantity>) -> Numbers {
    let milli = |quantity: Option<Quantity>| quantity.map_or(0, |q| q.milli_value());
    let whole = |quantity: Option<Quantity>| quantity.map_or(0, |q| q.value());
    Numbers {
        cpu: (milli(request("cpu")), milli(limit("cpu"))),
        memory: (whole(request("memory")), whole(limit("memory"))),
    }
}

#[cfg(test)]
mod tests {
    use corten_api::value;
    use corten_container::{ContainerMetadata, ContainerStatus};

    use super::*;
    use crate::containers::observed::Found;
    use crate::pod::Source;

    fn pod(cpu: &str, memory: &str, policy: &str) -> Pod {
        let policy = value!([{"resourceName": "memory", "restartPolicy": (policy)}]);
        let resources = value!({"limits": {"cpu": (cpu), "memory": (memory)}});
        let containers = value!([
            {"name": "a", "resources": (resources), "resizePolicy": (policy)}, {"name": "b"},
        ]);
        Pod::new(value!({"metadata": {"uid": "u"}, "spec": {"containers": (containers)}}), Source::Api)
    }

    fn observed(state: ContainerState) -> Observed {
        let found = |name: &str| {
            let metadata = ContainerMetadata { name: name.to_owned(), attempt: 0 };
            let status =
                ContainerStatus { id: format!("{name}-id"), metadata, state, ..ContainerStatus::default() };
            Found { sandbox_id: "s".into(), status }
        };
        Observed::new(Vec::new(), vec![found("a"), found("b")])
    }

    #[test]
    fn running_containers_are_resized() {
        let before = PodResources::of(&pod("1", "64Mi", "NotRequired"));
        let running = observed(ContainerState::Running);
        let one = Resize { pod: false, containers: vec![("a".into(), "a-id".into())] };
        assert_eq!(resize(&pod("2", "64Mi", "NotRequired"), &before, &running), one);
        assert!(resize(&pod("1000m", "65536Ki", "NotRequired"), &before, &running).is_nothing());
        let ended = observed(ContainerState::Exited);
        assert!(resize(&pod("2", "64Mi", "NotRequired"), &before, &ended).is_nothing());
    }

    #[test]
    fn a_resize_policy_counts_for_its_resource_alone() {
        let restarts = |cpu, memory, policy| {
            let (pod, before) = (pod(cpu, memory, policy), pod("1", "64Mi", policy));
            needs_restart(&pod, &pod.containers()[0], &PodResources::of(&before))
        };
        assert!(restarts("1", "128Mi", "RestartContainer"));
        assert!(!restarts("2", "64Mi", "RestartContainer"));
        assert!(!restarts("2", "128Mi", "NotRequired"));
    }

    #[test]
    fn pod_level_resources_limit_all_containers() {
        let with = |memory: &str| {
            let spec = value!({"resources": {"limits": {"memory": (memory)}}, "containers": [{"name": "a"}, {"name": "b"}]});
            Pod::new(value!({"metadata": {"uid": "u"}, "spec": (spec)}), Source::Api)
        };
        let found = resize(&with("2Gi"), &PodResources::of(&with("1Gi")), &observed(ContainerState::Running));
        assert!(found.pod);
        assert_eq!(found.containers.len(), 2);
    }
}
