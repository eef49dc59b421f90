//! `corten agent`: a node of a cluster whose server is elsewhere.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use anyhow::{Context, bail};
use corten_base::{Backoff, Clock};
use corten_client::Client;
use corten_kubelet::server::Shown;
use corten_pki::{IssuedCert, Sans};
use corten_reconcile::Manager;

use super::settings::Settings;
use super::{AGENT, NodeOptions, Standing, check_node_ip, host_name, second_address, start};
use crate::agent_flags::AgentFlags;
use crate::join::{self, Invitation, Joined, Joining, Means};
use crate::pod_network::PodNetworkFlags;
use crate::server::{log_to_stderr, outward_address};
use crate::stop_signals::StopSignals;
use crate::{network_policy, private, proxy};

const RETRY: Backoff = Backoff { first: Duration::from_secs(1), longest: Duration::from_secs(60) };
/// Parts of a node that can be left out.
const PARTS: [&str; 3] = ["proxy", "dns", network_policy::PART];

// As upstream's, a flag that is given twice counts the second time.
#[derive(clap::Args)]
#[command(args_override_self = true)]
pub(crate) struct Args {
    /// The server to join, such as https://192.0.2.1:6443.
    #[arg(long)]
    server: String,
    /// The invitation, as `corten token create` prints it; needed only the first time.
    #[arg(long)]
    token: Option<String>,
    /// A file with the invitation.
    #[arg(long, conflicts_with = "token")]
    token_file: Option<PathBuf>,
    /// The digest of the public key of the cluster's authority, such as sha256:<64 digits>, for a token that has none.
    #[arg(long)]
    discovery_token_ca_cert_hash: Vec<String>,
    /// Join with a token that does not say whose it is: who knows the token can pose as the cluster.
    #[arg(long)]
    discovery_token_unsafe_skip_ca_verification: bool,
    /// Where everything is kept.
    #[arg(long, default_value = "/var/lib/corten")]
    data_dir: PathBuf,
    /// What the node is called [default: the machine's own name].
    #[arg(long)]
    node_name: Option<String>,
    /// How other nodes reach this one: an address, or one of each family [default: as this machine is seen from elsewhere].
    #[arg(long, value_delimiter = ',')]
    node_ip: Vec<IpAddr>,
    /// Where the kubelet's own API is served; 0 picks a free port.
    #[arg(long, default_value_t = 10250)]
    kubelet_port: u16,
    /// Parts not to run: proxy, dns, network-policy.
    #[arg(long, value_delimiter = ',')]
    disable: Vec<String>,
    #[command(flatten)]
    pod_network: PodNetworkFlags,
    #[command(flatten)]
    node: AgentFlags,
}

impl Args {
    fn runs(&self, part: &str) -> bool {
        !self.disable.iter().any(|disabled| disabled == part)
    }

    fn folder(&self) -> PathBuf {
        self.data_dir.join("agent")
    }

    fn name(&self) -> String {
        self.node_name.clone().unwrap_or_else(host_name)
    }

    fn joining(&self) -> anyhow::Result<Joining> {
        let token = match &self.token_file {
            Some(file) => Some(
                std::fs::read_to_string(file)
                    .with_context(|| format!("--token-file: reading {}", file.display()))?,
            ),
            None => self.token.clone(),
        };
        let hashes = &self.discovery_token_ca_cert_hash;
        let skips = self.discovery_token_unsafe_skip_ca_verification;
        let invitation = token.map(|token| Invitation::parse(&token, hashes)).transpose()?;
        let invitation = invitation.map(|invitation| invitation.skipping_verification(skips));
        let server = self.server.trim_end_matches('/').to_owned();
        if !server.starts_with("https://") {
            bail!("--server: {server:?} is no server; give one such as https://192.0.2.1:6443");
        }
        let kubeconfig = self.folder().join("kubelet.kubeconfig");
        Ok(Joining { server, means: invitation.map(Means::Invitation), node_name: self.name(), kubeconfig })
    }

    fn options(&self, settings: Settings, address: IpAddr) -> NodeOptions {
        NodeOptions {
            name: self.name(),
            address,
            second_address: second_address(&self.node_ip, address, &settings.cluster_dns),
            port: self.kubelet_port,
            data_dir: std::path::absolute(&self.data_dir).unwrap_or_else(|_| self.data_dir.clone()),
            pod_network: self.pod_network.clone(),
            network_policy: self.runs(network_policy::PART),
            between: settings.between,
            // A cluster whose server answers for no names has somebody else who does.
            dns: self.pod_network.connects() && self.runs("dns") && settings.answers_names,
            cluster_dns: settings.cluster_dns,
            cluster_domain: settings.cluster_domain,
            flags: self.node.clone(),
        }
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    if let Some(unknown) = args.disable.iter().find(|part| !PARTS.contains(&part.as_str())) {
        bail!("--disable: there is no part called {unknown}; parts are {}", PARTS.join(", "));
    }
    log_to_stderr();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().context("starting the runtime")?;
    runtime.block_on(async {
        let stop = StopSignals::install()?;
        tokio::select! {
            () = stop.wait() => {
                tracing::info!("stopping");
                Ok(())
            }
            result = work(args) => result,
        }
    })
}

/// Joins, then is a node for good.
async fn work(args: &Args) -> anyhow::Result<()> {
    private::data_directory(&args.data_dir)?;
    let folder = args.folder();
    corten_base::files::private_directory(&folder)
        .with_context(|| format!("creating {}", folder.display()))?;
    let clock = Clock::real();
    check_node_ip(&args.node_ip)?;
    let given = args.node_ip.first().copied();
    let address = given.or_else(|| outward_address(false)).or_else(|| outward_address(true));
    let address = address.context("this machine is on no network; say with --node-ip how it is reached")?;
    let joined = args.joining()?.join(clock.clone()).await?;
    let client = joined.client.named(AGENT);
    let settings = Settings::learn(&client, &args.folder(), &clock).await?;
    let same = client.clone();
    let manager = Manager::new(client.clone(), Box::new(move |_| same.clone()), clock.clone());
    let options = args.options(settings, address);
    let (name, means) = (options.name.clone(), options.pod_network.means());
    // One address alone: the server vouches for the one it sees, and a request for more waits for an administrator.
    let sans = Sans::default().with_host(&options.name).context("naming the node")?.with_address(address);
    let standing = standing(&joined, client.clone(), &name)?;
    let shown = start(&manager, standing, options).await.context("starting the node")?;
    if args.runs("proxy") {
        proxy::start(&manager, &name, means, args.node.proxy_mode)?;
    }
    tracing::info!(node = name, server = args.server, "the node is up");
    manager.spawn(joined.renew());
    manager.spawn(certify(client, name, sans, shown, clock));
    std::future::pending().await
}

/// Until somebody vouches for the node it shows a certificate of its own.
fn standing(joined: &Joined, client: Client, name: &str) -> anyhow::Result<Standing> {
    let certificate = IssuedCert::self_signed(name, SystemTime::now()).context("making a certificate")?;
    Ok(Standing { client, certificate, client_ca_pem: joined.authority_pem().to_owned() })
}

/// Keeps what the node shows certified by the cluster, for good.
pub(crate) async fn certify(client: Client, name: String, sans: Sans, shown: Shown, clock: Clock) {
    let mut failures = 0;
    loop {
        let certified = async {
            let certificate = join::serving(&client, &name, &sans, &clock).await?;
            shown.replace(&certificate).context("showing the new certificate")?;
            join::renewal(&certificate.cert_pem)
        };
        match certified.await {
            Ok(due) => {
                failures = 0;
                clock.sleep_until(due).await;
            }
            Err(error) => {
                failures += 1;
                let reason = format!("{error:#}");
                tracing::warn!(reason, "the cluster does not vouch for what this node serves yet");
                clock.sleep(RETRY.delay(failures)).await;
            }
        }
    }
}
