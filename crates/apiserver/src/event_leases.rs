//! The leases that expire Event objects: one is shared by the events of a minute, as upstream does.

use std::time::{Duration, Instant};

use corten_store::{Error, LeaseId, Store};
use tokio::sync::Mutex;

/// The time for which one lease is used for new events.
const REUSE: Duration = Duration::from_secs(60);

#[derive(Default)]
pub(crate) struct EventLeases(Mutex<Option<(LeaseId, Duration, Instant)>>);

impl EventLeases {
    /// A lease that lasts at least `ttl`.
    pub(crate) async fn lease(&self, store: &Store, ttl: Duration) -> Result<LeaseId, Error> {
        let mut current = self.0.lock().await;
        if let Some((id, for_ttl, since)) = *current
            && for_ttl == ttl
            && since.elapsed() < REUSE
        {
            return Ok(id);
        }
        let id = store.grant(ttl + REUSE).await?;
        *current = Some((id, ttl, Instant::now()));
        Ok(id)
    }
}
