//! The caches of a process: one per kind, started when first asked for and shared from then on.

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
    /// Ends with the last user of the caches.
    followers: Mutex<JoinSet<()>>,
}

impl Caches {
    pub fn new(client: Client, clock: Clock) -> Caches {
        Caches(Arc::new(Inner {
            client,
            clock,
            caches: Mutex::default(),
            indexes: Mutex::default(),
            followers: Mutex::new(JoinSet::new()),
        }))
    }

    /// The cache of a kind.
    pub fn of(&self, kind: &Kind) -> Arc<Cache> {
        let mut caches = self.0.caches.lock();
        if let Some((cache, _)) = caches.get(kind) {
            return cache.clone();
        }
        let cache = Arc::new(Cache::new(kind.clone()));
        let follow = reflector::follow(cache.clone(), self.0.client.clone(), self.0.clock.clone());
        let follower = self.0.followers.lock().spawn(follow);
        caches.insert(kind.clone(), (cache.clone(), follower));
        cache
    }

    /// Keeps an index from now on. To be asked for before whoever uses it follows the kind itself: what is told of a
    /// change finds the index up to date then.
    pub fn index(&self, index: &'static Index) {
        let indexed = match self.0.indexes.lock().entry(index.name) {
            Entry::Occupied(_) => return,
            Entry::Vacant(new) => new.insert(Arc::new(Indexed::default())).clone(),
        };
        self.of(index.kind).subscribe(move |change| indexed.take(index, change));
    }

    /// The keys of the objects that name something, in order.
    pub fn keys_by(&self, index: &'static Index, name: &Key) -> Vec<Key> {
        let indexed = self.0.indexes.lock().get(index.name).cloned();
        indexed.map(|indexed| indexed.by(name)).unwrap_or_default()
    }

    /// The objects that name something, in order.
    pub fn by(&self, index: &'static Index, name: &Key) -> Vec<Arc<Object>> {
        let cache = self.of(index.kind);
        self.keys_by(index, name).iter().filter_map(|key| cache.get(key)).collect()
    }

    /// Stops following a kind that is served no longer.
    pub fn forget(&self, kind: &Kind) {
        if let Some((_, follower)) = self.0.caches.lock().remove(kind) {
            follower.abort();
        }
    }

    /// Every cache there is.
    pub fn all(&self) -> Vec<Arc<Cache>> {
        self.0.caches.lock().values().map(|(cache, _)| cache.clone()).collect()
    }

    pub async fn synced(&self) {
        for cache in self.all() {
            cache.synced().await;
        }
    }
}
