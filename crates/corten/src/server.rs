//! `corten server`: API server, controllers, scheduler and a node, in one process.

mod addons;
mod addresses;
mod authentication;
mod certificates;
mod datastore;
mod encryption;
mod joining;
mod line;
mod memory;
pub(crate) mod node_network;

use std::io::IsTerminal;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, bail};
use corten_apiserver::{
    AdmissionPlugins, AuthorizationModes, EncryptionAtRest, Limits, Options, PortRange, Running,
    RuntimeConfig, ServiceRanges, TolerationSeconds, go_duration,
};
use corten_base::Clock;
use corten_client::Client;
use corten_controllers::{LocalPathOptions, Reserved, SigningOptions};
use corten_net::Cidr;
use corten_pki::{KubeconfigNames, ServerPki, write_kubeconfig};
use corten_store::{Keep, Store, WorkerThreads};
use tokio::net::TcpListener;
use tracing_subscriber::EnvFilter;

use crate::component::ElectionFlags;
use crate::controller_manager::{self, AddressDefaults, Components, ControllerFlags, Elections, Parts};
use crate::etcd_member::{Member, MemberFlags};
use crate::node::{self, AgentFlags, Node, NodeCredentials, NodeOptions, network_policy};
use crate::pod_network::PodNetworkFlags;
use crate::server_join::{JoinFlags, JoinSources, Joins};
use crate::stop_signals::StopSignals;
use crate::{agent, backup, etcd, hardening, kubeconfig};

pub(crate) use addresses::outward_address;
use addresses::{endpoint_address, names_of_this_machine, parse_host};
pub(crate) use certificates::AUTHORITIES_ANNOTATION;
pub(crate) use datastore::DatastoreFlags;
use joining::JoinSettings;
pub(crate) use joining::{BOOTSTRAPPERS, NODE_SETTINGS};
pub(crate) use line::ServerLine;

/// Parts that `--disable` can name.
const PARTS: [&str; 8] = [
    "agent",
    "scheduler",
    "controller-manager",
    "proxy",
    "dns",
    network_policy::PART,
    addons::LOCAL_STORAGE,
    addons::METRICS_SERVER,
];

/// The stack of the runtime's threads. Decoders limit the depth of their input, but the deepest expression that upstream
/// accepts needs more than the default 2 MB. Only the part that is used takes memory.
const WORKER_STACK: usize = 16 << 20;

/// The default ranges of pod IPs: for 256 nodes, and for 8192 if more are simulated.
const CLUSTER_CIDR: &str = "10.244.0.0/16";
const LARGE_CLUSTER_CIDR: &str = "10.224.0.0/11";

// As with upstream's components, the last of repeated flags counts.
#[derive(clap::Args)]
#[command(args_override_self = true)]
pub(crate) struct Args {
    /// Data directory of the server and its node.
    #[arg(long, default_value = "/var/lib/corten")]
    data_dir: PathBuf,
    /// Address to listen on.
    #[arg(long, default_value = "0.0.0.0")]
    bind_address: IpAddr,
    /// Port to listen on; 0 picks a free one.
    #[arg(long, default_value_t = 6443)]
    secure_port: u16,
    /// Address of this server for pods and nodes [default: --bind-address, or the address of the default route].
    #[arg(long)]
    advertise_address: Option<IpAddr>,
    /// Further names and addresses in the API server's serving certificate; may be repeated.
    #[arg(long, value_delimiter = ',', value_name = "HOST", value_parser = parse_host)]
    tls_san: Vec<String>,
    /// IP address of this machine's node, or a dual-stack pair [default: the advertised address, and in a dual-stack cluster
    /// that of the other family].
    #[arg(long, value_delimiter = ',')]
    node_ip: Vec<IpAddr>,
    /// CIDR for the cluster IPs of Services, or a dual-stack pair.
    #[arg(long, default_value = "10.96.0.0/12", value_parser = ServiceRanges::parse)]
    service_cluster_ip_range: ServiceRanges,
    /// Port range for Services of type NodePort.
    #[arg(long, default_value = "30000-32767", value_parser = PortRange::parse)]
    service_node_port_range: PortRange,
    /// Maximum number of non-mutating requests in flight; 0 for no limit.
    #[arg(long, default_value_t = 400)]
    max_requests_inflight: usize,
    /// Maximum number of mutating requests in flight; 0 for no limit.
    #[arg(long, default_value_t = 200)]
    max_mutating_requests_inflight: usize,
    #[command(flatten)]
    etcd_listen: etcd::ServerFlags,
    /// Timeout of requests other than watches, such as 1m or 30s.
    #[arg(long, default_value = "1m0s", value_parser = parse_duration)]
    request_timeout: Duration,
    /// Minimum duration of a watch in seconds.
    #[arg(long, default_value_t = 1800)]
    min_request_timeout: u64,
    /// File to write the administrator's kubeconfig to [default: DATA_DIR/admin.kubeconfig].
    #[arg(long)]
    write_kubeconfig: Option<PathBuf>,
    /// Components to disable: agent, scheduler, controller-manager, proxy, dns, network-policy, local-storage,
    /// metrics-server.
    #[arg(long, value_delimiter = ',')]
    disable: Vec<String>,
    /// Directory on every node for the volumes of the storage class local-path [default: DATA_DIR/storage].
    #[arg(long)]
    default_local_storage_path: Option<PathBuf>,
    /// Name of this machine's node [default: the host name].
    #[arg(long)]
    node_name: Option<String>,
    /// Port of the kubelet's API; 0 picks a free one.
    #[arg(long, default_value_t = 10250)]
    kubelet_port: u16,
    #[command(flatten)]
    pod_network: PodNetworkFlags,
    /// Backend of the pod network between nodes: vxlan, or direct on a network that routes pod addresses.
    #[arg(long, default_value = "vxlan", value_parser = ["vxlan", "direct"])]
    pod_network_backend: String,
    /// Cluster IP of the DNS Service, or a dual-stack pair [default: the tenth address of each Service CIDR].
    #[arg(long, value_delimiter = ',')]
    cluster_dns: Vec<IpAddr>,
    /// DNS domain of the cluster.
    #[arg(long, default_value = "cluster.local")]
    cluster_domain: String,
    /// Number of simulated nodes: they exist only in the API, and their pods become ready or complete without
    /// running.
    #[arg(long, default_value_t = 0)]
    simulated_nodes: usize,
    /// API versions to enable or disable, such as api/beta=true,batch/v1=false.
    #[arg(long, default_value = "", value_parser = RuntimeConfig::parse)]
    runtime_config: RuntimeConfig,
    /// Authorizers in order: Node, RBAC, AlwaysAllow, AlwaysDeny.
    #[arg(long, default_value = "Node,RBAC", value_parser = AuthorizationModes::parse)]
    authorization_mode: AuthorizationModes,
    /// Admission plugins to enable in addition to the default ones.
    #[arg(long, value_delimiter = ',')]
    enable_admission_plugins: Vec<String>,
    /// Admission plugins to disable although they are enabled by default.
    #[arg(long, value_delimiter = ',')]
    disable_admission_plugins: Vec<String>,
    /// File with an AdmissionConfiguration (apiserver.config.k8s.io/v1).
    #[arg(long, value_name = "FILE")]
    admission_control_config_file: Option<PathBuf>,
    /// File with an EncryptionConfiguration (apiserver.config.k8s.io/v1): which resources are encrypted in the store, and
    /// with which keys.
    #[arg(long, value_name = "FILE")]
    encryption_provider_config: Option<PathBuf>,
    /// Use the EncryptionConfiguration again whenever its file changes.
    #[arg(long, requires = "encryption_provider_config")]
    encryption_provider_config_automatic_reload: bool,
    #[command(flatten)]
    secrets_encryption: encryption::EncryptionFlags,
    /// Seconds that pods tolerate the taint not-ready:NoExecute, unless they have a toleration of their own.
    #[arg(long, default_value_t = 300)]
    default_not_ready_toleration_seconds: i64,
    /// Seconds that pods tolerate the taint unreachable:NoExecute, unless they have a toleration of their own.
    #[arg(long, default_value_t = 300)]
    default_unreachable_toleration_seconds: i64,
    /// Keep past versions of all objects for this time, such as 24h, for `corten history`, `show` and `undo`; 0 keeps none.
    #[arg(long, default_value = "0", value_parser = datastore::parse_interval)]
    history: Duration,
    /// Maximum size of the history on disk in bytes; the oldest part is removed first.
    #[arg(long, default_value_t = 1 << 30, value_name = "BYTES")]
    history_size: u64,
    /// Start although acknowledged writes are damaged or missing; readable data is kept.
    #[arg(long)]
    accept_data_loss: bool,
    #[command(flatten)]
    join: JoinFlags,
    #[command(flatten)]
    authentication: authentication::Flags,
    #[command(flatten)]
    datastore: DatastoreFlags,
    #[command(flatten)]
    member: MemberFlags,
    #[command(flatten)]
    node: AgentFlags,
    #[command(flatten)]
    elections: ElectionFlags,
    #[command(flatten)]
    controllers: ControllerFlags,
}

impl Args {
    fn runs(&self, part: &str) -> bool {
        !self.disable.iter().any(|disabled| disabled == part)
    }

    /// True if this process runs a node. Simulated nodes take its place.
    fn runs_node(&self) -> bool {
        self.runs("agent") && self.simulated_nodes == 0
    }

    /// The addresses of the cluster's DNS service.
    fn cluster_dns(&self) -> Vec<IpAddr> {
        if !self.cluster_dns.is_empty() {
            return self.cluster_dns.clone();
        }
        let ranges = self.service_cluster_ip_range.to_string();
        let ranges = ranges.split(',').filter_map(|range| range.parse::<Cidr>().ok());
        ranges.filter_map(|range| range.nth(10)).collect()
    }

    /// The name of this machine's node.
    fn node_name(&self) -> String {
        self.node_name.clone().unwrap_or_else(node::host_name)
    }

    /// The settings of the node in this process.
    fn node_options(&self, advertised: IpAddr) -> NodeOptions {
        let address = self.node_ip.first().copied().unwrap_or(advertised);
        NodeOptions {
            name: self.node_name(),
            address,
            second_address: node::second_address(&self.node_ip, address, &self.cluster_dns()),
            port: self.kubelet_port,
            data_dir: std::path::absolute(&self.data_dir).unwrap_or_else(|_| self.data_dir.clone()),
            pod_network: self.pod_network.clone(),
            cluster_dns: self.cluster_dns(),
            cluster_domain: self.cluster_domain.clone(),
            // Pods without a network need no DNS server.
            dns: self.runs("dns") && self.pod_network.connects(),
            network_policy: self.runs(network_policy::PART),
            proxy: self.runs("proxy"),
            between: agent::between(&self.pod_network_backend),
            flags: self.node.clone(),
        }
    }

    /// The settings for machines that join.
    fn join_settings(&self, server: SocketAddr, authority_pem: &str) -> JoinSettings {
        JoinSettings {
            server: format!("https://{server}"),
            authority_pem: authority_pem.to_owned(),
            cluster_dns: self.cluster_dns(),
            cluster_domain: self.cluster_domain.clone(),
            backend: self.pod_network_backend.clone(),
            dns: self.runs("dns"),
        }
    }

    /// The pod CIDR of the cluster, if no flag sets it.
    fn default_cluster_cidr(&self) -> &'static str {
        if self.simulated_nodes > 256 { LARGE_CLUSTER_CIDR } else { CLUSTER_CIDR }
    }

    /// The sources of what servers that join take from this one, besides its flags.
    fn join_sources(&self, member: Option<&Member>) -> JoinSources {
        let dns: Vec<String> = self.cluster_dns().iter().map(ToString::to_string).collect();
        JoinSources {
            data_dir: self.data_dir.clone(),
            defaults: vec![
                ("cluster-cidr", self.default_cluster_cidr().to_owned()),
                ("cluster-dns", dns.join(",")),
            ],
            encryption: encryption::in_use(self),
            members: member.map(|member| member.seed.clone()),
        }
    }

    /// The names and addresses that no kubelet serving certificate may have: the API server's own and the cluster's.
    fn reserved_names(&self) -> Reserved {
        let own = names_of_this_machine(self);
        Reserved {
            names: own.names().map(str::to_owned).collect(),
            addresses: own.addresses().collect(),
            cluster_domain: self.cluster_domain.clone(),
        }
    }

    /// Starts the controllers, the scheduler and simulated nodes.
    fn start_components(
        &self,
        running: &Running,
        options: corten_controllers::Options,
        is_shared: bool,
    ) -> anyhow::Result<Components> {
        let controllers = self.runs("controller-manager").then_some(options);
        let networks_assigned = controllers.as_ref().is_some_and(|options| options.node_ipam.is_some());
        let simulated = corten_simulator::Options { nodes: self.simulated_nodes, networks_assigned };
        let parts = Parts {
            controllers,
            dns: self.runs("dns"),
            scheduler: self.runs("scheduler"),
            simulated: (self.simulated_nodes > 0).then_some(simulated),
        };
        let elections = Elections::of(&self.elections)?.filter(|_| self.elections.applies(is_shared));
        Ok(controller_manager::start(running, parts, elections))
    }

    /// The settings of the controllers.
    fn controller_options(&self, pki: &ServerPki) -> anyhow::Result<corten_controllers::Options> {
        let storage =
            self.default_local_storage_path.clone().unwrap_or_else(|| self.data_dir.join("storage"));
        // Nodes do not share this process' working directory.
        let directory = std::path::absolute(&storage).unwrap_or(storage).display().to_string();
        let authority = controller_manager::of_authority(pki.authority.clone());
        let mut options = corten_controllers::Options {
            root_ca: pki.ca_pem.clone(),
            token_key: Some(Arc::new(self.authentication.signing_key(pki)?)),
            signing: SigningOptions::default().with_all(&authority),
            approve_kubelet_serving: Some(self.reserved_names()),
            local_path: self.runs(addons::LOCAL_STORAGE).then_some(LocalPathOptions { directory }),
            ..corten_controllers::Options::default()
        };
        let cluster_cidr = self.default_cluster_cidr();
        let services = self.service_cluster_ip_range.to_string();
        self.controllers.apply(&mut options, &AddressDefaults { allocate: true, cluster_cidr, services })?;
        Ok(options)
    }
}

pub(crate) fn run(line: ServerLine) -> anyhow::Result<()> {
    let started = Instant::now();
    let args = &line.args;
    if let Some(unknown) = args.disable.iter().find(|part| !PARTS.contains(&part.as_str())) {
        bail!("--disable: there is no component {unknown}; choose from {}", PARTS.join(", "));
    }
    node::check_node_ip(&args.node_ip)?;
    Elections::of(&args.elections)?;
    if args.runs_node() {
        hardening::require_root("`corten server` as root, or without its node with --disable=agent")?;
    }
    log_to_stderr();
    let threads = Arc::new(WorkerThreads::default());
    let (parked, unparked) = (threads.clone(), threads.clone());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_stack_size(WORKER_STACK)
        .on_thread_park(move || parked.parked())
        .on_thread_unpark(move || unparked.unparked())
        .build()
        .context("cannot start the async runtime")?;
    runtime.block_on(serve(line, started, threads))
}

pub(crate) fn log_to_stderr() {
    let filter = EnvFilter::try_from_env("CORTEN_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false)
        .init();
}

async fn serve(line: ServerLine, started: Instant, threads: Arc<WorkerThreads>) -> anyhow::Result<()> {
    hardening::prepare_data_directory(&line.args.data_dir)?;
    // A signal ends the process while it waits for a server to join.
    let (args, flags, joined) = line.join().await?;
    if args.member.resets() {
        return args.member.reset(&args.data_dir).await;
    }
    let members = joined.as_ref().and_then(|joined| joined.members.as_ref());
    let member = args.member.start(&args.data_dir, endpoint_address(&args)?, members).await?;
    // Installed before anything is started, so that a signal during the start is not lost.
    let stop = StopSignals::install()?;
    let mut admission_plugins =
        AdmissionPlugins::new(&args.enable_admission_plugins, &args.disable_admission_plugins)
            .map_err(anyhow::Error::msg)?;
    if let Some(file) = &args.admission_control_config_file {
        admission_plugins.configure(file).map_err(anyhow::Error::msg)?;
    }
    admission_plugins.toleration_seconds = TolerationSeconds {
        not_ready: args.default_not_ready_toleration_seconds,
        unreachable: args.default_unreachable_toleration_seconds,
    };
    let data_dir = &args.data_dir;
    let is_embedded = member.is_none() && !args.datastore.is_etcd()?;
    if args.etcd_listen.is_wanted() && !is_embedded {
        bail!("--etcd-listen-client-urls serves the embedded store only; remove it, or --etcd-servers");
    }
    let _in_use = backup::enter(data_dir)?;
    if !args.history.is_zero() && !is_embedded {
        bail!(
            "--history needs the embedded store: etcd keeps what it has not compacted; remove --history, or etcd as datastore"
        );
    }
    let encryption = encryption::load(&args, is_embedded).await?;
    let (store, pki) = match args.datastore.connect(Arc::clone(&encryption), member.as_ref()).await? {
        Some(store) => (store, open_pki(data_dir, &args)?),
        None => open(data_dir, &args, Arc::clone(&encryption), threads)?,
    };
    crate::datastore::check_complete(&store)?;
    if let Some(joined) = &joined {
        joined.check_datastore(&store)?;
    }
    if member.is_some() {
        crate::datastore::check_moved(&store, data_dir)?;
    }
    let address = SocketAddr::new(args.bind_address, args.secure_port);
    let listener = TcpListener::bind(address)
        .await
        .with_context(|| format!("cannot listen on {address} (--secure-port 0 picks a free port)"))?;
    let port = listener.local_addr().context("cannot read the listening address")?.port();
    let host =
        if args.bind_address.is_unspecified() { IpAddr::V4(Ipv4Addr::LOCALHOST) } else { args.bind_address };
    let advertised = SocketAddr::new(host, port);
    let endpoint = endpoint_address(&args)?.map(|address| SocketAddr::new(address, port));
    let credentials = pki.admin_credentials(&format!("https://{advertised}"));
    let controllers = args.controller_options(&pki)?;
    let node = args.runs_node().then(|| args.node_options(endpoint.map_or(host, |endpoint| endpoint.ip())));
    let authority = pki.authority.clone();
    let joins = Joins::new(&pki, &flags, store.clone(), args.join_sources(member.as_ref()));
    let (live, bundle) = (pki.live.clone(), pki.ca_pem.clone());
    let pki_directory = data_dir.join("pki");
    let sans = names_of_this_machine(&args);
    let mut follower = certificates::Follower::new(&pki_directory, sans, &pki, Clock::real());
    let options = Options {
        authentication: args.authentication.options(&pki)?,
        pki,
        store: store.clone(),
        encryption: Arc::clone(&encryption),
        listener: Some(listener),
        clock: Clock::real(),
        runtime_config: args.runtime_config.clone(),
        admission_plugins,
        authorization_modes: args.authorization_mode.clone(),
        advertised,
        endpoint,
        service_ranges: args.service_cluster_ip_range,
        node_ports: args.service_node_port_range,
        limits: limits(&args),
        resource_metrics: args.runs(addons::METRICS_SERVER),
        flags,
        joins: Some(Arc::new(joins)),
    };
    let is_shared = options.store.is_shared();
    let store = options.store.clone();
    let etcd = etcd::serve_beside(&options.store, &options.pki.client_ca, &args.etcd_listen).await?;
    let running = corten_apiserver::start(options).await.context("cannot start the API server")?;
    let administrator = Client::new(running.transport("system:admin", &["system:masters"]), "corten");
    let names = if args.runs("dns") { args.cluster_dns() } else { Vec::new() };
    node_network::install(&administrator, &names, &args.node_name(), node.is_some()).await;
    encryption::follow(encryption, store.clone(), administrator.clone(), data_dir)?;
    let for_nodes = endpoint.unwrap_or(advertised);
    joining::install(&administrator, &args.join_settings(for_nodes, &bundle)).await;
    addons::install(&administrator, |addon| args.runs(addon)).await;
    let kubeconfig = kubeconfig::record_admin_path(data_dir, args.write_kubeconfig.as_deref())?;
    write_kubeconfig(&kubeconfig, &credentials, KubeconfigNames::default())
        .with_context(|| format!("cannot write kubeconfig {}", kubeconfig.display()))?;
    tracing::info!(
        url = credentials.server,
        ready_ms = started.elapsed().as_millis() as u64,
        "cluster is ready"
    );
    eprintln!("Try:  kubectl --kubeconfig {} get namespaces", kubeconfig.display());
    let mut components = args.start_components(&running, controllers, is_shared)?;
    let backups = backup::Backups::start(backup::Settings {
        store: store.clone(),
        data_dir: data_dir.clone(),
        is_encrypted: encryption::in_use(&args).is_some(),
        client: administrator.clone(),
    });
    running.add_metrics(backups.metrics());
    let node = match node {
        Some(options) => {
            let credentials = NodeCredentials::in_process(&running, &authority, &bundle, &options)?;
            let (name, sans) = (options.name.clone(), options.sans()?);
            let node = Node::start(credentials, options).await.context("cannot start the node")?;
            tracing::info!(node = name, "node started");
            Some(certificates::OwnNode { name, sans, node })
        }
        None => None,
    };
    let mut user = certificates::User {
        live,
        trust: running.certificates(),
        administrator,
        kubeconfig,
        server: credentials.server,
        bundle,
        node,
    };
    user.acknowledge();
    let memory = tokio::spawn(memory::release_after_load(store.progress()));
    let mut stopping = Box::pin(stop.wait_unless_failed(&store));
    let stopped = loop {
        let fresh = tokio::select! {
            stopped = &mut stopping => break stopped,
            fresh = follower.next() => fresh,
        };
        let is_other_ca = user.use_certificates(&fresh, &args.authentication).await;
        if is_other_ca {
            // Controllers publish the CAs, and sign with the current one.
            let started = args
                .controller_options(&fresh)
                .and_then(|options| args.start_components(&running, options, is_shared));
            match started {
                Ok(started) => std::mem::replace(&mut components, started).stop().await,
                Err(err) => tracing::error!(%err, "cannot use the CA for controllers; restart the server"),
            }
            joining::install(&user.administrator, &args.join_settings(for_nodes, &fresh.ca_pem)).await;
            user.acknowledge();
        }
    };
    memory.abort();
    tracing::info!("stopping");
    drop((stopping, user, backups));
    components.stop().await;
    drop((etcd, store));
    running.stop().await;
    if let Some(member) = member {
        member.stop().await;
    }
    tracing::info!("stopped");
    stopped
}

/// Opens the store, and concurrently loads or creates the certificates.
fn open(
    data_dir: &Path,
    args: &Args,
    encryption: Arc<EncryptionAtRest>,
    threads: Arc<WorkerThreads>,
) -> anyhow::Result<(Store, ServerPki)> {
    let sans = names_of_this_machine(args);
    let pki_dir = data_dir.join("pki");
    let fresh = !pki_dir.exists();
    tracing::info!(data_dir = %data_dir.display(), fresh, "opening data directory");
    let defaults = corten_store::Options::default();
    let options = corten_store::Options {
        accept_loss: args.accept_data_loss,
        worker_threads: Some(threads),
        sealing: encryption,
        keep: (!args.history.is_zero()).then_some(Keep { age: args.history, bytes: args.history_size }),
        ..defaults
    };
    std::thread::scope(|scope| {
        let pki = scope.spawn(|| ServerPki::load_or_create(&pki_dir, &sans, SystemTime::now()));
        let store = Store::open(&data_dir.join("store"), options).context("cannot open the store")?;
        let pki =
            pki.join().map_err(|_| anyhow::anyhow!("the thread that prepares certificates panicked"))?;
        Ok((store, pki.context("cannot prepare certificates")?))
    })
}

/// Loads or creates the certificates.
fn open_pki(data_dir: &Path, args: &Args) -> anyhow::Result<ServerPki> {
    let sans = names_of_this_machine(args);
    ServerPki::load_or_create(&data_dir.join("pki"), &sans, SystemTime::now())
        .context("cannot prepare certificates")
}

fn limits(args: &Args) -> Limits {
    Limits {
        read_only: args.max_requests_inflight,
        mutating: args.max_mutating_requests_inflight,
        request_timeout: args.request_timeout,
        min_request_timeout: Duration::from_secs(args.min_request_timeout),
    }
}

/// Reads a duration in Go's notation: `30s`, `1m30s`, `1.5h`.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    let seconds = go_duration(text)?;
    match Duration::try_from_secs_f64(seconds) {
        Ok(duration) if !duration.is_zero() => Ok(duration),
        _ => Err(format!("{text:?} is not a duration; give one such as 30s or 1m30s")),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        server: Args,
    }

    fn parse(flags: &[&str]) -> Result<Args, clap::Error> {
        let flags = ["corten"].into_iter().chain(flags.iter().copied());
        Command::try_parse_from(flags).map(|command| command.server)
    }

    #[test]
    fn the_certificate_has_the_hosts_of_tls_san() {
        let args = parse(&["--tls-san=Api.example.com,192.0.2.9", "--tls-san", "2001:db8::9"]).unwrap();
        let sans = names_of_this_machine(&args);
        assert!(sans.names().any(|name| name == "api.example.com"), "{sans:?}");
        for address in ["192.0.2.9", "2001:db8::9"] {
            assert!(sans.addresses().any(|known| known.to_string() == address), "{sans:?}");
        }
        assert!(parse(&["--tls-san=not_a host"]).is_err());
    }

    #[test]
    fn durations() {
        for (text, seconds) in
            [("60s", 60.0), ("1m0s", 60.0), ("1m30s", 90.0), ("1.5h", 5400.0), ("250ms", 0.25)]
        {
            assert_eq!(parse_duration(text).unwrap().as_secs_f64(), seconds, "{text}");
        }
        for bad in ["", "0s", "60", "s", "1x", "-1s", "1m 2s"] {
            assert!(parse_duration(bad).is_err(), "{bad}");
        }
    }
}
