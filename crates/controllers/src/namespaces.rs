//! Namespaces, as controllers see them that keep an object in each.

use corten_api::Value;
use corten_client::{Caches, Change, Key, kinds};

/// True if a namespace exists and is not terminating.
pub(crate) fn is_active(caches: &Caches, key: &Key) -> bool {
    let namespace = caches.of(&kinds::NAMESPACES).get(key);
    namespace.is_some_and(|namespace| phase(&namespace.tree()) == "Active")
}

pub(crate) fn phase(namespace: &Value) -> &str {
    namespace.str_at(&["status", "phase"]).unwrap_or_default()
}

/// The namespace of a changed object, if the object has this name.
pub(crate) fn of_object_named(name: &str, change: &Change, keys: &mut Vec<Key>) {
    let object = &change.object().key;
    if object.name == name {
        keys.push(Key::new("", object.namespace.clone()));
    }
}
