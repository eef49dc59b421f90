//! What a command that runs until it is told to stop does meanwhile.

use std::time::Duration;

use anyhow::Context;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// How long starting takes at most, with everything that follows from it.
const SETTLED: Duration = Duration::from_secs(5);

/// SIGTERM and SIGINT, once anybody waits for them.
pub(crate) struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
}

impl StopSignals {
    pub(crate) fn install() -> anyhow::Result<StopSignals> {
        Ok(StopSignals {
            terminate: signal(SignalKind::terminate()).context("listening for SIGTERM")?,
            interrupt: signal(SignalKind::interrupt()).context("listening for SIGINT")?,
        })
    }

    /// Waits for either. What only starting needed is given back on the way.
    pub(crate) async fn wait(mut self) {
        if tokio::time::timeout(SETTLED, self.either()).await.is_ok() {
            return;
        }
        if let Err(error) = corten_sys::memory::forget_code() {
            tracing::debug!(%error, "code stays in memory");
        }
        self.either().await;
    }

    async fn either(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
