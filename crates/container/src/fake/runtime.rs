//! The fake's sandboxes and containers.

use std::future;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::broadcast;

use super::Fake;
use super::state::{FakeContainer, FakeSandbox};
use crate::cri::includes;
use crate::*;

#[async_trait]
impl Runtime for Fake {
    async fn version(&self) -> Result<Version> {
        self.record_call("version", "")?;
        Ok(Version {
            runtime_name: "fake".to_owned(),
            runtime_version: "0.1.0".to_owned(),
            runtime_api_version: "v1".to_owned(),
        })
    }

    async fn status(&self) -> Result<RuntimeStatus> {
        self.record_call("status", "")?;
        let ready =
            |kind: &str| RuntimeCondition { kind: kind.to_owned(), status: true, ..Default::default() };
        Ok(RuntimeStatus {
            conditions: vec![ready(RuntimeStatus::RUNTIME_READY), ready(RuntimeStatus::NETWORK_READY)],
            handlers: vec![RuntimeHandler::default()],
            ..RuntimeStatus::default()
        })
    }

    async fn cgroup_driver(&self) -> Result<CgroupDriver> {
        Ok(CgroupDriver::Cgroupfs)
    }

    async fn update_pod_cidr(&self, pod_cidr: &str) -> Result<()> {
        self.record_call("update_pod_cidr", pod_cidr)
    }

    async fn run_pod_sandbox(&self, config: &PodSandboxConfig, handler: &str) -> Result<String> {
        self.record_call("run_pod_sandbox", &config.metadata.name)?;
        let id = {
            let mut state = self.state.lock();
            if state.sandboxes.values().any(|known| known.config.metadata == config.metadata) {
                return Err(Error::AlreadyExists(format!("sandbox {:?} exists", config.metadata.name)));
            }
            let id = state.new_id();
            let host = config.linux.security_context.namespace_options.network == NamespaceMode::Node;
            let sandbox = FakeSandbox {
                config: config.clone(),
                handler: handler.to_owned(),
                created_at: self.clock.now(),
                stopped: false,
                ips: if host { Vec::new() } else { state.pod_ips.clone() },
            };
            state.sandboxes.insert(id.clone(), sandbox);
            id
        };
        self.send_event(&id, &id, ContainerEventKind::Created);
        self.send_event(&id, &id, ContainerEventKind::Started);
        Ok(id)
    }

    async fn stop_pod_sandbox(&self, id: &str) -> Result<()> {
        self.record_call("stop_pod_sandbox", id)?;
        let running = self.state.lock().sandbox(id).is_ok_and(|sandbox| !sandbox.stopped);
        if running { self.kill_sandbox(id) } else { Ok(()) }
    }

    async fn remove_pod_sandbox(&self, id: &str) -> Result<()> {
        self.record_call("remove_pod_sandbox", id)?;
        if self.state.lock().sandbox(id).is_ok_and(|sandbox| !sandbox.stopped) {
            self.kill_sandbox(id)?;
        }
        let removed = {
            let mut state = self.state.lock();
            state.containers.retain(|_, container| container.sandbox_id != id);
            state.sandboxes.remove(id).is_some()
        };
        if removed {
            self.send_event(id, id, ContainerEventKind::Deleted);
        }
        Ok(())
    }

    async fn pod_sandbox_status(&self, id: &str) -> Result<PodSandboxStatus> {
        self.record_call("pod_sandbox_status", id)?;
        Ok(self.state.lock().sandbox(id)?.status(id))
    }

    async fn list_pod_sandboxes(&self, filter: &PodSandboxFilter) -> Result<Vec<PodSandbox>> {
        self.record_call("list_pod_sandboxes", "")?;
        let state = self.state.lock();
        let all = state.sandboxes.iter().map(|(id, sandbox)| sandbox.listed(id));
        Ok(all.filter(|sandbox| filter.matches(sandbox)).collect())
    }

    async fn update_pod_sandbox_resources(
        &self,
        id: &str,
        overhead: Option<&LinuxContainerResources>,
        resources: Option<&LinuxContainerResources>,
    ) -> Result<()> {
        self.record_call("update_pod_sandbox_resources", id)?;
        let mut state = self.state.lock();
        let linux = &mut state.sandbox_mut(id)?.config.linux;
        linux.overhead = overhead.cloned();
        linux.resources = resources.cloned();
        Ok(())
    }

    async fn create_container(
        &self,
        pod_sandbox_id: &str,
        config: &ContainerConfig,
        sandbox_config: &PodSandboxConfig,
    ) -> Result<String> {
        self.record_call("create_container", &config.metadata.name)?;
        let id = {
            let mut state = self.state.lock();
            if state.sandbox(pod_sandbox_id)?.stopped {
                return Err(Error::FailedPrecondition(format!(
                    "pod sandbox {pod_sandbox_id:?} is not running"
                )));
            }
            let taken =
                |c: &FakeContainer| c.sandbox_id == pod_sandbox_id && c.config.metadata == config.metadata;
            if state.containers.values().any(taken) {
                return Err(Error::AlreadyExists(format!("container {:?} exists", config.metadata.name)));
            }
            let Some(image) = state.image(&config.image.image).cloned() else {
                return Err(Error::NotFound(format!("image {:?} not found", config.image.image)));
            };
            let id = state.new_id();
            let container = FakeContainer {
                sandbox_id: pod_sandbox_id.to_owned(),
                config: config.clone(),
                image,
                log_path: format!("{}/{}", sandbox_config.log_directory, config.log_path),
                state: ContainerState::Created,
                created_at: self.clock.now(),
                started_at: None,
                finished_at: None,
                exit_code: 0,
                reason: String::new(),
            };
            state.containers.insert(id.clone(), container);
            id
        };
        self.send_event(&id, pod_sandbox_id, ContainerEventKind::Created);
        Ok(id)
    }

    async fn start_container(&self, id: &str) -> Result<()> {
        self.record_call("start_container", id)?;
        let sandbox = {
            let mut state = self.state.lock();
            let container = state.container_mut(id)?;
            if container.state != ContainerState::Created {
                return Err(Error::FailedPrecondition(format!("container {id:?} was already started")));
            }
            container.state = ContainerState::Running;
            container.started_at = Some(self.clock.now());
            container.sandbox_id.clone()
        };
        self.send_event(id, &sandbox, ContainerEventKind::Started);
        Ok(())
    }

    async fn stop_container(&self, id: &str, _timeout: Duration) -> Result<()> {
        self.record_call("stop_container", id)?;
        match self.end(id, 137, "Error") {
            Err(Error::NotFound(_)) => Ok(()),
            other => other,
        }
    }

    async fn remove_container(&self, id: &str) -> Result<()> {
        self.record_call("remove_container", id)?;
        if self.state.lock().containers.contains_key(id) {
            self.end(id, 137, "Error")?;
        }
        let removed = self.state.lock().containers.remove(id);
        if let Some(container) = removed {
            self.send_event(id, &container.sandbox_id, ContainerEventKind::Deleted);
        }
        Ok(())
    }

    async fn list_containers(&self, filter: &ContainerFilter) -> Result<Vec<Container>> {
        self.record_call("list_containers", "")?;
        let state = self.state.lock();
        let all = state.containers.iter().map(|(id, container)| container.listed(id));
        Ok(all.filter(|container| filter.matches(container)).collect())
    }

    async fn container_status(&self, id: &str) -> Result<ContainerStatus> {
        self.record_call("container_status", id)?;
        Ok(self.state.lock().container(id)?.status(id))
    }

    async fn update_container_resources(&self, id: &str, resources: &LinuxContainerResources) -> Result<()> {
        self.record_call("update_container_resources", id)?;
        self.state.lock().container_mut(id)?.config.linux.resources = resources.clone();
        Ok(())
    }

    async fn reopen_container_log(&self, id: &str) -> Result<()> {
        self.record_call("reopen_container_log", id)?;
        self.state.lock().container(id).map(|_| ())
    }

    async fn exec_sync(&self, id: &str, command: &[String], _timeout: Duration) -> Result<ExecOutput> {
        self.record_call("exec_sync", id)?;
        let mut state = self.state.lock();
        if state.container(id)?.state != ContainerState::Running {
            return Err(Error::FailedPrecondition(format!("container {id:?} is not running")));
        }
        state.exec.as_mut().map_or_else(|| Ok(ExecOutput::default()), |exec| exec(id, command))
    }

    async fn exec(&self, request: &ExecRequest) -> Result<Streaming<Session>> {
        let output = self.exec_sync(&request.container_id, &request.command, Duration::ZERO).await?;
        let code = output.exit_code;
        Ok(Streaming::Direct(Session {
            stdin: request.stdin.then(|| Box::pin(tokio::io::sink()) as Writer),
            stdout: request.stdout.then(|| Box::pin(std::io::Cursor::new(output.stdout)) as Reader),
            stderr: request.stderr.then(|| Box::pin(std::io::Cursor::new(output.stderr)) as Reader),
            terminal: None,
            exit: Box::pin(future::ready(Ok(code))),
        }))
    }

    async fn attach(&self, request: &AttachRequest) -> Result<Streaming<Session>> {
        self.record_call("attach", &request.container_id)?;
        self.state.lock().container(&request.container_id)?;
        Ok(Streaming::Direct(Session {
            stdin: request.stdin.then(|| Box::pin(tokio::io::sink()) as Writer),
            stdout: request.stdout.then(|| Box::pin(tokio::io::empty()) as Reader),
            stderr: request.stderr.then(|| Box::pin(tokio::io::empty()) as Reader),
            terminal: None,
            exit: Box::pin(future::ready(Ok(0))),
        }))
    }

    /// Connects to an echo server.
    async fn port_forward(&self, pod_sandbox_id: &str, port: u16) -> Result<Streaming<Box<dyn Connection>>> {
        self.record_call("port_forward", &format!("{pod_sandbox_id}:{port}"))?;
        self.state.lock().sandbox(pod_sandbox_id)?;
        let (here, there) = tokio::io::duplex(64 * 1024);
        tokio::spawn(async move {
            let (mut reader, mut writer) = tokio::io::split(there);
            // The end of either side ends the echo.
            let _ = tokio::io::copy(&mut reader, &mut writer).await;
        });
        Ok(Streaming::Direct(Box::new(here)))
    }

    async fn container_stats(&self, id: &str) -> Result<ContainerStats> {
        self.record_call("container_stats", id)?;
        Ok(self.state.lock().container(id)?.stats(id))
    }

    async fn list_container_stats(&self, filter: &StatsFilter) -> Result<Vec<ContainerStats>> {
        self.record_call("list_container_stats", "")?;
        let state = self.state.lock();
        let wanted = |stats: &ContainerStats| {
            filter.id.as_ref().is_none_or(|id| *id == stats.id)
                && filter.pod_sandbox_id.as_ref().is_none_or(|id| *id == stats.pod_sandbox_id)
                && includes(&stats.labels, &filter.labels)
        };
        Ok(state.containers.iter().map(|(id, container)| container.stats(id)).filter(wanted).collect())
    }

    async fn pod_sandbox_stats(&self, id: &str) -> Result<PodSandboxStats> {
        self.record_call("pod_sandbox_stats", id)?;
        let state = self.state.lock();
        let sandbox = state.sandbox(id)?.listed(id);
        let containers = state.containers.iter().filter(|(_, container)| container.sandbox_id == id);
        Ok(PodSandboxStats {
            id: sandbox.id,
            metadata: sandbox.metadata,
            labels: sandbox.labels,
            annotations: sandbox.annotations,
            containers: containers.map(|(id, container)| container.stats(id)).collect(),
            ..PodSandboxStats::default()
        })
    }

    async fn list_pod_sandbox_stats(&self, filter: &StatsFilter) -> Result<Vec<PodSandboxStats>> {
        let by = PodSandboxFilter { id: filter.id.clone(), state: None, labels: filter.labels.clone() };
        let mut stats = Vec::new();
        for sandbox in self.list_pod_sandboxes(&by).await? {
            stats.push(self.pod_sandbox_stats(&sandbox.id).await?);
        }
        Ok(stats)
    }

    fn events(&self) -> broadcast::Receiver<ContainerEvent> {
        self.events.subscribe()
    }

    fn supports_events(&self) -> bool {
        true
    }
}
