//! Indexes: objects by something they reference, such as pods by the claims they use. Maintained with every change of a
//! cache, so that a lookup never scans it.

use std::collections::{BTreeSet, HashMap};

use parking_lot::RwLock;

use crate::{Change, Key, Kind, Object};

/// An index of the objects of a kind.
pub struct Index {
    pub kind: &'static Kind,
    /// The index's unique name.
    pub name: &'static str,
    /// The keys that an object references.
    pub names: fn(&Object) -> Vec<Key>,
}

#[derive(Default)]
pub(crate) struct Indexed(RwLock<State>);

#[derive(Default)]
struct State {
    by_name: HashMap<Key, BTreeSet<Key>>,
    /// The references of each object; objects without any have no entry.
    names: HashMap<Key, Vec<Key>>,
}

impl Indexed {
    /// The keys of the objects that reference `name`, in order.
    pub(crate) fn by(&self, name: &Key) -> Vec<Key> {
        self.0.read().by_name.get(name).map(|keys| keys.iter().cloned().collect()).unwrap_or_default()
    }

    pub(crate) fn update(&self, index: &Index, change: &Change) {
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
    fn objects_are_found_by_their_current_references() {
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
        indexed.update(&BY_NODE, &Change { old: None, new: Some(pod("b", "one")) });
        indexed.update(&BY_NODE, &Change { old: None, new: Some(pod("a", "one")) });
        assert_eq!(found("one"), ["a", "b"]);
        indexed.update(&BY_NODE, &Change { old: Some(pod("a", "one")), new: Some(pod("a", "two")) });
        indexed.update(&BY_NODE, &Change { old: Some(pod("b", "one")), new: None });
        assert_eq!((found("one"), found("two")), (vec![], vec!["a".to_owned()]));
    }
}
