//! Memory after load: code that only load needed is released, as after a start. There is no timer while nothing is written.

use std::time::Duration;

use corten_store::Revision;
use tokio::sync::watch::Receiver;

/// The time over which writes are counted.
const PERIOD: Duration = Duration::from_secs(60);
/// The number of writes in a period from which on it is load.
const LOAD: Revision = 1_000;

/// Releases memory after each load, until the store closes.
pub(super) async fn release_after_load(mut progress: Receiver<Revision>) {
    let mut was_loaded = false;
    loop {
        if !was_loaded && progress.changed().await.is_err() {
            return;
        }
        let before = *progress.borrow_and_update();
        tokio::time::sleep(PERIOD).await;
        let is_loaded = *progress.borrow_and_update() >= before + LOAD;
        if was_loaded
            && !is_loaded
            && let Err(error) = corten_sys::memory::forget_code()
        {
            tracing::debug!(err = %error, "cannot release memory used under load");
        }
        was_loaded = is_loaded;
    }
}
