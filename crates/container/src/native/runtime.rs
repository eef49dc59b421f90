//! The runtime service of the native runtime: every method of the CRI, each in a line or two.

use std::time::Duration;

use async_trait::async_trait;
use corten_sys::wire::Request;

use super::{
    Container as StoredContainer, Native, Phase, blocking, broadcast, no_container, no_sandbox, records,
    sandboxes,
};
use crate::*;

#[async_trait]
impl Runtime for Native {
    async fn version(&self) -> Result<Version> {
        Ok(Version {
            runtime_name: "corten".to_owned(),
            runtime_version: env!("CARGO_PKG_VERSION").to_owned(),
            runtime_api_version: "v1".to_owned(),
        })
    }

    async fn status(&self) -> Result<RuntimeStatus> {
        let not_ready = self.0.options.network.not_ready().await;
        let condition = |kind: &str, problem: Option<String>| RuntimeCondition {
            kind: kind.to_owned(),
            status: problem.is_none(),
            reason: if problem.is_some() { "NetworkPluginNotReady".to_owned() } else { String::new() },
            message: problem.unwrap_or_default(),
        };
        let handler = |name: &str, own: bool| RuntimeHandler {
            name: name.to_owned(),
            recursive_read_only_mounts: own,
            user_namespaces: false,
        };
        let others = self.0.options.handlers.keys().map(|name| handler(name, false));
        Ok(RuntimeStatus {
            conditions: vec![
                condition(RuntimeStatus::RUNTIME_READY, None),
                condition(RuntimeStatus::NETWORK_READY, not_ready),
            ],
            handlers: [handler("", true), handler(sandboxes::HANDLER, true)]
                .into_iter()
                .chain(others)
                .collect(),
            supplemental_groups_policy: true,
            info: Map::new(),
        })
    }

    async fn cgroup_driver(&self) -> Result<CgroupDriver> {
        Ok(CgroupDriver::Cgroupfs)
    }

    async fn update_pod_cidr(&self, pod_cidr: &str) -> Result<()> {
        self.0.options.network.set_pod_cidr(pod_cidr);
        Ok(())
    }

    async fn run_pod_sandbox(&self, config: &PodSandboxConfig, handler: &str) -> Result<String> {
        self.run_sandbox(config, handler).await
    }

    async fn stop_pod_sandbox(&self, id: &str) -> Result<()> {
        self.stop_sandbox(id).await
    }

    async fn remove_pod_sandbox(&self, id: &str) -> Result<()> {
        self.remove_sandbox(id).await
    }

    async fn pod_sandbox_status(&self, id: &str) -> Result<PodSandboxStatus> {
        let state = self.0.state.lock();
        let sandbox = state.sandboxes.get(id).ok_or_else(|| no_sandbox(id))?;
        let record = sandbox.record.clone();
        Ok(PodSandboxStatus {
            id: record.id,
            metadata: record.config.metadata,
            state: Native::sandbox_state(sandbox),
            created_at: record.created_at,
            ips: record.ips,
            namespaces: record.config.linux.security_context.namespace_options,
            labels: record.config.labels,
            annotations: record.config.annotations,
            runtime_handler: record.handler,
        })
    }

    async fn list_pod_sandboxes(&self, filter: &PodSandboxFilter) -> Result<Vec<PodSandbox>> {
        let state = self.0.state.lock();
        let all = state.sandboxes.values().map(|sandbox| PodSandbox {
            id: sandbox.record.id.clone(),
            metadata: sandbox.record.config.metadata.clone(),
            state: Native::sandbox_state(sandbox),
            created_at: sandbox.record.created_at,
            labels: sandbox.record.config.labels.clone(),
            annotations: sandbox.record.config.annotations.clone(),
            runtime_handler: sandbox.record.handler.clone(),
        });
        Ok(all.filter(|sandbox| filter.matches(sandbox)).collect())
    }

    /// The pod's cgroup belongs to the caller; only the values are recorded here.
    async fn update_pod_sandbox_resources(
        &self,
        id: &str,
        overhead: Option<&LinuxContainerResources>,
        resources: Option<&LinuxContainerResources>,
    ) -> Result<()> {
        let mut record = {
            let state = self.0.state.lock();
            state.sandboxes.get(id).ok_or_else(|| no_sandbox(id))?.record.clone()
        };
        record.config.linux.overhead = overhead.cloned();
        record.config.linux.resources = resources.cloned();
        self.write_sandbox(&record)
    }

    async fn create_container(
        &self,
        pod_sandbox_id: &str,
        config: &ContainerConfig,
        sandbox_config: &PodSandboxConfig,
    ) -> Result<String> {
        self.create(pod_sandbox_id, config, sandbox_config).await
    }

    async fn start_container(&self, id: &str) -> Result<()> {
        self.start(id).await
    }

    async fn stop_container(&self, id: &str, timeout: Duration) -> Result<()> {
        self.stop(id, timeout).await
    }

    async fn remove_container(&self, id: &str) -> Result<()> {
        self.remove(id).await
    }

    async fn list_containers(&self, filter: &ContainerFilter) -> Result<Vec<Container>> {
        let state = self.0.state.lock();
        let all = state.containers.values().map(listed);
        Ok(all.filter(|container| filter.matches(container)).collect())
    }

    async fn container_status(&self, id: &str) -> Result<ContainerStatus> {
        let state = self.0.state.lock();
        state.containers.get(id).map(status).ok_or_else(|| no_container(id))
    }

    async fn update_container_resources(&self, id: &str, resources: &LinuxContainerResources) -> Result<()> {
        let (mut record, _) = self.running_container(id)?;
        let (native, cgroup, asked) = (self.clone(), record.cgroup.clone(), resources.clone());
        blocking(move || {
            let cgroups = &native.0.cgroups;
            let applied = cgroups.apply(&cgroup, &cgroups.settings(&asked));
            applied.map_err(|error| Error::internal("failed to update resources", error))
        })
        .await?;
        merge(&mut record.config.linux.resources, resources);
        records::write(&self.container_folder(id), &record)?;
        if let Some(container) = self.0.state.lock().containers.get_mut(id) {
            container.record = record;
        }
        Ok(())
    }

    async fn reopen_container_log(&self, id: &str) -> Result<()> {
        let (_, link) = self.running_container(id)?;
        link.ask(&Request::ReopenLog(id.to_owned()), &[]).await.map(|_| ())
    }

    async fn exec_sync(&self, id: &str, command: &[String], timeout: Duration) -> Result<ExecOutput> {
        self.exec_and_wait(id, command, timeout).await
    }

    async fn exec(&self, request: &ExecRequest) -> Result<Streaming<Session>> {
        self.exec_session(request).await.map(Streaming::Direct)
    }

    async fn attach(&self, request: &AttachRequest) -> Result<Streaming<Session>> {
        self.attach_session(request).await.map(Streaming::Direct)
    }

    async fn port_forward(&self, pod_sandbox_id: &str, port: u16) -> Result<Streaming<Box<dyn Connection>>> {
        self.dial(pod_sandbox_id, port).await.map(Streaming::Direct)
    }

    async fn container_stats(&self, id: &str) -> Result<ContainerStats> {
        let (native, id) = (self.clone(), id.to_owned());
        blocking(move || native.stats_of(&id)).await
    }

    async fn list_container_stats(&self, filter: &StatsFilter) -> Result<Vec<ContainerStats>> {
        let (native, filter) = (self.clone(), filter.clone());
        blocking(move || Ok(native.list_stats(&filter))).await
    }

    async fn pod_sandbox_stats(&self, id: &str) -> Result<PodSandboxStats> {
        let (native, id) = (self.clone(), id.to_owned());
        blocking(move || native.sandbox_stats(&id)).await
    }

    async fn list_pod_sandbox_stats(&self, filter: &StatsFilter) -> Result<Vec<PodSandboxStats>> {
        let (native, filter) = (self.clone(), filter.clone());
        blocking(move || Ok(native.list_sandbox_stats(&filter))).await
    }

    fn events(&self) -> broadcast::Receiver<ContainerEvent> {
        self.0.events.subscribe()
    }

    fn supports_events(&self) -> bool {
        true
    }
}

fn state(phase: &Phase) -> ContainerState {
    match phase {
        Phase::Created | Phase::Starting => ContainerState::Created,
        Phase::Running { .. } => ContainerState::Running,
        Phase::Exited(_) => ContainerState::Exited,
    }
}

fn listed(container: &StoredContainer) -> Container {
    let record = &container.record;
    Container {
        id: record.id.clone(),
        pod_sandbox_id: record.sandbox_id.clone(),
        metadata: record.config.metadata.clone(),
        image: record.config.image.clone(),
        image_ref: record.image_ref.clone(),
        image_id: record.image_id.to_string(),
        state: state(&container.phase),
        created_at: record.created_at,
        labels: record.config.labels.clone(),
        annotations: record.config.annotations.clone(),
    }
}

fn status(container: &StoredContainer) -> ContainerStatus {
    let record = &container.record;
    let mut status = ContainerStatus {
        id: record.id.clone(),
        metadata: record.config.metadata.clone(),
        state: state(&container.phase),
        created_at: record.created_at,
        image: record.config.image.clone(),
        image_ref: record.image_ref.clone(),
        image_id: record.image_id.to_string(),
        labels: record.config.labels.clone(),
        annotations: record.config.annotations.clone(),
        mounts: record.config.mounts.clone(),
        log_path: record.log_path.clone(),
        resources: Some(record.config.linux.resources.clone()),
        user: Some(record.user.clone()),
        stop_signal: record.stop_signal.clone(),
        ..ContainerStatus::default()
    };
    match &container.phase {
        Phase::Created | Phase::Starting => {}
        Phase::Running { started_at, .. } => status.started_at = Some(*started_at),
        Phase::Exited(ended) => {
            status.started_at = ended.started_at;
            status.finished_at = Some(ended.finished_at);
            status.exit_code = ended.code;
            status.reason.clone_from(&ended.reason);
            status.message.clone_from(&ended.message);
        }
    }
    status
}

/// Fields that an update does not set stay as they are.
fn merge(current: &mut LinuxContainerResources, update: &LinuxContainerResources) {
    let number = |current: &mut i64, update: i64| {
        if update != 0 {
            *current = update;
        }
    };
    number(&mut current.cpu_period, update.cpu_period);
    number(&mut current.cpu_quota, update.cpu_quota);
    number(&mut current.cpu_shares, update.cpu_shares);
    number(&mut current.memory_limit_in_bytes, update.memory_limit_in_bytes);
    number(&mut current.memory_swap_limit_in_bytes, update.memory_swap_limit_in_bytes);
    for (current, update) in
        [(&mut current.cpuset_cpus, &update.cpuset_cpus), (&mut current.cpuset_mems, &update.cpuset_mems)]
    {
        if !update.is_empty() {
            current.clone_from(update);
        }
    }
    current.unified.extend(update.unified.clone());
}
