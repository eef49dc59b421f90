//! Aging: events leave the rings of all watch caches some time after the last write, and written trees with them, so that the
//! memory that load needed is free soon after it. Later readers find the events in the store's history.
//!
//! There is no timer while nothing is written.

use std::sync::Arc;
use std::time::Duration;

use crate::Server;

/// The time for which every event stays in a ring that has room for it: upstream's.
const KEPT_FOR: Duration = Duration::from_secs(75);

/// Ages the caches until the server stops.
pub(crate) async fn run(server: Arc<Server>) {
    let mut published = server.backend.store.progress();
    loop {
        let old = *published.borrow_and_update();
        server.backend.clock.sleep(KEPT_FOR).await;
        let is_quiet = !published.has_changed().unwrap_or(true);
        for cache in server.backend.catalog.caches() {
            cache.forget_events(old);
            if is_quiet {
                cache.recent_writes.clear();
            }
        }
        if is_quiet && published.changed().await.is_err() {
            return;
        }
    }
}
