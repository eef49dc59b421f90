//! Brings a pod's containers to the desired state: `sync_pod`.
//!
//! `actions` decides purely what is to be done. Failures of single steps are recorded as events and in the
//! status of the containers that wait for them.

use std::time::Duration;

use corten_container::{AuthConfig, ContainerState};
use corten_reconcile::EventKind;

use super::actions::{self, Actions, NewSandbox};
use super::state::Facts;
use super::worker::{Next, RESYNC, RETRY, Snapshot, SyncError, Worker, time_left};
use crate::containers::kill::{self, KillOptions};
use crate::containers::observed::Sandbox;
use crate::containers::runtime_config::{check_pod, sandbox_config};
use crate::containers::start::{self, StartContext};
use crate::containers::{pull_secrets, runtime_class};
use crate::pod::HostNamespace;
use crate::resources::allocation::Step;
use crate::resources::resize;
use crate::status::Waiting;
use crate::volumes::Mounted;

/// A step of the sync failed. Its event is recorded, and the sync is retried.
struct StepFailed;

impl Worker {
    /// Reports the pod's status, then stops, starts and resizes its containers as needed.
    pub(super) async fn sync_pod(&mut self, snapshot: &mut Snapshot) -> Result<Next, SyncError> {
        let kubelet = self.kubelet.clone();
        let mut actions = actions::compute_pod_actions(&snapshot.pod, &snapshot.observed, self);
        if actions.kill_pod && actions.create_sandbox.is_none() {
            let alive = snapshot.observed.is_alive();
            self.work.advance(&Facts { finished: true, alive, ..Facts::default() });
            return self.sync_terminating_pod(snapshot).await;
        }
        let mut reported = self.try_report_status(snapshot).await;
        self.kill_containers(snapshot, &actions).await?;
        let backoff = self.remove_backed_off(snapshot, &mut actions);
        if backoff.is_some() {
            reported = self.try_report_status(snapshot).await;
        }
        let resized = self.resize(snapshot, &actions).await;
        let started = self.start_containers(snapshot, &actions).await?;
        let idle = actions.kill.is_empty() && actions.start.is_empty() && actions.create_sandbox.is_none();
        if !idle || !matches!(resized, Ok(false)) {
            // Report the effect at once, without waiting for the runtime's event.
            snapshot.observed = self.observe(&snapshot.pod).await?;
            kubelet.probes.update(&kubelet, &snapshot.pod, &snapshot.observed, &self.work);
            reported = self.try_report_status(snapshot).await;
        }
        let retry = (started.is_err() || resized.is_err() || !reported).then_some(RETRY);
        let soonest = [backoff, retry, time_left(snapshot)].into_iter().flatten().min();
        Ok(Next::After(soonest.unwrap_or(RESYNC).min(RESYNC)))
    }

    /// Removes the containers that are in backoff from those to start. Returns the shortest time that is left.
    fn remove_backed_off(&mut self, snapshot: &Snapshot, actions: &mut Actions) -> Option<Duration> {
        let mut soonest: Option<Duration> = None;
        let starting = std::mem::take(&mut actions.start);
        for name in starting {
            let exited = snapshot.observed.latest(&name).filter(|c| c.state == ContainerState::Exited);
            let key = format!("{}_{name}", snapshot.pod.uid());
            let exit_code = exited.map(|status| status.exit_code);
            let since = exited.and_then(|status| status.finished_at);
            let left = since.and_then(|since| self.backoffs.wait(&key, since, snapshot.now));
            let Some(left) = left else {
                if let Some(since) = since {
                    tracing::info!(pod = %snapshot.pod.key(), container = name, exit_code, "container exited; restarting it");
                    self.backoffs.grow(&key, since, snapshot.now);
                }
                actions.start.push(name);
                continue;
            };
            if let Some(since) = since
                && self.backoff_logged.insert(name.clone(), since) != Some(since)
            {
                tracing::warn!(pod = %snapshot.pod.key(), container = name, exit_code, backoff = ?self.backoffs.length(&key), "container exited; restarting it after the backoff");
            }
            soonest = Some(soonest.map_or(left, |known| known.min(left)));
            self.record_backoff(snapshot, &name, &key);
        }
        soonest
    }

    fn record_backoff(&mut self, snapshot: &Snapshot, name: &str, key: &str) {
        let pod = snapshot.pod.described();
        if let Some(container) = snapshot.pod.container(name) {
            let message = format!("Back-off restarting failed container {name} in pod {pod}");
            let events = self.kubelet.api.pod_events(&snapshot.pod);
            events.of_container(container, EventKind::Warning, "BackOff", message);
        }
        let length = go_duration(self.backoffs.length(key));
        let message = format!("back-off {length} restarting failed container={name} pod={pod}");
        self.waiting.insert(name.to_owned(), Waiting { reason: "CrashLoopBackOff".into(), message });
    }

    /// Stops the containers, or the whole pod, that the actions name.
    async fn kill_containers(&mut self, snapshot: &mut Snapshot, actions: &Actions) -> Result<(), SyncError> {
        let kubelet = self.kubelet.clone();
        let pod_ip = snapshot.observed.ips().first().cloned().unwrap_or_default();
        if !actions.kill_pod && actions.kill.is_empty() {
            return Ok(());
        }
        if actions.kill_pod {
            if actions.create_sandbox.as_ref().is_some_and(|sandbox| sandbox.replaces) {
                let message = "Pod sandbox changed, it will be killed and re-created.";
                kubelet.api.pod_events(&snapshot.pod).normal("SandboxChanged", message);
            }
            self.kill_pod(snapshot).await?;
        }
        for kill in &actions.kill {
            let Ok(status) = kubelet.containers.runtime.container_status(&kill.id).await else { continue };
            let options = KillOptions { message: &kill.message, reason: Some(kill.reason), grace: None };
            let killed = kill::kill_container(&kubelet, &snapshot.pod, &status, &pod_ip, options).await;
            killed.map_err(SyncError::Kill)?;
        }
        snapshot.observed = self.observe(&snapshot.pod).await?;
        snapshot.now = kubelet.clock.now();
        Ok(())
    }

    /// Actuates the pod's allocated resources. Returns true if anything changed.
    async fn resize(&self, snapshot: &Snapshot, actions: &Actions) -> Result<bool, StepFailed> {
        let kubelet = &self.kubelet;
        if actions.create_sandbox.is_some() {
            // New containers start with the allocated resources.
            return Ok(false);
        }
        let allocations = &kubelet.resources.allocations;
        let before = allocations.actuated(snapshot.pod.uid());
        match resize::actuate(kubelet, &snapshot.pod, &snapshot.observed).await {
            Ok(()) => Ok(allocations.actuated(snapshot.pod.uid()) != before),
            Err(err) => {
                allocations.record_failure(kubelet, &snapshot.pod, &err.to_string());
                Err(StepFailed)
            }
        }
    }

    /// Mounts the pod's volumes, creates its sandbox and starts containers.
    async fn start_containers(
        &mut self,
        snapshot: &mut Snapshot,
        actions: &Actions,
    ) -> Result<Result<(), StepFailed>, SyncError> {
        let kubelet = self.kubelet.clone();
        let events = kubelet.api.pod_events(&snapshot.pod);
        if actions.start.is_empty() && actions.create_sandbox.is_none() {
            self.refresh_volumes(snapshot).await;
            return Ok(Ok(()));
        }
        self.work.take_volumes_outdated();
        self.volumes_written = snapshot.now;
        let mounted = match kubelet.volumes.mount(&kubelet, &snapshot.pod).await {
            Ok(mounted) => mounted,
            Err(err) => {
                events.warning("FailedMount", err.to_string());
                return Ok(Err(StepFailed));
            }
        };
        if let Some(sandbox) = &actions.create_sandbox {
            if self.create_sandbox(snapshot, sandbox).await.is_err() {
                return Ok(Err(StepFailed));
            }
            snapshot.observed = self.observe(&snapshot.pod).await?;
        }
        Ok(self.start_each(snapshot, actions, &mounted).await)
    }

    /// Creates the pod's cgroup and sandbox.
    async fn create_sandbox(&self, snapshot: &Snapshot, sandbox: &NewSandbox) -> Result<(), StepFailed> {
        let (kubelet, pod) = (&self.kubelet, &snapshot.pod);
        let events = kubelet.api.pod_events(pod);
        if let Err(err) = kubelet.resources.cgroups.make(pod) {
            let message = format!("unable to ensure pod container exists: {err}");
            events.warning("FailedCreatePodContainer", message);
            return Err(StepFailed);
        }
        let config = sandbox_config(pod, sandbox.attempt, &kubelet.containers.config);
        let created = async {
            let handler = runtime_class::handler(&kubelet.api, pod).await.map_err(|err| err.to_string())?;
            check_pod(pod, &handler).map_err(|err| err.to_string())?;
            let runtime = &kubelet.containers.runtime;
            runtime.run_pod_sandbox(&config, &handler).await.map_err(|err| err.to_string())
        };
        let created: Result<String, String> = created.await;
        created.map(drop).map_err(|err| {
            events.warning("FailedCreatePodSandBox", format!("Failed to create pod sandbox: {err}"));
            StepFailed
        })
    }

    /// Writes the pod's volumes anew if their sources have changed, and periodically because tokens expire.
    async fn refresh_volumes(&mut self, snapshot: &Snapshot) {
        let is_due = snapshot.now >= self.volumes_written + RESYNC;
        if !self.work.take_volumes_outdated() && !is_due {
            return;
        }
        self.volumes_written = snapshot.now;
        if let Err(err) = self.kubelet.volumes.mount(&self.kubelet, &snapshot.pod).await {
            self.kubelet.api.pod_events(&snapshot.pod).warning("FailedMount", err.to_string());
        }
    }

    async fn start_each(
        &mut self,
        snapshot: &Snapshot,
        actions: &Actions,
        mounted: &Mounted,
    ) -> Result<(), StepFailed> {
        let kubelet = self.kubelet.clone();
        let host_network = snapshot.pod.uses_host(HostNamespace::Network);
        let Sandbox::Ready { id, attempt } = snapshot.observed.sandbox(host_network) else {
            return Err(StepFailed);
        };
        let config = sandbox_config(&snapshot.pod, attempt, &kubelet.containers.config);
        let credentials: Vec<AuthConfig> = pull_secrets::of_pod(&kubelet, &snapshot.pod).await;
        let pod_ips = snapshot.observed.ips().to_vec();
        let mut outcome = Ok(());
        for name in &actions.start {
            let Some(container) = snapshot.pod.container(name) else { continue };
            let context = StartContext {
                sandbox_id: &id,
                sandbox: &config,
                pod_ips: &pod_ips,
                observed: &snapshot.observed,
                mounted,
                credentials: &credentials,
                work: &self.work,
            };
            match start::start_container(&kubelet, &snapshot.pod, container, &context).await {
                Ok(()) => {
                    self.waiting.remove(name);
                    let step = Step::Container(name.clone());
                    kubelet.resources.allocations.set_actuated(snapshot.pod.uid(), &step);
                }
                Err(waiting) => {
                    self.waiting.insert(name.clone(), waiting);
                    outcome = Err(StepFailed);
                }
            }
        }
        outcome
    }
}

/// Whole seconds as Go prints them: `10s`, `1m20s`, `5m0s`.
fn go_duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    if seconds < 60 { format!("{seconds}s") } else { format!("{}m{}s", seconds / 60, seconds % 60) }
}
