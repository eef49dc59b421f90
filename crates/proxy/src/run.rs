//! Follows the API and keeps the rules up to date: the one place where things are done.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use corten_base::{Backoff, Clock};
use corten_client::{Change, kinds};
use corten_net::namespace::Namespace;
use corten_reconcile::Manager;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::config::Config;
use crate::engine::Engine;
use crate::inputs::Inputs;

/// Some kernels take a while to notice that nothing leads to a chain any more.
const STALE: Duration = Duration::from_secs(1);
/// Everything is written anew so often, in case somebody else meddled.
const FULL: Duration = Duration::from_secs(3600);
const RETRY: Backoff = Backoff { first: Duration::from_secs(1), longest: Duration::from_secs(30) };

/// A running proxy.
pub struct Proxy {
    inputs: Mutex<Inputs>,
    wake: Notify,
}

/// Starts a proxy of the network namespace that the caller is in. It ends with the manager; its rules stay.
pub fn start(manager: &Manager, config: Config, node_name: &str) -> io::Result<Arc<Proxy>> {
    let proxy = Arc::new(Proxy { inputs: Mutex::default(), wake: Notify::new() });
    let namespace = Namespace::current()?;
    let min_sync_period = config.min_sync_period;
    let engine = Engine::open(config, namespace)?;
    let worker = Worker { proxy: proxy.clone(), clock: manager.clock().clone(), min_sync_period };
    let caches = manager.caches();
    let node = kinds::NODES.with_fields(format!("metadata.name={node_name}"));
    let followed: [(_, fn(&mut Inputs, &Change) -> bool); 4] = [
        (caches.of(&kinds::SERVICES), Inputs::service),
        (caches.of(&kinds::ENDPOINT_SLICES), Inputs::slice),
        (caches.of(&kinds::SERVICE_CIDRS), Inputs::service_cidr),
        (caches.of(&node), Inputs::node),
    ];
    let mut synced = Vec::new();
    for (cache, take) in followed {
        let proxy = proxy.clone();
        cache.subscribe(move |change| {
            if take(&mut proxy.inputs.lock(), change) {
                proxy.wake.notify_one();
            }
        });
        synced.push(cache);
    }
    manager.spawn(async move {
        // Rules that an earlier process left are better than rules for the first half of the Services.
        for cache in synced {
            cache.synced().await;
        }
        worker.run(engine).await;
    });
    Ok(proxy)
}

struct Worker {
    proxy: Arc<Proxy>,
    clock: Clock,
    min_sync_period: Duration,
}

impl Worker {
    async fn run(self, mut engine: Engine) {
        let mut failures = 0;
        loop {
            let proxy = self.proxy.clone();
            let done = tokio::task::spawn_blocking(move || {
                let synced = engine.sync(&proxy.inputs);
                (engine, synced)
            });
            // A fault in a decision leaves rules as they are, and ends the proxy.
            let Ok((back, synced)) = done.await else {
                tracing::error!("the proxy stopped");
                return;
            };
            engine = back;
            failures = if synced.iter().any(|synced| synced.failed) { failures + 1 } else { 0 };
            self.clock.sleep(self.min_sync_period).await;
            self.wait(&mut engine, failures).await;
        }
    }

    /// Waits until there is something to do.
    async fn wait(&self, engine: &mut Engine, failures: u32) {
        if failures > 0 {
            self.clock.sleep(RETRY.delay(failures)).await;
            return;
        }
        let changed = self.proxy.wake.notified();
        if engine.has_stale() {
            if self.clock.timeout(STALE, changed).await.is_none()
                && let Err(error) = engine.clean_up()
            {
                tracing::warn!(%error, "stale rules could not be removed");
            }
        } else if self.clock.timeout(FULL, changed).await.is_none() {
            engine.distrust();
        }
    }
}
