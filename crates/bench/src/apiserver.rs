//! `corten bench apiserver`: one run from a fresh data directory to a restart with everything in it.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, anyhow, ensure};
use tokio::signal::unix::{SignalKind, signal};

use crate::http::Target;
use crate::process::{self, ServerProcess};
use crate::raw::{self, RawPlan};
use crate::report::{Phase, Report};
use crate::{objects, usage, watching};

/// Parts of a server that would work on the pods, or on the machine, while we measure.
const WITHOUT: &str = "agent,scheduler,controller-manager,proxy,dns";

/// What to measure, and how much of it.
#[derive(Clone, Debug)]
pub struct ApiserverOptions {
    /// Pods to create; all other phases work on them.
    pub pods: usize,
    /// Connections that send requests.
    pub connections: usize,
    /// Watchers while pods are patched.
    pub watchers: usize,
    /// Watchers to whom nothing is sent.
    pub idle_watchers: usize,
    /// Single pods to read, in each of the two ways.
    pub gets: usize,
    /// Times all pods are listed.
    pub lists: usize,
    /// Status patches sent in one burst.
    pub patches: usize,
    /// Status patches per second at a steady pace; at least 1.
    pub steady_rate: u32,
    /// How long the steady pace is held.
    pub steady_seconds: u32,
    /// How long the idle server is observed.
    pub idle_seconds: u32,
    /// The server to measure; this very program if none is given.
    pub server_binary: Option<PathBuf>,
    /// Whether to measure the machine's own limits first, with a child `bench raw-server` of this program.
    pub raw: bool,
    /// Where to make the temporary data directory. It should be on a disk, not in memory.
    pub work_dir: PathBuf,
}

impl Default for ApiserverOptions {
    fn default() -> Self {
        ApiserverOptions {
            pods: 5_000,
            connections: 32,
            watchers: 100,
            idle_watchers: 1_000,
            gets: 40_000,
            lists: 20,
            patches: 1_000,
            steady_rate: 50,
            steady_seconds: 5,
            idle_seconds: 10,
            server_binary: None,
            raw: true,
            work_dir: env::temp_dir(),
        }
    }
}

/// A run in progress.
pub(crate) struct Session<'a> {
    pub(crate) options: ApiserverOptions,
    pub(crate) target: Arc<Target>,
    pub(crate) pid: u32,
    pub(crate) report: &'a mut Report,
}

impl Session<'_> {
    /// Starts counting CPU time.
    pub(crate) fn meter(&self) -> anyhow::Result<Meter> {
        let client = usage::cpu_seconds(std::process::id())?;
        Ok(Meter { pid: self.pid, server: usage::cpu_seconds(self.pid)?, client })
    }

    fn note_memory(&mut self, measure: &'static str) -> anyhow::Result<()> {
        let resident = usage::resident_mb(self.pid)?;
        self.report.phase("memory").set(measure, resident);
        Ok(())
    }
}

/// CPU time at the beginning of a phase.
pub(crate) struct Meter {
    pid: u32,
    server: f64,
    client: f64,
}

impl Meter {
    /// Notes what was used since; returns the server's seconds.
    pub(crate) fn finish(self, phase: &mut Phase) -> anyhow::Result<f64> {
        let server = usage::cpu_seconds(self.pid)? - self.server;
        let client = usage::cpu_seconds(std::process::id())? - self.client;
        phase.set("server_cpu_s", server).set("client_cpu_s", client);
        Ok(server)
    }
}

/// Runs the whole benchmark. Takes about a minute, and a temporary directory that is removed at the end.
///
/// Ends the server and gives up if this process is asked to end.
pub async fn apiserver(options: ApiserverOptions) -> anyhow::Result<Report> {
    ensure!(options.pods > 0, "there must be at least one pod");
    ensure!(options.connections > 0, "there must be at least one connection");
    ensure!(options.steady_rate > 0, "the steady rate must be at least one patch per second");
    process::raise_open_files_limit()?;
    warm_up()?;
    let this_program = env::current_exe().context("cannot find this program")?;
    let binary = options.server_binary.clone().unwrap_or_else(|| this_program.clone());
    let dir = tempfile::Builder::new()
        .prefix("corten-bench-")
        .tempdir_in(&options.work_dir)
        .with_context(|| format!("cannot make a directory in {}", options.work_dir.display()))?;
    let mut report = Report::default();
    let mut terminated = signal(SignalKind::terminate())?;
    let mut interrupted = signal(SignalKind::interrupt())?;
    let outcome = tokio::select! {
        outcome = measure(options, &this_program, &binary, dir.path(), &mut report) => outcome,
        _ = terminated.recv() => Err(anyhow!("terminated")),
        _ = interrupted.recv() => Err(anyhow!("interrupted")),
    };
    outcome.with_context(|| format!("the benchmark stopped; measured so far:\n{}", report.table()))?;
    Ok(report)
}

/// The first random number of a process takes tens of milliseconds, which are not the server's.
fn warm_up() -> anyhow::Result<()> {
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    provider.secure_random.fill(&mut [0; 32]).map_err(|_| anyhow!("the system gives no random numbers"))
}

async fn measure(
    options: ApiserverOptions,
    this_program: &Path,
    binary: &Path,
    dir: &Path,
    report: &mut Report,
) -> anyhow::Result<()> {
    report
        .phase("options")
        .set("pods", options.pods as f64)
        .set("connections", options.connections as f64)
        .set("watchers", options.watchers as f64);
    if options.raw {
        measure_machine(this_program, dir, &options, report).await?;
    }
    let server = start_server(binary, dir).await?;
    report.phase("start").set("ready_ms", server.ready_after.as_secs_f64() * 1e3);
    let mut session =
        Session { options: options.clone(), target: Arc::clone(&server.target), pid: server.pid, report };
    // The log is gone with its directory when the error is read.
    run_phases(&mut session).await.with_context(|| process::tail(&log_path(dir)))?;

    let stopped_after = server.stop().await?;
    let server = start_server(binary, dir).await.context("cannot restart the server")?;
    report
        .phase("restart")
        .set("stop_ms", stopped_after.as_secs_f64() * 1e3)
        .set("ready_ms", server.ready_after.as_secs_f64() * 1e3);
    let mut session = Session { options, target: Arc::clone(&server.target), pid: server.pid, report };
    session.note_memory("restarted_mb")?;
    // On a fresh process, for in an old one they would fit into memory that others have left.
    watching::idle_watchers(&mut session).await.with_context(|| process::tail(&log_path(dir)))?;
    server.stop().await?;
    Ok(())
}

async fn measure_machine(
    this_program: &Path,
    dir: &Path,
    options: &ApiserverOptions,
    report: &mut Report,
) -> anyhow::Result<()> {
    let raw_dir = dir.join("raw");
    fs::create_dir(&raw_dir)?;
    raw::measure_appends(&raw_dir, report).await?;
    let plan = RawPlan { connections: options.connections, gets: options.gets, bulks: options.lists };
    raw::measure_http(this_program, &raw_dir, plan, report).await
}

async fn start_server(binary: &Path, dir: &Path) -> anyhow::Result<ServerProcess> {
    let kubeconfig = dir.join("kubeconfig");
    let data_dir = dir.join("data");
    let mut arguments: Vec<OsString> = vec!["server".into(), "--data-dir".into(), data_dir.into()];
    arguments.extend(["--secure-port", "0", "--disable", WITHOUT, "--write-kubeconfig"].map(OsString::from));
    arguments.push(kubeconfig.clone().into());
    ServerProcess::start(binary, &arguments, &kubeconfig, "/readyz", &log_path(dir)).await
}

/// Everything that is asked of a server from its first start on, in order.
pub(crate) async fn run_phases(session: &mut Session<'_>) -> anyhow::Result<()> {
    session.note_memory("start_mb")?;
    objects::prepare(session).await?;
    objects::create(session).await?;
    session.note_memory("created_mb")?;
    objects::get(session, "get", "").await?;
    objects::get(session, "get_rv0", "?resourceVersion=0").await?;
    objects::list(session).await?;
    objects::update(session).await?;
    session.note_memory("updated_mb")?;
    watching::burst(session).await?;
    watching::steady(session).await?;
    watching::idle(session).await?;
    session.note_memory("idle_mb")?;
    let peak = usage::peak_resident_mb(session.pid)?;
    session.report.phase("memory").set("peak_mb", peak);
    Ok(())
}

fn log_path(dir: &Path) -> PathBuf {
    dir.join("server.log")
}
