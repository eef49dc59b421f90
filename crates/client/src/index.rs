//! Objects by something they name: the pods by the claims they use, the volumes by the claims they are for. Kept up
//! to date with a cache, so that nobody has to walk through it.

use std::collections::{BTreeSet, HashMap};

use parking_lot::RwLock;

use crate::{Change, Key, Kind, Object};

/// What to find the objects of a kind by.
pub struct Index {
    pub kind: &'static Kind,
    /// Tells indexes apart.
    pub name: &'static str,
    /// What an object names.
    pub names: fn(&Object) -> Vec<Key>,
}

#[derive(Default)]
pub(crate) struct Indexed(RwLock<State>);

#[derive(Default)]
struct State {
    by_name: HashMap<Key, BTreeSet<Key>>,
    /// What each object names; those that name nothing are not here.
    names: HashMap<Key, Vec<Key>>,
}

impl Indexed {
    /// The objects that name something, in order.
    pub(crate) fn by(&self, name: &Key) -> Vec<Key> {
        self.0.read().by_name.get(name).map(|keys| keys.iter().cloned().collect()).unwrap_or_default()
    }

    pub(crate) fn take(&self, index: &Index, change: &Change) {
        let key = &change.object().key;
        let names = change.new.as_ref().map(|object| (index.names)(object)).unwrap_or_default();
        let mut state = self.0.write();
        if state.names.get(key).map_or(names.is_empty(), |known| *known == names) {
            return;
        }
        for name in state.names.remove(key).unwrap_or_default() {
            if let Some(keys) = state.by_name.get_mut(&name) {
                keys.remove(key);
                if keys.is_empty() {
                    state.by_name.remove(&name);
                }
            }
        }
        for name in &names {
            state.by_name.entry(name.clone()).or_default().insert(key.clone());
        }
        if !names.is_empty() {
            state.names.insert(key.clone(), names);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use corten_api::value;

    use super::*;
    use crate::kinds;

    #[test]
    fn what_is_named_is_found_until_it_is_named_no_longer() {
        static BY_NODE: Index = Index {
            kind: &kinds::PODS,
            name: "by-node",
            names: |pod| {
                let node = pod.tree().str_at(&["spec", "nodeName"]).map(|node| Key::new("", node));
                node.into_iter().collect()
            },
        };
        let pod = |name: &str, node: &str| {
            Arc::new(Object::of(&value!({"metadata": {"name": name}, "spec": {"nodeName": node}})))
        };
        let indexed = Indexed::default();
        let found = |node: &str| -> Vec<String> {
            indexed.by(&Key::new("", node)).iter().map(|key| key.name.to_string()).collect()
        };
        indexed.take(&BY_NODE, &Change { old: None, new: Some(pod("b", "one")) });
        indexed.take(&BY_NODE, &Change { old: None, new: Some(pod("a", "one")) });
        assert_eq!(found("one"), ["a", "b"]);
        indexed.take(&BY_NODE, &Change { old: Some(pod("a", "one")), new: Some(pod("a", "two")) });
        indexed.take(&BY_NODE, &Change { old: Some(pod("b", "one")), new: None });
        assert_eq!((found("one"), found("two")), (vec![], vec!["a".to_owned()]));
    }
}
