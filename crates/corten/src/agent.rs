//! `corten agent`: a node that joins a cluster whose servers are on other machines.

mod servers;
mod settings;

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use anyhow::{Context, bail};
use corten_base::{Backoff, Clock};
use corten_client::{Client, Key, kinds};
use corten_controllers::is_vouched_for;
use corten_kubelet::server::ServingCertificate;
use corten_pki::{IssuedCert, Sans};

use crate::hardening;
use crate::join::{self, BootstrapCredentials, Invitation, Joined, Joining};
use crate::node::{
    AgentFlags, KUBELET_AGENT, Node, NodeCredentials, NodeOptions, check_node_ip, host_name, network_policy,
    second_address,
};
use crate::pod_network::PodNetworkFlags;
use crate::server::{log_to_stderr, outward_address};
use crate::stop_signals::StopSignals;

use settings::Settings;
pub(crate) use settings::between;

const RETRY: Backoff = Backoff { first: Duration::from_secs(1), longest: Duration::from_secs(60) };
/// Parts that `--disable` can name.
const PARTS: [&str; 3] = ["proxy", "dns", network_policy::PART];

// As with upstream's components, the last of repeated flags counts.
#[derive(clap::Args)]
#[command(args_override_self = true)]
pub(crate) struct Args {
    /// URLs of servers of the cluster to join, such as https://192.0.2.1:6443; one is enough. The agent learns the others from
    /// the cluster.
    #[arg(long, required = true, value_delimiter = ',', value_name = "URL")]
    server: Vec<String>,
    /// Bootstrap token, as `corten token create` prints it; needed only for the first start.
    #[arg(long)]
    token: Option<String>,
    /// File with the bootstrap token.
    #[arg(long, conflicts_with = "token")]
    token_file: Option<PathBuf>,
    /// Hash of the public key of the cluster's CA, such as sha256:<64 digits>, for a token without one.
    #[arg(long)]
    discovery_token_ca_cert_hash: Vec<String>,
    /// Join with a token without a CA hash. Insecure: an attacker who knows the token can pose as the cluster.
    #[arg(long)]
    discovery_token_unsafe_skip_ca_verification: bool,
    /// Data directory of the node.
    #[arg(long, default_value = "/var/lib/corten")]
    data_dir: PathBuf,
    /// Name of the node [default: the host name].
    #[arg(long)]
    node_name: Option<String>,
    /// IP address of the node, or a dual-stack pair [default: the address of the default route].
    #[arg(long, value_delimiter = ',')]
    node_ip: Vec<IpAddr>,
    /// Port of the kubelet's API; 0 picks a free one.
    #[arg(long, default_value_t = 10250)]
    kubelet_port: u16,
    /// Components to disable: proxy, dns, network-policy.
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
                    .with_context(|| format!("--token-file: cannot read {}", file.display()))?,
            ),
            None => self.token.clone(),
        };
        let hashes = &self.discovery_token_ca_cert_hash;
        let skips = self.discovery_token_unsafe_skip_ca_verification;
        let invitation = token.map(|token| Invitation::parse(&token, hashes)).transpose()?;
        let invitation = invitation.map(|invitation| invitation.skipping_verification(skips));
        let servers: Vec<String> =
            self.server.iter().map(|server| server.trim_end_matches('/').to_owned()).collect();
        if let Some(server) = servers.iter().find(|server| !server.starts_with("https://")) {
            bail!("--server: {server:?} is not an https URL; give one such as https://192.0.2.1:6443");
        }
        let kubeconfig = self.folder().join("kubelet.kubeconfig");
        Ok(Joining {
            servers,
            bootstrap: invitation.map(BootstrapCredentials::Invitation),
            node_name: self.name(),
            kubeconfig,
        })
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
            proxy: self.runs("proxy"),
            between: settings.between,
            // A server with --disable=dns means that the cluster has another DNS server.
            dns: self.pod_network.connects() && self.runs("dns") && settings.nodes_run_dns,
            cluster_dns: settings.cluster_dns,
            cluster_domain: settings.cluster_domain,
            flags: self.node.clone(),
        }
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    if let Some(unknown) = args.disable.iter().find(|part| !PARTS.contains(&part.as_str())) {
        bail!("--disable: there is no component {unknown}; choose from {}", PARTS.join(", "));
    }
    hardening::require_root("`corten agent` as root")?;
    log_to_stderr();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start the async runtime")?;
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

/// Joins the cluster and runs the node. Returns only with an error.
async fn work(args: &Args) -> anyhow::Result<()> {
    hardening::prepare_data_directory(&args.data_dir)?;
    let folder = args.folder();
    corten_base::files::private_directory(&folder)
        .with_context(|| format!("cannot create {}", folder.display()))?;
    let clock = Clock::real();
    check_node_ip(&args.node_ip)?;
    let given = args.node_ip.first().copied();
    let address = given.or_else(|| outward_address(false)).or_else(|| outward_address(true));
    let address = address.context("this machine has no default route; give its address with --node-ip")?;
    let joined = args.joining()?.join(clock.clone()).await?;
    let client = joined.client.named(KUBELET_AGENT);
    let servers = joined.servers().clone();
    servers::recall(&servers, &folder)?;
    tokio::spawn(servers.clone().check(clock.clone()));
    let settings = Settings::fetch(&client, &folder, &clock).await?;
    let options = args.options(settings, address);
    let (name, second) = (options.name.clone(), options.second_address);
    // The first address alone: the server approves the one it sees. The second is added once an administrator vouches for it,
    // because a request with an address that is not vouched for waits for approval as a whole.
    let sans = Sans::default().with_host(&name).context("invalid node name")?.with_address(address);
    let credentials = credentials(&joined, client.clone(), &name)?;
    let node = Node::start(credentials, options).await.context("cannot start the node")?;
    tracing::info!(node = name, server = args.server.join(","), "node started");
    node.spawn(joined.renew());
    node.spawn(servers::follow(servers, node.caches().clone(), folder));
    node.spawn(renew_serving_certificate(client, name, sans, second, node.tls.serving.clone(), clock));
    std::future::pending().await
}

/// The node's credentials. Until the cluster signs its serving certificate the kubelet serves with a self-signed one.
fn credentials(joined: &Joined, node: Client, name: &str) -> anyhow::Result<NodeCredentials> {
    let certificate = IssuedCert::self_signed(name, SystemTime::now())
        .context("cannot create a self-signed certificate")?;
    Ok(NodeCredentials { node, proxy: None, certificate, client_ca_pem: joined.authority_pem().to_owned() })
}

/// Has the cluster sign the kubelet's serving certificate, and renews it before it expires. The certificate has the `second`
/// address once an administrator vouches for it. Never returns.
pub(crate) async fn renew_serving_certificate(
    client: Client,
    name: String,
    sans: Sans,
    second: Option<IpAddr>,
    serving: ServingCertificate,
    clock: Clock,
) {
    let mut failures = 0;
    loop {
        let certified = async {
            let sans = match second {
                Some(second) => {
                    let node = client.get(&kinds::NODES, &Key::new("", name.as_str())).await;
                    let node = node.context("cannot read the Node object")?;
                    if is_vouched_for(&node, second) {
                        sans.clone().with_address(second)
                    } else {
                        sans.clone()
                    }
                }
                None => sans.clone(),
            };
            let certificate = join::serving(&client, &name, &sans, &clock).await?;
            serving.replace(&certificate).context("cannot use the new certificate")?;
            join::renewal_time(&certificate.cert_pem)
        };
        match certified.await {
            Ok(due) => {
                failures = 0;
                clock.sleep_until(due).await;
            }
            Err(error) => {
                failures += 1;
                let (err, backoff) = (format!("{error:#}"), RETRY.delay(failures));
                tracing::warn!(
                    node = name,
                    err,
                    ?backoff,
                    "cannot get a kubelet serving certificate; retrying"
                );
                clock.sleep(backoff).await;
            }
        }
    }
}
