//! Does what has to be done for a pod that is to run: what is in its way goes, what is missing comes.
//!
//! What that is has been decided before (`actions`); who has to wait, and what did not work, is told.

use std::sync::atomic::Ordering;
use std::time::Duration;

use corten_container::{AuthConfig, ContainerState};
use corten_reconcile::EventKind;

use super::{Look, Next, RESYNC, RETRY, Worker, time_left};
use crate::actions::{self, Actions};
use crate::allocation::Step;
use crate::config::{check_pod, sandbox_config};
use crate::kill::{self, Ending};
use crate::observe::observe;
use crate::observed::Sandbox;
use crate::pod::HostNamespace;
use crate::resize;
use crate::runtime_class;
use crate::start::{self, Surroundings};
use crate::status::Waiting;
use crate::volumes::Mounted;

impl Worker {
    /// Does what has to be done for a pod that is to run.
    pub(super) async fn bring_on(&mut self, look: &mut Look) -> Result<Next, String> {
        let machine = self.machine.clone();
        let mut todo = actions::actions(&look.pod, &look.observed, self);
        if todo.kill_pod && todo.create_sandbox.is_none() {
            // Everything it has to do is done.
            self.wind_up(look).await?;
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
            let made = async {
                let handler = runtime_class::handler(&machine, &look.pod).await?;
                check_pod(&look.pod, &handler)?;
                machine.runtime.run_pod_sandbox(&config, &handler).await.map_err(|e| e.to_string())
            };
            if let Err(why) = made.await {
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

    async fn start_all(&mut self, look: &Look, todo: &Actions, mounted: &Mounted) -> Result<bool, String> {
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
                orders: &self.orders,
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

/// Whole seconds as Go prints them: `10s`, `1m20s`, `5m0s`.
fn go_duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    if seconds < 60 { format!("{seconds}s") } else { format!("{}m{}s", seconds / 60, seconds % 60) }
}
