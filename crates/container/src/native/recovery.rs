//! Recovers the pods that were running before this process started.

use corten_sys::wire::{Answer, Request, Standing};
use tokio::sync::{mpsc, watch};

use super::link::{Link, Notification};
use super::records::{self, ContainerRecord, Ended, SandboxRecord};
use super::*;

impl Native {
    pub(super) async fn recover(&self) -> Result<()> {
        let sandboxes: Vec<SandboxRecord> = records::read_all(&self.0.options.data_dir.join("sandboxes"))?;
        let containers: Vec<ContainerRecord> =
            records::read_all(&self.0.options.data_dir.join("containers"))?;
        for record in containers {
            let phase = self.phase_of(&record);
            let (ended, _) = watch::channel(matches!(phase, Phase::Exited(_)));
            let container = Container { phase, record, ended };
            self.0.state.lock().containers.insert(container.record.id.clone(), container);
        }
        for record in sandboxes {
            self.recover_sandbox(record).await;
        }
        Ok(())
    }

    async fn recover_sandbox(&self, record: SandboxRecord) {
        let id = record.id.clone();
        let (stopped, known) = (record.stopped, record.clone());
        self.0.state.lock().sandboxes.insert(id.clone(), Sandbox { record, link: None });
        if stopped || self.connect(&id).await.is_err() {
            if !stopped {
                tracing::warn!(sandbox = id, "pod supervisor has exited; marking its containers as exited");
            }
            self.mark_containers_lost(&id);
        } else {
            tokio::spawn(self.clone().check_network(known));
        }
    }

    /// Logs pods that lost their network while no process checked it. They keep running; their probes decide about
    /// them.
    async fn check_network(self, record: SandboxRecord) {
        if let Some(Err(error)) = self.check_network_of(&record).await {
            tracing::warn!(sandbox = record.id, pod = record.config.metadata.name, err = %error, "pod network check failed after restart");
        }
    }

    /// Connects to a sandbox's supervisor and follows its notifications.
    pub(super) async fn connect(&self, sandbox_id: &str) -> Result<Link> {
        let (sender, notifications) = mpsc::unbounded_channel();
        let link = Link::connect(&self.sandbox_folder(sandbox_id), sender).await;
        let link = link.map_err(|error| Error::internal("cannot connect to the pod supervisor", error))?;
        if let Some(sandbox) = self.0.state.lock().sandboxes.get_mut(sandbox_id) {
            sandbox.link = Some(link.clone());
        }
        tokio::spawn(self.clone().follow(sandbox_id.to_owned(), notifications));
        // Later changes arrive as notifications; earlier ones are the differences to this list.
        if let Answer::Standings(running) = link.ask(&Request::List(0), &[]).await?.answer {
            self.apply_missed_changes(sandbox_id, &running);
        }
        Ok(link)
    }

    fn apply_missed_changes(&self, sandbox_id: &str, running: &[Standing]) {
        let now = self.0.options.clock.now();
        let mut ended = Vec::new();
        {
            let mut state = self.0.state.lock();
            for container in state.containers.values_mut().filter(|c| c.record.sandbox_id == sandbox_id) {
                let id = &container.record.id;
                let stands = running.iter().find(|standing| standing.id == *id);
                match (&container.phase, stands) {
                    (Phase::Running { started_at, .. }, None) => ended.push((id.clone(), *started_at)),
                    // The process that started it ended before it received the answer.
                    (Phase::Created, Some(standing)) => {
                        container.phase = Phase::Running { pid: standing.pid, started_at: now };
                    }
                    _ => {}
                }
            }
        }
        for (id, started_at) in ended {
            let written = records::read_exit(&self.container_folder(&id));
            self.ended(&id, written.unwrap_or_else(|| Ended::unobserved(Some(started_at), now)));
        }
    }

    fn phase_of(&self, record: &ContainerRecord) -> Phase {
        let folder = self.container_folder(&record.id);
        if let Some(failure) = &record.start_failure {
            return Phase::Exited(failure.clone());
        }
        match (records::read_exit(&folder), records::read_started(&folder)) {
            (Some(ended), _) => {
                records::forget_process(&folder);
                Phase::Exited(ended)
            }
            (None, Some((pid, started_at))) => Phase::Running { pid, started_at },
            (None, None) => Phase::Created,
        }
    }

    async fn follow(self, sandbox_id: String, mut notifications: mpsc::UnboundedReceiver<Notification>) {
        while let Some(notification) = notifications.recv().await {
            match notification {
                Notification::Exited(standing) => {
                    let Some(exit) = standing.exit else { continue };
                    let started =
                        records::read_started(&self.container_folder(&standing.id)).map(|(_, at)| at);
                    let at = records::nanoseconds(exit.at);
                    self.ended(&standing.id, Ended::observed(exit.code, exit.out_of_memory, started, at));
                }
                Notification::Gone => break,
            }
        }
        let was_linked = {
            let mut state = self.0.state.lock();
            state.sandboxes.get_mut(&sandbox_id).is_some_and(|sandbox| sandbox.link.take().is_some())
        };
        self.mark_containers_lost(&sandbox_id);
        if was_linked {
            self.send_event(&sandbox_id, &sandbox_id, ContainerEventKind::Stopped);
        }
    }

    /// Ends the containers of a dead supervisor: with the exits that it recorded, the others as unknown.
    fn mark_containers_lost(&self, sandbox_id: &str) {
        let running: Vec<(String, jiff::Timestamp)> = {
            let state = self.0.state.lock();
            let containers = state.containers.values().filter(|c| c.record.sandbox_id == sandbox_id);
            let running = containers.filter_map(|c| match c.phase {
                Phase::Running { started_at, .. } => Some((c.record.id.clone(), started_at)),
                _ => None,
            });
            running.collect()
        };
        for (id, started_at) in running {
            let written = records::read_exit(&self.container_folder(&id));
            let unobserved = || Ended::unobserved(Some(started_at), self.0.options.clock.now());
            self.ended(&id, written.unwrap_or_else(unobserved));
        }
    }

    /// Records the exit of a container, once, and sends the event. For a container that is still being started, the
    /// starting task sends the events, so that the start comes first.
    pub(super) fn ended(&self, id: &str, ended: Ended) {
        records::forget_process(&self.container_folder(id));
        let mut state = self.0.state.lock();
        let Some(container) = state.containers.get_mut(id) else { return };
        let before = std::mem::replace(&mut container.phase, Phase::Exited(ended));
        if let Phase::Exited(first) = before {
            container.phase = Phase::Exited(first);
            return;
        }
        container.ended.send_replace(true);
        if before != Phase::Starting {
            // Sent under the lock, so that events are in order.
            self.send_event(id, &container.record.sandbox_id, ContainerEventKind::Stopped);
        }
    }
}
