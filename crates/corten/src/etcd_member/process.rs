//! The etcd process: started, started again when it ends by itself, and stopped.
//!
//! A thread starts it and waits for it, so that the kernel ends etcd when this process is killed (`sys::processes`).

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use corten_base::Backoff;
use corten_sys::processes::end_with_parent;
use parking_lot::{Condvar, Mutex};
use rustix::process::{Pid, Signal, kill_process};

use super::certificates::Certificates;
use super::program;
use super::settings::{self, Settings};

const RETRY: Backoff = Backoff { first: Duration::from_millis(500), longest: Duration::from_secs(30) };
/// A run of this length shows that the start was good: the next one is not delayed for earlier failures.
const STABLE: Duration = Duration::from_secs(60);
/// The time that etcd has to end before it is killed.
const STOP: Duration = Duration::from_secs(10);

/// The arguments of the etcd of a member.
pub(super) fn arguments(
    data_dir: &Path,
    settings: &Settings,
    certificates: &Certificates,
    more: &[(&str, &str)],
) -> Vec<String> {
    let (client, peer, local) = (settings.client_url(), settings.peer_url(), settings.local_url());
    let listening = format!("{local},{client}");
    let data = settings::data(data_dir).display().to_string();
    let file = |name: &str| certificates.path(name);
    let (ca, server, server_key) = (file("ca.crt"), file("server.crt"), file("server.key"));
    let (own, own_key) = (file("peer.crt"), file("peer.key"));
    let all = [
        ("name", settings.name.as_str()),
        ("data-dir", &data),
        ("listen-client-urls", &listening),
        ("advertise-client-urls", &client),
        ("listen-peer-urls", &peer),
        ("initial-advertise-peer-urls", &peer),
        // Another cluster's members have another token, so that they never take this one for their own.
        ("initial-cluster-token", &settings.name),
        ("trusted-ca-file", &ca),
        ("cert-file", &server),
        ("key-file", &server_key),
        ("client-cert-auth", "true"),
        ("peer-trusted-ca-file", &ca),
        ("peer-cert-file", &own),
        ("peer-key-file", &own_key),
        ("peer-client-cert-auth", "true"),
        ("logger", "zap"),
        ("log-level", "error"),
    ];
    all.iter().chain(more).map(|(name, value)| format!("--{name}={value}")).collect()
}

/// The supervised process.
pub(super) struct Process {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    running: Option<u32>,
    stopping: bool,
    /// True once the thread has ended.
    ended: bool,
    /// The reason why etcd ended the last time.
    failure: Option<String>,
}

impl Process {
    /// Starts etcd. An error says that there is no such program.
    pub(super) fn start(arguments: Vec<String>) -> anyhow::Result<Process> {
        let found =
            Command::new(program()).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        if !found.as_ref().is_ok_and(std::process::ExitStatus::success) {
            bail!(
                "cannot run etcd; install it (Debian: etcd-server), or put the program `etcd` beside corten"
            );
        }
        let shared = Arc::new(Shared::default());
        let of_thread = shared.clone();
        std::thread::Builder::new()
            .name("etcd".to_owned())
            .spawn(move || supervise(&of_thread, &arguments))
            .context("cannot start the thread that runs etcd")?;
        Ok(Process { shared })
    }

    /// The reason why etcd ended the last time, if it did.
    pub(super) fn failure(&self) -> Option<String> {
        self.shared.state.lock().failure.clone()
    }

    /// Stops etcd and waits until it has ended.
    pub(super) async fn stop(self) {
        let shared = self.shared.clone();
        // The thread ends when etcd has.
        let _ = tokio::task::spawn_blocking(move || shared.stop()).await;
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let mut state = self.shared.state.lock();
        state.stopping = true;
        signal(state.running, Signal::TERM);
        self.shared.changed.notify_all();
    }
}

impl Shared {
    fn stop(&self) {
        let mut state = self.state.lock();
        state.stopping = true;
        signal(state.running, Signal::TERM);
        self.changed.notify_all();
        let deadline = Instant::now() + STOP;
        while !state.ended {
            if self.changed.wait_until(&mut state, deadline).timed_out() {
                signal(state.running, Signal::KILL);
                self.changed.wait_while(&mut state, |state| !state.ended);
            }
        }
    }
}

/// Signals a process that the thread has not waited for yet, so that its id is still its own.
fn signal(process: Option<u32>, signal: Signal) {
    let id = process.and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
    if let Some(id) = id {
        // It fails only if the process has just ended.
        let _ = kill_process(id, signal);
    }
}

fn supervise(shared: &Shared, arguments: &[String]) {
    let mut failures = 0;
    loop {
        let started = Instant::now();
        let failure = match spawn(shared, arguments) {
            Ok(Some(child)) => wait(shared, child),
            Ok(None) => break,
            Err(error) => format!("cannot start etcd: {error}"),
        };
        let mut state = shared.state.lock();
        state.failure = Some(failure.clone());
        if state.stopping {
            break;
        }
        failures = if started.elapsed() >= STABLE { 1 } else { failures + 1 };
        let backoff = RETRY.delay(failures);
        tracing::error!(err = failure, ?backoff, "the etcd member ended; restarting it");
        let deadline = Instant::now() + backoff;
        while !state.stopping && !shared.changed.wait_until(&mut state, deadline).timed_out() {}
        if state.stopping {
            break;
        }
    }
    shared.state.lock().ended = true;
    shared.changed.notify_all();
}

/// Starts etcd, unless it is to stop.
fn spawn(shared: &Shared, arguments: &[String]) -> std::io::Result<Option<Child>> {
    let mut state = shared.state.lock();
    if state.stopping {
        return Ok(None);
    }
    let mut command = Command::new(program());
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null());
    end_with_parent(&mut command);
    let child = command.spawn()?;
    state.running = Some(child.id());
    Ok(Some(child))
}

/// Waits until etcd has ended. Returns how.
fn wait(shared: &Shared, mut child: Child) -> String {
    // The process is not reaped while another thread may signal it.
    let ended = rustix::process::waitid(
        rustix::process::WaitId::Pid(Pid::from_child(&child)),
        rustix::process::WaitIdOptions::EXITED | rustix::process::WaitIdOptions::NOWAIT,
    );
    shared.state.lock().running = None;
    if let Err(error) = ended {
        tracing::debug!(err = %error, "cannot wait for etcd without reaping it");
    }
    match child.wait() {
        Ok(status) => status.to_string(),
        Err(error) => error.to_string(),
    }
}
