//! Large requests, away from the threads that serve all others.
//!
//! Reading, merging and validating an object takes time in proportion to its size, and does not pause: on a
//! thread of the runtime, a few large requests would keep every other connection waiting. They are worked on by
//! threads of their own, as many at once as the machine has processors, which also limits the memory they hold
//! together. Whether a request is large is decided by what it sends and by the object it changes.
//!
//! *Invariant:* a request has its place until its work has ended, also when its client is gone or its time is
//! over: work that began cannot be taken back. Half of the places are the most that one user has, so that the
//! large requests of others do not stand in line behind all of theirs.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use corten_api::Status;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::call::Call;
use crate::dispatch::dispatch;
use crate::respond::Answer;

/// A larger body is not read on a thread of the runtime.
const LARGE_BODY: usize = 64 * 1024;
/// Nor is a larger object changed on one.
const LARGE_OBJECT: usize = 256 * 1024;
/// Nor is a patch applied whose size times that of the object is larger: each of its operations may move all
/// that the object has.
const LARGE_PATCH: usize = 16 * 1024 * 16 * 1024;

static LINES: LazyLock<Lines> = LazyLock::new(|| {
    let processors = std::thread::available_parallelism().map_or(2, usize::from);
    Lines::new(processors.max(2))
});

/// Where large requests wait: first among those of their user, then among all.
struct Lines {
    places: Arc<Semaphore>,
    share: usize,
    users: Mutex<HashMap<String, Arc<Semaphore>>>,
}

/// The place of a request that is worked on.
struct Place {
    _of_all: Option<OwnedSemaphorePermit>,
    _of_user: Option<OwnedSemaphorePermit>,
}

impl Lines {
    fn new(places: usize) -> Lines {
        Lines {
            places: Arc::new(Semaphore::new(places)),
            share: (places / 2).max(1),
            users: Mutex::default(),
        }
    }

    async fn enter(&self, user: &str) -> Place {
        let own = self.line_of(user);
        // Semaphores that are never closed.
        let of_user = own.acquire_owned().await.ok();
        let of_all = self.places.clone().acquire_owned().await.ok();
        Place { _of_all: of_all, _of_user: of_user }
    }

    /// The line of a user; empty queues are dropped.
    fn line_of(&self, user: &str) -> Arc<Semaphore> {
        let mut users = self.users.lock();
        users.retain(|_, line| Arc::strong_count(line) > 1);
        users.entry(user.to_owned()).or_insert_with(|| Arc::new(Semaphore::new(self.share))).clone()
    }
}

/// Answers a request where its size belongs. The call comes back with what it was given to say.
pub(crate) async fn answer(call: Call, verb: &'static str) -> (Call, Result<Answer, Status>) {
    let mut call = call;
    if !is_large(&call, verb) {
        let outcome = Box::pin(dispatch(&mut call, verb)).await;
        return (call, outcome);
    }
    let place = LINES.enter(&call.user.name).await;
    let (runtime, limit) = (Handle::current(), call.backend.limits.request_timeout);
    let work = move || {
        // Where it waits, its deadline applies here too: nothing else cancels it once its client has disconnected.
        let ended = runtime.block_on(async { tokio::time::timeout(limit, dispatch(&mut call, verb)).await });
        let late = || Status::timeout("request did not complete within the allotted timeout", 0);
        (call, ended.unwrap_or_else(|_| Err(late())))
    };
    work_on(place, work).await
}

/// Does work on a thread of its own, in a place that is free again once the work has ended.
async fn work_on<T: Send + 'static>(place: Place, work: impl FnOnce() -> T + Send + 'static) -> T {
    let worker = tokio::task::spawn_blocking(move || {
        let _place = place;
        work()
    });
    match worker.await {
        Ok(done) => done,
        // It panicked, as it would have here.
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

/// Does a user's large work apart from the runtime's threads. Not to be asked for in a place that is held already.
pub(crate) async fn apart<T: Send + 'static>(user: &str, work: impl FnOnce() -> T + Send + 'static) -> T {
    work_on(LINES.enter(user).await, work).await
}

fn is_large(call: &Call, verb: &str) -> bool {
    // What is read has no use for a body, and finds out itself how large it is.
    if matches!(verb, "get" | "list") {
        return false;
    }
    if call.body.len() > LARGE_BODY {
        return true;
    }
    if !matches!(verb, "update" | "patch") {
        return false;
    }
    let current = || call.served.cache.as_ref()?.get(&call.at.namespace, &call.at.name);
    current().is_some_and(|object| {
        let (size, body) = (object.json.len(), call.body.len());
        size > LARGE_OBJECT || (verb == "patch" && size.saturating_mul(body) > LARGE_PATCH)
    })
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn work_that_is_given_up_keeps_its_place_until_it_has_ended() {
        let lines = Lines::new(2);
        let (go_on, told) = mpsc::channel::<()>();
        let place = lines.enter("bad").await;
        let mut given_up = Box::pin(work_on(place, move || told.recv().is_ok()));
        assert!(given_up.as_mut().now_or_never().is_none());
        drop(given_up);
        assert_eq!(lines.places.available_permits(), 1, "the thread works on and keeps its place");
        go_on.send(()).unwrap();
        let _both = lines.places.clone().acquire_many_owned(2).await.unwrap();
    }

    #[tokio::test]
    async fn one_user_does_not_have_all_places() {
        let lines = Lines::new(4);
        let held = [lines.enter("bad").await, lines.enter("bad").await];
        let mut third = Box::pin(lines.enter("bad"));
        assert!(third.as_mut().now_or_never().is_none());
        let other = lines.enter("good").await;
        assert_eq!(lines.places.available_permits(), 1);
        drop(held);
        third.await;
        drop(other);
        drop(lines.line_of("else"));
        assert_eq!(lines.users.lock().len(), 1, "who has nothing to do is forgotten");
    }
}
