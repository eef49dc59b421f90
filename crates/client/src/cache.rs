//! A cache of the objects of one kind, shared by all parts of the process.
//!
//! Objects change only through `apply`. Subscribers are called with each change after readers can see it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;
use std::sync::Arc;

use corten_api::Str;
use corten_api::selector::LabelSelector;
use parking_lot::RwLock;
use tokio::sync::watch;

use crate::{Key, Kind, Object};

/// One change of one object.
#[derive(Debug, Clone)]
pub struct Change {
    /// `None` if the object was added.
    pub old: Option<Arc<Object>>,
    /// `None` if the object was deleted.
    pub new: Option<Arc<Object>>,
}

impl Change {
    /// The new object, or the last state of a deleted one.
    pub fn object(&self) -> &Arc<Object> {
        self.new.as_ref().or(self.old.as_ref()).expect("a change has an object")
    }

    /// The old and the new state, as far as they exist.
    pub fn states(&self) -> impl Iterator<Item = &Arc<Object>> {
        self.old.iter().chain(self.new.iter())
    }
}

/// A signal that the cache has changed. Several changes may be one signal.
pub struct Changes(watch::Receiver<Progress>);

impl Changes {
    /// Waits for a change since the last call of `next` or `skip`.
    pub async fn next(&mut self) {
        if self.0.changed().await.is_err() {
            // Nothing changes any more in a cache that is gone.
            std::future::pending::<()>().await;
        }
    }

    /// Ignores all changes so far.
    pub fn skip(&mut self) {
        self.0.mark_unchanged();
    }
}

type Subscriber = Arc<dyn Fn(&Change) + Send + Sync>;

pub struct Cache {
    kind: Kind,
    state: RwLock<State>,
    subscribers: RwLock<Vec<Subscriber>>,
    progress: watch::Sender<Progress>,
}

/// The progress of a cache.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    /// The initial state is complete.
    pub synced: bool,
    /// The cache has all changes up to this resource version.
    pub revision: u64,
}

#[derive(Default)]
struct State {
    objects: BTreeMap<Key, Arc<Object>>,
    by_owner: HashMap<Str, Vec<Key>>,
    /// Keys of objects without a controller; maintained from the first call of `unmanaged`.
    unmanaged: Option<BTreeSet<Key>>,
}

impl Cache {
    pub(crate) fn new(kind: Kind) -> Cache {
        Cache {
            kind,
            state: RwLock::default(),
            subscribers: RwLock::default(),
            progress: watch::Sender::new(Progress::default()),
        }
    }

    pub fn kind(&self) -> &Kind {
        &self.kind
    }

    pub fn get(&self, key: &Key) -> Option<Arc<Object>> {
        self.state.read().objects.get(key).cloned()
    }

    /// All objects of a namespace in the order of their names; those of all namespaces if it is empty.
    pub fn list(&self, namespace: &str) -> Vec<Arc<Object>> {
        self.filter(namespace, |_| true)
    }

    pub fn select(&self, namespace: &str, selector: &LabelSelector) -> Vec<Arc<Object>> {
        self.filter(namespace, |object| object.is_selected_by(selector))
    }

    /// The objects of a namespace for which the predicate holds, in the order of their names; of all namespaces if it is empty.
    pub fn filter(&self, namespace: &str, is_wanted: impl Fn(&Object) -> bool) -> Vec<Arc<Object>> {
        let state = self.state.read();
        let first = Key::new(namespace, "");
        let range = state.objects.range((Bound::Included(first), Bound::Unbounded));
        let in_namespace = range.take_while(|(key, _)| namespace.is_empty() || key.namespace == namespace);
        in_namespace.map(|(_, object)| object).filter(|object| is_wanted(object)).cloned().collect()
    }

    /// The dependents of an owner, in the order of their keys.
    pub fn owned_by(&self, uid: &str) -> Vec<Arc<Object>> {
        let state = self.state.read();
        let keys = state.by_owner.get(uid).map(Vec::as_slice).unwrap_or_default();
        let mut found: Vec<_> = keys.iter().filter_map(|key| state.objects.get(key).cloned()).collect();
        found.sort_by(|a, b| a.key.cmp(&b.key));
        found
    }

    /// The objects of a namespace without a controller, in the order of their names.
    pub fn unmanaged(&self, namespace: &str) -> Vec<Arc<Object>> {
        {
            let state = self.state.read();
            if let Some(found) = state.unmanaged_in(namespace) {
                return found;
            }
        }
        let mut state = self.state.write();
        state.index_unmanaged();
        state.unmanaged_in(namespace).unwrap_or_default()
    }

    /// True if a namespace has no object of this kind.
    pub fn has_none_in(&self, namespace: &str) -> bool {
        let first = Key::new(namespace, "");
        let state = self.state.read();
        let mut range = state.objects.range((Bound::Included(first), Bound::Unbounded));
        range.next().is_none_or(|(key, _)| key.namespace != namespace)
    }

    pub fn len(&self) -> usize {
        self.state.read().objects.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn is_synced(&self) -> bool {
        self.progress.borrow().synced
    }

    /// The cache has all changes up to this resource version.
    pub fn revision(&self) -> u64 {
        self.progress.borrow().revision
    }

    /// Waits until the initial state is complete.
    pub async fn synced(&self) {
        // The sender lives as long as this cache.
        let _ = self.progress.subscribe().wait_for(|progress| progress.synced).await;
    }

    /// Waits until a condition holds; it is checked again with every change.
    pub async fn until(&self, is_so: impl Fn(&Cache) -> bool) {
        let mut changes = self.changes();
        while !is_so(self) {
            changes.next().await;
        }
    }

    /// The changes from now on.
    pub fn changes(&self) -> Changes {
        Changes(self.progress.subscribe())
    }

    /// Calls a function with every object in the cache as an addition, and with every change from then on.
    pub fn subscribe(&self, subscriber: impl Fn(&Change) + Send + Sync + 'static) {
        let subscriber: Subscriber = Arc::new(subscriber);
        let mut subscribers = self.subscribers.write();
        for object in self.list("") {
            subscriber(&Change { old: None, new: Some(object) });
        }
        subscribers.push(subscriber);
    }

    /// Stores the newest state of an object, or removes it.
    pub(crate) fn apply(&self, key: &Key, new: Option<Arc<Object>>, revision: u64) {
        // Held throughout, so that a new subscriber sees every change exactly once.
        let subscribers = self.subscribers.read();
        let old = self.state.write().put(key, new.as_ref());
        if old.is_some() || new.is_some() {
            let change = Change { old, new };
            for subscriber in subscribers.iter() {
                subscriber(&change);
            }
        }
        drop(subscribers);
        self.advance(|progress| progress.revision = progress.revision.max(revision));
    }

    pub(crate) fn advance(&self, change: impl FnOnce(&mut Progress)) {
        self.progress.send_modify(change);
    }
}

impl State {
    fn index_unmanaged(&mut self) {
        let unmanaged = self.objects.values().filter(|object| object.controller().is_none());
        self.unmanaged = Some(unmanaged.map(|object| object.key.clone()).collect());
    }

    fn unmanaged_in(&self, namespace: &str) -> Option<Vec<Arc<Object>>> {
        let keys = self.unmanaged.as_ref()?.range(Key::new(namespace, "")..);
        let keys = keys.take_while(|key| key.namespace == namespace);
        Some(keys.filter_map(|key| self.objects.get(key).cloned()).collect())
    }

    fn put(&mut self, key: &Key, new: Option<&Arc<Object>>) -> Option<Arc<Object>> {
        let old = match new {
            Some(object) => self.objects.insert(key.clone(), object.clone()),
            None => self.objects.remove(key),
        };
        let same = matches!((&old, new), (Some(old), Some(new)) if old.owners == new.owners);
        if !same {
            if let Some(unmanaged) = &mut self.unmanaged {
                match new {
                    Some(object) if object.controller().is_none() => drop(unmanaged.insert(key.clone())),
                    _ => drop(unmanaged.remove(key)),
                }
            }
            for owner in old.iter().flat_map(|object| object.owners.iter()) {
                if let Some(keys) = self.by_owner.get_mut(&owner.uid) {
                    keys.retain(|owned| owned != key);
                    if keys.is_empty() {
                        self.by_owner.remove(&owner.uid);
                    }
                }
            }
            for owner in new.into_iter().flat_map(|object| object.owners.iter()) {
                let keys = self.by_owner.entry(owner.uid.clone()).or_default();
                if !keys.contains(key) {
                    keys.push(key.clone());
                }
            }
        }
        old
    }
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::*;
    use crate::kinds;

    #[test]
    fn objects_without_a_controller_are_found() {
        let cache = Cache::new(kinds::PODS.clone());
        let mut revision = 0;
        let mut put = |name: &str, owner: Option<&str>| {
            let mut pod = value!({"metadata": {"namespace": "n", "name": name}});
            if let Some(owner) = owner {
                let reference = value!({"uid": owner, "controller": true});
                pod.set(&["metadata", "ownerReferences"], vec![reference]);
            }
            revision += 1;
            let object = Object::of(&pod);
            cache.apply(&object.key.clone(), Some(Arc::new(object)), revision);
        };
        let found = || {
            let names = cache.unmanaged("n").into_iter().map(|object| object.key.name.to_string());
            names.collect::<Vec<_>>()
        };
        put("a", None);
        put("b", Some("x"));
        assert_eq!(found(), ["a"]);
        put("c", None);
        put("b", None);
        put("a", Some("x"));
        assert_eq!(found(), ["b", "c"]);
        cache.apply(&Key::new("n", "b"), None, 9);
        assert_eq!(found(), ["c"]);
        assert!(cache.unmanaged("m").is_empty());
    }
}
