//! Lookups of plugins in the caches.
//!
//! Reads are linearizable and need no parsing: selectable fields and labels are in the projection, and the trees of objects
//! that many requests read are kept (`Object::parsed`).

use std::cmp::Reverse;
use std::sync::Arc;

use corten_api::{Status, Value};

use crate::call::Backend;
use crate::object::Object;

/// One object, if it exists. Cluster-scoped ones have no namespace.
pub(super) fn get(
    backend: &Backend,
    (group, resource): (&str, &str),
    namespace: &str,
    name: &str,
) -> Option<Arc<Object>> {
    backend.catalog.cache(group, resource)?.get(namespace, name)
}

/// All objects of a resource in a namespace, or in all namespaces.
pub(super) fn list(backend: &Backend, (group, resource): (&str, &str), namespace: &str) -> Vec<Arc<Object>> {
    let cache = backend.catalog.cache(group, resource);
    cache.map(|cache| cache.snapshot(namespace, None).objects).unwrap_or_default()
}

/// Fails if one of a namespace's objects of a resource cannot be read: what it would refuse is unknown.
pub(super) fn check_readable(
    backend: &Backend,
    (group, resource): (&str, &str),
    namespace: &str,
) -> Result<(), Status> {
    let cache = backend.catalog.cache(group, resource);
    cache.map_or(Ok(()), |cache| cache.check_readable(&cache.scope(namespace)))
}

/// A selectable field of an object, such as `status.phase`; empty if it has none.
pub(super) fn field<'o>(
    backend: &Backend,
    (group, resource): (&str, &str),
    object: &'o Object,
    label: &str,
) -> &'o str {
    let cache = backend.catalog.cache(group, resource);
    let position = cache.and_then(|c| c.form.rules.selectable.iter().position(|f| f.label == label));
    position.and_then(|at| object.projection.fields.get(at)).map_or("", |value| value.as_str())
}

/// The newest of some objects; of those created in the same second the one with the first name.
pub(super) fn newest(objects: &[Arc<Object>], wanted: impl Fn(&Value) -> bool) -> Option<&Arc<Object>> {
    let made = |object: &Object| {
        object.parsed().str_at(&["metadata", "creationTimestamp"]).unwrap_or_default().to_owned()
    };
    objects
        .iter()
        .filter(|object| wanted(object.parsed()))
        .max_by_key(|object| (made(object), Reverse(object.name.clone())))
}

pub(super) fn namespace(backend: &Backend, name: &str) -> Option<Arc<Object>> {
    get(backend, ("", "namespaces"), "", name)
}

pub(super) fn node(backend: &Backend, name: &str) -> Option<Arc<Object>> {
    get(backend, ("", "nodes"), "", name)
}
