//! Keeps the zone in sync with the cluster's caches. While the API server is unreachable the zone keeps its last known state.

use std::sync::Arc;

use corten_client::{Caches, Change, Kind, kinds};

use crate::dns::Dns;
use crate::zone::{Service, Slice};

/// The kinds of objects that DNS records are made of.
const FOLLOWED: [&Kind; 3] = [&kinds::NAMESPACES, &kinds::SERVICES, &kinds::ENDPOINT_SLICES];

/// Subscribes the zone to the caches, and returns when they have synced.
pub async fn follow(dns: &Arc<Dns>, caches: &Caches) {
    let followed = FOLLOWED.map(|kind| {
        let (cache, dns) = (caches.of(kind), dns.clone());
        cache.subscribe(move |change| dns.apply(kind, change));
        cache
    });
    for cache in followed {
        cache.synced().await;
    }
    dns.set_synced();
}

impl Dns {
    /// Applies a change of an object to the zone. Kinds without DNS records are ignored.
    pub fn apply(&self, kind: &Kind, change: &Change) {
        let key = &change.object().key;
        let tree = change.new.as_ref().map(|object| object.tree());
        let tree = tree.as_ref();
        match kind.plural.as_str() {
            "namespaces" => self.change(|zone| zone.set_namespace(&key.name, tree.is_some())),
            "services" => {
                self.change(|zone| zone.set_service(&key.namespace, &key.name, tree.map(Service::of)))
            }
            "endpointslices" => {
                self.change(|zone| zone.set_slice(&key.namespace, &key.name, tree.and_then(Slice::of)))
            }
            _ => {}
        }
    }
}
