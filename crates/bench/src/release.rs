//! `corten bench release`: the memory and disk that a server releases after load.
//!
//! Config maps are updated, and others created and deleted, until few are live of many writes. Some minutes without a request
//! later, memory is compared with that of a fresh start on the same data, and the store's files with the live data.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use tokio::time::sleep;

use crate::http::{Target, write_request};
use crate::load::{self, Job, WriteRequest};
use crate::process::{self, ServerProcess};
use crate::report::Report;
use crate::usage;

const JSON: &str = "application/json";
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
/// Parts of the server that would write while it is to be quiet.
const WITHOUT: &str = "agent,scheduler,controller-manager,proxy,dns";
/// The size of a value.
const VALUE: usize = 2_000;
/// The time after which the memory of a start is what remains of it.
const SETTLED: Duration = Duration::from_secs(10);
/// The time at the end of the quiet one in which idle work is counted.
const IDLE: Duration = Duration::from_secs(20);

/// The size of the benchmark.
#[derive(Clone, Debug)]
pub struct ReleaseOptions {
    /// Objects that are live at the end.
    pub live: usize,
    /// Writes before.
    pub writes: usize,
    /// Connections that send requests.
    pub connections: usize,
    /// The time without requests after the load.
    pub quiet: Duration,
    /// The server binary to measure; this program if none is given.
    pub server_binary: Option<PathBuf>,
    /// The parent of the temporary data directory.
    pub work_dir: PathBuf,
}

impl Default for ReleaseOptions {
    fn default() -> Self {
        ReleaseOptions {
            live: 270,
            writes: 880_000,
            connections: 32,
            // The history of five minutes, and up to an eighth more.
            quiet: Duration::from_secs(345),
            server_binary: None,
            work_dir: env::temp_dir(),
        }
    }
}

/// Runs the whole benchmark, in a temporary directory that is removed at the end.
pub async fn release(options: ReleaseOptions) -> anyhow::Result<Report> {
    ensure!(options.live > 0 && options.connections > 0, "there must be objects and connections");
    process::raise_open_files_limit()?;
    let dir = tempfile::Builder::new()
        .prefix("corten-bench-")
        .tempdir_in(&options.work_dir)
        .with_context(|| format!("cannot create a directory in {}", options.work_dir.display()))?;
    let mut report = Report::default();
    let outcome = measure(&options, dir.path(), &mut report).await;
    outcome.with_context(|| format!("the benchmark stopped; measured so far:\n{}", report.table()))?;
    Ok(report)
}

async fn measure(options: &ReleaseOptions, dir: &Path, report: &mut Report) -> anyhow::Result<()> {
    let store = dir.join("data/store");
    let server = start(options, dir).await?;
    record(report, "started", &server, &store)?;
    let (live, churned) = (options.live, options.writes.saturating_sub(options.live) / 3);
    // Each phase has at least one write.
    let churned = churned.max(1);
    let phases = [
        Writes { name: "create", total: live, method: "POST", object: Object::Live },
        Writes { name: "update", total: churned, method: "PUT", object: Object::Live },
        Writes { name: "create_more", total: churned, method: "POST", object: Object::Other },
        Writes { name: "delete", total: churned, method: "DELETE", object: Object::Other },
    ];
    for writes in phases {
        write(options, report, &server, writes).await?;
    }
    let (_, loaded_disk) = record(report, "loaded", &server, &store)?;
    sleep(options.quiet.saturating_sub(IDLE)).await;
    let before = usage::fine_cpu_seconds(server.pid)?;
    sleep(IDLE).await;
    let idle = (usage::fine_cpu_seconds(server.pid)? - before) / IDLE.as_secs_f64() * 100.0;
    let (memory, disk) = record(report, "quiet", &server, &store)?;
    report.phase("quiet").set("cpu_percent", idle);
    server.stop().await?;
    let live_mb = live_data_mb(&store)?;
    let server = start(options, dir).await?;
    sleep(SETTLED).await;
    let (fresh, _) = record(report, "fresh", &server, &store)?;
    server.stop().await?;
    report
        .phase("ratio")
        .set("memory", memory / fresh)
        .set("disk", disk / live_mb)
        .set("live_mb", live_mb)
        .set("disk_released_mb", loaded_disk - disk);
    Ok(())
}

/// Records memory and the store's files, in MB.
fn record(
    report: &mut Report,
    phase: &str,
    server: &ServerProcess,
    store: &Path,
) -> anyhow::Result<(f64, f64)> {
    let (memory, disk) = (usage::resident_mb(server.pid)?, files(store, "")?);
    report.phase(phase).set("memory_mb", memory).set("disk_mb", disk);
    Ok((memory, disk))
}

/// The disk space of the files whose name begins with a prefix, in MB.
fn files(store: &Path, prefix: &str) -> anyhow::Result<f64> {
    use std::os::unix::fs::MetadataExt;
    let mut bytes = 0;
    for file in fs::read_dir(store).context("cannot list the store's files")? {
        let file = file?;
        // A file may be removed meanwhile.
        if file.file_name().to_string_lossy().starts_with(prefix)
            && let Ok(metadata) = file.metadata()
        {
            bytes += metadata.blocks() * 512;
        }
    }
    Ok(bytes as f64 / 1e6)
}

/// The size of the live data: that of the last snapshot, which is all that is left after load.
fn live_data_mb(store: &Path) -> anyhow::Result<f64> {
    let size = files(store, "snapshot-")?;
    ensure!(size > 0.0, "the store has taken no snapshot");
    Ok(size)
}

fn config_map(name: &str, index: usize) -> String {
    let value = "v".repeat(VALUE);
    format!(
        r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}"}},"data":{{"index":"{index}","value":"{value}"}}}}"#
    )
}

/// One phase of the load.
struct Writes {
    name: &'static str,
    total: usize,
    method: &'static str,
    object: Object,
}

#[derive(Clone, Copy)]
enum Object {
    /// One of those that stay.
    Live,
    /// One of those that are deleted.
    Other,
}

async fn write(
    options: &ReleaseOptions,
    report: &mut Report,
    server: &ServerProcess,
    writes: Writes,
) -> anyhow::Result<()> {
    let Writes { name, total, method, object } = writes;
    let target: Arc<Target> = Arc::clone(&server.target);
    let (host, live) = (target.host.clone(), options.live);
    let request: WriteRequest = Box::new(move |index, out| {
        let name = match object {
            Object::Live => format!("live-{}", index % live),
            Object::Other => format!("other-{index}"),
        };
        let body = if method == "DELETE" { "{}".into() } else { config_map(&name, index) };
        let name = if method == "POST" { String::new() } else { format!("/{name}") };
        let path = format_args!("{CONFIG_MAPS}{name}");
        write_request(out, &host, method, path, Some((JSON, body.as_bytes())));
    });
    let job = Job { connections: options.connections, total, request, observe: None };
    let outcome = load::run(&target, job).await?;
    let phase = report.phase(name);
    phase.set_first_error(outcome.first_error.clone());
    phase.set("writes", total as f64).set("per_s", outcome.per_second());
    Ok(())
}

async fn start(options: &ReleaseOptions, dir: &Path) -> anyhow::Result<ServerProcess> {
    let binary = match &options.server_binary {
        Some(binary) => binary.clone(),
        None => env::current_exe().context("cannot find this program")?,
    };
    let (kubeconfig, data_dir) = (dir.join("kubeconfig"), dir.join("data"));
    let mut arguments: Vec<OsString> = vec!["server".into(), "--data-dir".into(), data_dir.into()];
    arguments.extend(["--bind-address", "127.0.0.1", "--secure-port", "0"].map(OsString::from));
    arguments.extend(["--disable", WITHOUT, "--write-kubeconfig"].map(OsString::from));
    arguments.push(kubeconfig.clone().into());
    ServerProcess::start(&binary, &arguments, &kubeconfig, "/readyz", &dir.join("server.log")).await
}
