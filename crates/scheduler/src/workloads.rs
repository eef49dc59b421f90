//! Services and controllers, as the scheduler sees them: the selectors of pods that belong together.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use corten_api::selector::LabelSelector;
use corten_api::{Map, Str, Value};
use corten_client::Key;

use crate::pod::Shape;

/// The number of shapes whose selectors are cached.
const REMEMBERED: usize = 4096;

/// The kinds that select pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Selecting {
    Service,
    ReplicationController,
    ReplicaSet,
    StatefulSet,
}

#[derive(Default)]
pub(crate) struct Workloads {
    services: HashMap<Str, BTreeMap<Str, Map>>,
    controllers: HashMap<(Selecting, Key), Selector>,
    generation: u64,
    /// Cached selectors by the serial number of shapes, since the last change.
    selectors: HashMap<u64, Option<Arc<LabelSelector>>>,
}

#[derive(Debug, Clone, PartialEq)]
enum Selector {
    Labels(Map),
    Full(LabelSelector),
}

impl Workloads {
    /// Increases whenever a selector may have changed.
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// Updates or removes an object.
    pub(crate) fn set(&mut self, kind: Selecting, key: &Key, object: Option<&Value>) {
        let selector = object.map(|object| object.at(&["spec", "selector"]));
        let labels = || selector.flatten().and_then(Value::as_object).cloned().unwrap_or_default();
        let changed = match kind {
            Selecting::Service => {
                let known = self.services.entry(key.namespace.clone()).or_default();
                match object {
                    Some(_) => known.insert(key.name.clone(), labels()) != Some(labels()),
                    None => known.remove(&key.name).is_some(),
                }
            }
            _ => {
                let full = selector.map(|selector| match kind {
                    Selecting::ReplicationController => Selector::Labels(labels()),
                    _ => Selector::Full(crate::pod::terms::read(selector)),
                });
                match full {
                    Some(full) => self.controllers.insert((kind, key.clone()), full.clone()) != Some(full),
                    None => self.controllers.remove(&(kind, key.clone())).is_some(),
                }
            }
        };
        if changed {
            self.generation += 1;
            self.selectors.clear();
        }
    }

    /// The selector of the pods that belong together with those of this shape; `None` if there is none.
    pub(crate) fn selector(&mut self, shape: &Shape) -> Option<Arc<LabelSelector>> {
        if let Some(known) = self.selectors.get(&shape.serial) {
            return known.clone();
        }
        let found = self.find(shape).map(Arc::new);
        if self.selectors.len() >= REMEMBERED {
            self.selectors.clear();
        }
        self.selectors.insert(shape.serial, found.clone());
        found
    }

    fn find(&self, shape: &Shape) -> Option<LabelSelector> {
        let mut labels = Map::new();
        let services = self.services.get(&shape.namespace).into_iter().flat_map(BTreeMap::values);
        for selector in services {
            if !selector.is_empty() && LabelSelector::from_labels(selector).matches(&shape.labels) {
                selector.iter().for_each(|(key, value)| drop(labels.insert(key.clone(), value.clone())));
            }
        }
        let mut more = Vec::new();
        match self.controller(shape) {
            Some(Selector::Labels(selector)) => {
                selector.iter().for_each(|(key, value)| drop(labels.insert(key.clone(), value.clone())));
            }
            Some(Selector::Full(selector)) => more.extend_from_slice(selector.requirements()),
            None => {}
        }
        more.extend_from_slice(LabelSelector::from_labels(&labels).requirements());
        (!more.is_empty()).then(|| LabelSelector::all(more))
    }

    fn controller(&self, shape: &Shape) -> Option<&Selector> {
        let owner = shape.controller.as_ref()?;
        let kind = match (owner.api_version.as_str(), owner.kind.as_str()) {
            ("v1", "ReplicationController") => Selecting::ReplicationController,
            ("apps/v1", "ReplicaSet") => Selecting::ReplicaSet,
            ("apps/v1", "StatefulSet") => Selecting::StatefulSet,
            _ => return None,
        };
        self.controllers.get(&(kind, Key::new(shape.namespace.clone(), owner.name.clone())))
    }
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::*;
    use crate::pod::{Pod, Shapes};

    #[test]
    fn services_and_controllers_select_pods_that_belong_together() {
        let mut workloads = Workloads::default();
        let pod = Pod::of(
            &value!({"metadata": {"name": "p", "namespace": "n", "labels": {"app": "web", "hash": "1"},
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "controller": true}]}}),
            &Shapes::default(),
        );
        assert_eq!(workloads.selector(&pod.shape), None);
        let service = value!({"spec": {"selector": {"app": "web"}}});
        workloads.set(Selecting::Service, &Key::new("n", "s"), Some(&service));
        workloads.set(
            Selecting::Service,
            &Key::new("n", "other"),
            Some(&value!({"spec": {"selector": {"app": "db"}}})),
        );
        let generation = workloads.generation();
        workloads.set(Selecting::Service, &Key::new("n", "s"), Some(&service));
        assert_eq!(workloads.generation(), generation, "nothing new");
        let set = value!({"spec": {"selector": {"matchLabels": {"hash": "1"}}}});
        workloads.set(Selecting::ReplicaSet, &Key::new("n", "rs"), Some(&set));
        assert_eq!(workloads.selector(&pod.shape).unwrap().to_string(), "app=web,hash=1");
    }
}
