//! Containers of other OCI runtimes: the request that starts one, and its deletion.

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
    /// The program that runs a sandbox's containers, if it is not the native runtime.
    pub(super) fn handler_of(&self, sandbox_id: &str) -> Option<PathBuf> {
        let state = self.0.state.lock();
        self.0.options.handlers.get(&state.sandboxes.get(sandbox_id)?.record.handler).cloned()
    }

    /// The request to a supervisor to start a container with a program. The bundle is the container's folder.
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
        let failed = |error| Error::internal("cannot write the container's bundle", error);
        files::directory(Path::new(&memory), 0o755).map_err(failed)?;
        // It contains the environment.
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

    /// A process in the process namespace that a container shares.
    fn shared_processes(&self, processes: &Processes, supervisor: u32) -> Result<Option<u32>> {
        match processes {
            Processes::Own | Processes::Node => Ok(None),
            Processes::Pod => {
                // The first child of a supervisor is the init process of the pod.
                let children = fs::read_to_string(format!("/proc/{supervisor}/task/{supervisor}/children"));
                let children = children.unwrap_or_default();
                let keeper = children.split_whitespace().next().and_then(|pid| pid.parse().ok());
                let lacks =
                    || Error::FailedPrecondition("the pod does not share its process namespace".to_owned());
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

    /// The runtime's own reason for not starting a container.
    pub(super) fn launch_failure(&self, launch: &Launch, error: Error) -> Error {
        let log = self.container_folder(&launch.container.id).join("oci.log");
        match last_message(&fs::read_to_string(log).unwrap_or_default()) {
            Some(message) => Error::Internal(format!("OCI runtime create failed: {message}")),
            None => error,
        }
    }
}

/// The last message of a runtime's log: `runc` writes fields, `crun` only the message.
fn last_message(log: &str) -> Option<String> {
    let field = |line: &str| {
        let (_, message) = line.split_once("msg=")?;
        Some(message.trim_matches('"').replace("\\\"", "\""))
    };
    let plain = || log.lines().rev().find(|line| !line.trim().is_empty()).map(str::to_owned);
    log.lines().rev().find_map(field).or_else(plain)
}

/// Has the runtime delete a container. The runtime's state is in the container's folder, which is removed in any case.
pub(super) fn delete(program: &Path, folder: &Path) {
    let Some(id) = folder.file_name() else { return };
    let mut command = Command::new(program);
    command.arg("--root").arg(folder.join("oci")).args(["delete", "--force"]).arg(id);
    let ended = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    if let Err(error) = ended {
        tracing::warn!(program = %program.display(), err = %error, "cannot run OCI runtime to delete container");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_message_of_a_log_is_found() {
        let runc =
            "time=\"t\" level=warning msg=\"slow\"\ntime=\"t\" level=error msg=\"exec: \\\"x\\\" failed\"\n";
        assert_eq!(last_message(runc).as_deref(), Some("exec: \"x\" failed"));
        let crun = "something first\nexecutable file `x` not found\n\n";
        assert_eq!(last_message(crun).as_deref(), Some("executable file `x` not found"));
        assert_eq!(last_message(""), None);
    }
}
