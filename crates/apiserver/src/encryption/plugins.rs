//! The KMS plugins of one configuration: checks, and the data keys that values need.
//!
//! Invariants: a data key is requested once at a time, however many values need it, and few are requested at a time; a
//! plugin that does not respond delays only those who wait for its keys.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use corten_base::Clock;
use corten_encryption::kms::{SourceDigest, Undecrypted};
use corten_encryption::{Encryption, EnvelopeMetrics};
use futures_util::future::join_all;
use parking_lot::Mutex;
use tokio::sync::{Semaphore, watch};
use tokio::task::AbortHandle;

use super::plugin::{self, Plugin};

/// Requests to all plugins at the same time.
const MAX_REQUESTS: usize = 8;
/// Data keys that are requested or wait for it.
const MAX_WAITING: usize = 4096;

pub(super) struct Plugins {
    plugins: Vec<Arc<Plugin>>,
    requested: Arc<Mutex<HashMap<SourceDigest, watch::Receiver<bool>>>>,
    places: Arc<Semaphore>,
    polls: Mutex<Vec<AbortHandle>>,
}

impl Default for Plugins {
    fn default() -> Plugins {
        Plugins::new(Vec::new())
    }
}

impl Drop for Plugins {
    fn drop(&mut self) {
        self.polls.lock().iter().for_each(AbortHandle::abort);
    }
}

impl Plugins {
    pub(super) fn of(encryption: &Encryption, metrics: &Arc<EnvelopeMetrics>, clock: &Clock) -> Plugins {
        let plugin = |kms| Arc::new(Plugin::new(Arc::clone(kms), Arc::clone(metrics), clock.clone()));
        Plugins::new(encryption.kms().iter().map(plugin).collect())
    }

    fn new(plugins: Vec<Arc<Plugin>>) -> Plugins {
        Plugins {
            plugins,
            requested: Arc::default(),
            places: Arc::new(Semaphore::new(MAX_REQUESTS)),
            polls: Mutex::default(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.plugins.is_empty()
    }

    /// Checks all plugins, concurrently. The error names those that failed, as upstream's health check.
    pub(super) async fn check(&self) -> Result<(), String> {
        let checks = self.plugins.iter().map(|plugin| plugin.check());
        let outcomes = join_all(checks).await;
        let failed: Vec<String> = outcomes
            .into_iter()
            .enumerate()
            .filter_map(|(index, outcome)| Some(format!("kms-provider-{index}: {}", outcome.err()?)))
            .collect();
        match failed.as_slice() {
            [] => Ok(()),
            [only] => Err(only.clone()),
            failed => Err(format!("[{}]", failed.join(", "))),
        }
    }

    /// The time in which plugins become healthy after a change of the configuration, as upstream.
    pub(super) fn grace_period(&self) -> Duration {
        let sum: Duration = self
            .plugins
            .iter()
            .map(|plugin| plugin.kms.timeout())
            .fold(Duration::ZERO, Duration::saturating_add);
        sum.saturating_mul(2).max(Duration::from_secs(10))
    }

    /// Checks the plugins once, and from then on until this is dropped.
    pub(super) async fn start(&self) {
        let checks = self.plugins.iter().map(|plugin| plugin.check());
        for (plugin, outcome) in self.plugins.iter().zip(join_all(checks).await) {
            if let Err(err) = &outcome {
                tracing::error!(provider = plugin.kms.name(), err, "KMS plugin is unhealthy; retrying");
            }
            let poll = tokio::spawn(plugin::poll(Arc::clone(plugin), outcome.is_ok()));
            self.polls.lock().push(poll.abort_handle());
        }
    }

    /// Requests a data key, unless it is being requested. Returns a receiver whose sender is dropped after the attempt.
    pub(super) fn request(
        &self,
        runtime: &tokio::runtime::Handle,
        undecrypted: &Undecrypted,
    ) -> Option<watch::Receiver<bool>> {
        let plugin = self.plugins.iter().find(|plugin| Arc::ptr_eq(&plugin.kms, &undecrypted.kms))?;
        let mut requested = self.requested.lock();
        if let Some(attempt) = requested.get(&undecrypted.digest) {
            return Some(attempt.clone());
        }
        if requested.len() >= MAX_WAITING {
            return None;
        }
        let (sender, receiver) = watch::channel(false);
        requested.insert(undecrypted.digest, receiver.clone());
        let (plugin, undecrypted) = (Arc::clone(plugin), undecrypted.clone());
        let (places, all) = (Arc::clone(&self.places), Arc::clone(&self.requested));
        runtime.spawn(async move {
            // The semaphore is never closed.
            let _place = places.acquire().await;
            plugin.decrypt(&undecrypted).await;
            all.lock().remove(&undecrypted.digest);
            sender.send_replace(true);
        });
        Some(receiver)
    }
}
