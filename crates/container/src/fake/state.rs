//! The state of the fake runtime.

use std::collections::{BTreeMap, HashMap, VecDeque};

use jiff::Timestamp;

use super::{Call, Exec};
use crate::*;

#[derive(Default)]
pub(super) struct State {
    pub(super) sandboxes: BTreeMap<String, FakeSandbox>,
    pub(super) containers: BTreeMap<String, FakeContainer>,
    pub(super) images: Vec<Image>,
    pub(super) registry: Vec<Image>,
    pub(super) failures: HashMap<&'static str, VecDeque<Error>>,
    pub(super) exec: Option<Exec>,
    pub(super) pod_ips: Vec<String>,
    pub(super) calls: Vec<Call>,
    made: u64,
}

pub(super) struct FakeSandbox {
    pub(super) config: PodSandboxConfig,
    pub(super) handler: String,
    pub(super) created_at: Timestamp,
    pub(super) stopped: bool,
    pub(super) ips: Vec<String>,
}

pub(super) struct FakeContainer {
    pub(super) sandbox_id: String,
    pub(super) config: ContainerConfig,
    pub(super) image: Image,
    pub(super) log_path: String,
    pub(super) state: ContainerState,
    pub(super) created_at: Timestamp,
    pub(super) started_at: Option<Timestamp>,
    pub(super) finished_at: Option<Timestamp>,
    pub(super) exit_code: i32,
    pub(super) reason: String,
}

impl State {
    /// Ids that look like a runtime's, and never repeat.
    pub(super) fn new_id(&mut self) -> String {
        self.made += 1;
        format!("{:064x}", self.made)
    }

    pub(super) fn sandbox(&self, id: &str) -> Result<&FakeSandbox> {
        self.sandboxes.get(id).ok_or_else(|| Error::NotFound(format!("pod sandbox {id:?} not found")))
    }

    pub(super) fn sandbox_mut(&mut self, id: &str) -> Result<&mut FakeSandbox> {
        self.sandboxes.get_mut(id).ok_or_else(|| Error::NotFound(format!("pod sandbox {id:?} not found")))
    }

    pub(super) fn container(&self, id: &str) -> Result<&FakeContainer> {
        self.containers.get(id).ok_or_else(|| Error::NotFound(format!("container {id:?} not found")))
    }

    pub(super) fn container_mut(&mut self, id: &str) -> Result<&mut FakeContainer> {
        self.containers.get_mut(id).ok_or_else(|| Error::NotFound(format!("container {id:?} not found")))
    }

    pub(super) fn running_in(&self, sandbox_id: &str) -> Vec<String> {
        let running = |c: &FakeContainer| c.sandbox_id == sandbox_id && c.state == ContainerState::Running;
        self.containers.iter().filter(|(_, c)| running(c)).map(|(id, _)| id.clone()).collect()
    }

    pub(super) fn image(&self, name: &str) -> Option<&Image> {
        self.images.iter().find(|image| names(image, name))
    }
}

/// Returns true if a name, digest or id selects this image.
pub(super) fn names(image: &Image, name: &str) -> bool {
    image.id == name || image.repo_tags.iter().chain(&image.repo_digests).any(|known| known == name)
}

impl FakeSandbox {
    pub(super) fn state(&self) -> PodSandboxState {
        if self.stopped { PodSandboxState::NotReady } else { PodSandboxState::Ready }
    }

    pub(super) fn listed(&self, id: &str) -> PodSandbox {
        PodSandbox {
            id: id.to_owned(),
            metadata: self.config.metadata.clone(),
            state: self.state(),
            created_at: self.created_at,
            labels: self.config.labels.clone(),
            annotations: self.config.annotations.clone(),
            runtime_handler: self.handler.clone(),
        }
    }

    pub(super) fn status(&self, id: &str) -> PodSandboxStatus {
        let listed = self.listed(id);
        PodSandboxStatus {
            id: listed.id,
            metadata: listed.metadata,
            state: listed.state,
            created_at: listed.created_at,
            ips: self.ips.clone(),
            namespaces: self.config.linux.security_context.namespace_options.clone(),
            labels: listed.labels,
            annotations: listed.annotations,
            runtime_handler: listed.runtime_handler,
        }
    }
}

impl FakeContainer {
    pub(super) fn listed(&self, id: &str) -> Container {
        Container {
            id: id.to_owned(),
            pod_sandbox_id: self.sandbox_id.clone(),
            metadata: self.config.metadata.clone(),
            image: self.config.image.clone(),
            image_ref: self.image_ref(),
            image_id: self.image.id.clone(),
            state: self.state,
            created_at: self.created_at,
            labels: self.config.labels.clone(),
            annotations: self.config.annotations.clone(),
        }
    }

    pub(super) fn status(&self, id: &str) -> ContainerStatus {
        let config = &self.config;
        ContainerStatus {
            id: id.to_owned(),
            metadata: config.metadata.clone(),
            state: self.state,
            created_at: self.created_at,
            started_at: self.started_at,
            finished_at: self.finished_at,
            exit_code: self.exit_code,
            image: config.image.clone(),
            image_ref: self.image_ref(),
            image_id: self.image.id.clone(),
            reason: self.reason.clone(),
            labels: config.labels.clone(),
            annotations: config.annotations.clone(),
            mounts: config.mounts.clone(),
            log_path: self.log_path.clone(),
            resources: Some(config.linux.resources.clone()),
            stop_signal: config.stop_signal.clone(),
            ..ContainerStatus::default()
        }
    }

    pub(super) fn stats(&self, id: &str) -> ContainerStats {
        ContainerStats {
            id: id.to_owned(),
            pod_sandbox_id: self.sandbox_id.clone(),
            metadata: self.config.metadata.clone(),
            labels: self.config.labels.clone(),
            annotations: self.config.annotations.clone(),
            ..ContainerStats::default()
        }
    }

    fn image_ref(&self) -> String {
        self.image.repo_digests.first().unwrap_or(&self.image.id).clone()
    }
}
