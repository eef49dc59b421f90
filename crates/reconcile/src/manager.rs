//! The manager: runs controllers until it is dropped. Each has a queue, fed by the caches, and a few workers.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use corten_base::{Backoff, Clock};
use corten_client::{Caches, Client, Key};
use futures_util::FutureExt;
use futures_util::future::join_all;
use parking_lot::Mutex;
use tokio::task::JoinSet;

use crate::events::Recorder;
use crate::execute::{self, Written};
use crate::{Controller, Plan, Queue, Selection, metrics};

/// The longest wait for a cache to show a write; after that the reconcile proceeds with a stale cache.
const STALE: Duration = Duration::from_secs(5);

/// Returns the client with the identity of a controller.
pub type ClientFor = Box<dyn Fn(&'static str) -> Client + Send + Sync>;

pub struct Manager {
    client: Client,
    client_for: ClientFor,
    caches: Caches,
    clock: Clock,
    recorder: Recorder,
    selection: Selection,
    queues: Mutex<Vec<(&'static str, Arc<Queue>)>>,
    tasks: Mutex<JoinSet<()>>,
}

impl Manager {
    /// Caches and events use `client`; each controller has a client of its own.
    pub fn new(client: Client, client_for: ClientFor, clock: Clock) -> Manager {
        let mut tasks = JoinSet::new();
        let recorder = Recorder::start(&client, clock.clone(), &mut tasks);
        let caches = Caches::new(client.clone(), clock.clone());
        let (queues, tasks, selection) = (Mutex::default(), Mutex::new(tasks), Selection::default());
        Manager { client, client_for, caches, clock, recorder, selection, queues, tasks }
    }

    /// Restricts the controllers that `run` starts.
    #[must_use]
    pub fn only(self, selection: Selection) -> Manager {
        Manager { selection, ..self }
    }

    /// True if a controller is selected. `run` checks this by itself.
    pub fn is_selected(&self, controller: &str) -> bool {
        self.selection.includes(controller)
    }

    /// The metrics of the queues, in Prometheus' text format.
    pub fn metrics(&self) -> String {
        let queues = self.queues.lock();
        let figures: Vec<_> = queues.iter().map(|(name, queue)| (*name, queue.figures())).collect();
        metrics::text(&figures)
    }

    /// The client of a controller; the manager's own for an empty name.
    pub fn client_for(&self, controller: &'static str) -> Client {
        if controller.is_empty() { self.client.clone() } else { (self.client_for)(controller) }
    }

    pub fn client(&self) -> &Client {
        &self.client
    }

    pub fn caches(&self) -> &Caches {
        &self.caches
    }

    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    pub fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    /// Runs a task that is not a `Controller`.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.lock().spawn(task);
    }

    /// A queue that is part of this manager's metrics and idle state.
    pub fn queue(&self, name: &'static str) -> Arc<Queue> {
        self.queue_retrying(name, Queue::RETRY)
    }

    fn queue_retrying(&self, name: &'static str, retry: Backoff) -> Arc<Queue> {
        let queue = Arc::new(Queue::retrying(self.clock.clone(), retry));
        self.queues.lock().push((name, queue.clone()));
        queue
    }

    /// Starts a controller if it is selected. Returns its queue, for callers that add keys besides those of its
    /// watches.
    pub fn run<C: Controller>(&self, controller: C) -> Option<Arc<Queue>> {
        if !self.is_selected(controller.name()) {
            return None;
        }
        let controller = Arc::new(controller);
        let queue = self.queue_retrying(controller.queue(), controller.retry());
        for watch in controller.watches() {
            let (queue, caches) = (queue.clone(), self.caches.clone());
            let settle = controller.settle(watch.kind);
            self.caches.of(watch.kind).subscribe(move |change| {
                let mut keys = Vec::new();
                (watch.keys)(&caches, change, &mut keys);
                for key in keys {
                    if settle.is_zero() {
                        queue.add(key);
                    } else {
                        queue.add_after(key, settle);
                    }
                }
            });
        }
        let pending = Arc::new(Mutex::new(HashMap::new()));
        let client = self.client_for(controller.account());
        for _ in 0..controller.workers() {
            let worker = Worker {
                controller: controller.clone(),
                queue: queue.clone(),
                client: client.clone(),
                caches: self.caches.clone(),
                clock: self.clock.clone(),
                recorder: self.recorder.clone(),
                pending: pending.clone(),
            };
            self.spawn(worker.run());
        }
        Some(queue)
    }

    /// True if no work is left before the clock advances.
    pub fn is_idle(&self) -> bool {
        self.queues.lock().iter().all(|(_, queue)| queue.is_idle()) && self.recorder.is_idle()
    }
}

struct Worker<C> {
    controller: Arc<C>,
    queue: Arc<Queue>,
    client: Client,
    caches: Caches,
    clock: Clock,
    recorder: Recorder,
    /// The last writes by key, which the caches may not show yet.
    pending: Arc<Mutex<HashMap<Key, Vec<Written>>>>,
}

impl<C: Controller> Worker<C> {
    async fn run(self) {
        for watch in self.controller.watches() {
            self.caches.of(watch.kind).synced().await;
        }
        loop {
            let key = self.queue.next().await;
            // A panic fails only this key: the others go on, and the key is retried.
            let (failed, requeue_after) = match AssertUnwindSafe(self.reconcile(&key)).catch_unwind().await {
                Ok(outcome) => outcome,
                Err(_) => {
                    tracing::error!(controller = self.controller.name(), %key, "controller panicked while reconciling; retrying");
                    (true, None)
                }
            };
            self.queue.done(&key, failed, requeue_after);
        }
    }

    /// Reconciles one key. Returns whether it failed, and the delay until the next reconcile.
    async fn reconcile(&self, key: &Key) -> (bool, Option<Duration>) {
        self.await_own_writes(key).await;
        let mut world = self.controller.observe(&self.caches, key);
        self.read_asked_paths(&mut world).await;
        let now = self.clock.now();
        let plan = self.controller.plan(key, &world, now);
        let report = execute::execute(&self.client, &plan).await;
        let mut written = execute::written(&report);
        let conclusion = self.controller.conclude(key, &world, &report, now);
        let concluded = execute::execute(&self.client, &conclusion).await;
        written.extend(execute::written(&concluded));
        if !written.is_empty() {
            self.pending.lock().insert(key.clone(), written);
        }
        let mut failed = plan.retry || conclusion.retry;
        let Plan { events, requeue_after, .. } = plan;
        for event in events.into_iter().chain(conclusion.events) {
            self.recorder.record(event);
        }
        for (action, error) in report.failures().chain(concluded.failures()) {
            // Nothing can be created in a terminating namespace, and nothing has to be.
            if error.has_cause("NamespaceTerminating") {
                continue;
            }
            failed = true;
            if !execute::is_retryable(error) {
                let (controller, kind) = (self.controller.name(), &action.kind().plural);
                tracing::warn!(controller, %key, %kind, err = %error, "reconcile request failed; retrying");
            }
        }
        let again = requeue_after.into_iter().chain(conclusion.requeue_after).min();
        (failed, again)
    }

    /// Reads the paths that the controller asks for.
    async fn read_asked_paths(&self, world: &mut C::World) {
        loop {
            let paths = self.controller.ask(world);
            if paths.is_empty() {
                return;
            }
            let answers = join_all(paths.iter().map(|path| self.client.read(path))).await;
            for (path, answer) in paths.iter().zip(answers) {
                self.controller.learn(world, path, answer);
            }
        }
    }

    /// Waits for the caches to show the last writes of a key: without them, a reconcile would repeat those.
    async fn await_own_writes(&self, key: &Key) {
        let Some(written) = self.pending.lock().remove(key) else { return };
        let seen = async {
            for written in &written {
                execute::wait_for(&self.caches, written).await;
            }
        };
        if self.clock.timeout(STALE, seen).await.is_none() {
            tracing::debug!(controller = self.controller.name(), %key, "caches are stale; reconciling anyway");
        }
    }
}

#[cfg(test)]
mod tests;
