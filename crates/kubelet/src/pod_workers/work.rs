//! The requests to one pod's worker, and the worker's state as the rest of the kubelet sees it.
//!
//! Requests are kept, not queued: a worker that was busy sees the latest of each.

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::state::{Facts, PodWorkerState, transition};
use crate::pod::Pod;
use crate::status::Ended;

/// The state that one worker shares with the rest of the kubelet.
pub(crate) struct PodWork {
    inner: Mutex<Inner>,
    changed: Notify,
}

struct Inner {
    /// The pod as its source last named it.
    pod: Pod,
    /// Set once the pod's source no longer names it.
    removed: Option<Removed>,
    /// The reason of an eviction or preemption.
    evicted: Option<Ended>,
    /// The contents of the pod's volumes may be outdated.
    volumes_outdated: bool,
    state: PodWorkerState,
}

/// The removal of a pod from its source.
#[derive(Default)]
struct Removed {
    /// The same pod, which its source has named again meanwhile. It starts once this one is gone.
    replacement: Option<Pod>,
}

impl PodWork {
    pub(super) fn new(pod: Pod) -> PodWork {
        let state = PodWorkerState::NEW;
        let inner = Inner { pod, removed: None, evicted: None, volumes_outdated: false, state };
        PodWork { inner: Mutex::new(inner), changed: Notify::new() }
    }

    /// The pod as its source last named it.
    pub(crate) fn pod(&self) -> Pod {
        self.inner.lock().pod.clone()
    }

    /// Takes over a new version of the pod. After a removal it is kept until the worker is done.
    pub(super) fn update(&self, pod: Pod) {
        let mut inner = self.inner.lock();
        match &mut inner.removed {
            Some(removed) => removed.replacement = Some(pod),
            None => inner.pod = pod,
        }
        inner.volumes_outdated = true;
        self.changed.notify_one();
    }

    /// The pod's source no longer names it.
    pub(super) fn remove(&self) {
        self.inner.lock().removed = Some(Removed::default());
        self.changed.notify_one();
    }

    /// Evicts the pod. The first reason counts.
    pub(super) fn evict(&self, ended: Ended) {
        self.inner.lock().evicted.get_or_insert(ended);
        self.changed.notify_one();
    }

    /// Makes the worker write the pod's volumes anew.
    pub(super) fn refresh_volumes(&self) {
        self.inner.lock().volumes_outdated = true;
        self.changed.notify_one();
    }

    /// Makes the worker sync.
    pub(crate) fn sync(&self) {
        self.changed.notify_one();
    }

    /// Waits for the next request to sync.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    pub(super) fn is_removed(&self) -> bool {
        self.inner.lock().removed.is_some()
    }

    /// The reason of the pod's eviction, if it was evicted.
    pub(super) fn evicted(&self) -> Option<Ended> {
        self.inner.lock().evicted.clone()
    }

    /// The pod that replaces this one once it is gone.
    pub(super) fn take_replacement(&self) -> Option<Pod> {
        self.inner.lock().removed.as_mut()?.replacement.take()
    }

    /// Returns true if the volumes were outdated, and marks them as current.
    pub(super) fn take_volumes_outdated(&self) -> bool {
        std::mem::take(&mut self.inner.lock().volumes_outdated)
    }

    pub(super) fn state(&self) -> PodWorkerState {
        self.inner.lock().state.clone()
    }

    /// Takes one step in the worker's state machine, and returns the state after it.
    pub(super) fn advance(&self, facts: &Facts) -> PodWorkerState {
        let mut inner = self.inner.lock();
        inner.state = transition(inner.state.clone(), facts);
        inner.state.clone()
    }

    /// Marks admission as decided; false if it was before.
    pub(super) fn begin_admission(&self) -> bool {
        match &mut self.inner.lock().state {
            PodWorkerState::Syncing { admitted } => !std::mem::replace(admitted, true),
            _ => false,
        }
    }

    /// Returns true if containers of the pod may run, now or later.
    pub(super) fn could_have_running_containers(&self) -> bool {
        self.inner.lock().state.could_have_running_containers()
    }

    /// Runs `work` to its end, or until the pod is requested to terminate: `None` then.
    pub(crate) async fn unless_terminating<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let mut work = std::pin::pin!(work);
        let done = loop {
            if self.is_requested_to_terminate() {
                break None;
            }
            tokio::select! {
                done = &mut work => break Some(done),
                () = self.changed() => {}
            }
        };
        // A request that came meanwhile was consumed here; the worker has to see it.
        self.sync();
        done
    }

    fn is_requested_to_terminate(&self) -> bool {
        let inner = self.inner.lock();
        inner.removed.is_some() || inner.evicted.is_some() || inner.pod.deleted_at().is_some()
    }
}
