//! `corten server`: everything on this machine, in one process.

mod addons;
mod authentication;
mod joining;
pub(crate) mod node_network;

use std::io::IsTerminal;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, bail};
use corten_apiserver::{
    AdmissionPlugins, AuthorizationModes, Limits, Options, PortRange, RuntimeConfig, ServiceRanges,
    TolerationSeconds, go_duration,
};
use corten_base::Clock;
use corten_client::Client;
use corten_controllers::{LocalPathOptions, Reserved, SigningOptions};
use corten_net::Cidr;
use corten_pki::{KubeconfigNames, Sans, ServerPki, write_kubeconfig};
use corten_store::{Crew, Store};
use tokio::net::TcpListener;
use tracing_subscriber::EnvFilter;

use crate::agent::{self, NodeOptions, Standing};
use crate::agent_flags::AgentFlags;
use crate::controller_manager::{self, AddressDefaults, ControllerFlags, Parts};
use crate::pod_network::PodNetworkFlags;
use crate::stop_signals::StopSignals;
use crate::{network_policy, private, proxy};

use joining::Told;
pub(crate) use joining::{INVITED, NODE_SETTINGS};

/// Parts that can be left out.
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

/// Where the addresses of pods come from: for 256 nodes, and for 8192 if more than that are simulated.
const CLUSTER_CIDR: &str = "10.244.0.0/16";
const LARGE_CLUSTER_CIDR: &str = "10.224.0.0/11";

// As upstream's, a flag that is given twice counts the second time.
#[derive(clap::Args)]
#[command(args_override_self = true)]
pub(crate) struct Args {
    /// Where everything is kept.
    #[arg(long, default_value = "/var/lib/corten")]
    data_dir: PathBuf,
    /// The address to listen on.
    #[arg(long, default_value = "0.0.0.0")]
    bind_address: IpAddr,
    /// The port to listen on; 0 picks a free one.
    #[arg(long, default_value_t = 6443)]
    secure_port: u16,
    /// The address pods reach this server at [default: the address this machine is reached at].
    #[arg(long)]
    advertise_address: Option<IpAddr>,
    /// How other nodes reach the node of this process: an address, or one of each family [default: the advertised address,
    /// and that of the other family in a cluster of both].
    #[arg(long, value_delimiter = ',')]
    node_ip: Vec<IpAddr>,
    /// Where cluster IPs come from: a range, or one of each family.
    #[arg(long, default_value = "10.96.0.0/12", value_parser = ServiceRanges::parse)]
    service_cluster_ip_range: ServiceRanges,
    /// Where node ports come from.
    #[arg(long, default_value = "30000-32767", value_parser = PortRange::parse)]
    service_node_port_range: PortRange,
    /// How many reading requests are worked on at once; 0 for no limit.
    #[arg(long, default_value_t = 400)]
    max_requests_inflight: usize,
    /// How many changing requests are worked on at once; 0 for no limit.
    #[arg(long, default_value_t = 200)]
    max_mutating_requests_inflight: usize,
    /// How long a request may take that is not a watch, such as 1m or 30s.
    #[arg(long, default_value = "1m0s", value_parser = parse_duration)]
    request_timeout: Duration,
    /// How many seconds a watch lasts at least.
    #[arg(long, default_value_t = 1800)]
    min_request_timeout: u64,
    /// Where to write a kubeconfig for the administrator [default: DATA_DIR/admin.kubeconfig].
    #[arg(long)]
    write_kubeconfig: Option<PathBuf>,
    /// Parts not to run: agent, scheduler, controller-manager, proxy, dns, network-policy, local-storage,
    /// metrics-server.
    #[arg(long, value_delimiter = ',')]
    disable: Vec<String>,
    /// Where the volumes of the storage class local-path are on every node [default: DATA_DIR/storage].
    #[arg(long)]
    default_local_storage_path: Option<PathBuf>,
    /// What the node of this machine is called [default: the machine's own name].
    #[arg(long)]
    node_name: Option<String>,
    /// Where the kubelet's own API is served; 0 picks a free port.
    #[arg(long, default_value_t = 10250)]
    kubelet_port: u16,
    #[command(flatten)]
    pod_network: PodNetworkFlags,
    /// How packets travel between nodes: vxlan, or direct on a network that lets foreign addresses pass.
    #[arg(long, default_value = "vxlan", value_parser = ["vxlan", "direct"])]
    pod_network_backend: String,
    /// Where pods ask for names: an address, or one of each family [default: the tenth of each range of cluster IPs].
    #[arg(long, value_delimiter = ',')]
    cluster_dns: Vec<IpAddr>,
    /// The domain that the names of services end in.
    #[arg(long, default_value = "cluster.local")]
    cluster_domain: String,
    /// How many nodes to simulate: they exist only in the API, and their pods become ready or complete without
    /// running.
    #[arg(long, default_value_t = 0)]
    simulated_nodes: usize,
    /// API versions to turn on or off, such as api/beta=true,batch/v1=false.
    #[arg(long, default_value = "", value_parser = RuntimeConfig::parse)]
    runtime_config: RuntimeConfig,
    /// Who decides whether a request may be done, asked in order: Node, RBAC, AlwaysAllow, AlwaysDeny.
    #[arg(long, default_value = "Node,RBAC", value_parser = AuthorizationModes::parse)]
    authorization_mode: AuthorizationModes,
    /// Admission plugins to turn on beyond those that are on by default.
    #[arg(long, value_delimiter = ',')]
    enable_admission_plugins: Vec<String>,
    /// Admission plugins to turn off although they are on by default.
    #[arg(long, value_delimiter = ',')]
    disable_admission_plugins: Vec<String>,
    /// How many seconds pods that say nothing of it stay on a node that is not ready.
    #[arg(long, default_value_t = 300)]
    default_not_ready_toleration_seconds: i64,
    /// How many seconds pods that say nothing of it stay on a node that cannot be reached.
    #[arg(long, default_value_t = 300)]
    default_unreachable_toleration_seconds: i64,
    /// Start although acknowledged writes are damaged or missing; what can be read is kept.
    #[arg(long)]
    accept_data_loss: bool,
    #[command(flatten)]
    authentication: authentication::Flags,
    #[command(flatten)]
    node: AgentFlags,
    #[command(flatten)]
    controllers: ControllerFlags,
}

impl Args {
    fn runs(&self, part: &str) -> bool {
        !self.disable.iter().any(|disabled| disabled == part)
    }

    /// Where pods ask for names.
    fn cluster_dns(&self) -> Vec<IpAddr> {
        if !self.cluster_dns.is_empty() {
            return self.cluster_dns.clone();
        }
        let ranges = self.service_cluster_ip_range.to_string();
        let ranges = ranges.split(',').filter_map(|range| range.parse::<Cidr>().ok());
        ranges.filter_map(|range| range.nth(10)).collect()
    }

    /// What the node of this process has to be told.
    fn node_options(&self, advertised: IpAddr) -> NodeOptions {
        let address = self.node_ip.first().copied().unwrap_or(advertised);
        NodeOptions {
            name: self.node_name.clone().unwrap_or_else(agent::host_name),
            address,
            second_address: agent::second_address(&self.node_ip, address, &self.cluster_dns()),
            port: self.kubelet_port,
            data_dir: std::path::absolute(&self.data_dir).unwrap_or_else(|_| self.data_dir.clone()),
            pod_network: self.pod_network.clone(),
            cluster_dns: self.cluster_dns(),
            cluster_domain: self.cluster_domain.clone(),
            // Pods that reach nobody ask nobody.
            dns: self.runs("dns") && self.pod_network.connects(),
            network_policy: self.runs(network_policy::PART),
            between: agent::between(&self.pod_network_backend),
            flags: self.node.clone(),
        }
    }

    /// What machines that join have to be told.
    fn told(&self, server: SocketAddr, authority_pem: &str) -> Told {
        Told {
            server: format!("https://{server}"),
            authority_pem: authority_pem.to_owned(),
            cluster_dns: self.cluster_dns(),
            cluster_domain: self.cluster_domain.clone(),
            backend: self.pod_network_backend.clone(),
            dns: self.runs("dns"),
        }
    }

    /// What no node is certified as: the API server's own names and addresses, and the cluster's.
    fn reserved_names(&self) -> Reserved {
        let own = names_of_this_machine(self);
        Reserved {
            names: own.names().map(str::to_owned).collect(),
            addresses: own.addresses().collect(),
            cluster_domain: self.cluster_domain.clone(),
        }
    }

    /// What controllers have to be told.
    fn controller_options(&self, pki: &ServerPki) -> anyhow::Result<corten_controllers::Options> {
        let storage =
            self.default_local_storage_path.clone().unwrap_or_else(|| self.data_dir.join("storage"));
        // Nodes know no working directory.
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
        let cluster_cidr = if self.simulated_nodes > 256 { LARGE_CLUSTER_CIDR } else { CLUSTER_CIDR };
        let services = self.service_cluster_ip_range.to_string();
        self.controllers.apply(&mut options, &AddressDefaults { allocate: true, cluster_cidr, services })?;
        Ok(options)
    }
}

pub(crate) fn run(args: Args, flags: Vec<(String, String)>) -> anyhow::Result<()> {
    let started = Instant::now();
    if let Some(unknown) = args.disable.iter().find(|part| !PARTS.contains(&part.as_str())) {
        bail!("--disable: there is no part called {unknown}; parts are {}", PARTS.join(", "));
    }
    agent::check_node_ip(&args.node_ip)?;
    log_to_stderr();
    let crew = Arc::new(Crew::default());
    let (resting, going_on) = (crew.clone(), crew.clone());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .on_thread_park(move || resting.rests())
        .on_thread_unpark(move || going_on.goes_on())
        .build()
        .context("starting the runtime")?;
    runtime.block_on(serve(args, flags, started, crew))
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

async fn serve(
    args: Args,
    flags: Vec<(String, String)>,
    started: Instant,
    crew: Arc<Crew>,
) -> anyhow::Result<()> {
    // Taken over first: a signal that comes during the start is not lost.
    let stop = StopSignals::install()?;
    let mut admission_plugins =
        AdmissionPlugins::new(&args.enable_admission_plugins, &args.disable_admission_plugins)
            .map_err(anyhow::Error::msg)?;
    admission_plugins.toleration_seconds = TolerationSeconds {
        not_ready: args.default_not_ready_toleration_seconds,
        unreachable: args.default_unreachable_toleration_seconds,
    };
    let data_dir = &args.data_dir;
    private::data_directory(data_dir)?;
    let (store, pki) = open(data_dir, &args, crew)?;
    let address = SocketAddr::new(args.bind_address, args.secure_port);
    let listener = TcpListener::bind(address)
        .await
        .with_context(|| format!("listening on {address}; --secure-port 0 picks a free port"))?;
    let port = listener.local_addr().context("reading the listening address")?.port();
    let host =
        if args.bind_address.is_unspecified() { IpAddr::V4(Ipv4Addr::LOCALHOST) } else { args.bind_address };
    let advertised = SocketAddr::new(host, port);
    let endpoint = endpoint_address(&args)?.map(|address| SocketAddr::new(address, port));
    let credentials = pki.admin_credentials(&format!("https://{advertised}"));
    let controllers = args.controller_options(&pki)?;
    let node = args.node_options(endpoint.map_or(host, |endpoint| endpoint.ip()));
    let authority = pki.authority.clone();
    let options = Options {
        authentication: args.authentication.options(&pki)?,
        pki,
        store,
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
    };
    let running = corten_apiserver::start(options).await.context("starting the API server")?;
    let administrator = Client::new(running.transport("system:admin", &["system:masters"]), "corten");
    let names = if args.runs("dns") { args.cluster_dns() } else { Vec::new() };
    node_network::install(&administrator, &names).await;
    joining::install(&administrator, &args.told(endpoint.unwrap_or(advertised), authority.pem())).await;
    addons::install(&administrator, |addon| args.runs(addon)).await;
    let kubeconfig = args.write_kubeconfig.clone().unwrap_or_else(|| data_dir.join("admin.kubeconfig"));
    write_kubeconfig(&kubeconfig, &credentials, KubeconfigNames::default())
        .context("writing the kubeconfig")?;
    tracing::info!(
        url = credentials.server,
        ready_ms = started.elapsed().as_millis() as u64,
        "cluster is ready"
    );
    eprintln!("Try:  kubectl --kubeconfig {} get namespaces", kubeconfig.display());
    let parts = Parts {
        controllers: args.runs("controller-manager").then_some(controllers),
        scheduler: args.runs("scheduler"),
        simulated_nodes: args.simulated_nodes,
    };
    let controllers = controller_manager::start(&running, parts);
    if args.runs("dns") && args.runs("controller-manager") {
        controllers.run(corten_dns::NodeEndpoints);
    }
    if args.runs("agent") && args.simulated_nodes == 0 {
        let (name, means, mode) = (node.name.clone(), node.pod_network.means(), node.flags.proxy_mode);
        let standing = Standing::beside(&running, &authority, &node)?;
        agent::start(&controllers, standing, node).await.context("starting the node")?;
        if args.runs("proxy") {
            proxy::start(&controllers, &name, means, mode)?;
        }
    }
    stop.wait().await;
    tracing::info!("stopping");
    drop(controllers);
    running.stop().await;
    tracing::info!("stopped");
    Ok(())
}

/// The store and the certificates, made side by side.
fn open(data_dir: &Path, args: &Args, crew: Arc<Crew>) -> anyhow::Result<(Store, ServerPki)> {
    let sans = names_of_this_machine(args);
    let pki_dir = data_dir.join("pki");
    let fresh = !pki_dir.exists();
    tracing::info!(data_dir = %data_dir.display(), fresh, "opening");
    let defaults = corten_store::Options::default();
    let options = corten_store::Options { accept_loss: args.accept_data_loss, crew: Some(crew), ..defaults };
    std::thread::scope(|scope| {
        let pki = scope.spawn(|| ServerPki::load_or_create(&pki_dir, &sans, SystemTime::now()));
        let store = Store::open(&data_dir.join("store"), options).context("opening the store")?;
        let pki = pki.join().map_err(|_| anyhow::anyhow!("making certificates failed"))?;
        Ok((store, pki.context("preparing certificates")?))
    })
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
        _ => Err(format!("{text:?} is no time to wait; give one such as 30s or 1m30s")),
    }
}

/// Where pods reach this server. Nowhere, if this machine is on no network.
fn endpoint_address(args: &Args) -> anyhow::Result<Option<IpAddr>> {
    match args.advertise_address {
        Some(address) if address.is_loopback() || address.is_unspecified() => {
            bail!("--advertise-address: pods cannot reach {address}; give an address of this machine")
        }
        Some(address) => Ok(Some(address)),
        None if !args.bind_address.is_unspecified() && !args.bind_address.is_loopback() => {
            Ok(Some(args.bind_address))
        }
        None => Ok(outward_address(args.service_cluster_ip_range.first_address().is_ipv6())),
    }
}

/// The address this machine would be seen with from elsewhere. Nothing is sent: choosing a peer is enough
/// for the kernel to choose an address.
pub(crate) fn outward_address(ipv6: bool) -> Option<IpAddr> {
    let elsewhere: SocketAddr = if ipv6 {
        (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1), 9).into()
    } else {
        (Ipv4Addr::new(192, 0, 2, 1), 9).into()
    };
    let any: IpAddr = if ipv6 { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    socket.connect(elsewhere).ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_loopback() && !address.is_unspecified()).then_some(address)
}

fn names_of_this_machine(args: &Args) -> Sans {
    let service = args.service_cluster_ip_range.first_address();
    let mut sans = Sans::apiserver(service).with_address(args.bind_address);
    // An address that cannot be advertised is refused later, with its reason.
    if let Ok(Some(address)) = endpoint_address(args) {
        sans = sans.with_address(address);
    }
    if let Ok(name) = std::fs::read_to_string("/proc/sys/kernel/hostname") {
        // An odd hostname is no reason not to start.
        sans = sans.clone().with_host(name.trim()).unwrap_or(sans);
    }
    sans
}

#[cfg(test)]
mod tests {
    use super::*;

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
