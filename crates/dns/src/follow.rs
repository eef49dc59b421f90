//! Keeps what there is up to date with the cluster. While the API server cannot be reached everything stays as it was
//! last known, and is answered from.

use std::sync::Arc;

use corten_api::Value;
use corten_client::{Caches, Change, Kind, kinds};

use crate::dns::Dns;
use crate::zone::{Service, Slice, Zone};

/// What becomes of the zone when an object is so; `None` when it is gone.
type Take = fn(&mut Zone, &Change, Option<Value>);

const FOLLOWED: [(&Kind, Take); 3] = [
    (&kinds::NAMESPACES, |zone, change, namespace| {
        zone.set_namespace(&change.object().key.name, namespace.is_some());
    }),
    (&kinds::SERVICES, |zone, change, service| {
        let key = &change.object().key;
        zone.set_service(&key.namespace, &key.name, service.as_ref().map(Service::of));
    }),
    (&kinds::ENDPOINT_SLICES, |zone, change, slice| {
        let key = &change.object().key;
        zone.set_slice(&key.namespace, &key.name, slice.as_ref().and_then(Slice::of));
    }),
];

/// Follows the cluster for as long as the caches do; returns once everything there was has been seen.
pub(crate) async fn follow(dns: &Arc<Dns>, caches: &Caches) {
    let followed = FOLLOWED.map(|(kind, take)| {
        let (cache, dns) = (caches.of(kind), dns.clone());
        cache.subscribe(move |change| {
            let tree = change.new.as_ref().map(|object| object.tree());
            dns.change(|zone| take(zone, change, tree));
        });
        cache
    });
    for cache in followed {
        cache.synced().await;
    }
    dns.set_synced();
}
