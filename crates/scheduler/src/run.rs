//! Runs the scheduler: feeds the caches' changes to the engine, and carries out its steps.
//!
//! One task decides. Bindings are written concurrently, so that many share a commit of the store; when too many are
//! pending, deciding waits.

mod volumes;

use std::sync::Arc;
use std::time::Duration;

use corten_api::{Value, meta, time, value};
use corten_base::{Backoff, Clock};
use corten_client::{Cache, Caches, Client, DeleteOptions, Error, Key, Kind, Object, Patch, kinds};
use corten_reconcile::{Event, Manager, Recorder};
use jiff::Timestamp;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::sync::{Semaphore, TryAcquireError};
use tokio::task::JoinSet;

use crate::config::Config;
use crate::engine::{Change, Engine, Step, WENT_WRONG};
use crate::framework::Nomination;
use crate::metrics::{Metrics, Outcome};
use crate::node::Node;
use crate::plugins::{default_binder, volume_binding};
use crate::pod::{Pod, Shapes};
use crate::storage::Stored;
use crate::workloads::Selecting;
use volumes::VolumePreparation;

/// The number of concurrent requests.
const CONCURRENT_REQUESTS: usize = 96;
/// The most assumed pods without a confirmed binding.
const MAX_ASSUMED: usize = 4096;
/// The number of decisions before other tasks run.
const DECISIONS_PER_TURN: usize = 64;
/// The backoff of reading a pod whose binding has no response.
const CONFIRM_RETRY: Backoff =
    Backoff { first: Duration::from_millis(100), longest: Duration::from_secs(10) };
/// The longest event message.
const MAX_MESSAGE: usize = 1024;

/// Starts the scheduler; it ends with the manager. Bindings and events go through the client.
pub fn start(manager: &Manager, client: Client, config: Config) -> Arc<Metrics> {
    let (changes, inbox) = mpsc::unbounded_channel();
    let shapes = Arc::new(Shapes::default());
    let followed = subscribe_all(manager.caches(), &changes, &shapes);
    let metrics = Arc::new(Metrics::default());
    let clock = manager.clock().clone();
    let seed = u64::try_from(clock.now().as_microsecond()).unwrap_or(1);
    let scheduler = Scheduler {
        engine: Engine::new(config, seed),
        inbox,
        writer: Writer {
            quiet: client.without_answers(),
            client,
            recorder: manager.recorder().clone(),
            clock: clock.clone(),
            changes,
            room: Arc::new(Semaphore::new(CONCURRENT_REQUESTS)),
            volumes: Arc::new(VolumePreparation::new(manager.caches(), clock.clone())),
        },
        clock,
        metrics: metrics.clone(),
        requests: JoinSet::new(),
    };
    manager.spawn(async move {
        for cache in followed {
            cache.synced().await;
        }
        scheduler.run().await;
    });
    metrics
}

/// Converts a change of an object.
type Read = Box<dyn Fn(&Key, Option<&Object>) -> Change + Send + Sync>;

/// Sends every relevant change to the engine, converted.
fn subscribe_all(
    caches: &Caches,
    changes: &UnboundedSender<Change>,
    shapes: &Arc<Shapes>,
) -> Vec<Arc<Cache>> {
    let mut followed = Vec::new();
    let mut each = |kind: &Kind, read: Read| {
        let cache = caches.of(kind);
        let changes = changes.clone();
        cache.subscribe(move |change| {
            // Without a receiver, the scheduler has stopped.
            let _ = changes.send(read(&change.object().key, change.new.as_deref()));
        });
        followed.push(cache);
    };
    let shapes = shapes.clone();
    each(
        &kinds::PODS,
        Box::new(move |key, object| Change::Pod {
            key: key.clone(),
            pod: object.map(|object| Arc::new(object.with_tree(|tree| Pod::of(tree, &shapes)))),
        }),
    );
    each(
        &kinds::NODES,
        Box::new(|key, object| Change::Node {
            name: key.name.clone(),
            node: object.map(|object| Arc::new(object.with_tree(Node::of))),
        }),
    );
    each(
        &kinds::NAMESPACES,
        Box::new(|key, object| Change::Namespace {
            name: key.name.clone(),
            labels: object.map(|object| object.labels.clone()),
        }),
    );
    for (kind, stored) in [
        (&kinds::PERSISTENT_VOLUMES, Stored::Volume),
        (&kinds::PERSISTENT_VOLUME_CLAIMS, Stored::Claim),
        (&kinds::STORAGE_CLASSES, Stored::Class),
        (&kinds::CSI_NODES, Stored::CsiNode),
        (&kinds::CSI_DRIVERS, Stored::CsiDriver),
        (&kinds::CSI_STORAGE_CAPACITIES, Stored::Capacity),
        (&kinds::VOLUME_ATTACHMENTS, Stored::Attachment),
    ] {
        each(
            kind,
            Box::new(move |key, object| Change::Storage {
                kind: stored,
                key: key.clone(),
                object: object.map(Object::tree),
            }),
        );
    }
    each(
        &kinds::POD_DISRUPTION_BUDGETS,
        Box::new(|key, object| Change::Budget { key: key.clone(), object: object.map(Object::tree) }),
    );
    for (kind, selecting) in [
        (&kinds::SERVICES, Selecting::Service),
        (&kinds::REPLICATION_CONTROLLERS, Selecting::ReplicationController),
        (&kinds::REPLICA_SETS, Selecting::ReplicaSet),
        (&kinds::STATEFUL_SETS, Selecting::StatefulSet),
    ] {
        each(
            kind,
            Box::new(move |key, object| Change::Workload {
                kind: selecting,
                key: key.clone(),
                object: object.map(Object::tree),
            }),
        );
    }
    followed
}

struct Scheduler {
    engine: Engine,
    inbox: UnboundedReceiver<Change>,
    writer: Writer,
    clock: Clock,
    metrics: Arc<Metrics>,
    requests: JoinSet<()>,
}

impl Scheduler {
    async fn run(mut self) {
        loop {
            let due = self.work();
            self.metrics.depths(self.engine.depths(), self.engine.pods(), self.engine.nodes());
            let first = tokio::select! {
                change = self.inbox.recv() => change,
                () = sleep_until(&self.clock, due) => None,
                Some(_) = self.requests.join_next() => None,
            };
            let now = self.clock.now();
            first.into_iter().for_each(|change| self.engine.apply(change, now));
        }
    }

    /// Applies all changes and decides for a while. Returns the time until which there is nothing to do.
    fn work(&mut self) -> Option<Timestamp> {
        for _ in 0..DECISIONS_PER_TURN {
            let now = self.clock.now();
            while let Ok(change) = self.inbox.try_recv() {
                self.engine.apply(change, now);
            }
            if self.engine.assumed() >= MAX_ASSUMED {
                // The next response wakes the task.
                return None;
            }
            match self.engine.step(now) {
                Step::Wait(until) => return until,
                step => {
                    let took = self.clock.now().duration_since(now).as_secs_f64();
                    if let Some((pod, outcome)) = attempt(&step) {
                        self.metrics.decided(&pod.shape.scheduler, outcome, took);
                    }
                    self.requests.spawn(self.writer.clone().perform(step));
                }
            }
        }
        Some(self.clock.now())
    }
}

/// The pod whose attempt a step ends, and the result.
fn attempt(step: &Step) -> Option<(&Pod, Outcome)> {
    match step {
        Step::Bind { pod, .. } => Some((pod, Outcome::Scheduled)),
        Step::ReportUnschedulable { pod, reason, .. } if *reason == WENT_WRONG => Some((pod, Outcome::Error)),
        Step::ReportUnschedulable { pod, .. } => Some((pod, Outcome::Unschedulable)),
        _ => None,
    }
}

async fn sleep_until(clock: &Clock, due: Option<Timestamp>) {
    match due {
        Some(due) if due <= clock.now() => tokio::task::yield_now().await,
        Some(due) => clock.sleep_until(due).await,
        None => std::future::pending().await,
    }
}

/// Carries out steps.
#[derive(Clone)]
struct Writer {
    client: Client,
    /// The client for requests whose responses are not read.
    quiet: Client,
    recorder: Recorder,
    clock: Clock,
    changes: UnboundedSender<Change>,
    room: Arc<Semaphore>,
    volumes: Arc<VolumePreparation>,
}

impl Writer {
    async fn perform(self, step: Step) {
        if let Step::Bind { pod, volumes: Some(volumes), .. } = &step
            && let Err(error) = self.volumes.prepare(&self.client, pod, volumes).await
        {
            let outcome = Err(format!("running PreBind plugin \"{}\": {error}", volume_binding::NAME));
            let _ = self.changes.send(Change::Bound { uid: pod.uid.clone(), outcome });
            return;
        }
        let room = match self.room.clone().try_acquire_owned() {
            Err(TryAcquireError::NoPermits) => self.room.clone().acquire_owned().await.ok(),
            room => room.ok(),
        };
        match step {
            Step::Bind { pod, node, .. } => self.bind(&pod, &node).await,
            Step::ReportUnschedulable { pod, reason, message, nomination } => {
                self.report_unschedulable(&pod, reason, &message, &nomination).await;
            }
            Step::Preempt { pod, node, victims } => self.preempt(&pod, &node, &victims).await,
            Step::ClearNomination { pod } => {
                self.patch_status(&pod, value!({"nominatedNodeName": null})).await
            }
            Step::Wait(_) => {}
        }
        drop(room);
    }

    async fn bind(&self, pod: &Pod, node: &str) {
        let binding = default_binder::binding(pod, node);
        let answer = self.quiet.create_subresource(&kinds::PODS, &pod.key, "binding", &binding).await;
        let answer = match answer {
            Err(Error::Transport(lost)) => self.confirm_binding(pod, node, lost).await,
            answer => answer.map(drop),
        };
        let outcome = match answer {
            Ok(()) => {
                let message = format!("Successfully assigned {} to {node}", pod.key);
                let event =
                    Event::normal(pod.shape.scheduler.clone(), &pod.reference(), "Scheduled", message);
                self.recorder.record(event.with_action("Binding"));
                Ok(())
            }
            Err(error) => {
                tracing::debug!(pod = %pod.key, node, err = %error, "cannot bind pod; retrying");
                Err(format!("running Bind plugin \"{}\": {error}", default_binder::NAME))
            }
        };
        let _ = self.changes.send(Change::Bound { uid: pod.uid.clone(), outcome });
    }

    /// Finds out whether a binding without a response was made. Until that is known the pod keeps its node: no other
    /// pod may get the room.
    async fn confirm_binding(&self, pod: &Pod, node: &str, lost: String) -> Result<(), Error> {
        let mut attempts = 0;
        loop {
            match self.client.get(&kinds::PODS, &pod.key).await {
                Ok(found)
                    if meta::uid(&found) == pod.uid && found.str_at(&["spec", "nodeName"]) == Some(node) =>
                {
                    return Ok(());
                }
                Ok(_) => return Err(Error::Transport(lost)),
                Err(Error::Transport(_)) => {
                    attempts += 1;
                    self.clock.sleep(CONFIRM_RETRY.delay(attempts)).await;
                }
                Err(refused) => return Err(refused),
            }
        }
    }

    /// Reports an unschedulable pod by an event and its condition.
    async fn report_unschedulable(
        &self,
        pod: &Pod,
        reason: &'static str,
        message: &str,
        nomination: &Nomination,
    ) {
        let event = Event::warning(
            pod.shape.scheduler.clone(),
            &pod.reference(),
            "FailedScheduling",
            truncated(message),
        );
        self.recorder.record(event.with_action("Scheduling"));
        let mut status = Value::object();
        if pod.condition.as_ref().is_none_or(|(known, text)| known != reason || text != message) {
            status.set(&["conditions"], value!([(condition(pod, reason, message, self.clock.now()))]));
        }
        match nomination {
            Nomination::Node(node) if pod.nominated != *node => {
                status.set(&["nominatedNodeName"], node.clone());
            }
            Nomination::Clear if !pod.nominated.is_empty() => {
                status.set(&["nominatedNodeName"], Value::Null);
            }
            _ => {}
        }
        if status != Value::object() {
            self.patch_status(pod, status).await;
        }
    }

    /// Deletes victims so that a pod can be scheduled; those that are terminating already are left alone.
    async fn preempt(&self, pod: &Pod, node: &str, victims: &[Arc<Pod>]) {
        let mut agreed = true;
        for victim in victims.iter().filter(|victim| !victim.deleting) {
            agreed &= self.delete_victim(victim, pod, node).await;
        }
        let _ = self.changes.send(Change::Preempted { uid: pod.uid.clone(), agreed });
    }

    /// Deletes a victim. Returns true if it is gone or terminating.
    async fn delete_victim(&self, victim: &Pod, pod: &Pod, node: &str) -> bool {
        let message = format!("{}: preempting to accommodate a higher priority pod", pod.shape.scheduler);
        let condition = value!({
            "type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler",
            "message": (message), "lastTransitionTime": (time::format(self.clock.now())),
        });
        self.patch_status(victim, value!({"conditions": [(condition)]})).await;
        let options = DeleteOptions { uid: Some(victim.uid.clone()), ..DeleteOptions::default() };
        match self.quiet.delete(&kinds::PODS, &victim.key, &options).await {
            Ok(_) => {
                let message = format!("Preempted by pod {} on node {node}", pod.uid);
                let scheduler = pod.shape.scheduler.clone();
                let event = Event::normal(scheduler, &victim.reference(), "Preempted", message);
                self.recorder.record(event.with_action("Preempting"));
                true
            }
            Err(error) => {
                tracing::debug!(pod = %victim.key, err = %error, "cannot preempt pod");
                error.is_not_found()
            }
        }
    }

    /// Patches the status of this very pod.
    async fn patch_status(&self, pod: &Pod, status: Value) {
        let mut patch = value!({"status": (status)});
        meta::set_text(&mut patch, "uid", &pod.uid);
        match self.quiet.patch(&kinds::PODS, &pod.key, &Patch::Strategic(patch), "status").await {
            Err(error) if !error.is_not_found() => {
                tracing::debug!(pod = %pod.key, err = %error, "cannot update pod status");
            }
            _ => {}
        }
    }
}

/// The `PodScheduled` condition of an unschedulable pod.
fn condition(pod: &Pod, reason: &str, message: &str, now: Timestamp) -> Value {
    let mut condition = value!({
        "type": "PodScheduled", "status": "False", "reason": (reason), "message": (message),
        "lastProbeTime": null,
    });
    if pod.condition.is_none() {
        condition.set(&["lastTransitionTime"], time::format(now));
    }
    condition
}

fn truncated(message: &str) -> String {
    if message.len() <= MAX_MESSAGE {
        return message.to_owned();
    }
    let end = (0..=MAX_MESSAGE - 4).rev().find(|at| message.is_char_boundary(*at)).unwrap_or(0);
    format!("{} ...", &message[..end])
}
