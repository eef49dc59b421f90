//! One pod: brought to run, kept running, ended. One task for each.
//!
//! A pod is *running* until it is deleted, evicted, out of time or over; then it is *ending* until nothing of it
//! runs any more; then it is *ended*, and what it had is taken away. It never goes back.

mod bringing;
mod known;

use std::collections::HashMap;
use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use corten_sys::removal::remove_tree;
use jiff::Timestamp;
use tokio::sync::Notify;

use crate::admission::{self, Refusal};
use crate::backoff::Backoffs;
use crate::kill;
use crate::machine::Machine;
use crate::mirrors;
use crate::names;
use crate::observe::observe;
use crate::observed::Observed;
use crate::pod::Pod;
use crate::pods::Pods;
use crate::status::{Ended, Waiting};

const FIRST_WAIT: Duration = Duration::from_secs(10);
const LONGEST_WAIT: Duration = Duration::from_secs(300);
/// A pod that nothing happens to is looked at this often all the same.
const RESYNC: Duration = Duration::from_secs(60);
/// After something failed.
const RETRY: Duration = Duration::from_secs(5);

/// What a worker is told from outside.
pub(crate) struct Orders {
    pub(crate) pod: parking_lot::Mutex<Pod>,
    /// Nobody wants it any more.
    pub(crate) unwanted: AtomicBool,
    /// Somebody wants it again, once it has ended.
    pub(crate) again: parking_lot::Mutex<Option<Pod>>,
    /// What its volumes hold may no longer be what they should.
    pub(crate) stale: AtomicBool,
    /// Why the node gives it up, if it does.
    pub(crate) ended: parking_lot::Mutex<Option<Ended>>,
    /// It is to run no more, and nothing of it does.
    pub(crate) stopped: AtomicBool,
    /// Something happened to the pod, or to what it has.
    pub(crate) changed: Notify,
}

impl Orders {
    fn is_unwanted(&self) -> bool {
        self.unwanted.load(Ordering::Acquire)
    }

    /// Works on until that is done, or somebody wants the pod to end.
    pub(crate) async fn unless_ending<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let mut work = std::pin::pin!(work);
        let done = loop {
            let is_ending =
                self.is_unwanted() || self.ended.lock().is_some() || self.pod.lock().deleted_at().is_some();
            if is_ending {
                break None;
            }
            tokio::select! {
                done = &mut work => break Some(done),
                () = self.changed.notified() => {}
            }
        };
        // What was heard meanwhile is the worker's to look at.
        self.changed.notify_one();
        done
    }

    /// Whether something of it runs, or may run still.
    pub(crate) fn is_at_work(&self) -> bool {
        !self.stopped.load(Ordering::Acquire)
    }
}

pub(crate) struct Worker {
    machine: Arc<Machine>,
    orders: Arc<Orders>,
    waits: Backoffs,
    waiting: HashMap<String, Waiting>,
    ended: Option<Ended>,
    /// When its volumes were last made to hold what they should.
    refreshed: Timestamp,
    /// Whether it was decided that the pod may begin.
    admitted: bool,
}

/// How a look at a pod ended.
enum Next {
    /// Look again when something happens, or after this long.
    After(Duration),
    /// Nothing is left to do.
    Gone,
}

/// What one look at a pod has found.
struct Look {
    pod: Pod,
    observed: Observed,
    now: Timestamp,
}

impl Worker {
    pub(crate) fn new(machine: Arc<Machine>, orders: Arc<Orders>) -> Worker {
        let waits = Backoffs::new(FIRST_WAIT, LONGEST_WAIT);
        let refreshed = machine.clock.now();
        Worker { machine, orders, waits, waiting: HashMap::new(), ended: None, refreshed, admitted: false }
    }

    /// Works until nothing of the pod is left.
    pub(crate) async fn run(mut self) {
        loop {
            let wait = match self.look().await {
                Ok(Next::Gone) => return,
                Ok(Next::After(wait)) => wait,
                Err(error) => {
                    let pod = self.orders.pod.lock().key().clone();
                    tracing::warn!(%pod, error, "a pod could not be brought on");
                    RETRY
                }
            };
            let clock = self.machine.clock.clone();
            let _ = clock.timeout(wait, self.orders.changed.notified()).await;
        }
    }

    async fn look(&mut self) -> Result<Next, String> {
        let machine = self.machine.clone();
        let pod = machine.allocations.hear(&machine, &self.wanted().await);
        if pod.is_static() && machine.pods.is_held_up(&pod) {
            return Ok(Next::After(RESYNC));
        }
        let observed = observe(machine.runtime.as_ref(), pod.uid()).await.map_err(|e| e.to_string())?;
        machine.pods.runs_in(&pod, &observed);
        machine.probes.follow(&machine, &pod, &observed, &self.orders);
        let mut look = Look { pod, observed, now: machine.clock.now() };
        self.expire(&look);
        self.ended = self.ended.take().or_else(|| self.orders.ended.lock().clone());
        self.admit(&look).await;
        let is_to_end = look.pod.deleted_at().is_some() || self.orders.is_unwanted() || self.ended.is_some();
        if is_to_end || is_over(&look.pod) {
            return self.end(&mut look).await;
        }
        self.bring_on(&mut look).await
    }

    /// The pod as it is to be. A static one is shown to the API server, and is as it was told last.
    async fn wanted(&self) -> Pod {
        let pod = self.orders.pod.lock().clone();
        if !pod.is_static() {
            return pod;
        }
        if !self.orders.is_unwanted()
            && let Err(error) = mirrors::show(&self.machine, &pod).await
        {
            tracing::debug!(pod = %pod.key(), %error, "a static pod could not be mirrored");
        }
        let told =
            || mirrors::of(&self.machine, &pod).and_then(|mirror| mirror.tree().get("status").cloned());
        let status = self.machine.statuses.last(pod.uid()).or_else(told);
        status.map_or_else(|| pod.clone(), |status| pod.with_status(status))
    }

    /// Asks once whether the node takes the pod on, also if it has begun: the node may have become another while nobody
    /// looked after the pod.
    async fn admit(&mut self, look: &Look) {
        if std::mem::replace(&mut self.admitted, true) || self.ended.is_some() {
            return;
        }
        let machine = self.machine.clone();
        if is_over(&look.pod) || look.pod.deleted_at().is_some() {
            let _ = machine.allocations.take_on(&machine, &look.pod, |_| Ok::<(), Infallible>(()));
            return;
        }
        if !look.pod.is_static() {
            // Nobody is judged before it is known who is here, and what the node is like.
            machine.caches.of(&machine.bound_pods).synced().await;
            machine.caches.of(&machine.own_node).synced().await;
        }
        let has_begun = look.pod.has_begun() || !look.observed.sandboxes.is_empty();
        if let Err(Refusal { reason, message }) = admission::admit(&machine, &look.pod, has_begun).await {
            machine.teller(&look.pod).warning(reason.clone(), message.as_str());
            let message = format!("Pod was rejected: {message}");
            self.ended = Some(Ended { reason, message, rejected: true, ..Ended::default() });
        }
    }

    /// A pod may say how long it is to run at most.
    fn expire(&mut self, look: &Look) {
        let Some(left) = time_left(look) else { return };
        if left.is_zero() && self.ended.is_none() {
            let message = "Pod was active on the node longer than the specified deadline";
            self.machine.teller(&look.pod).normal("DeadlineExceeded", message);
            let reason = "DeadlineExceeded".to_owned();
            self.ended = Some(Ended { reason, message: message.into(), ..Ended::default() });
        }
    }

    /// Ends what runs and tells how it ended.
    async fn wind_up(&mut self, look: &mut Look) -> Result<(), String> {
        if look.observed.is_alive() {
            self.tell(look, false).await?;
            self.kill_pod(look).await?;
            let runtime = self.machine.runtime.as_ref();
            look.observed = observe(runtime, look.pod.uid()).await.map_err(|e| e.to_string())?;
        }
        self.orders.stopped.store(true, Ordering::Release);
        self.tell(look, true).await
    }

    /// Ends what runs, tells how it ended, and takes away what is left.
    async fn end(&mut self, look: &mut Look) -> Result<Next, String> {
        let machine = self.machine.clone();
        self.wind_up(look).await?;
        let is_to_stay = look.pod.deleted_at().is_none() && !self.orders.is_unwanted();
        let was_evicted = self.orders.ended.lock().is_some();
        if !is_to_stay || was_evicted {
            for sandbox in &look.observed.sandboxes {
                machine.runtime.remove_pod_sandbox(&sandbox.id).await.map_err(|e| e.to_string())?;
            }
        }
        if is_to_stay {
            return Ok(Next::After(RESYNC));
        }
        machine.cgroups.remove(look.pod.uid()).map_err(|e| e.to_string())?;
        let (kept, uid) = (machine.clone(), look.pod.uid().to_owned());
        let logs = names::log_directory(&machine.config.log_root, &look.pod);
        // As long as the pod had files: it can have made as many as it liked.
        let removed = tokio::task::spawn_blocking(move || {
            kept.volumes.remove(&uid)?;
            remove_tree(Path::new(&logs))
        });
        removed.await.map_err(|e| e.to_string())?.map_err(|e| e.to_string())?;
        machine.statuses.release(&machine, &look.pod).await.map_err(|e| e.to_string())?;
        machine.forget(look.pod.uid());
        let again = self.orders.again.lock().take();
        if let Some(pod) = again {
            Pods::want(&machine, pod);
        }
        Ok(Next::Gone)
    }

    /// Ends everything of a pod that runs. Whoever deletes it again may give it less time.
    async fn kill_pod(&self, look: &Look) -> Result<(), String> {
        let mut grace = self.ended.as_ref().and_then(|ended| ended.grace);
        let heard = AtomicBool::new(false);
        let ended = loop {
            match self.kill_within(look, grace, &heard).await {
                Some(ended) => break ended,
                None => grace = Some(self.orders.pod.lock().grace()),
            }
        };
        if heard.into_inner() {
            // What was heard meanwhile is the worker's to look at.
            self.orders.changed.notify_one();
        }
        ended.map_err(|error| {
            let message = format!("error killing pod: {error}");
            self.machine.teller(&look.pod).warning("FailedKillPod", message);
            error.to_string()
        })
    }

    /// Gives a pod its time to end, or nothing if it has to be quicker now. Meanwhile it is told whether it is ready:
    /// services go on with who still serves. Notes if anything was `heard`.
    async fn kill_within(
        &self,
        look: &Look,
        grace: Option<Duration>,
        heard: &AtomicBool,
    ) -> Option<corten_container::Result<()>> {
        let (over, hurry) = (Notify::new(), Notify::new());
        let killing = async {
            let ended = tokio::select! {
                ended = kill::pod(&self.machine, &look.pod, &look.observed, grace) => Some(ended),
                () = hurry.notified() => None,
            };
            over.notify_one();
            ended
        };
        let given = grace.unwrap_or_else(|| look.pod.grace());
        let telling = async {
            loop {
                tokio::select! {
                    () = over.notified() => return,
                    () = self.orders.changed.notified() => heard.store(true, Ordering::Release),
                }
                if self.orders.pod.lock().grace() < given {
                    hurry.notify_one();
                }
                self.tell_of_ending(look).await;
            }
        };
        // Joined, not dropped: what is on its way to the API server must not arrive after what is told next.
        let (ended, ()) = tokio::join!(killing, telling);
        ended
    }

    async fn tell_of_ending(&self, look: &Look) {
        let (pod, observed) = (look.pod.clone(), look.observed.clone());
        let look = Look { pod, observed, now: self.machine.clock.now() };
        if let Err(error) = self.tell(&look, false).await {
            tracing::debug!(pod = %look.pod.key(), error, "a pod that ends could not be told of");
        }
    }
}

/// Whether the API server knows already how a pod ended.
fn is_over(pod: &Pod) -> bool {
    matches!(pod.tree().str_at(&["status", "phase"]), Some("Succeeded" | "Failed"))
}

/// How long a pod may still run, if it says so.
fn time_left(look: &Look) -> Option<Duration> {
    let limit = look.pod.tree().int_at(&["spec", "activeDeadlineSeconds"])?;
    let started: Timestamp = look.pod.tree().str_at(&["status", "startTime"])?.parse().ok()?;
    let end = started + Duration::from_secs(u64::try_from(limit).unwrap_or(0));
    Some(Duration::try_from(end.duration_since(look.now)).unwrap_or(Duration::ZERO))
}
