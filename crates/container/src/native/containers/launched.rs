//! Has another OCI runtime start a container, and forget it in the end.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use corten_base::files;
use corten_sys::wire::{Container, Launch, Processes, Request};

use super::super::oci::{self, Surroundings};
use super::super::plan::devices::Rule;
use super::super::{ContainerRecord, Native, Phase};
use crate::{Error, Result};

impl Native {
    /// The program that runs a sandbox' containers, if it is not this one.
    pub(super) fn handler_of(&self, sandbox_id: &str) -> Option<PathBuf> {
        let state = self.0.state.lock();
        self.0.options.handlers.get(&state.sandboxes.get(sandbox_id)?.record.handler).cloned()
    }

    /// What a supervisor is asked so that a program starts a container. The bundle is the container's folder.
    pub(super) fn launch(
        &self,
        record: &ContainerRecord,
        plan: Container,
        rules: &[Rule],
        program: &Path,
    ) -> Result<Request> {
        let folder = self.container_folder(&record.id);
        let memory = folder.join("shm").display().to_string();
        let uses_memory = plan.mounts.iter().any(|mount| mount.source == "shm:");
        let supervisor = self.link(&record.sandbox_id)?.supervisor();
        let privileged = record.config.linux.security_context.privileged;
        let spec = oci::spec(
            &plan,
            &Surroundings {
                supervisor,
                processes: self.shared_processes(&plan.processes, supervisor)?,
                cgroup: &record.cgroup,
                devices: Some(rules).filter(|_| !privileged),
                seccomp: self.seccomp_of(&record.config)?.map(|filter| filter.described()),
                shared_memory: &memory,
            },
        );
        let failed = |error| Error::internal("writing the container's bundle", error);
        files::directory(Path::new(&memory), 0o755).map_err(failed)?;
        // The environment is in it.
        files::write_private(&folder.join("config.json"), spec.to_string()).map_err(failed)?;
        let place = |name: &str| folder.join(name).display().to_string();
        let pid_file = place("pid");
        let mut words = vec![program.display().to_string()];
        words.extend(["--root".to_owned(), place("oci"), "--log".to_owned(), place("oci.log")]);
        words.extend(["run", "--detach", "--bundle"].map(str::to_owned));
        words.extend([folder.display().to_string(), "--pid-file".to_owned(), pid_file.clone()]);
        words.push(record.id.clone());
        let shared_memory = if uses_memory { memory } else { String::new() };
        Ok(Request::Launch(Box::new(Launch { program: words, pid_file, shared_memory, container: plan })))
    }

    /// A process in the process namespace that a container is to share.
    fn shared_processes(&self, processes: &Processes, supervisor: u32) -> Result<Option<u32>> {
        match processes {
            Processes::Own | Processes::Node => Ok(None),
            Processes::Pod => {
                // The first that a supervisor starts is the one who keeps them.
                let children = fs::read_to_string(format!("/proc/{supervisor}/task/{supervisor}/children"));
                let children = children.unwrap_or_default();
                let keeper = children.split_whitespace().next().and_then(|pid| pid.parse().ok());
                let lacks = || Error::FailedPrecondition("the pod shares no processes".to_owned());
                keeper.ok_or_else(lacks).map(Some)
            }
            Processes::Target(id) => {
                let state = self.0.state.lock();
                match state.containers.get(id).map(|container| &container.phase) {
                    Some(Phase::Running { pid, .. }) => Ok(Some(*pid)),
                    _ => Err(Error::FailedPrecondition(format!("container {id:?} is not running"))),
                }
            }
        }
    }

    /// What the runtime said of why it did not start a container.
    pub(super) fn launch_failure(&self, launch: &Launch, error: Error) -> Error {
        let log = self.container_folder(&launch.container.id).join("oci.log");
        match last_words(&fs::read_to_string(log).unwrap_or_default()) {
            Some(message) => Error::Internal(format!("OCI runtime create failed: {message}")),
            None => error,
        }
    }
}

/// What a runtime's log says last: `runc` writes fields, `crun` nothing but the message.
fn last_words(log: &str) -> Option<String> {
    let field = |line: &str| {
        let (_, message) = line.split_once("msg=")?;
        Some(message.trim_matches('"').replace("\\\"", "\""))
    };
    let plain = || log.lines().rev().find(|line| !line.trim().is_empty()).map(str::to_owned);
    log.lines().rev().find_map(field).or_else(plain)
}

/// Has the runtime forget a container. What it knows of it goes with the container's folder in any case.
pub(super) fn delete(program: &Path, folder: &Path) {
    let Some(id) = folder.file_name() else { return };
    let mut command = Command::new(program);
    command.arg("--root").arg(folder.join("oci")).args(["delete", "--force"]).arg(id);
    let ended = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    if let Err(error) = ended {
        tracing::warn!(program = %program.display(), %error, "the runtime could not be asked to forget a container");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_runtimes_say_last() {
        let runc =
            "time=\"t\" level=warning msg=\"slow\"\ntime=\"t\" level=error msg=\"exec: \\\"x\\\" failed\"\n";
        assert_eq!(last_words(runc).as_deref(), Some("exec: \"x\" failed"));
        let crun = "something first\nexecutable file `x` not found\n\n";
        assert_eq!(last_words(crun).as_deref(), Some("executable file `x` not found"));
        assert_eq!(last_words(""), None);
    }
}
