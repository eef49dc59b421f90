//! What the API says, as far as it concerns policies. A change that means nothing for them changes nothing here.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

use corten_api::{Map, Str, Value, meta};
use corten_client::{Change, Key};

use crate::pod::Pod;
use crate::policy::Policy;

#[derive(Debug, Default)]
pub struct Inputs {
    pub policies: BTreeMap<Key, Policy>,
    /// The labels of each.
    pub namespaces: HashMap<Str, Map>,
    pub pods: BTreeMap<Key, Pod>,
    /// Pods of this node that have an address before the API says so.
    attached: HashMap<Key, Pod>,
}

impl Inputs {
    /// Takes in a change of a NetworkPolicy; whether it means anything.
    pub fn policy(&mut self, change: &Change) -> bool {
        let new = tree(change).map(|tree| Policy::of(&tree));
        let key = &change.object().key;
        let differs = self.policies.get(key) != new.as_ref();
        match new {
            Some(policy) => drop(self.policies.insert(key.clone(), policy)),
            None => drop(self.policies.remove(key)),
        }
        differs
    }

    /// Takes in a change of a Namespace; whether it means anything.
    pub fn namespace(&mut self, change: &Change) -> bool {
        let new = tree(change).map(|tree| meta::labels(&tree).cloned().unwrap_or_default());
        let name = &change.object().key.name;
        let differs = self.namespaces.get(name) != new.as_ref();
        match new {
            Some(labels) => drop(self.namespaces.insert(name.clone(), labels)),
            None => drop(self.namespaces.remove(name)),
        }
        differs && !self.policies.is_empty()
    }

    /// Takes in a change of a Pod; whether it means anything.
    pub fn pod(&mut self, change: &Change) -> bool {
        let key = &change.object().key;
        let mut new = tree(change).and_then(|tree| Pod::of(&tree));
        match (&mut new, self.attached.get(key)) {
            (Some(pod), Some(attached)) if pod.addresses.is_empty() => {
                pod.addresses.clone_from(&attached.addresses);
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

    /// Takes in what a pod of this node was given before it begins; whether that means anything.
    pub fn attached(&mut self, key: &Key, labels: Map, node: &str, addresses: &[IpAddr]) -> bool {
        let attached = Pod { node: node.into(), labels, addresses: addresses.to_vec(), ports: Vec::new() };
        let pod = self.pods.entry(key.clone()).or_insert_with(|| attached.clone());
        pod.addresses.clone_from(&attached.addresses);
        self.attached.insert(key.clone(), attached);
        self.policies.keys().any(|policy| policy.namespace == key.namespace)
    }

    /// A pod of this node gave its addresses back. What the API says of it is left to the API.
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
    use std::sync::Arc;

    use corten_api::value;
    use corten_client::Object;

    use super::*;

    fn change(object: &Value) -> Change {
        Change { old: None, new: Some(Arc::new(Object::of(object))) }
    }

    #[test]
    fn a_pod_has_the_address_it_was_given_until_the_api_knows_it() {
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
