//! The services that changes concern, and lookups in the caches for one service.

use std::collections::HashMap;
use std::sync::Arc;

use corten_api::{Map, Str, Value};
use corten_client::{Cache, Caches, Change, Index, Key, Object, kinds};

use super::slice::{MANAGED_BY_LABEL, SERVICE_NAME_LABEL};
use super::topology;
use crate::nodes::NodeView;
use crate::pods::Pod;
use crate::services::ServiceView;

/// The zones of the pods' nodes.
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

/// The slices of each service.
pub(crate) static SLICES: Index = Index {
    kind: &kinds::ENDPOINT_SLICES,
    name: "slices-by-service",
    names: |slice| {
        let service = text(&slice.labels, SERVICE_NAME_LABEL);
        if service.is_empty() { Vec::new() } else { vec![Key::new(slice.key.namespace.clone(), service)] }
    },
};

/// The slices of a service that a manager has created and that are not terminating.
pub(crate) fn slices_of(manager: &str, caches: &Caches, key: &Key) -> Vec<Arc<Object>> {
    let mut slices = caches.by(&SLICES, key);
    slices.retain(|slice| text(&slice.labels, MANAGED_BY_LABEL) == manager && !slice.deleting);
    slices
}

fn text<'l>(labels: &'l Map, label: &str) -> &'l str {
    labels.get(label).and_then(Value::as_str).unwrap_or_default()
}

/// The services that a change of a slice of this manager concerns.
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

/// The services whose hints may change with a node.
pub(super) fn services_of_node(caches: &Caches, change: &Change, keys: &mut Vec<Key>) {
    // Every service is reconciled once all nodes are known.
    if !caches.of(&kinds::NODES).is_synced() {
        return;
    }
    let matters = |node: &Arc<Object>| (topology::zone(node), node.view::<NodeView>().is_ready());
    if let (Some(old), Some(new)) = (&change.old, &change.new)
        && matters(old) == matters(new)
    {
        return;
    }
    let services = caches.of(&kinds::SERVICES).filter("", |s| s.view::<ServiceView>().by_capacity);
    keys.extend(services.into_iter().map(|service| service.key.clone()));
}
