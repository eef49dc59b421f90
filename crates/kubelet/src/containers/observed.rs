//! The actual state of one pod: its sandboxes and containers as the runtime reports them, newest first.
//!
//! The desired state is `pod`; nothing here knows it.

use corten_container::{
    ContainerFilter, ContainerState, ContainerStatus, NamespaceMode, PodSandboxFilter, PodSandboxState,
    PodSandboxStatus, Runtime,
};

use super::{labels, termination_message};

/// The actual state of a pod.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Observed {
    /// Newest first.
    pub sandboxes: Vec<PodSandboxStatus>,
    /// Newest first, in whichever sandbox they are.
    pub containers: Vec<Found>,
}

/// A container of the runtime.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Found {
    /// The id of its sandbox.
    pub sandbox_id: String,
    /// The runtime's status of it.
    pub status: ContainerStatus,
}

/// Reads a pod's sandboxes and containers from the runtime. Those that are removed meanwhile are left out.
pub(crate) async fn observe(runtime: &dyn Runtime, uid: &str) -> corten_container::Result<Observed> {
    let labels = labels::of_pod(uid);
    let filter = PodSandboxFilter { labels: labels.clone(), ..PodSandboxFilter::default() };
    let mut sandboxes = Vec::new();
    for sandbox in runtime.list_pod_sandboxes(&filter).await? {
        match runtime.pod_sandbox_status(&sandbox.id).await {
            Ok(status) => sandboxes.push(status),
            Err(err) if err.is_not_found() => {}
            Err(err) => return Err(err),
        }
    }
    let filter = ContainerFilter { labels, ..ContainerFilter::default() };
    let mut containers = Vec::new();
    for container in runtime.list_containers(&filter).await? {
        let mut status = match runtime.container_status(&container.id).await {
            Ok(status) => status,
            Err(err) if err.is_not_found() => continue,
            Err(err) => return Err(err),
        };
        if status.state == ContainerState::Exited {
            status.message = termination_message::message(&status);
        }
        containers.push(Found { sandbox_id: container.pod_sandbox_id, status });
    }
    Ok(Observed::new(sandboxes, containers))
}

impl Observed {
    /// Sorts sandboxes and containers, newest first.
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

    /// The running containers.
    pub fn running(&self) -> impl Iterator<Item = &ContainerStatus> {
        self.containers.iter().map(|found| &found.status).filter(|s| s.state == ContainerState::Running)
    }

    /// Returns true if a sandbox is ready or a container may be running.
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

    /// The state of the pod's newest sandbox.
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

/// The sandbox of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sandbox {
    /// There is no sandbox.
    Missing,
    /// There is a sandbox, but the pod needs a new one.
    Unfit { id: String, attempt: u32 },
    /// The sandbox can be used.
    Ready { id: String, attempt: u32 },
}
