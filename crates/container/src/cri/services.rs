//! The CRI's two services.

use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::broadcast;

use super::*;

/// Sandboxes and containers.
///
/// *Invariants:* a call that fails has left nothing behind that a list does not show. Stopping and removing what
/// is not there succeeds. Status of what is not there is [`Error::NotFound`].
#[async_trait]
pub trait Runtime: Send + Sync + 'static {
    async fn version(&self) -> Result<Version>;
    async fn status(&self) -> Result<RuntimeStatus>;
    async fn cgroup_driver(&self) -> Result<CgroupDriver>;
    /// Sets the node's range of pod addresses.
    async fn update_pod_cidr(&self, pod_cidr: &str) -> Result<()>;

    /// Creates and starts a sandbox; when this returns, its network is up. `handler` is that of the RuntimeClass.
    async fn run_pod_sandbox(&self, config: &PodSandboxConfig, handler: &str) -> Result<String>;
    /// Stops all of its containers and releases its network.
    async fn stop_pod_sandbox(&self, id: &str) -> Result<()>;
    /// Removes the sandbox with all its containers, stopping those that still run.
    async fn remove_pod_sandbox(&self, id: &str) -> Result<()>;
    async fn pod_sandbox_status(&self, id: &str) -> Result<PodSandboxStatus>;
    async fn list_pod_sandboxes(&self, filter: &PodSandboxFilter) -> Result<Vec<PodSandbox>>;
    async fn update_pod_sandbox_resources(
        &self,
        id: &str,
        overhead: Option<&LinuxContainerResources>,
        resources: Option<&LinuxContainerResources>,
    ) -> Result<()>;

    async fn create_container(
        &self,
        pod_sandbox_id: &str,
        config: &ContainerConfig,
        sandbox_config: &PodSandboxConfig,
    ) -> Result<String>;
    /// Starts a created container, once. A container that cannot start has exited with `StartError`.
    async fn start_container(&self, id: &str) -> Result<()>;
    /// Sends the stop signal and, after the timeout, kills the container. Returns when the container has exited.
    async fn stop_container(&self, id: &str, timeout: Duration) -> Result<()>;
    /// Removes the container with its runtime state and writable layer, killing it if it runs.
    async fn remove_container(&self, id: &str) -> Result<()>;
    async fn list_containers(&self, filter: &ContainerFilter) -> Result<Vec<Container>>;
    async fn container_status(&self, id: &str) -> Result<ContainerStatus>;
    async fn update_container_resources(&self, id: &str, resources: &LinuxContainerResources) -> Result<()>;
    /// After the log file was rotated: continues in a new file at the old path.
    async fn reopen_container_log(&self, id: &str) -> Result<()>;

    /// Runs a command in a running container and waits for it; past the timeout it is killed and this is
    /// [`Error::DeadlineExceeded`]. No timeout if zero.
    async fn exec_sync(&self, id: &str, command: &[String], timeout: Duration) -> Result<ExecOutput>;
    async fn exec(&self, request: &ExecRequest) -> Result<Streaming<Session>>;
    async fn attach(&self, request: &AttachRequest) -> Result<Streaming<Session>>;
    /// Connects to a port of the pod in the pod's network namespace.
    async fn port_forward(&self, pod_sandbox_id: &str, port: u16) -> Result<Streaming<Box<dyn Connection>>>;

    async fn container_stats(&self, id: &str) -> Result<ContainerStats>;
    async fn list_container_stats(&self, filter: &StatsFilter) -> Result<Vec<ContainerStats>>;
    async fn pod_sandbox_stats(&self, id: &str) -> Result<PodSandboxStats>;
    async fn list_pod_sandbox_stats(&self, filter: &StatsFilter) -> Result<Vec<PodSandboxStats>>;

    /// Events from now on. A receiver that lags has to list again. A runtime without events returns false from
    /// [`Runtime::supports_events`].
    fn events(&self) -> broadcast::Receiver<ContainerEvent>;
    /// True if events are reliable; otherwise callers compare lists periodically.
    fn supports_events(&self) -> bool;
}

/// Images.
#[async_trait]
pub trait Images: Send + Sync + 'static {
    /// All images, or those that a name, digest or id selects.
    async fn list_images(&self, filter: Option<&ImageSpec>) -> Result<Vec<Image>>;
    /// `None` if the image is not on this node.
    async fn image_status(&self, image: &ImageSpec) -> Result<Option<Image>>;
    /// Pulls an image and returns the name to use in a container's configuration.
    async fn pull_image(
        &self,
        image: &ImageSpec,
        auth: Option<&AuthConfig>,
        sandbox_config: Option<&PodSandboxConfig>,
        progress: &Progress,
    ) -> Result<String>;
    /// Removes the image with all its names; a missing image is no error.
    async fn remove_image(&self, image: &ImageSpec) -> Result<()>;
    async fn image_fs_info(&self) -> Result<ImageFsInfo>;
}
