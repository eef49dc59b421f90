//! Which services changes concern, and what is looked up in the caches for one.

use std::collections::HashMap;
use std::sync::Arc;

use corten_api::{Map, Str, Value};
use corten_client::{Cache, Caches, Change, Key, Object, kinds};

use super::slice::{MANAGED_BY_LABEL, SERVICE_NAME_LABEL};
use super::topology;
use crate::conditions;
use crate::pods::Pod;
use crate::services::ServiceView;

/// The zones of the nodes that pods are on.
pub(super) fn zones(nodes: &Cache, pods: &[Pod]) -> HashMap<Str, Option<Str>> {
    let mut zones = HashMap::new();
    for pod in pods {
        if !zones.contains_key(&pod.view.node) {
            let node = nodes.get(&Key::new("", pod.view.node.clone()));
            zones.insert(pod.view.node.clone(), node.map(|node| topology::zone(&node)));
        }
    }
    zones.into_iter().filter_map(|(node, zone)| Some((node, zone?))).collect()
}

/// The slices of a service that a manager has made and that stay.
pub(crate) fn slices_of(manager: &str, cache: &Cache, key: &Key) -> Vec<Arc<Object>> {
    let is_wanted = |labels: &Map| {
        text(labels, SERVICE_NAME_LABEL) == key.name && text(labels, MANAGED_BY_LABEL) == manager
    };
    cache.filter(&key.namespace, |slice| is_wanted(&slice.labels) && !slice.deleting)
}

fn text<'l>(labels: &'l Map, label: &str) -> &'l str {
    labels.get(label).and_then(Value::as_str).unwrap_or_default()
}

/// The services that a change of a slice of this manager's concerns.
pub(crate) fn services_of_slice(manager: &str, change: &Change, keys: &mut Vec<Key>) {
    if change.states().any(|slice| text(&slice.labels, MANAGED_BY_LABEL) == manager) {
        for slice in change.states() {
            let service = text(&slice.labels, SERVICE_NAME_LABEL);
            if !service.is_empty() {
                keys.push(Key::new(slice.key.namespace.clone(), service));
            }
        }
    }
}

/// The services whose hints may have to change with a node.
pub(super) fn services_of_node(caches: &Caches, change: &Change, keys: &mut Vec<Key>) {
    // Every service is looked at once all nodes are known.
    if !caches.of(&kinds::NODES).is_synced() {
        return;
    }
    let mut services = caches.of(&kinds::SERVICES).list("");
    services.retain(|service| service.view::<ServiceView>().by_capacity);
    let matters = |node: &Arc<Object>| {
        let tree = node.tree();
        (topology::zone(node), conditions::is_true(&tree, "Ready"))
    };
    let is_same = || match (&change.old, &change.new) {
        (Some(old), Some(new)) => matters(old) == matters(new),
        _ => false,
    };
    if !services.is_empty() && !is_same() {
        keys.extend(services.iter().map(|service| service.key.clone()));
    }
}
