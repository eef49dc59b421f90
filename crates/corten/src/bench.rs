//! `corten bench`: measure, print a table or JSON.

mod dns;

use std::path::PathBuf;

use anyhow::Context;
use clap::Subcommand;
use corten_bench::{
    ApiserverOptions, ClusterOptions, ControllersOptions, NodeOptions, ProxyOptions, Report, SchedulerOptions,
};

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Start a fresh API server and put it under load.
    Apiserver(ApiserverArgs),
    /// Start a fresh cluster, and ask a Deployment by its Service's name as soon as it answers.
    Cluster(ClusterArgs),
    /// Start a fresh cluster of simulated nodes and have its controllers fill it.
    Controllers(ControllersArgs),
    /// Start a fresh cluster and have its node run pods.
    Node(NodeArgs),
    /// Start a fresh API server and scheduler and have pods scheduled.
    Scheduler(SchedulerArgs),
    /// Ask a server of names that has a large cluster in memory.
    Dns(dns::Args),
    /// Write rules for many Services, and connect through one.
    Proxy(ProxyArgs),
    /// The bare TLS server that shows what this machine can do at most.
    #[command(hide = true)]
    RawServer { dir: PathBuf },
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
    /// The server to measure [default: this program].
    #[arg(long)]
    server_binary: Option<PathBuf>,
    /// A directory on the disk to measure.
    #[arg(long)]
    work_dir: Option<PathBuf>,
}

#[derive(clap::Args)]
struct ClusterArgs {
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
    /// How many replicas have to answer.
    #[arg(long)]
    replicas: Option<usize>,
    /// A directory on the disk to measure.
    #[arg(long)]
    work_dir: Option<PathBuf>,
}

#[derive(clap::Args)]
struct ControllersArgs {
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
    /// How many Deployments to create.
    #[arg(long)]
    deployments: Option<usize>,
    /// How many replicas each has.
    #[arg(long)]
    replicas: Option<usize>,
    /// How many nodes to simulate.
    #[arg(long)]
    nodes: Option<usize>,
    /// How many seconds to observe the idle cluster.
    #[arg(long)]
    idle_seconds: Option<u32>,
    /// A directory on the disk to measure.
    #[arg(long)]
    work_dir: Option<PathBuf>,
}

#[derive(clap::Args)]
struct NodeArgs {
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
    /// How many pods come and go one after the other.
    #[arg(long)]
    singles: Option<usize>,
    /// How many pods come at once.
    #[arg(long)]
    pods: Option<usize>,
    /// Leave containerd out although it is installed.
    #[arg(long)]
    without_containerd: bool,
    /// A directory on the disk to measure.
    #[arg(long)]
    work_dir: Option<PathBuf>,
}

#[derive(clap::Args)]
struct SchedulerArgs {
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
    /// Which of upstream's workloads to run [default: SchedulingBasic].
    #[arg(long)]
    workload: Option<String>,
    /// How many nodes there are [default: as many as upstream has].
    #[arg(long)]
    nodes: Option<usize>,
    /// How many pods to schedule [default: as many as upstream does].
    #[arg(long)]
    pods: Option<usize>,
    /// Create all pods before the scheduler is started, instead of while it works.
    #[arg(long)]
    backlog: bool,
    /// A directory on the disk to measure.
    #[arg(long)]
    work_dir: Option<PathBuf>,
}

#[derive(clap::Args)]
struct ProxyArgs {
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
    /// Measure one back end [default: nftables and iptables].
    #[arg(long, value_parser = ["nftables", "iptables"])]
    backend: Option<String>,
    /// How many Services there are [default: 10000].
    #[arg(long)]
    services: Option<usize>,
    /// How many endpoints each has [default: 10].
    #[arg(long)]
    endpoints: Option<usize>,
}

pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().context("starting the runtime")?;
    runtime.block_on(async {
        match args.what {
            What::RawServer { dir } => corten_bench::raw_server(&dir).await,
            What::Apiserver(args) => apiserver(args).await,
            What::Cluster(args) => cluster(args),
            What::Controllers(args) => controllers(args).await,
            What::Node(args) => node(args).await,
            What::Scheduler(args) => scheduler(args).await,
            What::Dns(args) => print(&dns::run(&args)?, args.json),
            What::Proxy(args) => proxy(&args),
        }
    })
}

async fn apiserver(args: ApiserverArgs) -> anyhow::Result<()> {
    let mut options = ApiserverOptions { server_binary: args.server_binary, ..ApiserverOptions::default() };
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
