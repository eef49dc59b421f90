//! The signals that stop a command, SIGTERM and SIGINT.

use std::time::Duration;

use anyhow::Context;
use corten_store::Store;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The time in which a start is complete, with its follow-up work.
const SETTLED: Duration = Duration::from_secs(5);

/// Handlers of SIGTERM and SIGINT.
pub(crate) struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
}

impl StopSignals {
    pub(crate) fn install() -> anyhow::Result<StopSignals> {
        Ok(StopSignals {
            terminate: signal(SignalKind::terminate()).context("cannot handle SIGTERM")?,
            interrupt: signal(SignalKind::interrupt()).context("cannot handle SIGINT")?,
        })
    }

    /// Waits for either signal. Once the start is complete, memory that only the start needed is released.
    pub(crate) async fn wait(mut self) {
        if tokio::time::timeout(SETTLED, self.either()).await.is_ok() {
            return;
        }
        if let Err(error) = corten_sys::memory::forget_code() {
            tracing::debug!(err = %error, "cannot release memory used during startup");
        }
        self.either().await;
    }

    /// Waits for either signal, or for a disk that fails in a way that only another start can overcome: then an error.
    pub(crate) async fn wait_unless_failed(self, store: &Store) -> anyhow::Result<()> {
        tokio::select! {
            () = self.wait() => Ok(()),
            error = store.failed() => Err(error).context("the datastore failed"),
        }
    }

    async fn either(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
