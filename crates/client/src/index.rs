//! Finds the objects of a cache by something about them, such as pods by their node.

use std::collections::{BTreeSet, HashMap};

use corten_api::Str;
use parking_lot::RwLock;

use crate::{Change, Key, Object};

/// What an object is found by, if by anything.
pub type FoundBy = fn(&Object) -> Option<Str>;

/// The keys of a cache's objects by what they are found by. Follows the cache, one change at a time.
#[derive(Default)]
pub struct Index(RwLock<HashMap<Str, BTreeSet<Key>>>);

impl Index {
    /// What is found by a value, in order.
    pub fn keys(&self, value: &str) -> Vec<Key> {
        self.0.read().get(value).map(|keys| keys.iter().cloned().collect()).unwrap_or_default()
    }

    pub(crate) fn apply(&self, change: &Change, found_by: FoundBy) {
        let old = change.old.as_deref().and_then(found_by);
        let new = change.new.as_deref().and_then(found_by);
        if old == new {
            return;
        }
        let key = &change.object().key;
        let mut index = self.0.write();
        if let Some(value) = old
            && let Some(keys) = index.get_mut(&value)
        {
            keys.remove(key);
            if keys.is_empty() {
                index.remove(&value);
            }
        }
        if let Some(value) = new {
            index.entry(value).or_default().insert(key.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use corten_api::value;

    use super::*;
    use crate::{Cache, kinds};

    fn pod(name: &str, node: &str) -> Arc<Object> {
        Arc::new(Object::of(&value!({"metadata": {"name": name}, "spec": {"nodeName": node}})))
    }

    #[test]
    fn objects_are_found_by_what_they_say_now() {
        let cache = Cache::new(kinds::PODS.clone());
        let put = |name: &str, node: &str| cache.apply(&Key::new("", name), Some(pod(name, node)), 1);
        put("old", "n1");
        let index = cache.index("node", |pod| pod.tree().str_at(&["spec", "nodeName"]).map(Str::new));
        put("new", "n1");
        let names = |node: &str| index.keys(node).iter().map(|key| key.name.to_string()).collect::<Vec<_>>();
        assert_eq!(names("n1"), ["new", "old"]);
        put("old", "n2");
        assert_eq!((names("n1"), names("n2")), (vec!["new".to_owned()], vec!["old".to_owned()]));
        cache.apply(&Key::new("", "old"), None, 2);
        assert!(names("n2").is_empty());
        assert!(Arc::ptr_eq(&index, &cache.index("node", |_| None)), "one index of a name");
    }
}
