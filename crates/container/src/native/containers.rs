//! Containers: created, started, stopped, removed.

use std::fs;
use std::path::Path;
use std::time::Duration;

use corten_base::files;
use corten_sys::wire::{self, Answer, Request};
use tokio::sync::watch;

use super::plan::container::{Inputs, plan};
use super::plan::devices::{self, Rule};
use super::plan::user::{self, Accounts};
use super::*;
use crate::image::{Named, merged};
use crate::{ContainerConfig, PodSandboxConfig, SecurityProfile, SelinuxOption};

mod launched;
mod node;

/// Maximum time for a killed container to exit; only one that is stuck in the kernel takes longer.
const KILL: Duration = Duration::from_secs(10);
const SIGKILL: i32 = 9;

impl Native {
    pub(super) async fn create(
        &self,
        sandbox_id: &str,
        config: &ContainerConfig,
        pod: &PodSandboxConfig,
    ) -> Result<String> {
        self.link(sandbox_id)?;
        let record = self.new_record(sandbox_id, config, pod)?;
        let id = record.id.clone();
        {
            let mut state = self.0.state.lock();
            let same = |c: &Container| {
                c.record.sandbox_id == sandbox_id && c.record.config.metadata == config.metadata
            };
            if let Some(other) = state.containers.values().find(|c| same(c)) {
                let text =
                    format!("container {:?} already exists: {}", config.metadata.name, other.record.id);
                return Err(Error::AlreadyExists(text));
            }
            let (ended, _) = watch::channel(false);
            state
                .containers
                .insert(id.clone(), Container { record: record.clone(), phase: Phase::Created, ended });
        }
        let native = self.clone();
        if let Err(error) = blocking(move || native.write_container(&record)).await {
            if let Err(left) = self.remove(&id).await {
                tracing::warn!(container = id, err = %left, "cannot clean up failed container");
            }
            return Err(error);
        }
        self.send_event(&id, sandbox_id, ContainerEventKind::Created);
        Ok(id)
    }

    fn new_record(
        &self,
        sandbox_id: &str,
        config: &ContainerConfig,
        pod: &PodSandboxConfig,
    ) -> Result<ContainerRecord> {
        let name = &config.image.image;
        let Some(Named { record: image, digests, .. }) = self.0.store.find(name)? else {
            return Err(Error::NotFound(format!("failed to resolve image {name:?}: not found")));
        };
        let (root, layers) = self.0.store.layers_of(&image)?;
        let accounts = accounts(&root, &layers);
        let identity = user::identity(&config.linux.security_context, &image.process, &accounts)?;
        let id = new_id()?;
        let cgroup = {
            let state = self.0.state.lock();
            let sandbox = state.sandboxes.get(sandbox_id).ok_or_else(|| no_sandbox(sandbox_id))?;
            let parent = sandbox.record.cgroup.rsplit_once('/').map_or("", |(parent, _)| parent);
            format!("{parent}/{id}")
        };
        let log_path = match config.log_path.as_str() {
            "" => String::new(),
            path => Path::new(&pod.log_directory).join(path).to_string_lossy().into_owned(),
        };
        let signals = [&config.stop_signal, &image.process.stop_signal];
        let stop_signal = signals.into_iter().find(|signal| !signal.is_empty());
        Ok(ContainerRecord {
            id,
            sandbox_id: sandbox_id.to_owned(),
            config: config.clone(),
            created_at: self.0.options.clock.now(),
            image_ref: digests.first().cloned().unwrap_or_else(|| image.id.to_string()),
            image_id: image.id,
            log_path,
            cgroup,
            user: identity.user,
            home: identity.home,
            stop_signal: stop_signal.map_or("SIGTERM", String::as_str).to_owned(),
            start_failure: None,
        })
    }

    fn write_container(&self, record: &ContainerRecord) -> Result<()> {
        let folder = self.container_folder(&record.id);
        records::make_folders(&folder)
            .map_err(|error| Error::internal("cannot create the container's directory", error))?;
        self.0.store.pin(&record.id, &record.image_id)?;
        records::write(&folder, record)
    }

    pub(super) async fn start(&self, id: &str) -> Result<()> {
        let record = {
            let mut state = self.0.state.lock();
            let container = state.containers.get_mut(id).ok_or_else(|| no_container(id))?;
            if container.phase != Phase::Created {
                return Err(Error::FailedPrecondition(format!("container {id:?} was already started")));
            }
            container.phase = Phase::Starting;
            container.record.clone()
        };
        match self.start_recorded(&record).await {
            Ok(pid) => {
                let started_at = records::read_started(&self.container_folder(id)).map(|(_, at)| at);
                let started_at = started_at.unwrap_or_else(|| self.0.options.clock.now());
                let mut state = self.0.state.lock();
                self.send_event(id, &record.sandbox_id, ContainerEventKind::Started);
                match state.containers.get_mut(id) {
                    Some(container) if container.phase == Phase::Starting => {
                        container.phase = Phase::Running { pid, started_at };
                    }
                    // It has already exited.
                    _ => self.send_event(id, &record.sandbox_id, ContainerEventKind::Stopped),
                }
                Ok(())
            }
            Err(error) => {
                self.not_started(record, &error)?;
                Err(error)
            }
        }
    }

    fn not_started(&self, mut record: ContainerRecord, error: &Error) -> Result<()> {
        let ended = Ended::not_started(error, self.0.options.clock.now());
        record.start_failure = Some(ended.clone());
        records::write(&self.container_folder(&record.id), &record)?;
        let (id, sandbox_id) = (record.id.clone(), record.sandbox_id.clone());
        if let Some(container) = self.0.state.lock().containers.get_mut(&id) {
            container.record = record;
            // Independent of what the supervisor saw of the attempt.
            container.phase = Phase::Exited(ended);
            container.ended.send_replace(true);
        }
        self.send_event(&id, &sandbox_id, ContainerEventKind::Stopped);
        Ok(())
    }

    async fn start_recorded(&self, record: &ContainerRecord) -> Result<u32> {
        let link = self.link(&record.sandbox_id)?;
        let (native, prepared) = (self.clone(), record.clone());
        let request = blocking(move || native.prepare(&prepared)).await?;
        let answer = link.ask(&request, &[]).await;
        if let Err(Error::DeadlineExceeded(_)) = &answer {
            // Kills the rest of the attempt; the supervisor may be unable to answer this as well.
            let _ = link.begin(&Request::Signal((record.id.clone(), SIGKILL)), &[]).await;
        }
        let answer = answer.map_err(|error| match &request {
            Request::Launch(launch) => self.launch_failure(launch, error),
            _ => error,
        });
        match answer?.answer {
            Answer::Done((pid, _)) => Ok(pid),
            other => Err(Error::Internal(format!("unexpected answer of the supervisor: {other:?}"))),
        }
    }

    /// Creates what the container needs before it starts, and the request to its supervisor.
    fn prepare(&self, record: &ContainerRecord) -> Result<Request> {
        let (plan, rules) = self.plan_of(record)?;
        let config = &record.config;
        for mount in config.mounts.iter().filter(|mount| !Path::new(&mount.host_path).exists()) {
            let made = files::directories(Path::new(&mount.host_path), 0o755);
            made.map_err(|error| Error::internal(format!("failed to mkdir {:?}", mount.host_path), error))?;
        }
        if let Some(folder) = Path::new(&record.log_path).parent().filter(|folder| folder.is_absolute()) {
            let made = logs::folder(folder, 2);
            made.map_err(|error| Error::internal("cannot create the log directory", error))?;
        }
        let cgroups = &self.0.cgroups;
        let failed = |error| Error::internal("cannot set up the container's cgroup", error);
        cgroups.create(&record.cgroup).map_err(failed)?;
        cgroups.apply(&record.cgroup, &cgroups.settings(&config.linux.resources)).map_err(failed)?;
        if !config.linux.security_context.privileged {
            cgroups.allow_devices(&record.cgroup, &rules).map_err(failed)?;
        }
        match self.handler_of(&record.sandbox_id) {
            Some(program) => self.launch(record, plan, &rules, &program),
            None => Ok(Request::Start(Box::new(plan))),
        }
    }

    /// The plan of a container, and the devices that it may use.
    pub(super) fn plan_of(&self, record: &ContainerRecord) -> Result<(wire::Container, Vec<Rule>)> {
        let config = &record.config;
        let security = &config.linux.security_context;
        let Some(Named { record: image, .. }) = self.0.store.find(&record.image_id.to_string())? else {
            return Err(Error::NotFound(format!("image {} not found", record.image_id)));
        };
        let (root, layers) = self.0.store.layers_of(&image)?;
        let pod = {
            let state = self.0.state.lock();
            let sandbox =
                state.sandboxes.get(&record.sandbox_id).ok_or_else(|| no_sandbox(&record.sandbox_id))?;
            sandbox.record.config.clone()
        };
        refuse_labels(security.selinux_options.as_ref())?;
        let given = if security.privileged { node::all_devices() } else { node::devices(&config.devices)? };
        let rules =
            devices::default_rules().into_iter().chain(given.iter().map(|(d, a)| devices::rule_for(d, a)));
        let rules = rules.collect();
        let plan = plan(&Inputs {
            id: &record.id,
            config,
            pod: &pod,
            image: &image.process,
            identity: &user::Identity { user: record.user.clone(), home: record.home.clone() },
            sandbox_folder: &self.sandbox_folder(&record.sandbox_id).to_string_lossy(),
            folder: &self.container_folder(&record.id).to_string_lossy(),
            layers: (&root.to_string_lossy(), &layers),
            cgroups: &self.0.cgroups,
            cgroup: &record.cgroup,
            devices: given.into_iter().map(|(device, _)| device).collect(),
            seccomp: self.seccomp_of(config)?.map(|filter| filter.program()).unwrap_or_default(),
            apparmor: apparmor::profile(security.apparmor.as_ref(), security.privileged)?,
            log: &record.log_path,
        })?;
        Ok((plan, rules))
    }

    fn seccomp_of(&self, config: &ContainerConfig) -> Result<Option<seccomp::Filter>> {
        let security = &config.linux.security_context;
        if security.privileged {
            return Ok(None);
        }
        let capabilities = plan::capabilities::set(&security.capabilities, false)?;
        match &security.seccomp {
            None | Some(SecurityProfile::Unconfined) => Ok(None),
            Some(SecurityProfile::RuntimeDefault) => seccomp::runtime_default(capabilities).map(Some),
            Some(SecurityProfile::Localhost(name)) => {
                let path = self.0.options.seccomp_dir.join(name.trim_start_matches("localhost/"));
                let text = fs::read(&path).map_err(|error| {
                    Error::internal(format!("failed to load seccomp profile {:?}", path.display()), error)
                })?;
                seccomp::from_json(&text, capabilities).map(Some)
            }
        }
    }

    pub(super) async fn stop(&self, id: &str, timeout: Duration) -> Result<()> {
        let Some((record, mut ended)) = self.running(id) else { return Ok(()) };
        let Ok(link) = self.link(&record.sandbox_id) else { return Ok(()) };
        if !timeout.is_zero() {
            let signal = signal_number(&record.stop_signal);
            if link.ask(&Request::Signal((id.to_owned(), signal)), &[]).await.is_ok() {
                let waited = tokio::time::timeout(timeout, ended.wait_for(|ended| *ended)).await;
                if waited.is_ok() {
                    return Ok(());
                }
            }
        }
        // Fails if it has just exited; the wait below decides.
        let _ = link.ask(&Request::Signal((id.to_owned(), SIGKILL)), &[]).await;
        match tokio::time::timeout(KILL, ended.wait_for(|ended| *ended)).await {
            Ok(_) => Ok(()),
            Err(_) => Err(Error::DeadlineExceeded(format!("container {id:?} was killed but does not exit"))),
        }
    }

    fn running(&self, id: &str) -> Option<(ContainerRecord, watch::Receiver<bool>)> {
        let state = self.0.state.lock();
        let container = state.containers.get(id)?;
        let running = matches!(container.phase, Phase::Running { .. } | Phase::Starting);
        running.then(|| (container.record.clone(), container.ended.subscribe()))
    }

    pub(super) async fn remove(&self, id: &str) -> Result<()> {
        self.stop(id, Duration::ZERO).await?;
        let record = self.0.state.lock().containers.get(id).map(|container| container.record.clone());
        let Some(record) = record else { return Ok(()) };
        let (native, folder) = (self.clone(), self.container_folder(id));
        let cgroup = record.cgroup.clone();
        let handler = self.handler_of(&record.sandbox_id);
        blocking(move || {
            if let Some(program) = handler {
                launched::delete(&program, &folder);
            }
            let removed = native.0.cgroups.remove(&cgroup);
            removed.map_err(|error| Error::internal("cannot remove the container's cgroup", error))?;
            sandboxes::remove_folder(&folder)
        })
        .await?;
        self.0.store.unpin(id)?;
        self.0.state.lock().containers.remove(id);
        self.send_event(id, &record.sandbox_id, ContainerEventKind::Deleted);
        Ok(())
    }
}

/// Larger than `/etc/passwd` or `/etc/group` of any real image.
const LARGEST_ACCOUNTS: u64 = 4 << 20;

/// The image's users and groups. An unreadable file counts as empty.
fn accounts(root: &Path, layers: &[String]) -> Accounts {
    let layers: Vec<_> = layers.iter().map(|layer| root.join(layer)).collect();
    let read = |file: &str| {
        let content = merged::read(&layers, Path::new(file), LARGEST_ACCOUNTS).unwrap_or_else(|error| {
            tracing::warn!(file, err = %error, "cannot read users or groups of the image; assuming none");
            Vec::new()
        });
        String::from_utf8_lossy(&content).into_owned()
    };
    Accounts { passwd: read("etc/passwd"), group: read("etc/group") }
}

/// Refuses SELinux labels: none is set here, so a node that enforces them would run the container with another label.
fn refuse_labels(asked: Option<&SelinuxOption>) -> Result<()> {
    match asked.is_some() && Path::new("/sys/fs/selinux/enforce").exists() {
        true => Err(Error::FailedPrecondition(
            "seLinuxOptions are not supported by this runtime on a node with SELinux".to_owned(),
        )),
        false => Ok(()),
    }
}

/// A signal by name or number; SIGTERM for an unknown one.
fn signal_number(name: &str) -> i32 {
    const NAMES: [&str; 31] = [
        "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2", "PIPE",
        "ALRM", "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG", "XCPU", "XFSZ",
        "VTALRM", "PROF", "WINCH", "IO", "PWR", "SYS",
    ];
    const TERM: i32 = 15;
    const REAL_TIME: i32 = 34;
    const LAST: i32 = 64;
    let upper = name.to_ascii_uppercase();
    let name = upper.strip_prefix("SIG").unwrap_or(&upper);
    let offset = |text: &str| text.parse::<i32>().ok().filter(|offset| (0..=30).contains(offset));
    if let Ok(number) = name.parse::<i32>() {
        return number;
    }
    if let Some(rest) = name.strip_prefix("RTMIN") {
        return REAL_TIME + offset(rest.trim_start_matches('+')).unwrap_or(0);
    }
    if let Some(rest) = name.strip_prefix("RTMAX") {
        return LAST - offset(rest.trim_start_matches('-')).unwrap_or(0);
    }
    let number = NAMES.iter().position(|known| *known == name);
    number.and_then(|number| i32::try_from(number + 1).ok()).unwrap_or(TERM)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_have_names() {
        let names = ["SIGTERM", "QUIT", "9", "SIGRTMIN+3", "SIGRTMAX-1", "RTMIN", "nonsense", "SIGSYS"];
        assert_eq!(names.map(signal_number), [15, 3, 9, 37, 63, 34, 15, 31]);
    }
}
