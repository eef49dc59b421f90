//! The caches of one client: one per kind, started at the first use and shared from then on.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use corten_base::Clock;
use parking_lot::Mutex;
use tokio::task::{AbortHandle, JoinSet};

use crate::index::{Index, Indexed};
use crate::{Cache, Client, Key, Kind, Object, reflector};

#[derive(Clone)]
pub struct Caches(Arc<Inner>);

struct Inner {
    client: Client,
    clock: Clock,
    caches: Mutex<BTreeMap<Kind, (Arc<Cache>, AbortHandle)>>,
    indexes: Mutex<HashMap<&'static str, Arc<Indexed>>>,
    /// The reflectors; they stop when the last clone of the caches is dropped.
    reflectors: Mutex<JoinSet<()>>,
}

impl Caches {
    pub fn new(client: Client, clock: Clock) -> Caches {
        Caches(Arc::new(Inner {
            client,
            clock,
            caches: Mutex::default(),
            indexes: Mutex::default(),
            reflectors: Mutex::new(JoinSet::new()),
        }))
    }

    /// The cache of a kind.
    pub fn of(&self, kind: &Kind) -> Arc<Cache> {
        let mut caches = self.0.caches.lock();
        if let Some((cache, _)) = caches.get(kind) {
            return cache.clone();
        }
        let cache = Arc::new(Cache::new(kind.clone()));
        let reflect = reflector::run(cache.clone(), self.0.client.clone(), self.0.clock.clone());
        let reflector_task = self.0.reflectors.lock().spawn(reflect);
        caches.insert(kind.clone(), (cache.clone(), reflector_task));
        cache
    }

    /// Maintains an index from now on. Call it before subscribing to the kind: subscribers run in order, so a later one
    /// finds the index up to date.
    pub fn index(&self, index: &'static Index) {
        let indexed = match self.0.indexes.lock().entry(index.name) {
            Entry::Occupied(_) => return,
            Entry::Vacant(new) => new.insert(Arc::new(Indexed::default())).clone(),
        };
        self.of(index.kind).subscribe(move |change| indexed.update(index, change));
    }

    /// The keys of the objects that an index finds for a name, in order.
    pub fn keys_by(&self, index: &'static Index, name: &Key) -> Vec<Key> {
        let indexed = self.0.indexes.lock().get(index.name).cloned();
        indexed.map(|indexed| indexed.by(name)).unwrap_or_default()
    }

    /// The objects that an index finds for a name, in order.
    pub fn by(&self, index: &'static Index, name: &Key) -> Vec<Arc<Object>> {
        let cache = self.of(index.kind);
        self.keys_by(index, name).iter().filter_map(|key| cache.get(key)).collect()
    }

    /// Stops the cache of a kind that is no longer served.
    pub fn forget(&self, kind: &Kind) {
        if let Some((_, reflector_task)) = self.0.caches.lock().remove(kind) {
            reflector_task.abort();
        }
    }

    /// All caches.
    pub fn all(&self) -> Vec<Arc<Cache>> {
        self.0.caches.lock().values().map(|(cache, _)| cache.clone()).collect()
    }

    pub async fn synced(&self) {
        for cache in self.all() {
            cache.synced().await;
        }
    }
}
