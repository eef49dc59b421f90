//! The configuration file, read again when it changes.
//!
//! Changes are noticed by the directory's events and, where those do not arrive, by reading the file every minute, as
//! upstream. A file is read as often as it fails, with growing delays, because its KMS plugins may become healthy.

use std::fs;
use std::path::Path;
use std::time::Duration;

use corten_encryption::ConfigurationError;
use corten_sys::files::Entries;

use super::{Configured, EncryptionAtRest, EncryptionError};
use crate::server_id;

/// Maximum size of the file.
const MAX_BYTES: u64 = 3 << 20;
const READ_AGAIN: Duration = Duration::from_secs(60);
const FIRST_RETRY: Duration = Duration::from_secs(1);
/// The time between checks of new plugins.
const CHECK_AGAIN: Duration = Duration::from_millis(100);

impl EncryptionAtRest {
    /// Uses the file again whenever it changes; it can be replaced or written in place. Ends at once if the file is read only
    /// once.
    pub async fn follow(&self) {
        let Some((path, true)) = &self.file else { return };
        let directory =
            path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut changes = match Entries::of(directory) {
            Ok(changes) => Some(changes),
            Err(err) => {
                tracing::warn!(%err, "cannot watch encryption configuration; reading it every minute");
                None
            }
        };
        let clock = self.clock();
        let mut delay = READ_AGAIN;
        loop {
            // Read before the first change, too: one may have happened since the start.
            delay = match self.reload(path).await {
                Ok(()) => READ_AGAIN,
                Err(err) => {
                    self.metrics.count_reload(false, clock.now());
                    let err = &err as &dyn std::error::Error;
                    tracing::error!(err, "cannot reload encryption configuration; keeping the one in force");
                    if delay == READ_AGAIN { FIRST_RETRY } else { (delay * 2).min(READ_AGAIN / 2) }
                }
            };
            let changed = async {
                match &mut changes {
                    Some(events) => events.next().await,
                    None => std::future::pending().await,
                }
            };
            if let Some(Err(err)) = clock.timeout(delay, changed).await {
                tracing::warn!(%err, "cannot watch encryption configuration; reading it every minute");
                changes = None;
            }
        }
    }

    /// Uses the file if it has changed and its plugins are healthy.
    async fn reload(&self, path: &Path) -> Result<(), EncryptionError> {
        let text = read(path)?;
        if server_id::sha256(&text) == self.current().hash {
            return Ok(());
        }
        let configured = self.configure(path, &text)?;
        self.check_new(&configured).await?;
        configured.plugins.start().await;
        self.metrics.set_configuration(configured.hash.clone());
        self.metrics.count_reload(true, self.clock().now());
        let hash = configured.hash.clone();
        *self.current.write() = configured.into();
        self.in_force.send_replace(hash);
        tracing::info!("reloaded encryption configuration");
        Ok(())
    }

    async fn check_new(&self, configured: &Configured) -> Result<(), EncryptionError> {
        let clock = self.clock();
        let mut last = String::new();
        let healthy = async {
            while let Err(problem) = configured.plugins.check().await {
                last = problem;
                clock.sleep(CHECK_AGAIN).await;
            }
        };
        match clock.timeout(configured.plugins.grace_period(), healthy).await {
            Some(()) => Ok(()),
            None => Err(EncryptionError::Unhealthy(last)),
        }
    }
}

pub(super) fn read(path: &Path) -> Result<Vec<u8>, EncryptionError> {
    let failed = |source| EncryptionError::Read { path: path.into(), source };
    if fs::metadata(path).map_err(failed)?.len() > MAX_BYTES {
        let source = ConfigurationError::Size;
        return Err(EncryptionError::Configuration { path: path.into(), source });
    }
    let text = fs::read(path).map_err(failed)?;
    if text.is_empty() { Err(EncryptionError::Empty(path.into())) } else { Ok(text) }
}
