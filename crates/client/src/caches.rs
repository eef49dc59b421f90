//! The caches of a process: one per kind, started when first asked for and shared from then on.

use std::collections::BTreeMap;
use std::sync::Arc;

use corten_base::Clock;
use parking_lot::Mutex;
use tokio::task::{AbortHandle, JoinSet};

use crate::{Cache, Client, Kind, reflector};

#[derive(Clone)]
pub struct Caches(Arc<Inner>);

struct Inner {
    client: Client,
    clock: Clock,
    caches: Mutex<BTreeMap<Kind, (Arc<Cache>, AbortHandle)>>,
    /// Ends with the last user of the caches.
    followers: Mutex<JoinSet<()>>,
}

impl Caches {
    pub fn new(client: Client, clock: Clock) -> Caches {
        Caches(Arc::new(Inner {
            client,
            clock,
            caches: Mutex::default(),
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
