//! `corten bench`: runs benchmarks and prints a table or JSON.

mod dns;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::Subcommand;
use corten_bench::{
    AdmissionOptions, ApiserverOptions, ClusterOptions, ControllersOptions, CrdOptions, KillsOptions,
    NodeOptions, ProxyOptions, ReleaseOptions, Report, SchedulerOptions, Upstream,
};

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Measure what admission policies add to a create.
    Admission(AdmissionArgs),
    /// Measure a new API server under load.
    Apiserver(ApiserverArgs),
    /// Measure the time from the start of a new cluster until a Deployment answers by its Service's DNS name.
    Cluster(ClusterArgs),
    /// Measure the controllers of a new cluster with simulated nodes.
    Controllers(ControllersArgs),
    /// Measure a new API server with many custom resource definitions, and upstream's with the same requests.
    Crd(CrdArgs),
    /// Kill a server while it writes, again and again, and check that no acknowledged write is lost.
    Kills(KillsArgs),
    /// Measure the node of a new cluster while it runs pods.
    Node(NodeArgs),
    /// Measure the memory and disk that a server releases after load.
    Release(ReleaseArgs),
    /// Measure the scheduler with a new API server.
    Scheduler(SchedulerArgs),
    /// Measure the DNS server with a large cluster in memory.
    Dns(dns::Args),
    /// Measure the service proxy: rules for many Services, and connections through one.
    Proxy(ProxyArgs),
    /// Run the bare TLS server that shows the upper bound of this machine.
    #[command(hide = true)]
    RawServer { dir: PathBuf },
}

#[derive(clap::Args)]
struct AdmissionArgs {
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
    /// Number of policies that match no request [default: 1000].
    #[arg(long)]
    unmatched: Option<usize>,
    /// Number of policies that match every request [default: 100].
    #[arg(long)]
    matched: Option<usize>,
    /// Number of creates per round [default: 20000].
    #[arg(long)]
    creates: Option<usize>,
    #[arg(long)]
    connections: Option<usize>,
    /// Server binary to measure [default: this program].
    #[arg(long)]
    server_binary: Option<PathBuf>,
    /// Directory on the disk to measure.
    #[arg(long)]
    work_dir: Option<PathBuf>,
}

#[derive(clap::Args)]
struct ApiserverArgs {
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
    #[arg(long)]
    pods: Option<usize>,
    #[arg(long)]
    connections: Option<usize>,
    #[arg(long)]
    watchers: Option<usize>,
    /// Server binary to measure [default: this program].
    #[arg(long)]
    server_binary: Option<PathBuf>,
    /// etcd binary to use as the datastore, instead of the embedded store.
    #[arg(long)]
    etcd: Option<PathBuf>,
    /// Upstream's kube-apiserver to measure, too, with an etcd of its own.
    #[arg(long, requires = "etcd")]
    kube_apiserver: Option<PathBuf>,
    /// Directory on the disk to measure.
    #[arg(long)]
    work_dir: Option<PathBuf>,
}

#[derive(clap::Args)]
struct ClusterArgs {
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
    /// Number of replicas to wait for.
    #[arg(long)]
    replicas: Option<usize>,
    /// Directory on the disk to measure.
    #[arg(long)]
    work_dir: Option<PathBuf>,
}

#[derive(clap::Args)]
struct ControllersArgs {
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
    /// Number of Deployments.
    #[arg(long)]
    deployments: Option<usize>,
    /// Replicas per Deployment.
    #[arg(long)]
    replicas: Option<usize>,
    /// Number of simulated nodes.
    #[arg(long)]
    nodes: Option<usize>,
    /// Seconds to observe the idle cluster.
    #[arg(long)]
    idle_seconds: Option<u32>,
    /// Directory on the disk to measure.
    #[arg(long)]
    work_dir: Option<PathBuf>,
}

#[derive(clap::Args)]
struct CrdArgs {
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
    /// Number of definitions [default: 2000].
    #[arg(long)]
    definitions: Option<usize>,
    /// Number of objects to create of one definition [default: 20000].
    #[arg(long)]
    objects: Option<usize>,
    #[arg(long)]
    connections: Option<usize>,
    #[arg(long)]
    watchers: Option<usize>,
    /// Seconds without requests before memory is measured again; unused types are dropped within 600 [default: 0].
    #[arg(long)]
    idle_seconds: Option<u32>,
    /// Server binary to measure [default: this program].
    #[arg(long)]
    server_binary: Option<PathBuf>,
    /// kubectl with which to list all resources.
    #[arg(long)]
    kubectl: Option<PathBuf>,
    /// Upstream's kube-apiserver to measure, too.
    #[arg(long, requires = "etcd")]
    kube_apiserver: Option<PathBuf>,
    /// etcd of upstream's kube-apiserver.
    #[arg(long, requires = "kube_apiserver")]
    etcd: Option<PathBuf>,
    /// Number of definitions on upstream's kube-apiserver [default: 100].
    #[arg(long)]
    upstream_definitions: Option<usize>,
    /// Directory on the disk to measure.
    #[arg(long)]
    work_dir: Option<PathBuf>,
}

#[derive(clap::Args)]
struct NodeArgs {
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
    /// Number of pods that are created and deleted one after the other.
    #[arg(long)]
    singles: Option<usize>,
    /// Number of pods that are created at once.
    #[arg(long)]
    pods: Option<usize>,
    /// Skip containerd although it is installed.
    #[arg(long)]
    without_containerd: bool,
    /// Directory on the disk to measure.
    #[arg(long)]
    work_dir: Option<PathBuf>,
}

#[derive(clap::Args)]
struct SchedulerArgs {
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
    /// Workload of upstream's scheduler_perf [default: SchedulingBasic].
    #[arg(long)]
    workload: Option<String>,
    /// Number of nodes [default: upstream's].
    #[arg(long)]
    nodes: Option<usize>,
    /// Number of pods to schedule [default: upstream's].
    #[arg(long)]
    pods: Option<usize>,
    /// Create all pods before the scheduler starts, instead of while it runs.
    #[arg(long)]
    backlog: bool,
    /// Directory on the disk to measure.
    #[arg(long)]
    work_dir: Option<PathBuf>,
}

#[derive(clap::Args)]
struct ProxyArgs {
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
    /// Proxy mode to measure [default: nftables and iptables].
    #[arg(long, value_parser = ["nftables", "iptables"])]
    backend: Option<String>,
    /// Number of Services [default: 10000].
    #[arg(long)]
    services: Option<usize>,
    /// Endpoints per Service [default: 10].
    #[arg(long)]
    endpoints: Option<usize>,
}

#[derive(clap::Args)]
struct KillsArgs {
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
    /// Number of kills [default: 10000].
    #[arg(long)]
    kills: Option<usize>,
    #[arg(long)]
    connections: Option<usize>,
    /// Seed of the random numbers [default: the time].
    #[arg(long)]
    seed: Option<u64>,
    /// Server binary to kill [default: this program].
    #[arg(long)]
    server_binary: Option<PathBuf>,
    /// Directory for the data of the server.
    #[arg(long)]
    work_dir: Option<PathBuf>,
}

#[derive(clap::Args)]
struct ReleaseArgs {
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
    /// Number of objects that stay [default: 270].
    #[arg(long)]
    live: Option<usize>,
    /// Number of writes [default: 880000].
    #[arg(long)]
    writes: Option<usize>,
    #[arg(long)]
    connections: Option<usize>,
    /// Seconds without requests after the load [default: 345].
    #[arg(long)]
    quiet_seconds: Option<u32>,
    /// Server binary to measure [default: this program].
    #[arg(long)]
    server_binary: Option<PathBuf>,
    /// Directory on the disk to measure.
    #[arg(long)]
    work_dir: Option<PathBuf>,
}

pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start the async runtime")?;
    runtime.block_on(async {
        match args.what {
            What::RawServer { dir } => corten_bench::raw_server(&dir).await,
            What::Admission(args) => admission(args).await,
            What::Apiserver(args) => apiserver(args).await,
            What::Cluster(args) => cluster(args),
            What::Controllers(args) => controllers(args).await,
            What::Crd(args) => crd(args).await,
            What::Kills(args) => kills(args).await,
            What::Node(args) => node(args).await,
            What::Release(args) => release(args).await,
            What::Scheduler(args) => scheduler(args).await,
            What::Dns(args) => print(&dns::run(&args)?, args.json),
            What::Proxy(args) => proxy(&args),
        }
    })
}

async fn admission(args: AdmissionArgs) -> anyhow::Result<()> {
    let mut options = AdmissionOptions { server_binary: args.server_binary, ..AdmissionOptions::default() };
    options.unmatched = args.unmatched.unwrap_or(options.unmatched);
    options.matched = args.matched.unwrap_or(options.matched);
    options.creates = args.creates.unwrap_or(options.creates);
    options.connections = args.connections.unwrap_or(options.connections);
    options.work_dir = args.work_dir.unwrap_or(options.work_dir);
    let report = corten_bench::admission(options).await?;
    print(&report, args.json)
}

async fn kills(args: KillsArgs) -> anyhow::Result<()> {
    let mut options = KillsOptions { server_binary: args.server_binary, ..KillsOptions::default() };
    options.kills = args.kills.unwrap_or(options.kills);
    options.connections = args.connections.unwrap_or(options.connections);
    options.seed = args.seed.unwrap_or(options.seed);
    options.work_dir = args.work_dir.unwrap_or(options.work_dir);
    let report = corten_bench::kills(options).await?;
    print(&report, args.json)
}

async fn release(args: ReleaseArgs) -> anyhow::Result<()> {
    let mut options = ReleaseOptions { server_binary: args.server_binary, ..ReleaseOptions::default() };
    options.live = args.live.unwrap_or(options.live);
    options.writes = args.writes.unwrap_or(options.writes);
    options.connections = args.connections.unwrap_or(options.connections);
    options.quiet = args.quiet_seconds.map_or(options.quiet, |seconds| Duration::from_secs(seconds.into()));
    options.work_dir = args.work_dir.unwrap_or(options.work_dir);
    let report = corten_bench::release(options).await?;
    print(&report, args.json)
}

async fn apiserver(args: ApiserverArgs) -> anyhow::Result<()> {
    let mut options = ApiserverOptions {
        server_binary: args.server_binary,
        etcd: args.etcd,
        kube_apiserver: args.kube_apiserver,
        ..ApiserverOptions::default()
    };
    options.pods = args.pods.unwrap_or(options.pods);
    options.connections = args.connections.unwrap_or(options.connections);
    options.watchers = args.watchers.unwrap_or(options.watchers);
    options.work_dir = args.work_dir.unwrap_or(options.work_dir);
    let report = corten_bench::apiserver(options).await?;
    print(&report, args.json)
}

fn cluster(args: ClusterArgs) -> anyhow::Result<()> {
    let mut options = ClusterOptions::default();
    options.replicas = args.replicas.unwrap_or(options.replicas);
    options.work_dir = args.work_dir.unwrap_or(options.work_dir);
    print(&corten_bench::cluster(&options)?, args.json)
}

async fn controllers(args: ControllersArgs) -> anyhow::Result<()> {
    let mut options = ControllersOptions::default();
    options.deployments = args.deployments.unwrap_or(options.deployments);
    options.replicas = args.replicas.unwrap_or(options.replicas);
    options.nodes = args.nodes.unwrap_or(options.nodes);
    options.idle_seconds = args.idle_seconds.unwrap_or(options.idle_seconds);
    options.work_dir = args.work_dir.unwrap_or(options.work_dir);
    let report = corten_bench::controllers(options).await?;
    print(&report, args.json)
}

async fn crd(args: CrdArgs) -> anyhow::Result<()> {
    let mut options = CrdOptions { server_binary: args.server_binary, ..CrdOptions::default() };
    options.definitions = args.definitions.unwrap_or(options.definitions);
    options.objects = args.objects.unwrap_or(options.objects);
    options.connections = args.connections.unwrap_or(options.connections);
    options.watchers = args.watchers.unwrap_or(options.watchers);
    options.idle_seconds = args.idle_seconds.unwrap_or(options.idle_seconds);
    options.kubectl = args.kubectl;
    options.upstream =
        args.kube_apiserver.zip(args.etcd).map(|(kube_apiserver, etcd)| Upstream { kube_apiserver, etcd });
    options.upstream_definitions = args.upstream_definitions.unwrap_or(options.upstream_definitions);
    options.work_dir = args.work_dir.unwrap_or(options.work_dir);
    let report = corten_bench::crd(options).await?;
    print(&report, args.json)
}

async fn node(args: NodeArgs) -> anyhow::Result<()> {
    let mut options = NodeOptions::default();
    options.singles = args.singles.unwrap_or(options.singles);
    options.pods = args.pods.unwrap_or(options.pods);
    options.containerd = !args.without_containerd;
    options.work_dir = args.work_dir.unwrap_or(options.work_dir);
    let report = corten_bench::node(options).await?;
    print(&report, args.json)
}

async fn scheduler(args: SchedulerArgs) -> anyhow::Result<()> {
    let SchedulerArgs { nodes, pods, backlog, .. } = args;
    let mut options = SchedulerOptions { nodes, pods, backlog, ..SchedulerOptions::default() };
    options.workload = args.workload.unwrap_or(options.workload);
    options.work_dir = args.work_dir.unwrap_or(options.work_dir);
    let report = corten_bench::scheduler(options).await?;
    print(&report, args.json)
}

fn proxy(args: &ProxyArgs) -> anyhow::Result<()> {
    let mut options = ProxyOptions::default();
    options.services = args.services.unwrap_or(options.services);
    options.endpoints = args.endpoints.unwrap_or(options.endpoints);
    options.backends.retain(|backend| args.backend.as_ref().is_none_or(|only| only == backend));
    let report = corten_bench::proxy(&options, &crate::proxy::rules)?;
    print(&report, args.json)
}

fn print(report: &Report, json: bool) -> anyhow::Result<()> {
    println!("{}", if json { report.json() } else { report.table() });
    anyhow::ensure!(!report.has_errors(), "some requests failed");
    Ok(())
}
