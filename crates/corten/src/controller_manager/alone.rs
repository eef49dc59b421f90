//! `corten controller-manager`: the controllers alone, against any Kubernetes API server.
//!
//! Of several such processes the one that holds the Lease works. One that loses it ends, as upstream's does, so
//! that nothing it was doing outlives its leadership. Controllers speak in the kubeconfig's identity, or each as its
//! own service account with `--use-service-account-credentials`.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::{Context, bail};
use corten_base::Clock;
use corten_client::{AccountTransport, Client, Key, Remote};
use corten_controllers::Options;
use corten_pki::{Credentials, parse_kubeconfig};
use corten_reconcile::{ClientFor, Election, Leadership, Manager, Selection};

use super::credentials::KeyFlags;
use super::{AGENT, AddressDefaults, ControllerFlags, serving};
use crate::server::{StopSignals, log_to_stderr, parse_duration};

// As upstream's, a flag that is given twice counts the second time.
#[derive(clap::Args)]
#[command(args_override_self = true)]
pub(crate) struct Args {
    /// The server to work on, and who to be.
    #[arg(long)]
    kubeconfig: PathBuf,
    /// Controllers to run: * for all that are on by default, NAME for one more, -NAME for one less.
    #[arg(long, value_delimiter = ',', default_value = "*", allow_hyphen_values = true)]
    controllers: Vec<String>,
    /// The address to serve health and metrics on.
    #[arg(long, default_value = "0.0.0.0")]
    bind_address: IpAddr,
    /// The port to serve health and metrics on; 0 for none.
    #[arg(long, default_value_t = 10257)]
    secure_port: u16,
    /// Work only while holding a Lease, so that one of several does.
    #[arg(long, default_value_t = true, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    leader_elect: bool,
    /// How long others wait after the last renewal before they take over.
    #[arg(long, default_value = "15s", value_parser = parse_duration)]
    leader_elect_lease_duration: Duration,
    /// How long renewing is tried before giving up.
    #[arg(long, default_value = "10s", value_parser = parse_duration)]
    leader_elect_renew_deadline: Duration,
    /// How long to wait between tries.
    #[arg(long, default_value = "2s", value_parser = parse_duration)]
    leader_elect_retry_period: Duration,
    /// The certificates by which pods know the API server; the kubeconfig's unless given.
    #[arg(long)]
    root_ca_file: Option<PathBuf>,
    /// Let each controller be a service account of its own, with only that account's rights.
    #[arg(long, default_value_t = false, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    use_service_account_credentials: bool,
    /// The Lease's name.
    #[arg(long, default_value = "kube-controller-manager")]
    leader_elect_resource_name: String,
    /// The Lease's namespace.
    #[arg(long, default_value = "kube-system")]
    leader_elect_resource_namespace: String,
    /// Where the addresses of services come from: not for pods, if nodes are given addresses here.
    #[arg(long, default_value = "")]
    service_cluster_ip_range: String,
    #[command(flatten)]
    flags: ControllerFlags,
    #[command(flatten)]
    keys: KeyFlags,
}

pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    log_to_stderr();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().context("starting the runtime")?;
    runtime.block_on(work(args))
}

async fn work(args: Args) -> anyhow::Result<()> {
    let stop = StopSignals::install()?;
    let path = args.kubeconfig.display();
    let text = std::fs::read_to_string(&args.kubeconfig).with_context(|| format!("reading {path}"))?;
    let credentials = parse_kubeconfig(&text).with_context(|| format!("reading {path}"))?;
    let remote =
        Remote::new(&credentials).with_context(|| format!("preparing for {}", credentials.server))?;
    let client = Client::new(Arc::new(remote), AGENT);
    let root_ca = match &args.root_ca_file {
        Some(file) => std::fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?,
        None => credentials.ca_pem.clone(),
    };
    let mut options = Options { root_ca, ..Options::default() };
    let services = args.service_cluster_ip_range.clone();
    args.flags.apply(&mut options, &AddressDefaults { allocate: false, cluster_cidr: "", services })?;
    args.keys.apply(&mut options)?;
    let anonymous =
        Credentials { cert_pem: String::new(), key_pem: String::new(), token: None, ..credentials };
    let anonymous = Remote::new(&anonymous).context("preparing for service accounts")?;
    let identities = Identities { client: client.clone(), anonymous };
    let manager = Arc::new(OnceLock::new());
    if args.secure_port != 0 {
        let address = SocketAddr::new(args.bind_address, args.secure_port);
        serving::start(address, client.clone(), manager.clone()).await?;
    }
    tokio::select! {
        () = stop.wait() => {
            tracing::info!("stopping");
            Ok(())
        }
        result = lead(&args, &manager, identities, options) => result,
    }
}

/// Who controllers can be.
struct Identities {
    client: Client,
    /// The same server for whoever brings a token.
    anonymous: Remote,
}

impl Identities {
    /// The kubeconfig's identity for all, or each controller's own.
    fn client_for(&self, own: bool, clock: &Clock) -> ClientFor {
        let (client, anonymous, clock) = (self.client.clone(), self.anonymous.clone(), clock.clone());
        if !own {
            return Box::new(move |_| client.clone());
        }
        Box::new(move |account| {
            let key = Key::new("kube-system", account);
            let transport = AccountTransport::new(anonymous.clone(), client.clone(), key, clock.clone());
            Client::new(Arc::new(transport), AGENT)
        })
    }
}

/// Works for as long as this process leads.
async fn lead(
    args: &Args,
    manager: &OnceLock<Manager>,
    identities: Identities,
    options: Options,
) -> anyhow::Result<()> {
    let clock = Clock::real();
    let leadership = if args.leader_elect {
        let election = election(args, &clock);
        tracing::info!(lease = %election.key, identity = election.identity, "waiting to lead");
        Some(Leadership::acquire(identities.client.clone(), clock.clone(), election).await)
    } else {
        None
    };
    let selection = Selection::new(args.controllers.clone());
    let client_for = identities.client_for(args.use_service_account_credentials, &clock);
    let all = Manager::new(identities.client, client_for, clock).only(selection);
    corten_controllers::start(manager.get_or_init(|| all), options);
    tracing::info!("controllers run");
    match leadership {
        Some(leadership) => leadership.hold().await,
        None => std::future::pending().await,
    }
    bail!("leaderelection lost")
}

/// The machine's name and something that tells two processes on it apart.
fn election(args: &Args, clock: &Clock) -> Election {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let identity = format!("{}_{}-{:x}", host.trim(), std::process::id(), clock.now().as_nanosecond());
    let name = args.leader_elect_resource_name.as_str();
    Election {
        key: Key::new(args.leader_elect_resource_namespace.as_str(), name),
        identity,
        lease: args.leader_elect_lease_duration,
        renew: args.leader_elect_renew_deadline,
        retry: args.leader_elect_retry_period,
    }
}
