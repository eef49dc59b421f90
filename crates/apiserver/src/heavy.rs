//! Large requests, away from the threads that serve all others.
//!
//! Reading, merging and validating an object takes time in proportion to its size, and does not pause: on a
//! thread of the runtime, a few large requests would keep every other connection waiting. They are worked on by
//! threads of their own, as many at once as the machine has processors, which also limits the memory they hold
//! together. Whether a request is large is decided by what it sends and by the object it changes.

use std::sync::LazyLock;

use corten_api::Status;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

use crate::call::Call;
use crate::dispatch::dispatch;
use crate::respond::Answer;

/// A larger body is not read on a thread of the runtime.
const LARGE_BODY: usize = 64 * 1024;
/// Nor is a larger object changed on one.
const LARGE_OBJECT: usize = 256 * 1024;

/// The requests that are worked on at once.
static PLACES: LazyLock<Semaphore> = LazyLock::new(|| {
    let processors = std::thread::available_parallelism().map_or(2, usize::from);
    Semaphore::new(processors.max(2))
});

/// Answers a request where its size belongs. The call comes back with what it was given to say.
pub(crate) async fn answer(call: Call, verb: &'static str) -> (Call, Result<Answer, Status>) {
    let mut call = call;
    if !is_large(&call, verb) {
        let outcome = Box::pin(dispatch(&mut call, verb)).await;
        return (call, outcome);
    }
    // The semaphore is never closed.
    let _place = PLACES.acquire().await.ok();
    let runtime = Handle::current();
    let worker = tokio::task::spawn_blocking(move || {
        let outcome = runtime.block_on(dispatch(&mut call, verb));
        (call, outcome)
    });
    match worker.await {
        Ok(done) => done,
        // It panicked, as it would have here.
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

fn is_large(call: &Call, verb: &str) -> bool {
    if call.body.len() > LARGE_BODY {
        return true;
    }
    let changes = matches!(verb, "update" | "patch");
    let current = || call.served.cache.as_ref()?.get(&call.at.namespace, &call.at.name);
    changes && current().is_some_and(|object| object.json.len() > LARGE_OBJECT)
}
