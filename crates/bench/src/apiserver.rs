//! `corten bench apiserver`: one run from an empty data directory to a restart with all objects in it.

mod on_etcd;

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
use crate::report::Report;
use crate::usage::{self, Meter};
use crate::{objects, watching};

/// Parts of the server that would change pods or use the machine during the measurement.
const WITHOUT: &str = "agent,scheduler,controller-manager,proxy,dns";

/// The size of the benchmark.
#[derive(Clone, Debug)]
pub struct ApiserverOptions {
    /// Pods to create; all other phases work on them.
    pub pods: usize,
    /// Connections that send requests.
    pub connections: usize,
    /// Watchers while pods are patched.
    pub watchers: usize,
    /// Idle watchers.
    pub idle_watchers: usize,
    /// Single pods to read, in each of the two ways.
    pub gets: usize,
    /// Times all pods are listed.
    pub lists: usize,
    /// Status patches sent in one burst.
    pub patches: usize,
    /// Status patches per second at a steady pace; at least 1.
    pub steady_rate: u32,
    /// The duration of the steady pace.
    pub steady_seconds: u32,
    /// The time that the idle server is observed.
    pub idle_seconds: u32,
    /// The server binary to measure; this program if none is given.
    pub server_binary: Option<PathBuf>,
    /// The etcd binary to use as the datastore, instead of the embedded store.
    pub etcd: Option<PathBuf>,
    /// Upstream's kube-apiserver to measure, too; with an etcd of its own.
    pub kube_apiserver: Option<PathBuf>,
    /// Measure the machine's own limits first, with a child `bench raw-server` of this program.
    pub raw: bool,
    /// The parent of the temporary data directory. It should be on a disk, not in memory.
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
            etcd: None,
            kube_apiserver: None,
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
        Meter::start(&[self.pid])
    }

    fn record_memory(&mut self, measure: &'static str) -> anyhow::Result<()> {
        let resident = usage::resident_mb(self.pid)?;
        self.report.phase("memory").set(measure, resident);
        Ok(())
    }
}

/// Runs the whole benchmark. Takes about a minute, and a temporary directory that is removed at the end.
///
/// Stops the server and returns an error if this process gets a stop signal.
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
        .with_context(|| format!("cannot create a directory in {}", options.work_dir.display()))?;
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

/// Reads a first random number, which takes tens of milliseconds that must not count for the server.
fn warm_up() -> anyhow::Result<()> {
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    provider.secure_random.fill(&mut [0; 32]).map_err(|_| anyhow!("cannot read random numbers"))
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
    if let Some(etcd) = &options.etcd {
        return on_etcd::measure(&options, etcd, binary, dir, report).await;
    }
    let server = start_server(binary, dir, &[]).await?;
    report.phase("start").set("ready_ms", server.ready_after.as_secs_f64() * 1e3);
    let mut session =
        Session { options: options.clone(), target: Arc::clone(&server.target), pid: server.pid, report };
    // The log is deleted with its directory before the error is printed.
    run_phases(&mut session).await.with_context(|| process::tail(&log_path(dir)))?;

    let stopped_after = server.stop().await?;
    let server = start_server(binary, dir, &[]).await.context("cannot restart the server")?;
    report
        .phase("restart")
        .set("stop_ms", stopped_after.as_secs_f64() * 1e3)
        .set("ready_ms", server.ready_after.as_secs_f64() * 1e3);
    let mut session = Session { options, target: Arc::clone(&server.target), pid: server.pid, report };
    session.record_memory("restarted_mb")?;
    // On a new process, because in an old one they would reuse freed memory.
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

async fn start_server(binary: &Path, dir: &Path, further: &[&str]) -> anyhow::Result<ServerProcess> {
    let kubeconfig = dir.join("kubeconfig");
    let data_dir = dir.join("data");
    let mut arguments: Vec<OsString> = vec!["server".into(), "--data-dir".into(), data_dir.into()];
    arguments.extend(["--secure-port", "0", "--disable", WITHOUT, "--write-kubeconfig"].map(OsString::from));
    arguments.push(kubeconfig.clone().into());
    arguments.extend(further.iter().map(OsString::from));
    ServerProcess::start(binary, &arguments, &kubeconfig, "/readyz", &log_path(dir)).await
}

/// All phases of a server from its first start on, in order.
pub(crate) async fn run_phases(session: &mut Session<'_>) -> anyhow::Result<()> {
    session.record_memory("start_mb")?;
    objects::prepare(session).await?;
    objects::create(session).await?;
    session.record_memory("created_mb")?;
    objects::get(session, "get", "").await?;
    objects::get(session, "get_rv0", "?resourceVersion=0").await?;
    objects::list(session).await?;
    objects::update(session).await?;
    session.record_memory("updated_mb")?;
    watching::burst(session).await?;
    watching::steady(session).await?;
    watching::idle(session).await?;
    session.record_memory("idle_mb")?;
    let peak = usage::peak_resident_mb(session.pid)?;
    session.report.phase("memory").set("peak_mb", peak);
    Ok(())
}

fn log_path(dir: &Path) -> PathBuf {
    dir.join("server.log")
}
