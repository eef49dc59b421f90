//! Sandboxes: created, stopped, removed.

use std::fs;
use std::path::Path;
use std::time::Duration;

use corten_base::files;
use corten_sys::wire::Request;

use super::network::PodNetwork;
use super::plan;
use super::*;
use crate::{NamespaceMode, PodSandboxConfig, PodSandboxState};

/// Maximum time for a supervisor to stop everything before its cgroup is killed.
const STOP: Duration = Duration::from_secs(10);

/// The parent cgroup of pods without one.
const DEFAULT_PARENT: &str = "/kubepods";

/// The handler of this runtime itself, beside the empty one.
pub(super) const HANDLER: &str = "corten";

impl Native {
    pub(super) async fn run_sandbox(&self, config: &PodSandboxConfig, handler: &str) -> Result<String> {
        let is_known = self.0.options.handlers.contains_key(handler);
        if !handler.is_empty() && handler != HANDLER && !is_known {
            return Err(Error::InvalidArgument(format!("no runtime for {handler:?} is configured")));
        }
        let id = new_id()?;
        let record = self.reserve(&id, config, handler)?;
        let made = self.make_sandbox(&record).await;
        if let Err(error) = made {
            if let Err(left) = self.remove_sandbox(&id).await {
                tracing::warn!(sandbox = id, err = %left, "cannot clean up failed pod sandbox");
            }
            return Err(error);
        }
        self.send_event(&id, &id, ContainerEventKind::Created);
        self.send_event(&id, &id, ContainerEventKind::Started);
        Ok(id)
    }

    /// Reserves the name, so that no other call creates the same sandbox meanwhile.
    fn reserve(&self, id: &str, config: &PodSandboxConfig, handler: &str) -> Result<SandboxRecord> {
        let parent = Some(config.linux.cgroup_parent.as_str()).filter(|parent| !parent.is_empty());
        let parent = parent.unwrap_or(DEFAULT_PARENT).trim_end_matches('/');
        let record = SandboxRecord {
            id: id.to_owned(),
            config: config.clone(),
            handler: handler.to_owned(),
            created_at: self.0.options.clock.now(),
            ips: Vec::new(),
            cgroup: format!("{parent}/{id}"),
            stopped: false,
            pid: 0,
        };
        let mut state = self.0.state.lock();
        if let Some(other) = state.sandboxes.values().find(|s| s.record.config.metadata == config.metadata) {
            let text = format!("pod sandbox {:?} already exists: {}", config.metadata.name, other.record.id);
            return Err(Error::AlreadyExists(text));
        }
        state.sandboxes.insert(id.to_owned(), Sandbox { record: record.clone(), link: None });
        Ok(record)
    }

    async fn make_sandbox(&self, record: &SandboxRecord) -> Result<()> {
        let (native, started) = (self.clone(), record.clone());
        blocking(move || native.start_supervisor(&started)).await?;
        let link = self.connect(&record.id).await?;
        let mut record = SandboxRecord { pid: link.supervisor(), ..record.clone() };
        if own_network(&record.config) {
            record.ips = self.0.options.network.attach(network_of(&record, &namespace(&record))).await?;
        }
        self.write_sandbox(&record)
    }

    /// Checks the network of a sandbox that has one of its own.
    pub(super) async fn check_network_of(&self, record: &SandboxRecord) -> Option<Result<()>> {
        if !own_network(&record.config) {
            return None;
        }
        Some(self.0.options.network.check(network_of(record, &namespace(record))).await)
    }

    fn start_supervisor(&self, record: &SandboxRecord) -> Result<()> {
        let folder = self.sandbox_folder(&record.id);
        let fail = |what: &'static str| move |error| Error::internal(what, error);
        files::private_directory(&folder).map_err(fail("cannot create the sandbox's directory"))?;
        records::write(&folder, record)?;
        write_files(&folder, &record.config).map_err(fail("cannot write the sandbox's files"))?;
        let log_folder = &record.config.log_directory;
        if !log_folder.is_empty() {
            logs::folder(Path::new(log_folder), 1).map_err(fail("cannot create the log directory"))?;
        }
        self.0.cgroups.create(&record.cgroup).map_err(fail("cannot create the sandbox's cgroup"))?;
        let cgroups = self.0.cgroups.process_files(&record.cgroup);
        let cgroups = cgroups.iter().map(|file| file.to_string_lossy().into_owned()).collect();
        let plan = plan::sandbox::plan(&record.config, cgroups);
        self.0.program.start(&folder, &plan).map_err(fail("cannot start the pod supervisor"))
    }

    /// Replaces the record, in memory and on disk.
    pub(super) fn write_sandbox(&self, record: &SandboxRecord) -> Result<()> {
        records::write(&self.sandbox_folder(&record.id), record)?;
        if let Some(sandbox) = self.0.state.lock().sandboxes.get_mut(&record.id) {
            sandbox.record = record.clone();
        }
        Ok(())
    }

    pub(super) async fn stop_sandbox(&self, id: &str) -> Result<()> {
        let known = self.0.state.lock().sandboxes.get(id).map(|s| (s.record.clone(), s.link.clone()));
        let Some((record, link)) = known else { return Ok(()) };
        if record.stopped {
            return Ok(());
        }
        if own_network(&record.config) {
            self.0.options.network.detach(network_of(&record, &namespace(&record))).await?;
        }
        if let Some(link) = link {
            // A supervisor that does not answer is killed through its cgroup.
            let _ = tokio::time::timeout(STOP, link.ask(&Request::Stop(0), &[])).await;
        }
        let cgroups: Vec<String> = {
            let state = self.0.state.lock();
            let containers = state.containers.values().filter(|c| c.record.sandbox_id == id);
            containers.map(|c| c.record.cgroup.clone()).chain([record.cgroup.clone()]).collect()
        };
        let native = self.clone();
        blocking(move || {
            let removed = cgroups.iter().try_for_each(|cgroup| native.0.cgroups.remove(cgroup));
            removed.map_err(|error| Error::internal("cannot remove the pod's cgroups", error))
        })
        .await?;
        self.write_sandbox(&SandboxRecord { stopped: true, pid: 0, ..record })
    }

    pub(super) async fn remove_sandbox(&self, id: &str) -> Result<()> {
        if !self.0.state.lock().sandboxes.contains_key(id) {
            return Ok(());
        }
        // A sandbox that was never recorded has no folder.
        if self.sandbox_folder(id).exists() {
            self.stop_sandbox(id).await?;
        }
        let containers: Vec<String> = {
            let state = self.0.state.lock();
            let inside = state.containers.values().filter(|c| c.record.sandbox_id == id);
            inside.map(|c| c.record.id.clone()).collect()
        };
        for container in containers {
            self.remove(&container).await?;
        }
        let folder = self.sandbox_folder(id);
        blocking(move || remove_folder(&folder)).await?;
        self.0.state.lock().sandboxes.remove(id);
        self.send_event(id, id, ContainerEventKind::Deleted);
        Ok(())
    }

    pub(super) fn sandbox_state(sandbox: &Sandbox) -> PodSandboxState {
        if sandbox.link.is_some() && !sandbox.record.stopped {
            PodSandboxState::Ready
        } else {
            PodSandboxState::NotReady
        }
    }
}

pub(super) fn remove_folder(folder: &Path) -> Result<()> {
    let removed = corten_sys::removal::remove_tree(folder);
    removed.map_err(|error| Error::internal(format!("cannot remove {}", folder.display()), error))
}

fn own_network(config: &PodSandboxConfig) -> bool {
    config.linux.security_context.namespace_options.network != NamespaceMode::Node
}

fn namespace(record: &SandboxRecord) -> String {
    format!("/proc/{}/ns/net", record.pid)
}

fn network_of<'a>(record: &'a SandboxRecord, namespace: &'a str) -> PodNetwork<'a> {
    PodNetwork { sandbox_id: &record.id, namespace, config: &record.config }
}

/// Writes the files that containers get in `/etc` unless they mount their own.
fn write_files(folder: &Path, config: &PodSandboxConfig) -> std::io::Result<()> {
    let node = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let hostname =
        if config.hostname.is_empty() { node("/etc/hostname") } else { format!("{}\n", config.hostname) };
    let resolver = match &config.dns_config {
        Some(dns) => resolver(dns),
        None => node("/etc/resolv.conf"),
    };
    let write = |name: &str, text: String| files::write(&folder.join(name), 0o644, text);
    write("hostname", hostname)?;
    write("hosts", node("/etc/hosts"))?;
    write("resolv.conf", resolver)
}

fn resolver(dns: &crate::DnsConfig) -> String {
    let mut text = String::new();
    if !dns.searches.is_empty() {
        text += &format!("search {}\n", dns.searches.join(" "));
    }
    text.extend(dns.servers.iter().map(|server| format!("nameserver {server}\n")));
    if !dns.options.is_empty() {
        text += &format!("options {}\n", dns.options.join(" "));
    }
    text
}
