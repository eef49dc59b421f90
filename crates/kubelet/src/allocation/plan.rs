//! What is to be done so that running containers have what their pod was given. Pure.

use corten_api::Value;
use corten_api::quantity::Quantity;
use corten_container::ContainerState;

use super::Given;
use crate::observed::Observed;
use crate::pod::{Container, Pod, Role};
use crate::resources::{limit, listed};

/// Something that has been carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// What the pod has of its own.
    Pod,
    /// What a container has.
    Container(String),
}

/// What differs between what a pod was given and what its running containers have.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Resize {
    /// What the pod has of its own.
    pub(crate) pod: bool,
    /// Running containers, by name and id.
    pub(crate) containers: Vec<(String, String)>,
}

impl Resize {
    pub(crate) fn is_nothing(&self) -> bool {
        !self.pod && self.containers.is_empty()
    }
}

/// `pod` is as it was given. Containers that do not run get everything when they start.
pub(crate) fn resize(pod: &Pod, actuated: &Given, observed: &Observed) -> Resize {
    let before = actuated.in_place(pod);
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

/// Whether a container has to be started anew to get what it was given.
pub(crate) fn needs_restart(pod: &Pod, container: &Container, actuated: &Given) -> bool {
    let before = actuated.in_place(pod);
    let Some(had) = before.container(&container.name) else { return false };
    let (had, has) = (numbers(&before, had), numbers(pod, container));
    let policies = container.tree.items_at(&["resizePolicy"]);
    let restarts = |resource: &str| {
        let policy = policies.iter().find(|policy| policy.str_at(&["resourceName"]) == Some(resource));
        policy.is_some_and(|policy| policy.str_at(&["restartPolicy"]) == Some("RestartContainer"))
    };
    (had.cpu != has.cpu && restarts("cpu")) || (had.memory != has.memory && restarts("memory"))
}

/// Requests and limits, in thousandths of a cpu and in bytes; 0 is nothing.
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
    use crate::observed::Found;
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
    fn running_containers_are_brought_up_to_what_they_were_given() {
        let before = Given::of(&pod("1", "64Mi", "NotRequired"));
        let running = observed(ContainerState::Running);
        let one = Resize { pod: false, containers: vec![("a".into(), "a-id".into())] };
        assert_eq!(resize(&pod("2", "64Mi", "NotRequired"), &before, &running), one);
        assert!(resize(&pod("1000m", "65536Ki", "NotRequired"), &before, &running).is_nothing());
        let ended = observed(ContainerState::Exited);
        assert!(resize(&pod("2", "64Mi", "NotRequired"), &before, &ended).is_nothing());
    }

    #[test]
    fn a_policy_counts_for_its_resource_alone() {
        let restarts = |cpu, memory, policy| {
            let (pod, before) = (pod(cpu, memory, policy), pod("1", "64Mi", policy));
            needs_restart(&pod, &pod.containers()[0], &Given::of(&before))
        };
        assert!(restarts("1", "128Mi", "RestartContainer"));
        assert!(!restarts("2", "64Mi", "RestartContainer"));
        assert!(!restarts("2", "128Mi", "NotRequired"));
    }

    #[test]
    fn what_the_pod_has_of_its_own_is_everybodys_limit() {
        let with = |memory: &str| {
            let spec = value!({"resources": {"limits": {"memory": (memory)}}, "containers": [{"name": "a"}, {"name": "b"}]});
            Pod::new(value!({"metadata": {"uid": "u"}, "spec": (spec)}), Source::Api)
        };
        let found = resize(&with("2Gi"), &Given::of(&with("1Gi")), &observed(ContainerState::Running));
        assert!(found.pod);
        assert_eq!(found.containers.len(), 2);
    }
}
