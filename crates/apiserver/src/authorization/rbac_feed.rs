//! Updates the RBAC index of roles and bindings from the store.
//!
//! The store notifies its observers before it acknowledges a write: a role is in effect when the client has the response to
//! its write.

use std::sync::Arc;

use corten_api::json;
use corten_auth::rbac::Rbac;
use corten_store::{Entry, Event, Observer, Store};
use parking_lot::{RwLock, RwLockReadGuard};

type SetObject = fn(&mut Rbac, &str, &str, Option<&corten_api::Value>);

/// The key prefix of each kind, and its setter in the index.
const KINDS: [(&str, SetObject); 4] = [
    ("/registry/clusterroles/", Rbac::set_role),
    ("/registry/roles/", Rbac::set_role),
    ("/registry/clusterrolebindings/", Rbac::set_binding),
    ("/registry/rolebindings/", Rbac::set_binding),
];

pub(super) struct RbacFeed(Arc<RwLock<Rbac>>);

/// The observer of one kind.
struct KindObserver {
    rbac: Arc<RwLock<Rbac>>,
    prefix: &'static str,
    set: SetObject,
}

impl RbacFeed {
    pub(super) fn start(store: &Store) -> RbacFeed {
        let rbac = Arc::new(RwLock::new(Rbac::default()));
        for (prefix, set) in KINDS {
            let observer = Arc::new(KindObserver { rbac: rbac.clone(), prefix, set });
            // Held until all objects are loaded: an event that arrives meanwhile waits in `apply`.
            let mut index = rbac.write();
            let (_, entries) = store.observe(prefix, observer.clone());
            for entry in entries {
                observer.take(&mut index, &entry.key, Some(&entry));
            }
        }
        RbacFeed(rbac)
    }

    pub(super) fn read(&self) -> RwLockReadGuard<'_, Rbac> {
        self.0.read()
    }
}

impl KindObserver {
    fn take(&self, index: &mut Rbac, key: &str, entry: Option<&Arc<Entry>>) {
        let (namespace, name) = split_key(key, self.prefix);
        // An object that cannot be parsed grants nothing.
        let object = entry.and_then(|entry| json::parse(&entry.value).ok());
        (self.set)(index, namespace, name, object.as_ref());
    }
}

impl Observer for KindObserver {
    fn apply(&self, events: &[Arc<Event>], _revision: u64) {
        let mut index = self.rbac.write();
        for event in events {
            self.take(&mut index, &event.key, event.current.as_ref());
        }
    }
}

/// The namespace, if any, and the name in a key.
pub(super) fn split_key<'k>(key: &'k str, prefix: &str) -> (&'k str, &'k str) {
    let rest = key.strip_prefix(prefix).unwrap_or(key);
    rest.split_once('/').unwrap_or(("", rest))
}
