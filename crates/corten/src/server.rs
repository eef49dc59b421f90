//! `corten server`: everything on this machine, in one process.

mod authentication;

use std::io::IsTerminal;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime};

use anyhow::{Context, bail};
use corten_apiserver::{AdmissionPlugins, AuthorizationModes, Options, RuntimeConfig};
use corten_pki::{KubeconfigNames, Sans, ServerPki, write_kubeconfig};
use corten_store::Store;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing_subscriber::EnvFilter;

use crate::controller_manager;

/// Parts that can be left out.
const PARTS: [&str; 5] = ["agent", "scheduler", "controller-manager", "proxy", "dns"];
const FIRST_SERVICE_IP: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 96, 0, 1));

#[derive(clap::Args)]
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
    /// Where to write a kubeconfig for the administrator [default: DATA_DIR/admin.kubeconfig].
    #[arg(long)]
    write_kubeconfig: Option<PathBuf>,
    /// Parts not to run: agent, scheduler, controller-manager, proxy, dns.
    #[arg(long, value_delimiter = ',')]
    disable: Vec<String>,
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
    /// Start although acknowledged writes are damaged or missing; what can be read is kept.
    #[arg(long)]
    accept_data_loss: bool,
    #[command(flatten)]
    authentication: authentication::Flags,
}

pub(crate) fn run(args: Args, flags: Vec<(String, String)>) -> anyhow::Result<()> {
    let started = Instant::now();
    if let Some(unknown) = args.disable.iter().find(|part| !PARTS.contains(&part.as_str())) {
        bail!("--disable: there is no part called {unknown}; parts are {}", PARTS.join(", "));
    }
    log_to_stderr();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().context("starting the runtime")?;
    runtime.block_on(serve(args, flags, started))
}

fn log_to_stderr() {
    let filter = EnvFilter::try_from_env("CORTEN_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false)
        .init();
}

async fn serve(args: Args, flags: Vec<(String, String)>, started: Instant) -> anyhow::Result<()> {
    // Taken over first: a signal that comes during the start is not lost.
    let stop = StopSignals::install()?;
    let admission_plugins =
        AdmissionPlugins::new(&args.enable_admission_plugins, &args.disable_admission_plugins)
            .map_err(anyhow::Error::msg)?;
    let data_dir = &args.data_dir;
    std::fs::create_dir_all(data_dir).with_context(|| format!("creating {}", data_dir.display()))?;
    let (store, pki) = open(data_dir, &args)?;
    let address = SocketAddr::new(args.bind_address, args.secure_port);
    let listener = TcpListener::bind(address)
        .await
        .with_context(|| format!("listening on {address}; --secure-port 0 picks a free port"))?;
    let port = listener.local_addr().context("reading the listening address")?.port();
    let host =
        if args.bind_address.is_unspecified() { IpAddr::V4(Ipv4Addr::LOCALHOST) } else { args.bind_address };
    let advertised = SocketAddr::new(host, port);
    let credentials = pki.admin_credentials(&format!("https://{advertised}"));
    let options = Options {
        authentication: args.authentication.options(&pki)?,
        pki,
        store,
        listener,
        runtime_config: args.runtime_config.clone(),
        admission_plugins,
        authorization_modes: args.authorization_mode.clone(),
        advertised,
        flags,
    };
    let running = corten_apiserver::start(options).await.context("starting the API server")?;
    let kubeconfig = args.write_kubeconfig.unwrap_or_else(|| data_dir.join("admin.kubeconfig"));
    write_kubeconfig(&kubeconfig, &credentials, KubeconfigNames::default())
        .context("writing the kubeconfig")?;
    tracing::info!(
        url = credentials.server,
        ready_ms = started.elapsed().as_millis() as u64,
        "cluster is ready"
    );
    eprintln!("Try:  kubectl --kubeconfig {} get namespaces", kubeconfig.display());
    let controllers = (!args.disable.iter().any(|part| part == "controller-manager"))
        .then(|| controller_manager::start(&running));
    stop.wait().await;
    tracing::info!("stopping");
    drop(controllers);
    running.stop().await;
    tracing::info!("stopped");
    Ok(())
}

/// The store and the certificates, made side by side.
fn open(data_dir: &Path, args: &Args) -> anyhow::Result<(Store, ServerPki)> {
    let sans = names_of_this_machine(args.bind_address);
    let pki_dir = data_dir.join("pki");
    let fresh = !pki_dir.exists();
    tracing::info!(data_dir = %data_dir.display(), fresh, "opening");
    let options =
        corten_store::Options { accept_loss: args.accept_data_loss, ..corten_store::Options::default() };
    std::thread::scope(|scope| {
        let pki = scope.spawn(|| ServerPki::load_or_create(&pki_dir, &sans, SystemTime::now()));
        let store = Store::open(&data_dir.join("store"), options).context("opening the store")?;
        let pki = pki.join().map_err(|_| anyhow::anyhow!("making certificates failed"))?;
        Ok((store, pki.context("preparing certificates")?))
    })
}

fn names_of_this_machine(bind: IpAddr) -> Sans {
    let mut sans = Sans::apiserver(FIRST_SERVICE_IP).with_address(bind);
    if let Ok(name) = std::fs::read_to_string("/proc/sys/kernel/hostname") {
        // An odd hostname is no reason not to start.
        sans = sans.clone().with_host(name.trim()).unwrap_or(sans);
    }
    sans
}

/// SIGTERM and SIGINT, once anybody waits for them.
struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
}

impl StopSignals {
    fn install() -> anyhow::Result<StopSignals> {
        Ok(StopSignals {
            terminate: signal(SignalKind::terminate()).context("listening for SIGTERM")?,
            interrupt: signal(SignalKind::interrupt()).context("listening for SIGINT")?,
        })
    }

    async fn wait(mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
