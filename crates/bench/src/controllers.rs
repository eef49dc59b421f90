//! `corten bench controllers`: Deployments on simulated nodes, from their creation until all pods are available; then the
//! memory of the same objects with and without the controllers.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use corten_api::{Value, meta, value};
use corten_client::{Client, Remote, kinds};

use crate::process::{self, ServerProcess};
use crate::report::Report;
use crate::usage;

const NAMESPACE: &str = "bench";
const ASK_EVERY: Duration = Duration::from_millis(100);
const LIMIT: Duration = Duration::from_secs(600);
/// The time for a restarted server to fill its caches before its memory is measured.
const SETTLE: Duration = Duration::from_secs(10);

/// The size of the benchmark.
#[derive(Clone, Debug)]
pub struct ControllersOptions {
    pub deployments: usize,
    pub replicas: usize,
    pub nodes: usize,
    /// The time that the idle cluster is observed at the end.
    pub idle_seconds: u32,
    /// The parent of the temporary data directory.
    pub work_dir: PathBuf,
}

impl Default for ControllersOptions {
    fn default() -> Self {
        ControllersOptions {
            deployments: 100,
            replicas: 50,
            nodes: 100,
            idle_seconds: 60,
            work_dir: env::temp_dir(),
        }
    }
}

/// Runs the benchmark on a server of its own, which it stops.
pub async fn controllers(options: ControllersOptions) -> anyhow::Result<Report> {
    ensure!(
        options.deployments > 0 && options.replicas > 0 && options.nodes > 0,
        "there must be something to do"
    );
    let dir = tempfile::Builder::new()
        .prefix("corten-bench-")
        .tempdir_in(&options.work_dir)
        .with_context(|| format!("cannot create a directory in {}", options.work_dir.display()))?;
    let mut report = Report::default();
    let server = start(&options, dir.path(), &[]).await?;
    let outcome = measure(&options, dir.path(), server.pid, &mut report).await;
    outcome.with_context(|| process::tail(&dir.path().join("log")))?;
    server.stop().await?;
    for (what, disabled) in RESTARTS {
        let megabytes = memory_of_restarted(&options, dir.path(), disabled).await?;
        report.phase("restarted").set(what, megabytes);
    }
    Ok(report)
}

const NODES: &str = "nodes";

/// The parts that are turned off when the server is restarted with the stored objects.
const RESTARTS: [(&str, &[&str]); 3] = [
    ("everything_mb", &[]),
    ("no_controllers_mb", &["controller-manager"]),
    ("api_server_alone_mb", &["controller-manager", "scheduler", NODES]),
];

/// The memory of a server that was restarted with the stored objects, once it has read them.
async fn memory_of_restarted(
    options: &ControllersOptions,
    dir: &Path,
    disabled: &[&str],
) -> anyhow::Result<f64> {
    let server = start(options, dir, disabled).await?;
    tokio::time::sleep(SETTLE).await;
    let megabytes = usage::resident_mb(server.pid)?;
    server.stop().await?;
    Ok(megabytes)
}

/// Starts a server without the disabled parts; `nodes` stands for the simulated nodes.
async fn start(options: &ControllersOptions, dir: &Path, disabled: &[&str]) -> anyhow::Result<ServerProcess> {
    let this_program = env::current_exe().context("cannot find this program")?;
    let data_dir = dir.join("data");
    let mut arguments: Vec<OsString> = vec!["server".into(), "--data-dir".into(), data_dir.clone().into()];
    arguments
        .extend(["--bind-address", "127.0.0.1", "--secure-port", "0", "--disable", "agent"].map(Into::into));
    for part in disabled.iter().filter(|part| **part != NODES) {
        arguments.extend(["--disable", part].map(Into::into));
    }
    if !disabled.contains(&NODES) {
        arguments.extend(["--simulated-nodes".into(), options.nodes.to_string().into()]);
    }
    let kubeconfig = data_dir.join("admin.kubeconfig");
    ServerProcess::start(&this_program, &arguments, &kubeconfig, "/readyz", &dir.join("log")).await
}

async fn measure(
    options: &ControllersOptions,
    dir: &Path,
    pid: u32,
    report: &mut Report,
) -> anyhow::Result<()> {
    let text =
        std::fs::read_to_string(dir.join("data/admin.kubeconfig")).context("cannot read the kubeconfig")?;
    let remote = Remote::new(&corten_pki::parse_kubeconfig(&text)?)?;
    let client = Client::new(Arc::new(remote), "corten-bench");
    prepare(&client, options).await?;
    let pods = (options.deployments * options.replicas) as f64;
    let (cpu, before) = (usage::cpu_seconds(pid)?, usage::resident_mb(pid)?);
    let started = Instant::now();
    for index in 0..options.deployments {
        client.create(&kinds::DEPLOYMENTS, &deployment(index, options.replicas)).await?;
    }
    available(&client, options, started).await?;
    let took = started.elapsed().as_secs_f64();
    report.phase("available").set("pods", pods).set("nodes", options.nodes as f64).set("took_s", took);
    report.phase("available").set("per_s", pods / took).set("server_cpu_s", usage::cpu_seconds(pid)? - cpu);
    report.phase("memory").set("before_mb", before).set("after_mb", usage::resident_mb(pid)?);
    let idle = usage::fine_cpu_seconds(pid)?;
    tokio::time::sleep(Duration::from_secs(options.idle_seconds.into())).await;
    let used = usage::fine_cpu_seconds(pid)? - idle;
    report.phase("idle").set("observed_s", f64::from(options.idle_seconds)).set("server_cpu_s", used);
    report.phase("memory").set("idle_mb", usage::resident_mb(pid)?);
    Ok(())
}

/// Waits for the nodes, and creates the namespace of the pods.
async fn prepare(client: &Client, options: &ControllersOptions) -> anyhow::Result<()> {
    client.create(&kinds::NAMESPACES, &kinds::NAMESPACES.new_object("", NAMESPACE)).await?;
    let account = kinds::SERVICE_ACCOUNTS.new_object(NAMESPACE, "default");
    // A controller may have created it already.
    match client.create(&kinds::SERVICE_ACCOUNTS, &account).await {
        Err(error) if !error.already_exists() => return Err(error.into()),
        _ => {}
    }
    let started = Instant::now();
    while client.list(&kinds::NODES, "").await?.items_at(&["items"]).len() < options.nodes {
        ensure!(started.elapsed() < LIMIT, "the nodes were not registered in time");
        tokio::time::sleep(ASK_EVERY).await;
    }
    Ok(())
}

fn deployment(index: usize, replicas: usize) -> Value {
    let mut deployment = kinds::DEPLOYMENTS.new_object(NAMESPACE, &format!("app-{index}"));
    let app = meta::name(&deployment).to_owned();
    let container = value!({"name": "app", "image": "registry.k8s.io/pause:3.10"});
    deployment.set(
        &["spec"],
        value!({
            "replicas": (replicas as i64), "selector": {"matchLabels": {"app": (app.clone())}},
            "template": {"metadata": {"labels": {"app": (app)}}, "spec": {"containers": [(container)]}},
        }),
    );
    deployment
}

/// Waits until every pod is available.
async fn available(client: &Client, options: &ControllersOptions, started: Instant) -> anyhow::Result<()> {
    loop {
        let deployments = client.list(&kinds::DEPLOYMENTS, NAMESPACE).await?;
        let count = |deployment: &Value| deployment.int_at(&["status", "availableReplicas"]).unwrap_or(0);
        let available: i64 = deployments.items_at(&["items"]).iter().map(count).sum();
        if available as usize == options.deployments * options.replicas {
            return Ok(());
        }
        ensure!(started.elapsed() < LIMIT, "only {available} pods became available in time");
        tokio::time::sleep(ASK_EVERY).await;
    }
}
