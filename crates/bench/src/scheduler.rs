//! `corten bench scheduler`: the workloads of upstream's scheduler_perf, end to end. Nodes exist only in the API, as there.
//!
//! As in scheduler_perf, pods are created as fast as the API server allows while they are scheduled, some workloads create
//! other pods meanwhile, and the measurement ends when the last pod is bound. With a backlog, all pods are created before
//! the scheduler runs, and the measurement starts with the restart of the server with a scheduler: scheduling and binding
//! alone.

mod workloads;

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use corten_api::{Value, json, meta, value};

use crate::http::{Connection, Target, write_request};
use crate::load::{self, Job};
use crate::process::{self, ServerProcess};
use crate::report::Report;
use crate::usage;
use workloads::{FIRST_NAMESPACE, SECOND_NAMESPACE, WORKLOADS, Workload};

const CONNECTIONS: usize = 32;
/// The period of the pods that are created meanwhile, as upstream's.
const OTHER_POD_PERIOD: Duration = Duration::from_millis(200);
const POLL_PERIOD: Duration = Duration::from_millis(20);
const LIMIT: Duration = Duration::from_secs(600);
/// Admission plugins that scheduler_perf turns off, too.
const DISABLED_ADMISSION_PLUGINS: &str = "ServiceAccount,TaintNodesByCondition,Priority";

/// The size of the benchmark.
#[derive(Clone, Debug)]
pub struct SchedulerOptions {
    pub workload: String,
    /// The workload's own numbers by default.
    pub nodes: Option<usize>,
    pub pods: Option<usize>,
    /// Create all pods before the scheduler starts.
    pub backlog: bool,
    /// The parent of the temporary data directory.
    pub work_dir: PathBuf,
}

impl Default for SchedulerOptions {
    fn default() -> Self {
        let workload = WORKLOADS[0].name.to_owned();
        SchedulerOptions { workload, nodes: None, pods: None, backlog: false, work_dir: env::temp_dir() }
    }
}

/// The parts beside the API server.
#[derive(Clone, Copy)]
enum Parts {
    Scheduler,
    Nothing,
}

/// Runs one workload on a server of its own, which it stops.
pub async fn scheduler(options: SchedulerOptions) -> anyhow::Result<Report> {
    let names: Vec<&str> = WORKLOADS.iter().map(|workload| workload.name).collect();
    let workload = Workload::named(&options.workload).with_context(|| {
        format!("there is no workload called {}; workloads are {}", options.workload, names.join(", "))
    })?;
    let nodes = options.nodes.unwrap_or(workload.nodes);
    ensure!(nodes > 0, "there must be nodes");
    let dir = tempfile::Builder::new()
        .prefix("corten-bench-")
        .tempdir_in(&options.work_dir)
        .with_context(|| format!("cannot create a directory in {}", options.work_dir.display()))?;
    let mut report = Report::default();
    let outcome = measure(&options, workload, nodes, dir.path(), &mut report).await;
    outcome.with_context(|| process::tail(&dir.path().join("log")))?;
    Ok(report)
}

async fn start(dir: &Path, parts: Parts) -> anyhow::Result<ServerProcess> {
    let this_program = env::current_exe().context("cannot find this program")?;
    let data_dir = dir.join("data");
    let mut arguments: Vec<OsString> = vec!["server".into(), "--data-dir".into(), data_dir.clone().into()];
    arguments.extend(["--bind-address", "127.0.0.1", "--secure-port", "0"].map(Into::into));
    let without = match parts {
        Parts::Scheduler => "agent,controller-manager",
        Parts::Nothing => "agent,controller-manager,scheduler",
    };
    arguments.extend(
        ["--disable", without, "--disable-admission-plugins", DISABLED_ADMISSION_PLUGINS].map(Into::into),
    );
    let kubeconfig = data_dir.join("admin.kubeconfig");
    ServerProcess::start(&this_program, &arguments, &kubeconfig, "/readyz", &dir.join("log")).await
}

async fn measure(
    options: &SchedulerOptions,
    workload: &'static Workload,
    nodes: usize,
    dir: &Path,
    report: &mut Report,
) -> anyhow::Result<()> {
    let pods = options.pods.unwrap_or(workload.pods);
    let mut server = start(dir, Parts::Scheduler).await?;
    prepare(workload, nodes, &server, pods).await?;
    let create_all = async |server: &ServerProcess| {
        create(server, pods, &pods_of(SECOND_NAMESPACE), |i| workload.pod(i)).await
    };
    if options.backlog {
        server.stop().await?;
        server = start(dir, Parts::Nothing).await?;
        create_all(&server).await?;
        server.stop().await?;
        server = start(dir, Parts::Scheduler).await?;
    }
    let (cpu, before) = (usage::cpu_seconds(server.pid)?, usage::resident_mb(server.pid)?);
    let measured = async {
        let mut started = Instant::now();
        let mut creating = Duration::ZERO;
        if !options.backlog {
            creating = create_all(&server).await?;
            // Preparing the requests is not measured.
            started = Instant::now() - creating;
        }
        scheduled(&server, SECOND_NAMESPACE).await?;
        anyhow::Ok((started.elapsed().as_secs_f64(), creating.as_secs_f64()))
    };
    let (took, creating) = tokio::select! {
        times = measured => times?,
        failed = interrupt(&server.target, workload) => return Err(failed),
    };
    let rate = pods as f64 / took;
    let schedule = report.phase("schedule");
    schedule.set("nodes", nodes as f64).set("pods", pods as f64);
    schedule.set("pods_per_s", rate).set("took_s", took).set("creating_s", creating);
    schedule.set("cpu_s", usage::cpu_seconds(server.pid)? - cpu);
    if let Some(floor) = workload.floor {
        schedule.set("times_upstreams_floor", rate / floor);
    }
    schedule.set("before_mb", before).set("rss_mb", usage::resident_mb(server.pid)?);
    server.stop().await?;
    Ok(())
}

/// Creates the nodes, the initial pods, and the objects they need.
async fn prepare(
    workload: &'static Workload,
    nodes: usize,
    server: &ServerProcess,
    pods: usize,
) -> anyhow::Result<()> {
    for namespace in [FIRST_NAMESPACE, SECOND_NAMESPACE] {
        let object = value!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": (namespace)}});
        create(server, 1, "/api/v1/namespaces", move |_| object.clone()).await?;
    }
    create(server, nodes, "/api/v1/nodes", |index| workload.node(index)).await?;
    let before = workload.pods_before(nodes);
    if workload.has_volumes() {
        create(server, nodes, "/apis/storage.k8s.io/v1/csinodes", |index| workload.csi_node(index)).await?;
        volumes(server, FIRST_NAMESPACE, before, |index| workload.pod_before(index)).await?;
        volumes(server, SECOND_NAMESPACE, pods, |index| workload.pod(index)).await?;
    }
    create(server, before, &pods_of(FIRST_NAMESPACE), |index| workload.pod_before(index)).await?;
    scheduled(server, FIRST_NAMESPACE).await
}

/// Creates the workload's other pods during the measurement, one by one, until that fails.
async fn interrupt(target: &Arc<Target>, workload: &'static Workload) -> anyhow::Error {
    let mut ticks = tokio::time::interval(OTHER_POD_PERIOD);
    for index in 0.. {
        ticks.tick().await;
        let Some(pod) = workload.pod_meanwhile(index) else { break };
        if let Err(error) = send(target, vec![creation(target, &pods_of(FIRST_NAMESPACE), &pod)]).await {
            return error.context("cannot create a pod during the measurement");
        }
    }
    std::future::pending().await
}

fn pods_of(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/pods")
}

/// Creates objects concurrently; returns the time without the preparation.
async fn create(
    server: &ServerProcess,
    count: usize,
    path: &str,
    object: impl Fn(usize) -> Value,
) -> anyhow::Result<Duration> {
    let requests = (0..count).map(|index| creation(&server.target, path, &object(index))).collect();
    send(&server.target, requests).await
}

/// The request that creates an object.
fn creation(target: &Target, path: &str, object: &Value) -> Vec<u8> {
    let (mut request, body) = (Vec::new(), json::write_to_string(object));
    let content = Some(("application/json", body.as_bytes()));
    write_request(&mut request, &target.host, "POST", format_args!("{path}"), content);
    request
}

async fn send(target: &Arc<Target>, requests: Vec<Vec<u8>>) -> anyhow::Result<Duration> {
    let total = requests.len();
    let request = Box::new(move |index: usize, out: &mut Vec<u8>| out.extend_from_slice(&requests[index]));
    let job = Job { connections: CONNECTIONS.min(total), total, request, observe: None };
    let outcome = load::run(target, job).await?;
    ensure!(outcome.errors == 0, "{} requests failed: {:?}", outcome.errors, outcome.first_error);
    Ok(Duration::from_secs_f64(outcome.seconds))
}

/// A bound claim and its volume for every pod.
async fn volumes(
    server: &ServerProcess,
    namespace: &'static str,
    count: usize,
    pod: impl Fn(usize) -> Value,
) -> anyhow::Result<()> {
    let volume = |index: usize| {
        let name = meta::name(&pod(index)).to_owned();
        value!({
            "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": (name.clone())},
            "spec": {
                "accessModes": ["ReadOnlyMany"], "capacity": {"storage": "1Gi"},
                "csi": {"driver": "ebs.csi.aws.com", "volumeHandle": (name.clone())},
                "persistentVolumeReclaimPolicy": "Retain",
                "claimRef": {"namespace": (namespace), "name": (name)},
            },
        })
    };
    create(server, count, "/api/v1/persistentvolumes", volume).await?;
    let claim = |index: usize| {
        let name = meta::name(&pod(index)).to_owned();
        let annotations = value!({"pv.kubernetes.io/bind-completed": "true"});
        value!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"name": (name.clone()), "namespace": (namespace), "annotations": (annotations)},
            "spec": {
                "accessModes": ["ReadOnlyMany"], "resources": {"requests": {"storage": "1Gi"}},
                "volumeName": (name), "storageClassName": "",
            },
        })
    };
    create(server, count, &format!("/api/v1/namespaces/{namespace}/persistentvolumeclaims"), claim).await?;
    Ok(())
}

/// Waits until every pod of a namespace has a node.
async fn scheduled(server: &ServerProcess, namespace: &str) -> anyhow::Result<()> {
    let mut request = Vec::new();
    let path = format!("{}?fieldSelector=spec.nodeName%3D&limit=1", pods_of(namespace));
    write_request(&mut request, &server.target.host, "GET", format_args!("{path}"), None);
    let mut connection = Connection::open(&server.target).await.context("cannot connect to the server")?;
    let started = Instant::now();
    loop {
        let (mut answer, asked) = (Vec::new(), Instant::now());
        let status = connection.request(&request, &mut |data| answer.extend_from_slice(data)).await?;
        ensure!(status == 200, "cannot list pods: {status}: {}", load::excerpt(&answer));
        let list = json::parse(&answer).context("cannot parse the list of pods")?;
        let Some(waiting) = list.items_at(&["items"]).first() else { return Ok(()) };
        ensure!(started.elapsed() < LIMIT, "{} has no node after {LIMIT:?}", meta::name(waiting));
        // Listing many pods takes CPU time from the server.
        tokio::time::sleep(POLL_PERIOD.max(asked.elapsed() * 5)).await;
    }
}
