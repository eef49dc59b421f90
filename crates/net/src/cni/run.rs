//! Runs a plugin: the only place where processes are started.
//!
//! A plugin's input and output are files in memory, so that processes it leaves running never block the caller.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

use super::plan::Invocation;
use super::{Error, Result, answer};
use crate::namespace::Namespace;

/// The timeout of a plugin: that of a runtime's RunPodSandbox.
const TIMEOUT: Duration = Duration::from_secs(220);

/// Runs a plugin, and returns its output.
pub(super) fn run(invocation: &Invocation, folders: &[PathBuf], namespace: &Namespace) -> Result<Vec<u8>> {
    let plugin = &invocation.plugin;
    let missing = || Error::Missing { plugin: plugin.clone(), folders: folders.to_vec() };
    let program = folders.iter().map(|folder| folder.join(plugin)).find(|path| path.is_file());
    let program = program.ok_or_else(missing)?;
    let done = execute(&program, invocation, folders, namespace);
    let (status, output, complaint) = done
        .map_err(|source| Error::System { operation: format!("cannot run {}", program.display()), source })?;
    if status.success() {
        return Ok(output);
    }
    Err(answer::failure(plugin, invocation.command, &output, &complaint, &status.to_string()))
}

fn execute(
    program: &Path,
    invocation: &Invocation,
    folders: &[PathBuf],
    namespace: &Namespace,
) -> io::Result<(ExitStatus, Vec<u8>, Vec<u8>)> {
    let mut input = memory("cni-input")?;
    input.write_all(&serde_json::to_vec(&invocation.input)?)?;
    input.rewind()?;
    let (output, complaint) = (memory("cni-output")?, memory("cni-error")?);
    let mut command = Command::new(program);
    command
        .env("CNI_COMMAND", invocation.command)
        .env("CNI_PATH", std::env::join_paths(folders).map_err(io::Error::other)?)
        .envs(invocation.environment.iter().map(|(name, value)| (name, value)))
        .stdin(input)
        .stdout(output.try_clone()?)
        .stderr(complaint.try_clone()?)
        .process_group(0);
    // A child process is in the namespace of the thread that starts it.
    let mut child = namespace.run(|| command.spawn())?;
    let status = wait(&mut child)?;
    Ok((status, all(output)?, all(complaint)?))
}

/// Waits for a plugin. After the timeout it is killed with its child processes.
fn wait(child: &mut Child) -> io::Result<ExitStatus> {
    let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) else { return child.wait() };
    let ended = pidfd_open(pid, PidfdFlags::empty())?;
    let patience = Timespec { tv_sec: i64::try_from(TIMEOUT.as_secs()).unwrap_or(i64::MAX), tv_nsec: 0 };
    let seen = loop {
        match poll(&mut [PollFd::new(&ended, PollFlags::IN)], Some(&patience)) {
            Err(rustix::io::Errno::INTR) => {}
            seen => break seen?,
        }
    };
    if seen == 0 {
        kill_process_group(pid, Signal::KILL)?;
    }
    child.wait()
}

fn memory(name: &str) -> io::Result<File> {
    Ok(memfd_create(name, MemfdFlags::CLOEXEC)?.into())
}

fn all(mut file: File) -> io::Result<Vec<u8>> {
    let mut read = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut read)?;
    Ok(read)
}
