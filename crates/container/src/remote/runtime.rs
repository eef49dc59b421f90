//! The runtime service of a runtime behind a socket.

use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::broadcast;

use super::Remote;
use super::calls::*;
use crate::*;

#[async_trait]
impl Runtime for Remote {
    async fn version(&self) -> Result<Version> {
        self.call("/runtime.v1.RuntimeService/Version", &VersionRequest { version: "v1".to_owned() }).await
    }

    async fn status(&self) -> Result<RuntimeStatus> {
        let response: StatusResponse =
            self.call("/runtime.v1.RuntimeService/Status", &Nothing::default()).await?;
        let handlers = response.handlers.into_iter().map(|handler| RuntimeHandler {
            name: handler.name,
            recursive_read_only_mounts: handler.features.recursive_read_only_mounts,
            user_namespaces: handler.features.user_namespaces,
        });
        Ok(RuntimeStatus {
            conditions: response.status.conditions,
            handlers: handlers.collect(),
            supplemental_groups_policy: response.features.supplemental_groups_policy,
            info: Map::new(),
        })
    }

    async fn cgroup_driver(&self) -> Result<CgroupDriver> {
        let response: RuntimeConfigResponse =
            self.call("/runtime.v1.RuntimeService/RuntimeConfig", &Nothing::default()).await?;
        Ok(if response.linux.cgroup_driver == 0 { CgroupDriver::Systemd } else { CgroupDriver::Cgroupfs })
    }

    async fn update_pod_cidr(&self, pod_cidr: &str) -> Result<()> {
        let network_config = NetworkConfig { pod_cidr: pod_cidr.to_owned() };
        let request = UpdateRuntimeConfigRequest { runtime_config: RuntimeConfig { network_config } };
        self.call::<_, Nothing>("/runtime.v1.RuntimeService/UpdateRuntimeConfig", &request).await.map(|_| ())
    }

    async fn run_pod_sandbox(&self, config: &PodSandboxConfig, handler: &str) -> Result<String> {
        let request = RunPodSandboxRequest { config: config.clone(), runtime_handler: handler.to_owned() };
        let response: Id = self.call("/runtime.v1.RuntimeService/RunPodSandbox", &request).await?;
        Ok(response.id)
    }

    async fn stop_pod_sandbox(&self, sandbox: &str) -> Result<()> {
        self.call::<_, Nothing>("/runtime.v1.RuntimeService/StopPodSandbox", &id(sandbox)).await.map(|_| ())
    }

    async fn remove_pod_sandbox(&self, sandbox: &str) -> Result<()> {
        self.call::<_, Nothing>("/runtime.v1.RuntimeService/RemovePodSandbox", &id(sandbox)).await.map(|_| ())
    }

    async fn pod_sandbox_status(&self, sandbox: &str) -> Result<PodSandboxStatus> {
        let response: PodSandboxStatusResponse =
            self.call("/runtime.v1.RuntimeService/PodSandboxStatus", &id(sandbox)).await?;
        Ok(response.status.into())
    }

    async fn list_pod_sandboxes(&self, filter: &PodSandboxFilter) -> Result<Vec<PodSandbox>> {
        let filter = SandboxFilter {
            id: filter.id.clone().unwrap_or_default(),
            state: filter.state.map(|state| SandboxStateValue { state }),
            labels: filter.labels.clone(),
        };
        let response: ListPodSandboxResponse =
            self.call("/runtime.v1.RuntimeService/ListPodSandbox", &ListPodSandboxRequest { filter }).await?;
        Ok(response.items)
    }

    async fn update_pod_sandbox_resources(
        &self,
        id: &str,
        overhead: Option<&LinuxContainerResources>,
        resources: Option<&LinuxContainerResources>,
    ) -> Result<()> {
        let request = UpdatePodSandboxResourcesRequest {
            id: id.to_owned(),
            overhead: overhead.cloned(),
            resources: resources.cloned(),
        };
        self.call::<_, Nothing>("/runtime.v1.RuntimeService/UpdatePodSandboxResources", &request)
            .await
            .map(|_| ())
    }

    async fn create_container(
        &self,
        pod_sandbox_id: &str,
        config: &ContainerConfig,
        sandbox_config: &PodSandboxConfig,
    ) -> Result<String> {
        let request = CreateContainerRequest {
            pod_sandbox_id: pod_sandbox_id.to_owned(),
            config: config.clone(),
            sandbox_config: sandbox_config.clone(),
        };
        let response: Id = self.call("/runtime.v1.RuntimeService/CreateContainer", &request).await?;
        Ok(response.id)
    }

    async fn start_container(&self, container: &str) -> Result<()> {
        self.call::<_, Nothing>("/runtime.v1.RuntimeService/StartContainer", &id(container)).await.map(|_| ())
    }

    async fn stop_container(&self, id: &str, timeout: Duration) -> Result<()> {
        let request = StopContainerRequest { id: id.to_owned(), timeout: seconds(timeout) };
        match self.call::<_, Nothing>("/runtime.v1.RuntimeService/StopContainer", &request).await {
            Err(Error::NotFound(_)) => Ok(()),
            other => other.map(|_| ()),
        }
    }

    async fn remove_container(&self, container: &str) -> Result<()> {
        self.call::<_, Nothing>("/runtime.v1.RuntimeService/RemoveContainer", &id(container))
            .await
            .map(|_| ())
    }

    async fn list_containers(&self, filter: &ContainerFilter) -> Result<Vec<Container>> {
        let filter = Filter {
            id: filter.id.clone().unwrap_or_default(),
            state: filter.state.map(|state| StateValue { state }),
            pod_sandbox_id: filter.pod_sandbox_id.clone().unwrap_or_default(),
            labels: filter.labels.clone(),
        };
        let response: ListContainersResponse =
            self.call("/runtime.v1.RuntimeService/ListContainers", &ListContainersRequest { filter }).await?;
        Ok(response.containers)
    }

    async fn container_status(&self, container: &str) -> Result<ContainerStatus> {
        let response: ContainerStatusResponse =
            self.call("/runtime.v1.RuntimeService/ContainerStatus", &id(container)).await?;
        Ok(response.status)
    }

    async fn update_container_resources(&self, id: &str, resources: &LinuxContainerResources) -> Result<()> {
        let request = UpdateContainerResourcesRequest { id: id.to_owned(), linux: resources.clone() };
        self.call::<_, Nothing>("/runtime.v1.RuntimeService/UpdateContainerResources", &request)
            .await
            .map(|_| ())
    }

    async fn reopen_container_log(&self, container: &str) -> Result<()> {
        self.call::<_, Nothing>("/runtime.v1.RuntimeService/ReopenContainerLog", &id(container))
            .await
            .map(|_| ())
    }

    async fn exec_sync(&self, id: &str, command: &[String], timeout: Duration) -> Result<ExecOutput> {
        let request =
            ExecSyncRequest { id: id.to_owned(), command: command.to_vec(), timeout: seconds(timeout) };
        let response: ExecSyncResponse = self.call("/runtime.v1.RuntimeService/ExecSync", &request).await?;
        Ok(ExecOutput { stdout: response.stdout, stderr: response.stderr, exit_code: response.exit_code })
    }

    async fn exec(&self, request: &ExecRequest) -> Result<Streaming<Session>> {
        let call = ExecCall {
            id: request.container_id.clone(),
            command: request.command.clone(),
            tty: request.tty,
            stdin: request.stdin,
            stdout: request.stdout,
            stderr: request.stderr,
        };
        let response: Url = self.call("/runtime.v1.RuntimeService/Exec", &call).await?;
        Ok(Streaming::Redirect(response.url))
    }

    async fn attach(&self, request: &AttachRequest) -> Result<Streaming<Session>> {
        let call = AttachCall {
            id: request.container_id.clone(),
            stdin: request.stdin,
            tty: request.tty,
            stdout: request.stdout,
            stderr: request.stderr,
        };
        let response: Url = self.call("/runtime.v1.RuntimeService/Attach", &call).await?;
        Ok(Streaming::Redirect(response.url))
    }

    async fn port_forward(&self, pod_sandbox_id: &str, port: u16) -> Result<Streaming<Box<dyn Connection>>> {
        let call = PortForwardCall { id: pod_sandbox_id.to_owned(), ports: vec![i64::from(port)] };
        let response: Url = self.call("/runtime.v1.RuntimeService/PortForward", &call).await?;
        Ok(Streaming::Redirect(response.url))
    }

    async fn container_stats(&self, container: &str) -> Result<ContainerStats> {
        let response: ContainerStatsResponse =
            self.call("/runtime.v1.RuntimeService/ContainerStats", &id(container)).await?;
        Ok(response.stats.into())
    }

    async fn list_container_stats(&self, filter: &StatsFilter) -> Result<Vec<ContainerStats>> {
        let filter = StatsFilterCall {
            id: filter.id.clone().unwrap_or_default(),
            pod_sandbox_id: filter.pod_sandbox_id.clone().unwrap_or_default(),
            labels: filter.labels.clone(),
        };
        let response: ListContainerStatsResponse = self
            .call("/runtime.v1.RuntimeService/ListContainerStats", &ListContainerStatsRequest { filter })
            .await?;
        Ok(response.stats.into_iter().map(Into::into).collect())
    }

    async fn pod_sandbox_stats(&self, sandbox: &str) -> Result<PodSandboxStats> {
        let response: PodSandboxStatsResponse =
            self.call("/runtime.v1.RuntimeService/PodSandboxStats", &id(sandbox)).await?;
        Ok(response.stats.into())
    }

    async fn list_pod_sandbox_stats(&self, filter: &StatsFilter) -> Result<Vec<PodSandboxStats>> {
        let filter =
            SandboxStatsFilter { id: filter.id.clone().unwrap_or_default(), labels: filter.labels.clone() };
        let response: ListPodSandboxStatsResponse = self
            .call("/runtime.v1.RuntimeService/ListPodSandboxStats", &ListPodSandboxStatsRequest { filter })
            .await?;
        Ok(response.stats.into_iter().map(Into::into).collect())
    }

    /// Runtimes behind a socket have to be polled: no event is ever sent.
    fn events(&self) -> broadcast::Receiver<ContainerEvent> {
        self.events.subscribe()
    }

    fn supports_events(&self) -> bool {
        false
    }
}

/// Whole seconds, rounded up so that a short timeout is not none.
fn seconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis().div_ceil(1000)).unwrap_or(i64::MAX)
}
