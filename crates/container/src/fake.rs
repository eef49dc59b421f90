//! A runtime and images that exist only in memory, for tests of their callers.
//!
//! Sandboxes are ready as soon as they are run; containers run until the test (or a stop) ends them. Every call is
//! recorded, and any call can be made to fail. It checks what a real runtime would: unknown ids, names in use, missing
//! images.

mod images;
mod runtime;
mod state;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::Arc;

use corten_base::Clock;
use parking_lot::Mutex;
use tokio::sync::broadcast;

use crate::{ContainerEvent, ContainerEventKind, ContainerState, Error, ExecOutput, Image, Result};
use state::State;

/// Both services. Clones are the same runtime.
#[derive(Clone)]
pub struct Fake {
    state: Arc<Mutex<State>>,
    events: broadcast::Sender<ContainerEvent>,
    clock: Clock,
}

/// A recorded call: the method, and the id, name or image it was about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    pub method: &'static str,
    pub about: String,
}

type Exec = Box<dyn FnMut(&str, &[String]) -> Result<ExecOutput> + Send>;

impl Fake {
    pub fn new(clock: Clock) -> Fake {
        let (events, _) = broadcast::channel(1024);
        Fake { state: Arc::default(), events, clock }
    }

    /// Adds an image to this node.
    pub fn add_image(&self, image: Image) {
        self.state.lock().images.push(image);
    }

    /// Adds an image that can be pulled, but is not on this node yet.
    pub fn add_remote_image(&self, image: Image) {
        self.state.lock().registry.push(image);
    }

    /// Makes the next call of this method fail.
    pub fn fail_next(&self, method: &'static str, error: Error) {
        self.state.lock().failures.entry(method).or_default().push_back(error);
    }

    /// Sets the handler of commands in containers; without one they succeed without output.
    pub fn on_exec(&self, answer: impl FnMut(&str, &[String]) -> Result<ExecOutput> + Send + 'static) {
        self.state.lock().exec = Some(Box::new(answer));
    }

    /// The addresses of sandboxes that are run from now on.
    pub fn set_pod_ips(&self, ips: &[&str]) {
        self.state.lock().pod_ips = ips.iter().map(|&ip| ip.to_owned()).collect();
    }

    /// Returns and clears the recorded calls.
    pub fn take_calls(&self) -> Vec<Call> {
        std::mem::take(&mut self.state.lock().calls)
    }

    /// Ends a running container, as if its process had exited.
    pub fn exit(&self, container_id: &str, exit_code: i32, reason: &str) -> Result<()> {
        self.end(container_id, exit_code, reason)
    }

    /// Kills a sandbox with its containers.
    pub fn kill_sandbox(&self, id: &str) -> Result<()> {
        let containers = {
            let mut state = self.state.lock();
            state.sandbox_mut(id)?.stopped = true;
            state.running_in(id)
        };
        for container in containers {
            self.end(&container, 137, "Error")?;
        }
        self.send_event(id, id, ContainerEventKind::Stopped);
        Ok(())
    }

    fn end(&self, container_id: &str, exit_code: i32, reason: &str) -> Result<()> {
        let sandbox = {
            let mut state = self.state.lock();
            let container = state.container_mut(container_id)?;
            if container.state != ContainerState::Running {
                return Ok(());
            }
            container.state = ContainerState::Exited;
            container.finished_at = Some(self.clock.now());
            container.exit_code = exit_code;
            container.reason = reason.to_owned();
            container.sandbox_id.clone()
        };
        self.send_event(container_id, &sandbox, ContainerEventKind::Stopped);
        Ok(())
    }

    fn send_event(&self, container_id: &str, sandbox_id: &str, kind: ContainerEventKind) {
        let event = ContainerEvent {
            container_id: container_id.to_owned(),
            pod_sandbox_id: sandbox_id.to_owned(),
            kind,
            at: self.clock.now(),
        };
        // Fails only if there is no receiver.
        let _ = self.events.send(event);
    }

    /// Records a call; returns the error that was set for it, if any.
    fn record_call(&self, method: &'static str, about: &str) -> Result<()> {
        let mut state = self.state.lock();
        state.calls.push(Call { method, about: about.to_owned() });
        match state.failures.get_mut(method).and_then(VecDeque::pop_front) {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }
}
