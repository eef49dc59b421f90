//! Keeps the index of roles and bindings in step with the store.
//!
//! The store tells of a write before it is acknowledged: whoever has the answer to a write of a role finds
//! it in force.

use std::sync::Arc;

use corten_api::json;
use corten_auth::rbac::Rbac;
use corten_store::{Entry, Event, Observer, Store};
use parking_lot::{RwLock, RwLockReadGuard};

type SetObject = fn(&mut Rbac, &str, &str, Option<&corten_api::Value>);

/// Where each kind is stored, and what takes it over.
const KINDS: [(&str, SetObject); 4] = [
    ("/registry/clusterroles/", Rbac::set_role),
    ("/registry/roles/", Rbac::set_role),
    ("/registry/clusterrolebindings/", Rbac::set_binding),
    ("/registry/rolebindings/", Rbac::set_binding),
];

pub(super) struct RbacFeed(Arc<RwLock<Rbac>>);

/// Follows one kind.
struct Follower {
    rbac: Arc<RwLock<Rbac>>,
    prefix: &'static str,
    set: SetObject,
}

impl RbacFeed {
    pub(super) fn start(store: &Store) -> RbacFeed {
        let rbac = Arc::new(RwLock::new(Rbac::default()));
        for (prefix, set) in KINDS {
            let follower = Arc::new(Follower { rbac: rbac.clone(), prefix, set });
            // Held until everything is in: an event that comes meanwhile waits in `apply`.
            let mut index = rbac.write();
            let (_, entries) = store.observe(prefix, follower.clone());
            for entry in entries {
                follower.take(&mut index, &entry.key, Some(&entry));
            }
        }
        RbacFeed(rbac)
    }

    pub(super) fn read(&self) -> RwLockReadGuard<'_, Rbac> {
        self.0.read()
    }
}

impl Follower {
    fn take(&self, index: &mut Rbac, key: &str, entry: Option<&Arc<Entry>>) {
        let (namespace, name) = split_key(key, self.prefix);
        // What cannot be read grants nothing.
        let object = entry.and_then(|entry| json::parse(&entry.value).ok());
        (self.set)(index, namespace, name, object.as_ref());
    }
}

impl Observer for Follower {
    fn apply(&self, events: &[Arc<Event>], _revision: u64) {
        let mut index = self.rbac.write();
        for event in events {
            self.take(&mut index, &event.key, event.current.as_ref());
        }
    }
}

/// Namespace, if any, and name of what is stored under a key.
pub(super) fn split_key<'k>(key: &'k str, prefix: &str) -> (&'k str, &'k str) {
    let rest = key.strip_prefix(prefix).unwrap_or(key);
    rest.split_once('/').unwrap_or(("", rest))
}
