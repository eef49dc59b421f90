//! A server as a child process: starting it, waiting for readiness, stopping it.
//!
//! [`ServerProcess::stop`] stops the child with SIGTERM; a drop without it kills the child by its process ID.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, setrlimit};
use tokio::process::{Child, Command};
use tokio::time::{Interval, MissedTickBehavior, interval, timeout};

use crate::http::{Connection, Target, write_request};

const START_LIMIT: Duration = Duration::from_secs(60);
const STOP_LIMIT: Duration = Duration::from_secs(30);
/// The polling period of readiness, which is the resolution of start times.
const ASK_EVERY: Duration = Duration::from_millis(1);

/// Flags with which a node runs pods although its disk is nearly full.
pub(crate) const ON_FULL_DISKS: [&str; 2] = ["--kubelet-arg", "eviction-hard=nodefs.available<1Mi"];

/// A running server that is ready.
pub(crate) struct ServerProcess {
    child: Child,
    pub(crate) pid: u32,
    pub(crate) target: Arc<Target>,
    /// From starting the process to its first `200` for the readiness path.
    pub(crate) ready_after: Duration,
}

impl ServerProcess {
    /// Starts `binary` and waits until it has written `kubeconfig` and answers `ready_path` with 200.
    /// Its output goes to `log`.
    pub(crate) async fn start(
        binary: &Path,
        arguments: &[OsString],
        kubeconfig: &Path,
        ready_path: &str,
        log: &Path,
    ) -> anyhow::Result<ServerProcess> {
        if kubeconfig.exists() {
            fs::remove_file(kubeconfig)?;
        }
        let ready = async { answers(await_target(kubeconfig).await, ready_path).await };
        ServerProcess::spawn(binary, arguments, log, ready).await
    }

    /// Starts `binary`, which will listen at a known address, and waits until it answers `ready_path` with 200.
    pub(crate) async fn start_at(
        target: &Arc<Target>,
        binary: &Path,
        arguments: &[OsString],
        ready_path: &str,
        log: &Path,
    ) -> anyhow::Result<ServerProcess> {
        ServerProcess::spawn(binary, arguments, log, answers(Arc::clone(target), ready_path)).await
    }

    async fn spawn(
        binary: &Path,
        arguments: &[OsString],
        log: &Path,
        ready: impl Future<Output = Arc<Target>>,
    ) -> anyhow::Result<ServerProcess> {
        let output = fs::File::create(log).with_context(|| format!("cannot create {}", log.display()))?;
        let started = Instant::now();
        let mut child = Command::new(binary)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("cannot start {}", binary.display()))?;
        let pid = child.id().context("the server exited at once")?;
        let target = tokio::select! {
            target = timeout(START_LIMIT, ready) => {
                target.with_context(|| format!("the server was not ready in time; {}", tail(log)))?
            }
            status = child.wait() => bail!("the server exited ({}) before it was ready; {}", status?, tail(log)),
        };
        Ok(ServerProcess { child, pid, target, ready_after: started.elapsed() })
    }

    /// Kills the server with SIGKILL.
    pub(crate) async fn kill(mut self) -> anyhow::Result<()> {
        self.child.kill().await.context("cannot kill the server")
    }

    /// Stops the server; returns the time until it exited.
    pub(crate) async fn stop(mut self) -> anyhow::Result<Duration> {
        let started = Instant::now();
        // The child is not reaped before `wait`, so its id still belongs to it.
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw).context("not a process id")?;
        kill_process(pid, Signal::TERM).context("cannot signal the server")?;
        if timeout(STOP_LIMIT, self.child.wait()).await.is_err() {
            self.child.kill().await?;
            bail!("the server did not exit {} s after SIGTERM and was killed", STOP_LIMIT.as_secs());
        }
        Ok(started.elapsed())
    }
}

/// Raises the limit of open files to the hard limit; children inherit it.
pub(crate) fn raise_open_files_limit() -> anyhow::Result<()> {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum })
        .context("cannot raise the limit of open files")
}

fn ticks() -> Interval {
    let mut ticks = interval(ASK_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

/// Waits for a kubeconfig, and returns the server that it names.
async fn await_target(kubeconfig: &Path) -> Arc<Target> {
    let mut ticks = ticks();
    loop {
        ticks.tick().await;
        if let Some(target) = target(kubeconfig).await {
            return Arc::new(target);
        }
    }
}

/// Waits until a server answers a path with 200.
async fn answers(target: Arc<Target>, path: &str) -> Arc<Target> {
    let mut ticks = ticks();
    let mut request = Vec::new();
    write_request(&mut request, &target.host, "GET", format_args!("{path}"), None);
    // One connection, reused: handshakes would take CPU time from a server that is starting.
    let mut connection = None;
    loop {
        ticks.tick().await;
        connection = match connection {
            None => Connection::open(&target).await.ok(),
            open => open,
        };
        let Some(open) = &mut connection else { continue };
        match open.request(&request, &mut |_| {}).await {
            Ok(200) => return target,
            Ok(_) if open.is_reusable() => {}
            _ => connection = None,
        }
    }
}

/// The server that a kubeconfig names, once the file is there.
async fn target(kubeconfig: &Path) -> Option<Target> {
    let text = fs::read_to_string(kubeconfig).ok()?;
    let credentials = corten_pki::parse_kubeconfig(&text).ok()?;
    Target::new(&credentials).await.ok()
}

/// The last lines a server printed, for an error message.
pub(crate) fn tail(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().rev().take(10).collect();
    if lines.is_empty() {
        return "it printed nothing".to_owned();
    }
    format!("its last words:\n{}", lines.into_iter().rev().collect::<Vec<_>>().join("\n"))
}
