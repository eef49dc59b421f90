//! The API objects as far as policies need them. A change that does not affect policies is no change here.
//!
//! A clone shares the objects of its original, so that a model is computed from a clone while changes are applied.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use corten_api::{Map, Str, Value, meta};
use corten_client::{Change, Key};

use crate::pod::Pod;
use crate::policy::Policy;

#[derive(Debug, Clone, Default)]
pub struct Inputs {
    pub policies: BTreeMap<Key, Arc<Policy>>,
    /// The labels of each namespace.
    pub namespaces: HashMap<Str, Arc<Map>>,
    pub pods: BTreeMap<Key, Arc<Pod>>,
    /// Pods of this node whose addresses are not in the API yet.
    attached: HashMap<Key, Arc<Pod>>,
}

impl Inputs {
    /// Applies a change of a NetworkPolicy. Returns true if it affects policies.
    pub fn policy(&mut self, change: &Change) -> bool {
        let new = tree(change).map(|tree| Arc::new(Policy::of(&tree)));
        let key = &change.object().key;
        let differs = self.policies.get(key) != new.as_ref();
        match new {
            Some(policy) => drop(self.policies.insert(key.clone(), policy)),
            None => drop(self.policies.remove(key)),
        }
        differs
    }

    /// Applies a change of a Namespace. Returns true if it affects policies.
    pub fn namespace(&mut self, change: &Change) -> bool {
        let new = tree(change).map(|tree| Arc::new(meta::labels(&tree).cloned().unwrap_or_default()));
        let name = &change.object().key.name;
        let differs = self.namespaces.get(name) != new.as_ref();
        match new {
            Some(labels) => drop(self.namespaces.insert(name.clone(), labels)),
            None => drop(self.namespaces.remove(name)),
        }
        differs && !self.policies.is_empty()
    }

    /// Applies a change of a Pod. Returns true if it affects policies.
    pub fn pod(&mut self, change: &Change) -> bool {
        let key = &change.object().key;
        let mut new = tree(change).and_then(|tree| Pod::of(&tree)).map(Arc::new);
        match (&mut new, self.attached.get(key)) {
            (Some(pod), Some(attached)) if pod.addresses.is_empty() => {
                Arc::make_mut(pod).addresses.clone_from(&attached.addresses);
            }
            _ => drop(self.attached.remove(key)),
        }
        let differs = self.pods.get(key) != new.as_ref();
        match new {
            Some(pod) => drop(self.pods.insert(key.clone(), pod)),
            None => drop(self.pods.remove(key)),
        }
        differs && !self.policies.is_empty()
    }

    /// Adds a pod of this node that got its addresses and has not started yet. Returns true if it affects policies.
    pub fn attached(&mut self, key: &Key, labels: Map, node: &str, addresses: &[IpAddr]) -> bool {
        let attached = Pod { node: node.into(), labels, addresses: addresses.to_vec(), ports: Vec::new() };
        let attached = Arc::new(attached);
        let pod = self.pods.entry(key.clone()).or_insert_with(|| attached.clone());
        Arc::make_mut(pod).addresses.clone_from(&attached.addresses);
        self.attached.insert(key.clone(), attached);
        self.policies.keys().any(|policy| policy.namespace == key.namespace)
    }

    /// Removes the addresses of a pod of this node that were not in the API. Those in the API stay until it changes.
    pub fn detached(&mut self, key: &Key) {
        if self.attached.remove(key).is_some() {
            self.pods.remove(key);
        }
    }
}

fn tree(change: &Change) -> Option<Value> {
    change.new.as_ref().map(|object| object.tree())
}

#[cfg(test)]
mod tests {
    use corten_api::value;
    use corten_client::Object;

    use super::*;

    fn change(object: &Value) -> Change {
        Change { old: None, new: Some(Arc::new(Object::of(object))) }
    }

    #[test]
    fn an_attached_pod_has_its_address_before_the_api_does() {
        let mut inputs = Inputs::default();
        let policy = value!({"kind": "NetworkPolicy", "apiVersion": "networking.k8s.io/v1",
            "metadata": {"name": "p", "namespace": "n"}, "spec": {"podSelector": {}}});
        assert!(inputs.policy(&change(&policy)));
        assert!(!inputs.policy(&change(&policy)), "the same again");
        let (key, given): (_, IpAddr) = (Key::new("n", "a"), "10.0.0.7".parse().unwrap());
        assert!(inputs.attached(&key, Map::default(), "node", &[given]));
        let pod = |status: Value| {
            value!({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "a", "namespace": "n"},
                "spec": {"nodeName": "node"}, "status": (status)})
        };
        inputs.pod(&change(&pod(value!({"phase": "Pending"}))));
        assert_eq!(inputs.pods[&key].addresses, [given]);
        inputs.pod(&change(&pod(value!({"phase": "Running", "podIP": "10.0.0.8"}))));
        assert_eq!(inputs.pods[&key].addresses, ["10.0.0.8".parse::<IpAddr>().unwrap()]);
        inputs.pod(&change(&pod(value!({"phase": "Failed"}))));
        assert!(inputs.pods.is_empty() && inputs.attached.is_empty());
        assert!(!inputs.attached(&Key::new("other", "a"), Map::default(), "node", &[given]));
    }
}
