//! `corten bench node`: real containers on this machine. Measures the time from a pod's creation until it runs and from its
//! deletion until it is gone, one by one and many at once, and the memory per pod.
//!
//! The pods are ordinary ones: in the pod network, with a service account token. Nothing is left behind, even after a
//! failure. If containerd is installed, it is measured in the same run.

mod containerd;
mod watched;

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use corten_api::{Value, value};
use corten_client::{Client, Remote, kinds};
use corten_container::image::{Store, busybox_archive};

use crate::load::{microseconds, percentile};
use crate::process::{self, ServerProcess};
use crate::report::Report;
use crate::usage;
use containerd::Containerd;
use watched::Watched;

const NAMESPACE: &str = "bench";
const IMAGE: &str = "corten.local/bench:1";
/// The container's script: exits at once on SIGTERM.
const SCRIPT: &str = "trap 'exit 0' TERM; while true; do sleep 1000000 & wait; done";
/// The time for memory to settle before it is measured.
const SETTLE: Duration = Duration::from_secs(2);

/// The size of the benchmark.
#[derive(Clone, Debug)]
pub struct NodeOptions {
    /// The number of pods that are created and deleted one after the other.
    pub singles: usize,
    /// The number of pods that are created at once.
    pub pods: usize,
    /// Measure containerd, too, if it is installed.
    pub containerd: bool,
    /// The parent of the temporary data directory.
    pub work_dir: PathBuf,
}

impl Default for NodeOptions {
    fn default() -> Self {
        NodeOptions { singles: 20, pods: 100, containerd: true, work_dir: env::temp_dir() }
    }
}

/// Runs the benchmark on a server and node of its own, which it stops.
pub async fn node(options: NodeOptions) -> anyhow::Result<Report> {
    ensure!(options.singles > 0 && options.pods > 0, "there must be at least one pod");
    let dir = tempfile::Builder::new()
        .prefix("corten-bench-")
        .tempdir_in(&options.work_dir)
        .with_context(|| format!("cannot create a directory in {}", options.work_dir.display()))?;
    let mut report = Report::default();
    let data_dir = dir.path().join("data");
    import(&data_dir)?;
    let here = Subject { phases: NATIVE, data_dir: &data_dir, names: &data_dir, endpoint: None };
    run(&options, &here, &dir.path().join("log"), &mut report).await?;
    if options.containerd && containerd::is_installed() {
        let containerd = Containerd::start(&dir.path().join("containerd"))?;
        let data_dir = dir.path().join("beside");
        let (names, endpoint) = (containerd.folder(), Some(containerd.endpoint()));
        let there = Subject { phases: CONTAINERD, data_dir: &data_dir, names, endpoint };
        let outcome = run(&options, &there, &dir.path().join("log-beside"), &mut report).await;
        outcome.with_context(|| process::tail(&containerd.log()))?;
    }
    Ok(report)
}

/// The names of a runtime's phases in the report.
#[derive(Clone, Copy)]
struct Phases {
    one: &'static str,
    many: &'static str,
    memory: &'static str,
}

const NATIVE: Phases = Phases { one: "one_pod", many: "many_pods", memory: "memory" };
const CONTAINERD: Phases =
    Phases { one: "containerd_one_pod", many: "containerd_many_pods", memory: "containerd_memory" };

/// The runtime under test.
struct Subject<'a> {
    phases: Phases,
    data_dir: &'a Path,
    /// A path in the arguments of the processes that supervise pods.
    names: &'a Path,
    /// The endpoint of the runtime, if it is not the built-in one.
    endpoint: Option<String>,
}

async fn run(
    options: &NodeOptions,
    subject: &Subject<'_>,
    log: &Path,
    report: &mut Report,
) -> anyhow::Result<()> {
    let server = start(subject, log).await?;
    let outcome = measure(options, subject, server.pid, report).await;
    outcome.with_context(|| process::tail(log))?;
    server.stop().await.map(drop)
}

/// Imports the image into the node's store.
fn import(data_dir: &Path) -> anyhow::Result<()> {
    let archive = busybox_archive(&[IMAGE], &["sh", "-c", SCRIPT]).context("cannot create an image")?;
    let store = Store::open(corten_container::folder(data_dir)).context("cannot open the images")?;
    store.import(archive.as_slice()).context("cannot import the image")?;
    Ok(())
}

async fn start(subject: &Subject<'_>, log: &Path) -> anyhow::Result<ServerProcess> {
    let this_program = env::current_exe().context("cannot find this program")?;
    let mut arguments: Vec<OsString> = vec!["server".into(), "--data-dir".into(), subject.data_dir.into()];
    arguments
        .extend(["--bind-address", "127.0.0.1", "--secure-port", "0", "--kubelet-port", "0"].map(Into::into));
    arguments.extend(process::ON_FULL_DISKS.map(Into::into));
    if let Some(endpoint) = &subject.endpoint {
        arguments.extend(["--container-runtime-endpoint", endpoint].map(Into::into));
    }
    let kubeconfig = subject.data_dir.join("admin.kubeconfig");
    ServerProcess::start(&this_program, &arguments, &kubeconfig, "/readyz", log).await
}

async fn measure(
    options: &NodeOptions,
    subject: &Subject<'_>,
    pid: u32,
    report: &mut Report,
) -> anyhow::Result<()> {
    let kubeconfig = subject.data_dir.join("admin.kubeconfig");
    let text = std::fs::read_to_string(kubeconfig).context("cannot read the kubeconfig")?;
    let remote = Remote::new(&corten_pki::parse_kubeconfig(&text)?)?;
    let client = Client::new(Arc::new(remote), "corten-bench");
    let mut watched = Watched::new(client.clone(), NAMESPACE);
    watched.node_ready().await?;
    prepare(&client).await?;
    let outcome = async {
        one_by_one(options, subject.phases, &mut watched, report).await?;
        concurrently(options, subject, &mut watched, pid, report).await
    };
    let outcome = outcome.await;
    if outcome.is_err() {
        // The first error is returned.
        let _ = watched.clear().await;
    }
    outcome
}

/// Creates the namespace of the pods.
async fn prepare(client: &Client) -> anyhow::Result<()> {
    client.create(&kinds::NAMESPACES, &kinds::NAMESPACES.new_object("", NAMESPACE)).await?;
    let account = kinds::SERVICE_ACCOUNTS.new_object(NAMESPACE, "default");
    match client.create(&kinds::SERVICE_ACCOUNTS, &account).await {
        // A controller may have created it already.
        Err(error) if !error.already_exists() => Err(error.into()),
        _ => Ok(()),
    }
}

/// One pod after the other.
async fn one_by_one(
    options: &NodeOptions,
    phases: Phases,
    watched: &mut Watched,
    report: &mut Report,
) -> anyhow::Result<()> {
    let (mut starts, mut removals) = (Vec::new(), Vec::new());
    for index in 0..options.singles {
        let pods = [pod(&format!("single-{index}"))];
        let started = Instant::now();
        starts.extend(since(started, &watched.create(&pods).await?));
        let started = Instant::now();
        removals.extend(since(started, &watched.delete(&pods).await?));
    }
    starts.sort_unstable();
    removals.sort_unstable();
    report.phase(phases.one).set("count", options.singles as f64);
    quantiles(report, phases.one, ["start_p50_ms", "start_p99_ms"], &starts);
    quantiles(report, phases.one, ["removal_p50_ms", "removal_p99_ms"], &removals);
    Ok(())
}

/// Measures many pods at once, and their memory.
async fn concurrently(
    options: &NodeOptions,
    subject: &Subject<'_>,
    watched: &mut Watched,
    pid: u32,
    report: &mut Report,
) -> anyhow::Result<()> {
    let Phases { many, memory, .. } = subject.phases;
    let pods: Vec<Value> = (0..options.pods).map(|index| pod(&format!("many-{index}"))).collect();
    tokio::time::sleep(SETTLE).await;
    report.phase(memory).set("agent_no_pods_mb", usage::resident_mb(pid)?);
    let cpu = usage::cpu_seconds(pid)?;
    let started = Instant::now();
    let ran = since(started, &watched.create(&pods).await?);
    report.phase(many).set("count", options.pods as f64);
    report.phase(many).set("start_all_s", percentile(&ran, 1.0) / 1e6);
    report.phase(many).set("cpu_s", usage::cpu_seconds(pid)? - cpu);
    quantiles(report, many, ["start_p50_ms", "start_p99_ms"], &ran);
    tokio::time::sleep(SETTLE).await;
    let mut supervisors = usage::named(subject.names)?;
    supervisors.retain(|found| *found != pid && !containerd::is_one(*found));
    let each = supervisors.into_iter().map(usage::resident_mb).collect::<anyhow::Result<Vec<f64>>>()?;
    report.phase(memory).set("agent_all_pods_mb", usage::resident_mb(pid)?);
    report.phase(memory).set("supervisors", each.len() as f64);
    report.phase(memory).set("supervisor_mean_mb", each.iter().sum::<f64>() / each.len().max(1) as f64);
    report.phase(memory).set("supervisor_most_mb", each.iter().copied().fold(0.0, f64::max));
    let started = Instant::now();
    let gone = since(started, &watched.delete(&pods).await?);
    report.phase(many).set("removal_all_s", percentile(&gone, 1.0) / 1e6);
    Ok(())
}

/// The microseconds from the start to each time, ascending.
fn since(started: Instant, times: &[Instant]) -> Vec<u32> {
    let mut times: Vec<u32> = times.iter().map(|time| microseconds(*time - started)).collect();
    times.sort_unstable();
    times
}

fn quantiles(report: &mut Report, phase: &'static str, names: [&'static str; 2], sorted: &[u32]) {
    for (name, quantile) in names.into_iter().zip([0.5, 0.99]) {
        report.phase(phase).set(name, percentile(sorted, quantile) / 1e3);
    }
}

fn pod(name: &str) -> Value {
    let mut pod = kinds::PODS.new_object(NAMESPACE, name);
    let container = value!({"name": "main", "image": (IMAGE), "imagePullPolicy": "Never"});
    pod.set(&["spec"], value!({"containers": [(container)]}));
    pod
}
