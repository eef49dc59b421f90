//! The actions that bring a pod to its desired state. Pure.
//!
//! Backoff is not considered: `sync_pod` removes containers that are in backoff from those to start.

#[cfg(test)]
mod tests;

use corten_container::{ContainerState, ContainerStatus};

use crate::containers::observed::{Observed, Sandbox};
use crate::pod::{Container, HostNamespace, Pod, RestartPolicy, Role};

/// The actions of a sync, in the order in which they are done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Actions {
    /// Stop the whole pod first, including its sandbox.
    pub kill_pod: bool,
    /// The attempt of the sandbox to create, and whether it replaces one.
    pub create_sandbox: Option<NewSandbox>,
    pub kill: Vec<Kill>,
    /// The names of the containers to start: ephemeral ones, then init containers and sidecars, then the others.
    pub start: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewSandbox {
    pub attempt: u32,
    pub replaces: bool,
}

/// A container to stop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kill {
    pub id: String,
    pub name: String,
    pub reason: KillReason,
    /// The message of the event.
    pub message: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KillReason {
    Changed,
    /// It has to be restarted to get its allocated resources.
    Resized,
    Liveness,
    Startup,
    /// The runtime does not know its state; it has to be stopped before the next attempt.
    Unknown,
}

/// The results of a container's probes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Probed {
    /// True after a successful startup probe, or without one. `None` before the first result.
    pub started: Option<bool>,
    pub startup_failed: bool,
    pub liveness_failed: bool,
}

/// The facts that decide actions besides the pod and its actual state.
pub trait Knowledge {
    /// The probe results of a running container.
    fn probed(&self, container: &Container, status: &ContainerStatus) -> Probed;
    /// Returns true if a container was created from another definition than the pod's present one.
    fn changed(&self, container: &Container, status: &ContainerStatus) -> bool;
    /// Returns true if a container has to be restarted to get its allocated resources.
    fn resized(&self, pod: &Pod, container: &Container) -> bool;
}

pub fn compute_pod_actions(pod: &Pod, observed: &Observed, known: &dyn Knowledge) -> Actions {
    match observed.sandbox(pod.uses_host(HostNamespace::Network)) {
        Sandbox::Missing => start_over(pod, observed, NewSandbox { attempt: 0, replaces: false }),
        Sandbox::Unfit { attempt, .. } => {
            start_over(pod, observed, NewSandbox { attempt: attempt + 1, replaces: true })
        }
        Sandbox::Ready { .. } => Deciding { pod, observed, known, actions: Actions::default() }.decide(),
    }
}

/// The actions for a pod without a usable sandbox: it starts again with its first init container, if it is to run at
/// all.
fn start_over(pod: &Pod, observed: &Observed, sandbox: NewSandbox) -> Actions {
    let mut actions = Actions { kill_pod: true, ..Actions::default() };
    let ran = !observed.containers.is_empty();
    if pod.restart_policy() == RestartPolicy::Never && sandbox.attempt != 0 && ran {
        return actions;
    }
    let policy = |c: &Container| c.restart_policy.unwrap_or_else(|| pod.restart_policy());
    let succeeded = |c: &Container| observed.latest(&c.name).is_some_and(|s| is_over(s) && s.exit_code == 0);
    let left: Vec<&Container> = pod
        .with_role(Role::Main)
        .filter(|c| !(policy(c) == RestartPolicy::OnFailure && succeeded(c)))
        .collect();
    if left.is_empty() && pod.with_role(Role::Main).any(|c| observed.latest(&c.name).is_some()) {
        return actions;
    }
    actions.create_sandbox = Some(sandbox);
    actions.start = match pod.initial().first() {
        Some(first) => vec![first.name.to_string()],
        None => left.iter().map(|c| c.name.to_string()).collect(),
    };
    actions
}

fn is_over(status: &ContainerStatus) -> bool {
    status.state == ContainerState::Exited
}

struct Deciding<'a> {
    pod: &'a Pod,
    observed: &'a Observed,
    known: &'a dyn Knowledge,
    actions: Actions,
}

impl Deciding<'_> {
    fn decide(mut self) -> Actions {
        for container in self.pod.with_role(Role::Ephemeral) {
            if self.observed.latest(&container.name).is_none() {
                self.actions.start.push(container.name.to_string());
            }
        }
        if self.initialize() {
            self.main_containers();
        }
        self.actions
    }

    /// Starts init containers and sidecars. Returns true once the main containers may run.
    fn initialize(&mut self) -> bool {
        let initial = self.pod.initial();
        let begun = self
            .pod
            .with_role(Role::Main)
            .any(|c| self.observed.active(&c.name).is_some_and(|s| s.state != ContainerState::Created));
        if begun {
            let sidecars: Vec<&Container> = initial.into_iter().filter(|c| c.role == Role::Sidecar).collect();
            for sidecar in sidecars {
                self.sidecar(sidecar);
            }
            return true;
        }
        for container in initial {
            let done = match container.role {
                Role::Sidecar => self.sidecar(container),
                _ => self.init(container),
            };
            if !done {
                return false;
            }
        }
        true
    }

    /// Handles one init container. Returns true if the next may start.
    fn init(&mut self, container: &Container) -> bool {
        let Some(status) = self.observed.active(&container.name) else {
            self.start(container);
            return false;
        };
        match status.state {
            ContainerState::Created => self.start(container),
            ContainerState::Running => {}
            ContainerState::Exited if status.exit_code == 0 => return true,
            ContainerState::Exited | ContainerState::Unknown => {
                if !container.restarts_after(failure_of(status), self.pod.restart_policy()) {
                    self.actions = Actions { kill_pod: true, ..Actions::default() };
                } else {
                    if status.state == ContainerState::Unknown {
                        self.kill_unknown(container, status, "Init container");
                    }
                    self.start(container);
                }
            }
        }
        false
    }

    /// Handles one sidecar. Returns true if it has started, so that the next may start.
    fn sidecar(&mut self, container: &Container) -> bool {
        let Some(status) = self.observed.active(&container.name) else {
            self.start(container);
            return false;
        };
        if status.state != ContainerState::Running {
            if status.state == ContainerState::Unknown {
                self.kill_unknown(container, status, "Init container");
            }
            self.start(container);
            return false;
        }
        let probed = self.known.probed(container, status);
        let name = &container.name;
        if probed.startup_failed {
            self.replace(status, KillReason::Startup, format!("Init container {name} failed startup probe"));
            return false;
        }
        if self.known.changed(container, status) {
            self.replace(status, KillReason::Changed, format!("Init container {name} definition changed"));
        } else if probed.liveness_failed {
            self.replace(
                status,
                KillReason::Liveness,
                format!("Init container {name} failed liveness probe"),
            );
        } else if self.known.resized(self.pod, container) {
            let why = format!("Container {name} resize requires restart");
            self.replace(status, KillReason::Resized, why);
        }
        probed.started == Some(true)
    }

    /// Keeps the main containers running. A pod with nothing to keep and nothing to start is finished.
    fn main_containers(&mut self) {
        let (mut kept, others) = (0, self.actions.start.len());
        for container in self.pod.with_role(Role::Main) {
            match self.observed.latest(&container.name) {
                Some(status) if status.state == ContainerState::Running => {
                    kept += usize::from(self.keep_main(container, status));
                }
                found => self.start_main(container, found),
            }
        }
        if kept == 0 && self.actions.start.len() == others {
            self.actions.kill_pod = true;
            self.actions.start.clear();
        }
    }

    /// Handles a main container that does not run.
    fn start_main(&mut self, container: &Container, found: Option<&ContainerStatus>) {
        if self.pod.deleted_at().is_some() {
            return;
        }
        let Some(status) = found else { return self.start(container) };
        match status.state {
            ContainerState::Unknown => {
                self.kill_unknown(container, status, "Container");
                self.start(container);
            }
            ContainerState::Exited => {
                if container.restarts_after(status.exit_code, self.pod.restart_policy()) {
                    self.start(container);
                }
            }
            ContainerState::Created | ContainerState::Running => self.start(container),
        }
    }

    /// Handles a running main container. Returns true if it is kept.
    fn keep_main(&mut self, container: &Container, status: &ContainerStatus) -> bool {
        let (name, probed) = (&container.name, self.known.probed(container, status));
        let policy = container.restart_policy.unwrap_or_else(|| self.pod.restart_policy());
        let (reason, why, restart) = if self.known.changed(container, status) {
            (KillReason::Changed, format!("Container {name} definition changed"), true)
        } else if probed.liveness_failed {
            let why = format!("Container {name} failed liveness probe");
            (KillReason::Liveness, why, policy != RestartPolicy::Never)
        } else if probed.startup_failed {
            let why = format!("Container {name} failed startup probe");
            (KillReason::Startup, why, policy != RestartPolicy::Never)
        } else if self.known.resized(self.pod, container) {
            let why = format!("Container {name} resize requires restart");
            self.replace(status, KillReason::Resized, why);
            return false;
        } else {
            return true;
        };
        if restart {
            self.replace(status, reason, format!("{why}, will be restarted"));
        } else {
            self.kill(status, reason, why);
        }
        false
    }

    fn start(&mut self, container: &Container) {
        self.actions.start.push(container.name.to_string());
    }

    fn kill(&mut self, status: &ContainerStatus, reason: KillReason, message: String) {
        let (id, name) = (status.id.clone(), status.metadata.name.clone());
        self.actions.kill.push(Kill { id, name, reason, message });
    }

    fn replace(&mut self, status: &ContainerStatus, reason: KillReason, message: String) {
        self.kill(status, reason, message);
        self.actions.start.push(status.metadata.name.clone());
    }

    fn kill_unknown(&mut self, container: &Container, status: &ContainerStatus, what: &str) {
        debug_assert_eq!(container.name.as_str(), status.metadata.name);
        let message = format!("{what} is in \"unknown\" state, try killing it before restart");
        self.kill(status, KillReason::Unknown, message);
    }
}

/// The exit code of a failed container. One in an unknown state counts as failed.
fn failure_of(status: &ContainerStatus) -> i32 {
    if status.state == ContainerState::Unknown && status.exit_code == 0 { 137 } else { status.exit_code }
}
