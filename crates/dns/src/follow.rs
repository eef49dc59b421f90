//! Keeps what there is up to date with the cluster. While the API server cannot be reached everything stays as it was
//! last known, and is answered from.

use std::sync::Arc;

use corten_client::{Caches, Change, Kind, kinds};

use crate::dns::Dns;
use crate::zone::{Service, Slice};

/// The kinds of objects that names follow from.
const FOLLOWED: [&Kind; 3] = [&kinds::NAMESPACES, &kinds::SERVICES, &kinds::ENDPOINT_SLICES];

/// Follows the cluster for as long as the caches do; returns once everything there was has been seen.
pub async fn follow(dns: &Arc<Dns>, caches: &Caches) {
    let followed = FOLLOWED.map(|kind| {
        let (cache, dns) = (caches.of(kind), dns.clone());
        cache.subscribe(move |change| dns.take(kind, change));
        cache
    });
    for cache in followed {
        cache.synced().await;
    }
    dns.set_synced();
}

impl Dns {
    /// Takes in that an object came, changed or went. Kinds that have no names are nothing to it.
    pub fn take(&self, kind: &Kind, change: &Change) {
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
