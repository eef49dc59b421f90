//! One pod: brought to run, kept running, ended. One task for each.
//!
//! A pod is *running* until it is deleted, evicted, out of time or over; then it is *ending* until nothing of it
//! runs any more; then it is *ended*, and what it had is taken away. It never goes back.

mod known;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use corten_container::{AuthConfig, ContainerState};
use corten_reconcile::EventKind;
use jiff::Timestamp;
use tokio::sync::Notify;

use crate::actions::{self, Actions};
use crate::allocation::Step;
use crate::backoff::Backoffs;
use crate::config::sandbox_config;
use crate::kill::{self, Ending};
use crate::machine::Machine;
use crate::mirrors;
use crate::names;
use crate::observe::observe;
use crate::observed::{Observed, Sandbox};
use crate::pod::{HostNamespace, Pod};
use crate::pods::Pods;
use crate::resize;
use crate::runtime_class;
use crate::start::{self, Surroundings};
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
    /// It was to end, and nothing of it runs any more.
    pub(crate) stopped: AtomicBool,
    /// Something happened to the pod, or to what it has.
    pub(crate) changed: Notify,
}

impl Orders {
    fn is_unwanted(&self) -> bool {
        self.unwanted.load(Ordering::Acquire)
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
        let pod = machine.allocations.admit(&machine, &self.wanted().await);
        if pod.is_static() && machine.pods.is_held_up(&pod) {
            return Ok(Next::After(RESYNC));
        }
        let observed = observe(machine.runtime.as_ref(), pod.uid()).await.map_err(|e| e.to_string())?;
        machine.pods.runs_in(&pod, &observed);
        machine.probes.follow(&machine, &pod, &observed, &self.orders);
        let mut look = Look { pod, observed, now: machine.clock.now() };
        self.expire(&look);
        self.ended = self.ended.take().or_else(|| self.orders.ended.lock().clone());
        self.admit(&look);
        let over = matches!(look.pod.tree().str_at(&["status", "phase"]), Some("Succeeded" | "Failed"));
        if look.pod.deleted_at().is_some() || self.orders.is_unwanted() || self.ended.is_some() || over {
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

    /// A node that is short of something takes on nobody new who would make it worse.
    fn admit(&mut self, look: &Look) {
        let begun =
            !look.observed.sandboxes.is_empty() || look.pod.tree().at(&["status", "startTime"]).is_some();
        if std::mem::replace(&mut self.admitted, true) || begun || self.ended.is_some() {
            return;
        }
        self.ended = self.machine.evictions.refuses(&look.pod);
        if let Some(Ended { message, .. }) = &self.ended {
            self.machine.teller(&look.pod).warning(crate::eviction::REASON, message.clone());
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

    /// Ends what runs, tells how it ended, and takes away what is left.
    async fn end(&mut self, look: &mut Look) -> Result<Next, String> {
        let machine = self.machine.clone();
        if look.observed.is_alive() {
            self.tell(look, false).await?;
            self.kill_pod(look).await?;
            look.observed =
                observe(machine.runtime.as_ref(), look.pod.uid()).await.map_err(|e| e.to_string())?;
        }
        self.orders.stopped.store(true, Ordering::Release);
        self.tell(look, true).await?;
        if look.pod.deleted_at().is_none() && !self.orders.is_unwanted() {
            return Ok(Next::After(RESYNC));
        }
        for sandbox in &look.observed.sandboxes {
            machine.runtime.remove_pod_sandbox(&sandbox.id).await.map_err(|e| e.to_string())?;
        }
        machine.cgroups.remove(look.pod.uid()).map_err(|e| e.to_string())?;
        machine.volumes.remove(look.pod.uid()).map_err(|e| e.to_string())?;
        remove_logs(&names::log_directory(&machine.config.log_root, &look.pod)).map_err(|e| e.to_string())?;
        machine.statuses.release(&machine, &look.pod).await.map_err(|e| e.to_string())?;
        machine.forget(look.pod.uid());
        let again = self.orders.again.lock().take();
        if let Some(pod) = again {
            Pods::want(&machine, pod);
        }
        Ok(Next::Gone)
    }

    /// Ends everything of a pod that runs.
    async fn kill_pod(&self, look: &Look) -> Result<(), String> {
        let grace = self.ended.as_ref().and_then(|ended| ended.grace);
        let ended = kill::pod(&self.machine, &look.pod, &look.observed, grace).await;
        ended.map_err(|error| {
            let message = format!("error killing pod: {error}");
            self.machine.teller(&look.pod).warning("FailedKillPod", message);
            error.to_string()
        })
    }

    /// Does what has to be done for a pod that is to run.
    async fn bring_on(&mut self, look: &mut Look) -> Result<Next, String> {
        let machine = self.machine.clone();
        let mut todo = actions::actions(&look.pod, &look.observed, self);
        if todo.kill_pod && todo.create_sandbox.is_none() {
            // Everything it has to do is done.
            if look.observed.is_alive() {
                self.tell(look, false).await?;
                self.kill_pod(look).await?;
                look.observed =
                    observe(machine.runtime.as_ref(), look.pod.uid()).await.map_err(|e| e.to_string())?;
            }
            self.tell(look, true).await?;
            return Ok(Next::After(RESYNC));
        }
        self.tell(look, false).await?;
        self.make_way(look, &todo).await?;
        let wait = self.hold_back(look, &mut todo);
        if wait.is_some() {
            self.tell(look, false).await?;
        }
        let resized = self.resize(look, &todo).await;
        let failed = self.act(look, &todo).await? || resized.is_err();
        let idle = todo.kill.is_empty() && todo.start.is_empty() && todo.create_sandbox.is_none();
        if !idle || resized != Ok(false) {
            // What has just been done is told at once.
            look.observed =
                observe(machine.runtime.as_ref(), look.pod.uid()).await.map_err(|e| e.to_string())?;
            machine.pods.runs_in(&look.pod, &look.observed);
            machine.probes.follow(&machine, &look.pod, &look.observed, &self.orders);
            self.tell(look, false).await?;
        }
        let soonest = [wait, failed.then_some(RETRY), time_left(look)].into_iter().flatten().min();
        Ok(Next::After(soonest.unwrap_or(RESYNC).min(RESYNC)))
    }

    /// Takes out what has to wait still; how long the first of it waits.
    fn hold_back(&mut self, look: &Look, todo: &mut Actions) -> Option<Duration> {
        let mut soonest: Option<Duration> = None;
        let starting = std::mem::take(&mut todo.start);
        for name in starting {
            let over = look.observed.latest(&name).filter(|status| status.state == ContainerState::Exited);
            let key = format!("{}_{name}", look.pod.uid());
            let since = over.and_then(|status| status.finished_at);
            let left = since.and_then(|since| self.waits.wait(&key, since, look.now));
            let Some(left) = left else {
                if let Some(since) = since {
                    self.waits.grow(&key, since, look.now);
                }
                todo.start.push(name);
                continue;
            };
            soonest = Some(soonest.map_or(left, |known| known.min(left)));
            self.say_back_off(look, &name, &key);
        }
        soonest
    }

    fn say_back_off(&mut self, look: &Look, name: &str, key: &str) {
        let pod = look.pod.described();
        if let Some(container) = look.pod.container(name) {
            let message = format!("Back-off restarting failed container {name} in pod {pod}");
            self.machine.teller(&look.pod).of_container(container, EventKind::Warning, "BackOff", message);
        }
        let length = go_duration(self.waits.length(key));
        let message = format!("back-off {length} restarting failed container={name} pod={pod}");
        self.waiting.insert(name.to_owned(), Waiting { reason: "CrashLoopBackOff".into(), message });
    }

    /// Ends what has to go before anything else can come.
    async fn make_way(&mut self, look: &mut Look, todo: &Actions) -> Result<(), String> {
        let machine = self.machine.clone();
        let pod_ip = look.observed.ips().first().cloned().unwrap_or_default();
        if !todo.kill_pod && todo.kill.is_empty() {
            return Ok(());
        }
        if todo.kill_pod {
            if todo.create_sandbox.as_ref().is_some_and(|sandbox| sandbox.replaces) {
                let message = "Pod sandbox changed, it will be killed and re-created.";
                machine.teller(&look.pod).normal("SandboxChanged", message);
            }
            self.kill_pod(look).await?;
        }
        for kill in &todo.kill {
            let Ok(status) = machine.runtime.container_status(&kill.id).await else { continue };
            let ending = Ending { message: &kill.message, reason: Some(kill.reason), grace: None };
            kill::container(&machine, &look.pod, &status, &pod_ip, ending)
                .await
                .map_err(|e| e.to_string())?;
        }
        look.observed = observe(machine.runtime.as_ref(), look.pod.uid()).await.map_err(|e| e.to_string())?;
        look.now = machine.clock.now();
        Ok(())
    }

    /// Gives what runs what the pod was newly given; whether there was anything to give.
    async fn resize(&self, look: &Look, todo: &Actions) -> Result<bool, ()> {
        let machine = &self.machine;
        if todo.create_sandbox.is_some() {
            // Whoever begins anew gets everything with that.
            return Ok(false);
        }
        let before = machine.allocations.actuated(look.pod.uid());
        match resize::carry_out(machine, &look.pod, &look.observed).await {
            Ok(()) => Ok(machine.allocations.actuated(look.pod.uid()) != before),
            Err(why) => {
                machine.allocations.failed(machine, &look.pod, &why);
                Err(())
            }
        }
    }

    /// Does it; true if something could not be done.
    async fn act(&mut self, look: &mut Look, todo: &Actions) -> Result<bool, String> {
        let machine = self.machine.clone();
        let teller = machine.teller(&look.pod);
        if todo.start.is_empty() && todo.create_sandbox.is_none() {
            self.refresh(look).await;
            return Ok(false);
        }
        self.orders.stale.store(false, Ordering::Release);
        self.refreshed = look.now;
        let mounted = match machine.volumes.mount(&machine, &look.pod).await {
            Ok(mounted) => mounted,
            Err(why) => {
                teller.warning("FailedMount", why);
                return Ok(true);
            }
        };
        if let Some(sandbox) = &todo.create_sandbox {
            if let Err(error) = machine.cgroups.make(&look.pod) {
                let message = format!("unable to ensure pod container exists: {error}");
                teller.warning("FailedCreatePodContainer", message);
                return Ok(true);
            }
            let config = sandbox_config(&look.pod, sandbox.attempt, &machine.config);
            let made = match runtime_class::handler(&machine, &look.pod).await {
                Ok(handler) => {
                    machine.runtime.run_pod_sandbox(&config, &handler).await.map_err(|e| e.to_string())
                }
                Err(why) => Err(why),
            };
            if let Err(why) = made {
                teller.warning("FailedCreatePodSandBox", format!("Failed to create pod sandbox: {why}"));
                return Ok(true);
            }
            look.observed =
                observe(machine.runtime.as_ref(), look.pod.uid()).await.map_err(|e| e.to_string())?;
            machine.pods.runs_in(&look.pod, &look.observed);
        }
        self.start_all(look, todo, &mounted).await
    }

    /// Brings what is mounted up to date: what it comes from changes, and tokens age.
    async fn refresh(&mut self, look: &Look) {
        let aged = look.now >= self.refreshed + RESYNC;
        if !self.orders.stale.swap(false, Ordering::AcqRel) && !aged {
            return;
        }
        self.refreshed = look.now;
        if let Err(why) = self.machine.volumes.mount(&self.machine, &look.pod).await {
            self.machine.teller(&look.pod).warning("FailedMount", why);
        }
    }

    async fn start_all(
        &mut self,
        look: &Look,
        todo: &Actions,
        mounted: &crate::volumes::Mounted,
    ) -> Result<bool, String> {
        let machine = self.machine.clone();
        let host_network = look.pod.uses_host(HostNamespace::Network);
        let Sandbox::Ready { id, attempt } = look.observed.sandbox(host_network) else { return Ok(true) };
        let config = sandbox_config(&look.pod, attempt, &machine.config);
        let credentials: Vec<AuthConfig> = crate::credentials::of_pod(&machine, &look.pod).await;
        let pod_ips = look.observed.ips().to_vec();
        let mut failed = false;
        for name in &todo.start {
            let Some(container) = look.pod.container(name) else { continue };
            let around = Surroundings {
                sandbox_id: &id,
                sandbox: &config,
                pod_ips: &pod_ips,
                observed: &look.observed,
                mounted,
                credentials: &credentials,
            };
            match start::start(&machine, &look.pod, container, &around).await {
                Ok(()) => {
                    self.waiting.remove(name);
                    machine.allocations.carried_out(look.pod.uid(), &Step::Container(name.clone()));
                }
                Err(waiting) => {
                    self.waiting.insert(name.clone(), waiting);
                    failed = true;
                }
            }
        }
        Ok(failed)
    }
}

fn remove_logs(directory: &str) -> std::io::Result<()> {
    match std::fs::remove_dir_all(directory) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// How long a pod may still run, if it says so.
fn time_left(look: &Look) -> Option<Duration> {
    let limit = look.pod.tree().int_at(&["spec", "activeDeadlineSeconds"])?;
    let started: Timestamp = look.pod.tree().str_at(&["status", "startTime"])?.parse().ok()?;
    let end = started + Duration::from_secs(u64::try_from(limit).unwrap_or(0));
    Some(Duration::try_from(end.duration_since(look.now)).unwrap_or(Duration::ZERO))
}

/// Whole seconds as Go prints them: `10s`, `1m20s`, `5m0s`.
fn go_duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    if seconds < 60 { format!("{seconds}s") } else { format!("{}m{}s", seconds / 60, seconds % 60) }
}
