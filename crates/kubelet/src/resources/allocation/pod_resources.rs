//! The resources of a pod: its containers' and its own. Pure.

use std::collections::BTreeMap;

use corten_api::{Map, Str, Value, value};

use super::plan::Step;
use crate::pod::{Pod, Role};

/// The `resources` of a pod's containers that can change while they run, and of the pod itself.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct PodResources {
    pod: Option<Value>,
    containers: BTreeMap<Str, Value>,
}

impl PodResources {
    /// The resources that a pod requests.
    pub(crate) fn of(pod: &Pod) -> PodResources {
        let resizable = pod.containers().iter().filter(|c| matches!(c.role, Role::Main | Role::Sidecar));
        let containers =
            resizable.map(|c| (c.name.clone(), resources(&c.tree).unwrap_or_else(Value::object)));
        PodResources { pod: pod.tree().get("spec").and_then(resources), containers: containers.collect() }
    }

    /// The resources of one container.
    pub(crate) fn container(&self, name: &str) -> Option<&Value> {
        self.containers.get(name)
    }

    /// The pod with these resources in place of its own.
    pub(crate) fn apply_to(&self, pod: &Pod) -> Pod {
        if PodResources::of(pod) == *self {
            return pod.clone();
        }
        let mut tree = pod.tree().clone();
        match &self.pod {
            Some(resources) => tree.set(&["spec", "resources"], resources.clone()),
            None => drop(tree.remove(&["spec", "resources"])),
        }
        for list in ["containers", "initContainers"] {
            let containers = tree.get_mut("spec").and_then(|spec| spec.get_mut(list));
            for container in containers.and_then(Value::as_array_mut).into_iter().flatten() {
                let name = container.str_at(&["name"]).unwrap_or_default();
                if let Some(resources) = self.containers.get(name).cloned() {
                    container.set(&["resources"], resources);
                }
            }
        }
        Pod::new(tree, pod.source())
    }

    /// Takes over the part of an allocation that was actuated.
    pub(super) fn take(&mut self, allocated: &PodResources, step: &Step) {
        match step {
            Step::Pod => self.pod = allocated.pod.clone(),
            Step::Container(name) => {
                if let Some(resources) = allocated.containers.get(name.as_str()) {
                    self.containers.insert(Str::new(name), resources.clone());
                }
            }
        }
    }

    pub(super) fn written(&self) -> Value {
        let containers: Map = self.containers.iter().map(|(name, r)| (name.clone(), r.clone())).collect();
        let mut tree = value!({"containers": (Value::Object(containers))});
        if let Some(resources) = &self.pod {
            tree.set(&["pod"], resources.clone());
        }
        tree
    }

    pub(super) fn read(tree: &Value) -> PodResources {
        let entries = tree.get("containers").and_then(Value::as_object).into_iter().flat_map(Map::iter);
        let containers = entries.map(|(name, resources)| (name.clone(), resources.clone())).collect();
        PodResources { pod: tree.get("pod").cloned(), containers }
    }
}

fn resources(owner: &Value) -> Option<Value> {
    owner.get("resources").filter(|resources| !resources.is_null()).cloned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pod::Source;

    #[test]
    fn allocated_resources_replace_requested_ones() {
        let asks = |cpu: &str| {
            let tree = value!({"metadata": {"name": "p", "uid": "u"}, "spec": {
                "resources": {"limits": {"cpu": (cpu)}},
                "initContainers": [
                    {"name": "i", "resources": {"requests": {"cpu": (cpu)}}},
                    {"name": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": (cpu)}}},
                ],
                "containers": [{"name": "a", "resources": {"requests": {"cpu": (cpu)}}}, {"name": "b"}],
            }});
            Pod::new(tree, Source::Api)
        };
        let given = PodResources::of(&asks("1"));
        assert_eq!(PodResources::read(&given.written()), given);
        let seen = given.apply_to(&asks("2"));
        assert_eq!(PodResources::of(&seen), given);
        // An init container that is not a sidecar cannot be resized, and keeps its resources.
        let init = seen
            .container("i")
            .and_then(|c| c.tree.str_at(&["resources", "requests", "cpu"]).map(str::to_owned));
        assert_eq!(init.as_deref(), Some("2"));
    }
}
