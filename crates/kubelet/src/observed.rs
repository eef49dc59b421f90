//! What the runtime knows of one pod: its sandboxes and containers, newest first.
//!
//! Nothing here knows what is wanted; see `pod` for that.

use corten_container::{ContainerState, ContainerStatus, NamespaceMode, PodSandboxState, PodSandboxStatus};

/// What was found of a pod.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Observed {
    /// Newest first.
    pub sandboxes: Vec<PodSandboxStatus>,
    /// Newest first, whatever sandbox they are in.
    pub containers: Vec<Found>,
}

/// A container that was found.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Found {
    pub sandbox_id: String,
    pub status: ContainerStatus,
}

impl Observed {
    pub fn new(mut sandboxes: Vec<PodSandboxStatus>, mut containers: Vec<Found>) -> Observed {
        sandboxes.sort_by(|a, b| {
            b.created_at.cmp(&a.created_at).then(b.metadata.attempt.cmp(&a.metadata.attempt))
        });
        let age = |found: &Found| (found.status.created_at, found.status.metadata.attempt);
        containers.sort_by_key(|found| std::cmp::Reverse(age(found)));
        Observed { sandboxes, containers }
    }

    /// The newest attempt at a container.
    pub fn latest(&self, name: &str) -> Option<&ContainerStatus> {
        self.attempts(name).next()
    }

    /// Every attempt at a container, newest first.
    pub fn attempts(&self, name: &str) -> impl Iterator<Item = &ContainerStatus> {
        self.containers.iter().map(|found| &found.status).filter(move |status| status.metadata.name == name)
    }

    /// The newest attempt in the newest sandbox.
    pub fn active(&self, name: &str) -> Option<&ContainerStatus> {
        let sandbox = &self.sandboxes.first()?.id;
        let here = self.containers.iter().filter(|found| found.sandbox_id == *sandbox);
        here.map(|found| &found.status).find(|status| status.metadata.name == name)
    }

    pub fn running(&self) -> impl Iterator<Item = &ContainerStatus> {
        self.containers.iter().map(|found| &found.status).filter(|s| s.state == ContainerState::Running)
    }

    /// Whether anything of the pod may still be at work.
    pub fn is_alive(&self) -> bool {
        self.running().next().is_some() || self.ready_sandboxes() > 0
    }

    fn ready_sandboxes(&self) -> usize {
        self.sandboxes.iter().filter(|sandbox| sandbox.state == PodSandboxState::Ready).count()
    }

    /// The pod's addresses, the primary one first.
    pub fn ips(&self) -> &[String] {
        match self.sandboxes.first() {
            Some(sandbox) if sandbox.state == PodSandboxState::Ready => &sandbox.ips,
            _ => &[],
        }
    }

    /// Whether the pod can go on in the sandbox it has.
    pub fn sandbox(&self, host_network: bool) -> Sandbox {
        let Some(latest) = self.sandboxes.first() else { return Sandbox::Missing };
        let (id, attempt) = (latest.id.clone(), latest.metadata.attempt);
        let on_host = latest.namespaces.network == NamespaceMode::Node;
        if self.ready_sandboxes() > 1
            || latest.state != PodSandboxState::Ready
            || on_host != host_network
            || (!host_network && latest.ips.is_empty())
        {
            return Sandbox::Unfit { id, attempt };
        }
        Sandbox::Ready { id, attempt }
    }
}

/// What there is to run a pod in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sandbox {
    Missing,
    /// There was one, but the pod needs another.
    Unfit {
        id: String,
        attempt: u32,
    },
    Ready {
        id: String,
        attempt: u32,
    },
}
