//! The pods of this node: one worker each, told of whatever concerns it.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use corten_client::Key;
use corten_container::ContainerEvent;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::followed::Followed;
use crate::machine::Machine;
use crate::observed::Observed;
use crate::pod::Pod;
use crate::status::Ended;
use crate::watched::Watched;
use crate::worker::{Orders, Worker};

#[derive(Default)]
pub(crate) struct Pods(Mutex<State>);

#[derive(Default)]
struct State {
    workers: HashMap<String, Arc<Orders>>,
    /// Whose sandbox is whose: events only name sandboxes.
    sandboxes: HashMap<String, String>,
}

impl Pods {
    /// Takes in a pod as somebody wants it now; whoever is new gets a worker.
    pub(crate) fn want(machine: &Arc<Machine>, pod: Pod) {
        if !pod.is_static() {
            Watched::follow(machine, &pod);
            Followed::follow(machine, |machine| &machine.trust, &pod);
            Followed::follow(machine, |machine| &machine.certificates.requests, &pod);
        }
        let mut state = machine.pods.0.lock();
        if let Some(orders) = state.workers.get(pod.uid()) {
            match orders.unwanted.load(Ordering::Acquire) {
                // It is on its way out and has to end before it can begin again.
                true => *orders.again.lock() = Some(pod),
                false => *orders.pod.lock() = pod,
            }
            orders.stale.store(true, Ordering::Release);
            orders.changed.notify_one();
            return;
        }
        let uid = pod.uid().to_owned();
        let orders = Arc::new(Orders {
            pod: Mutex::new(pod),
            unwanted: AtomicBool::new(false),
            again: Mutex::default(),
            stale: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
            ended: Mutex::default(),
            changed: Notify::new(),
        });
        state.workers.insert(uid, orders.clone());
        tokio::spawn(Worker::new(machine.clone(), orders).run());
    }

    /// Nobody wants a pod any more: what is left of it goes.
    pub(crate) fn drop_wish(&self, uid: &str) {
        if let Some(orders) = self.0.lock().workers.get(uid) {
            orders.unwanted.store(true, Ordering::Release);
            *orders.again.lock() = None;
            orders.changed.notify_one();
        }
    }

    /// Whether a static pod has to wait for another of its name that is on its way out.
    pub(crate) fn is_held_up(&self, pod: &Pod) -> bool {
        let state = self.0.lock();
        state.workers.iter().any(|(uid, orders)| {
            uid != pod.uid()
                && orders.unwanted.load(Ordering::Acquire)
                && orders.pod.lock().key() == pod.key()
        })
    }

    /// Something happened to what the API server shows of a static pod; whether there is one.
    pub(crate) fn wake_static(&self, key: &Key) -> bool {
        let state = self.0.lock();
        let is_it = |orders: &&Arc<Orders>| {
            let pod = orders.pod.lock();
            pod.is_static() && pod.key() == key
        };
        state.workers.values().filter(is_it).inspect(|orders| orders.changed.notify_one()).count() > 0
    }

    /// The node gives a pod up.
    pub(crate) fn end(&self, uid: &str, ended: Ended) {
        if let Some(orders) = self.0.lock().workers.get(uid) {
            orders.ended.lock().get_or_insert(ended);
            orders.changed.notify_one();
        }
    }

    /// Whether a pod may have something at work, now or later.
    pub(crate) fn is_at_work(&self, uid: &str) -> bool {
        self.0.lock().workers.get(uid).is_some_and(|orders| orders.is_at_work())
    }

    /// Every pod that may have something at work, as it was last wanted.
    pub(crate) fn at_work(&self) -> Vec<Pod> {
        let state = self.0.lock();
        let at_work = state.workers.values().filter(|orders| orders.is_at_work());
        at_work.map(|orders| orders.pod.lock().clone()).collect()
    }

    /// Remembers which sandboxes are a pod's.
    pub(crate) fn runs_in(&self, pod: &Pod, observed: &Observed) {
        let mut state = self.0.lock();
        for sandbox in &observed.sandboxes {
            state.sandboxes.insert(sandbox.id.clone(), pod.uid().to_owned());
        }
    }

    /// Something happened to a container.
    pub(crate) fn told(&self, event: &ContainerEvent) {
        let state = self.0.lock();
        let uid = state.sandboxes.get(&event.pod_sandbox_id);
        if let Some(orders) = uid.and_then(|uid| state.workers.get(uid)) {
            orders.changed.notify_one();
        }
    }

    /// Something happened to what a pod has.
    pub(crate) fn wake(&self, uid: &str) {
        if let Some(orders) = self.0.lock().workers.get(uid) {
            orders.changed.notify_one();
        }
    }

    /// What a pod has mounted is not what it was.
    pub(crate) fn refresh(&self, uid: &str) {
        if let Some(orders) = self.0.lock().workers.get(uid) {
            orders.stale.store(true, Ordering::Release);
            orders.changed.notify_one();
        }
    }

    /// Everybody looks again.
    pub(crate) fn wake_all(&self) {
        for orders in self.0.lock().workers.values() {
            orders.changed.notify_one();
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.0.lock().workers.len()
    }

    /// Every pod as it was last wanted.
    pub(crate) fn all(&self) -> Vec<Pod> {
        self.0.lock().workers.values().map(|orders| orders.pod.lock().clone()).collect()
    }

    /// The pod of a name; of two, the one that is not on its way out.
    pub(crate) fn find(&self, namespace: &str, name: &str) -> Option<Pod> {
        let named = |pod: &Pod| pod.namespace() == namespace && pod.name() == name;
        self.all().into_iter().filter(named).min_by_key(|pod| pod.deleted_at().is_some())
    }

    pub(crate) fn uids(&self) -> Vec<String> {
        self.0.lock().workers.keys().cloned().collect()
    }

    pub(crate) fn forget(&self, uid: &str) {
        let mut state = self.0.lock();
        let gone = state.workers.remove(uid);
        state.sandboxes.retain(|_, owner| owner != uid);
        if let Some(pod) = gone.map(|orders| orders.pod.lock().clone()).filter(Pod::is_static) {
            drop(state);
            self.wake_static(pod.key());
        }
    }
}
