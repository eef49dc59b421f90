//! Large requests, on threads of their own.
//!
//! Parsing, merging and validating an object takes time in proportion to its size, and does not yield: on a thread of the
//! runtime, a few large requests would delay every other connection. They run on threads of their own, at most one per
//! processor, which also limits the memory of all of them. A request is large by its body or by the object that it changes.
//!
//! *Invariant:* a request holds its slot until its work has ended (not while it only waits for a webhook, `waiting`), also after its client has disconnected or its deadline has
//! passed: work that began cannot be cancelled. One user holds at most half of the slots, so that the large requests of other
//! users do not wait for all of that user's.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use corten_api::Status;
use parking_lot::Mutex;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::call::Call;
use crate::dispatch::dispatch;
use crate::respond::Answer;

/// A larger body is not parsed on a thread of the runtime.
const LARGE_BODY: usize = 64 * 1024;
/// Nor is a larger object changed on one.
const LARGE_OBJECT: usize = 256 * 1024;
/// Nor is a patch applied whose size times that of the object is larger: each of its operations may move the whole
/// object.
const LARGE_PATCH: usize = 16 * 1024 * 16 * 1024;

static LINES: LazyLock<Lines> = LazyLock::new(|| {
    let processors = std::thread::available_parallelism().map_or(2, usize::from);
    Lines::new(processors.max(2))
});

/// The large requests that are processed or wait for a webhook, of one user and of all users: their memory is bounded by
/// this, since only requests that are processed hold a slot.
const MOST_OF_USER: usize = 8;
const MOST: usize = 32;

/// The queues of large requests: first those of their user, then those of all users.
struct Lines {
    begun: Arc<Semaphore>,
    places: Arc<Semaphore>,
    share: usize,
    users: Mutex<HashMap<String, Arc<UserLines>>>,
}

/// The queues of one user.
struct UserLines {
    begun: Arc<Semaphore>,
    places: Arc<Semaphore>,
}

thread_local! {
    /// The slot of the request that this thread processes.
    static PLACE: RefCell<Option<Place>> = const { RefCell::new(None) };
}

/// The slot of a request that is processed.
struct Place {
    user: String,
    /// Kept while the request waits for a webhook.
    begun: Begun,
    slot: Slot,
}

/// The place of a request that has begun.
struct Begun {
    _of_all: Option<OwnedSemaphorePermit>,
    _of_user: Option<OwnedSemaphorePermit>,
}

/// The slot of a request that is processed now.
struct Slot {
    _of_all: Option<OwnedSemaphorePermit>,
    _of_user: Option<OwnedSemaphorePermit>,
}

impl Lines {
    fn new(places: usize) -> Lines {
        Lines {
            begun: Arc::new(Semaphore::new(MOST)),
            places: Arc::new(Semaphore::new(places)),
            share: (places / 2).max(1),
            users: Mutex::default(),
        }
    }

    async fn enter(&self, user: &str) -> Place {
        let own = self.lines_of(user);
        // These semaphores are never closed.
        let of_user = own.begun.clone().acquire_owned().await.ok();
        let of_all = self.begun.clone().acquire_owned().await.ok();
        let begun = Begun { _of_all: of_all, _of_user: of_user };
        Place { user: user.to_owned(), begun, slot: self.slot(user).await }
    }

    /// A slot for a request that has begun.
    async fn slot(&self, user: &str) -> Slot {
        let own = self.lines_of(user);
        let of_user = own.places.clone().acquire_owned().await.ok();
        let of_all = self.places.clone().acquire_owned().await.ok();
        Slot { _of_all: of_all, _of_user: of_user }
    }

    /// The queue of a user; empty queues are dropped.
    fn lines_of(&self, user: &str) -> Arc<UserLines> {
        let is_used = |lines: &Arc<UserLines>| {
            Arc::strong_count(lines) > 1
                || Arc::strong_count(&lines.begun) > 1
                || Arc::strong_count(&lines.places) > 1
        };
        let mut users = self.users.lock();
        users.retain(|_, lines| is_used(lines));
        let new = || {
            let begun = Arc::new(Semaphore::new(MOST_OF_USER));
            Arc::new(UserLines { begun, places: Arc::new(Semaphore::new(self.share)) })
        };
        users.entry(user.to_owned()).or_insert_with(new).clone()
    }
}

/// Handles a request on the runtime or, if it is large, on a thread of its own. Returns the call with its warnings.
pub(crate) async fn answer(call: Call, verb: &'static str) -> (Call, Result<Answer, Status>) {
    let mut call = call;
    if !is_large(&call, verb) {
        let outcome = Box::pin(dispatch(&mut call, verb)).await;
        return (call, outcome);
    }
    let place = LINES.enter(&call.user.name).await;
    let (runtime, limit) = (Handle::current(), call.backend.limits.request_timeout);
    let work = move || {
        // The deadline applies here too: nothing else cancels the wait once the client has disconnected.
        let ended = runtime.block_on(async { tokio::time::timeout(limit, dispatch(&mut call, verb)).await });
        let late = || Status::timeout("request did not complete within the allotted timeout", 0);
        (call, ended.unwrap_or_else(|_| Err(late())))
    };
    work_on(place, work).await
}

/// Runs work on a thread of its own, in a slot that is freed once the work has ended.
async fn work_on<T: Send + 'static>(place: Place, work: impl FnOnce() -> T + Send + 'static) -> T {
    let worker = tokio::task::spawn_blocking(move || {
        // Freed at the end, also if the work panics.
        struct Held;
        impl Drop for Held {
            fn drop(&mut self) {
                PLACE.take();
            }
        }
        PLACE.set(Some(place));
        let _held = Held;
        work()
    });
    match worker.await {
        Ok(done) => done,
        // Propagates the panic, as if the work had run here.
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

/// Waits for another server without holding a slot: a slow one must not delay the large requests of others.
pub(crate) async fn waiting<T>(other: impl Future<Output = T>) -> T {
    // A large request is polled on its own thread only.
    let Some(place) = PLACE.take() else { return other.await };
    let Place { user, begun, slot } = place;
    drop(slot);
    let outcome = other.await;
    let slot = LINES.slot(&user).await;
    PLACE.set(Some(Place { user, begun, slot }));
    outcome
}

/// Runs a user's large work on a thread of its own. Must not be called while a slot is held.
pub(crate) async fn apart<T: Send + 'static>(user: &str, work: impl FnOnce() -> T + Send + 'static) -> T {
    work_on(LINES.enter(user).await, work).await
}

/// Runs work that may take long on this thread, after the runtime has handed its other tasks to another thread.
pub(crate) fn blocking<T>(work: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        // A test without threads, or no runtime at all.
        _ => work(),
    }
}

/// The resources whose expressions are compiled when they are written: the work is not in proportion to the body.
const WITH_EXPRESSIONS: [(&str, &str); 8] = [
    ("admissionregistration.k8s.io", "mutatingadmissionpolicies"),
    ("admissionregistration.k8s.io", "mutatingwebhookconfigurations"),
    ("admissionregistration.k8s.io", "validatingadmissionpolicies"),
    ("admissionregistration.k8s.io", "validatingwebhookconfigurations"),
    ("apiextensions.k8s.io", "customresourcedefinitions"),
    ("resource.k8s.io", "deviceclasses"),
    ("resource.k8s.io", "resourceclaims"),
    ("resource.k8s.io", "resourceclaimtemplates"),
];

fn is_large(call: &Call, verb: &str) -> bool {
    // Reads have no body, and determine the size of their response themselves.
    if matches!(verb, "get" | "list") {
        return false;
    }
    if call.body.len() > LARGE_BODY {
        return true;
    }
    let has_expressions = WITH_EXPRESSIONS.contains(&(call.served.group(), call.served.name()));
    let is_slow = has_expressions || call.served.custom().is_some_and(|version| version.is_slow());
    if is_slow && matches!(verb, "create" | "update" | "patch") {
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
    async fn cancelled_work_keeps_its_slot_until_it_has_ended() {
        let lines = Lines::new(2);
        let (go_on, wait) = mpsc::channel::<()>();
        let place = lines.enter("bad").await;
        let mut cancelled = Box::pin(work_on(place, move || wait.recv().is_ok()));
        assert!(cancelled.as_mut().now_or_never().is_none());
        drop(cancelled);
        assert_eq!(lines.places.available_permits(), 1, "the thread works on and keeps its place");
        go_on.send(()).unwrap();
        let _both = lines.places.clone().acquire_many_owned(2).await.unwrap();
    }

    #[tokio::test]
    async fn one_user_does_not_get_all_slots() {
        let lines = Lines::new(4);
        let held = [lines.enter("bad").await, lines.enter("bad").await];
        let mut third = Box::pin(lines.enter("bad"));
        assert!(third.as_mut().now_or_never().is_none());
        let other = lines.enter("good").await;
        assert_eq!(lines.places.available_permits(), 1);
        drop(held);
        third.await;
        drop(other);
        drop(lines.lines_of("else"));
        assert_eq!(lines.users.lock().len(), 1, "users without requests are dropped");
    }
}
