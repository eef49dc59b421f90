//! `corten bench crd`: many CustomResourceDefinitions, and requests for the resources they define.
//!
//! One run from an empty data directory: definitions are created, discovered and published, each is used once, and one
//! of them is put under load; then the server is restarted with all of them. With upstream's binaries, the same phases
//! run against them with fewer definitions.

mod manifests;
mod phases;
mod upstream;

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, ensure};

use crate::http::Target;
use crate::process::{self, ServerProcess};
use crate::report::Report;
use crate::usage;
use manifests::Manifests;
pub(crate) use upstream::Etcd;
pub use upstream::Upstream;

/// Parts of the server that would use the machine during the measurement.
const WITHOUT: &str = "agent,scheduler,controller-manager,proxy,dns";

/// The size of the benchmark.
#[derive(Clone, Debug)]
pub struct CrdOptions {
    /// Definitions to create.
    pub definitions: usize,
    /// Definitions that are created one by one when all others exist, to measure when each is served and published.
    pub late_definitions: usize,
    /// Objects to create of one definition.
    pub objects: usize,
    /// Connections that send requests.
    pub connections: usize,
    /// Watchers while objects are patched.
    pub watchers: usize,
    /// Status patches sent in one burst, while watched.
    pub patches: usize,
    /// Times all objects are listed.
    pub lists: usize,
    /// The time without requests after which memory is measured again; types are dropped after five to ten minutes.
    /// 0 skips the phase.
    pub idle_seconds: u32,
    /// The server binary to measure; this program if none is given.
    pub server_binary: Option<PathBuf>,
    /// The `kubectl` that lists the resources; none skips the phase.
    pub kubectl: Option<PathBuf>,
    /// Upstream's binaries, measured after the server.
    pub upstream: Option<Upstream>,
    /// Definitions to create on upstream's server, which takes far more memory for each.
    pub upstream_definitions: usize,
    /// The parent of the temporary data directory. It should be on a disk, not in memory.
    pub work_dir: PathBuf,
}

impl Default for CrdOptions {
    fn default() -> Self {
        CrdOptions {
            definitions: 2_000,
            late_definitions: 20,
            objects: 20_000,
            connections: 32,
            watchers: 100,
            patches: 1_000,
            lists: 10,
            idle_seconds: 0,
            server_binary: None,
            kubectl: None,
            upstream: None,
            upstream_definitions: 100,
            work_dir: env::temp_dir(),
        }
    }
}

/// A running server.
pub(crate) struct Server {
    pub(crate) process: ServerProcess,
    /// The store of upstream's server.
    etcd: Option<Etcd>,
    kubeconfig: PathBuf,
}

impl Server {
    fn pids(&self) -> Vec<u32> {
        let etcd = self.etcd.as_ref().map(|etcd| etcd.pid);
        std::iter::once(self.process.pid).chain(etcd).collect()
    }
}

/// A run in progress.
struct Run<'a> {
    options: &'a CrdOptions,
    manifests: Arc<Manifests>,
    target: Arc<Target>,
    /// The processes of the server.
    pids: Vec<u32>,
    kubeconfig: PathBuf,
    dir: PathBuf,
    report: &'a mut Report,
}

impl Run<'_> {
    /// The memory of all processes of the server. Freed memory goes back to the system within seconds, so that this waits
    /// first.
    async fn record_memory(&mut self, measure: &'static str) -> anyhow::Result<f64> {
        tokio::time::sleep(phases::SETTLE).await;
        let resident: f64 =
            self.pids.iter().map(|pid| usage::resident_mb(*pid)).sum::<anyhow::Result<f64>>()?;
        self.report.phase("memory").set(measure, resident);
        Ok(resident)
    }
}

/// Runs the whole benchmark. Takes some minutes, and a temporary directory that is removed at the end.
pub async fn crd(options: CrdOptions) -> anyhow::Result<Report> {
    ensure!(options.definitions > 0 && options.objects > 0, "there must be definitions and objects");
    ensure!(options.connections > 0, "there must be at least one connection");
    process::raise_open_files_limit()?;
    let dir = tempfile::Builder::new()
        .prefix("corten-bench-")
        .tempdir_in(&options.work_dir)
        .with_context(|| format!("cannot create a directory in {}", options.work_dir.display()))?;
    let mut report = Report::default();
    let outcome = measure(&options, dir.path(), &mut report).await;
    outcome.with_context(|| format!("the benchmark stopped; measured so far:\n{}", report.table()))?;
    if let Some(upstream) = &options.upstream {
        let mut theirs = Report::default();
        let outcome = measure_upstream(&options, upstream, &dir.path().join("upstream"), &mut theirs).await;
        report.append("upstream", theirs);
        outcome.with_context(|| format!("the benchmark stopped; measured so far:\n{}", report.table()))?;
    }
    Ok(report)
}

async fn measure(options: &CrdOptions, dir: &Path, report: &mut Report) -> anyhow::Result<()> {
    let binary = match &options.server_binary {
        Some(binary) => binary.clone(),
        None => env::current_exe().context("cannot find this program")?,
    };
    let server = start(&binary, dir).await?;
    measure_server(options, &server, dir, report).await?;
    let stopped_after = server.process.stop().await?;
    let server = start(&binary, dir).await.context("cannot restart the server")?;
    report
        .phase("restart")
        .set("stop_ms", stopped_after.as_secs_f64() * 1e3)
        .set("ready_ms", server.process.ready_after.as_secs_f64() * 1e3);
    let mut run = run(options, &server, dir, report)?;
    run.record_memory("restarted_mb").await?;
    server.process.stop().await?;
    Ok(())
}

async fn measure_upstream(
    options: &CrdOptions,
    upstream: &Upstream,
    dir: &Path,
    report: &mut Report,
) -> anyhow::Result<()> {
    fs::create_dir(dir)?;
    let options = CrdOptions { definitions: options.upstream_definitions, ..options.clone() };
    let server = upstream.start(dir).await?;
    measure_server(&options, &server, dir, report).await?;
    server.process.stop().await?;
    Ok(())
}

/// All phases of a server from its first start on.
async fn measure_server(
    options: &CrdOptions,
    server: &Server,
    dir: &Path,
    report: &mut Report,
) -> anyhow::Result<()> {
    report
        .phase("options")
        .set("definitions", options.definitions as f64)
        .set("objects", options.objects as f64)
        .set("connections", options.connections as f64)
        .set("watchers", options.watchers as f64);
    report.phase("start").set("ready_ms", server.process.ready_after.as_secs_f64() * 1e3);
    let mut run = run(options, server, dir, report)?;
    // The log is deleted with its directory before the error is printed.
    phases::run(&mut run).await.with_context(|| process::tail(&log_path(dir)))
}

fn run<'a>(
    options: &'a CrdOptions,
    server: &Server,
    dir: &Path,
    report: &'a mut Report,
) -> anyhow::Result<Run<'a>> {
    Ok(Run {
        options,
        manifests: Arc::new(Manifests::load()?),
        target: Arc::clone(&server.process.target),
        pids: server.pids(),
        kubeconfig: server.kubeconfig.clone(),
        dir: dir.to_owned(),
        report,
    })
}

async fn start(binary: &Path, dir: &Path) -> anyhow::Result<Server> {
    let (kubeconfig, data_dir) = (dir.join("kubeconfig"), dir.join("data"));
    let mut arguments: Vec<OsString> = vec!["server".into(), "--data-dir".into(), data_dir.into()];
    arguments.extend(["--bind-address", "127.0.0.1", "--secure-port", "0"].map(OsString::from));
    arguments.extend(["--disable", WITHOUT, "--write-kubeconfig"].map(OsString::from));
    arguments.push(kubeconfig.clone().into());
    let process = ServerProcess::start(binary, &arguments, &kubeconfig, "/readyz", &log_path(dir)).await?;
    Ok(Server { process, etcd: None, kubeconfig })
}

fn log_path(dir: &Path) -> PathBuf {
    dir.join("server.log")
}
