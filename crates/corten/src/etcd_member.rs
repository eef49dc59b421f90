//! The etcd member that `corten server --cluster-init` runs on its machine, and the members of servers that join.
//!
//! ```text
//! certificates ─► (joining: MemberAdd as learner) ─► etcd process, supervised ─► (MemberPromote) ─► endpoints for the store
//! ```
//!
//! `DATA_DIR/etcd` has etcd's data and the member's own settings, so that a later start needs no flag. etcd has a CA of its own,
//! which signs the certificates of servers alone: nodes and users have no access.
//!
//! Invariants: a server whose directory has a member never uses another datastore; etcd ends with this process, and when it
//! ends by itself it is started again.

mod certificates;
mod cluster;
pub(crate) mod command;
mod process;
mod settings;

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use corten_grpc::Endpoint;

use crate::server_join::MemberSeed;
use certificates::Certificates;
use cluster::Cluster;
use process::Process;
use settings::Settings;

/// etcd's own ports.
const CLIENT_PORT: u16 = 2379;
const PEER_PORT: u16 = 2380;
/// The time in which a member has to respond after its start.
const START: Duration = Duration::from_secs(120);
const RESTART: Duration = Duration::from_secs(24 * 3600);

#[derive(clap::Args)]
#[command(next_help_heading = "etcd member")]
pub(crate) struct MemberFlags {
    /// Keep the cluster in an etcd member on this machine, and be the first server of several.
    #[arg(long)]
    cluster_init: bool,
    /// Make the etcd member of this machine the only one and exit: when most members are lost for good.
    #[arg(long, conflicts_with = "cluster_init")]
    cluster_reset: bool,
    /// Port of the etcd member for servers.
    #[arg(long, value_name = "PORT", default_value_t = CLIENT_PORT)]
    etcd_member_client_port: u16,
    /// Port of the etcd member for other members.
    #[arg(long, value_name = "PORT", default_value_t = PEER_PORT)]
    etcd_member_peer_port: u16,
}

/// A running member.
pub(crate) struct Member {
    process: Process,
    /// The client URLs of the members, this one first.
    pub(crate) urls: Vec<String>,
    pub(crate) endpoints: Vec<Endpoint>,
    /// The way of a server that joins to the members.
    pub(crate) seed: MemberSeed,
}

impl MemberFlags {
    pub(crate) fn resets(&self) -> bool {
        self.cluster_reset
    }

    /// True if this server runs a member, or is to run one.
    pub(crate) fn runs(&self, data_dir: &Path) -> bool {
        self.cluster_init || self.cluster_reset || Settings::exists(data_dir)
    }

    /// Starts the member of this server; `None` if it has none. `address` is that of this machine for other servers, `seed`
    /// the members to join.
    pub(crate) async fn start(
        &self,
        data_dir: &Path,
        address: Option<IpAddr>,
        seed: Option<&MemberSeed>,
    ) -> anyhow::Result<Option<Member>> {
        // A server that joined others has an embedded store once the cluster moved back to it.
        let moved_back = || data_dir.join("store").exists();
        if !self.runs(data_dir) && (seed.is_none() || moved_back()) {
            return Ok(None);
        }
        if self.cluster_init && seed.is_some() {
            bail!(
                "--cluster-init is for the first server; remove it from the command line of a server that joined"
            );
        }
        let settings = match Settings::load(data_dir)? {
            Some(settings) => settings,
            None => self.new_settings(data_dir, address, seed)?,
        };
        let certificates = Certificates::load_or_issue(data_dir, &settings)?;
        start(data_dir, &settings, &certificates).await.map(Some)
    }

    fn new_settings(
        &self,
        data_dir: &Path,
        address: Option<IpAddr>,
        seed: Option<&MemberSeed>,
    ) -> anyhow::Result<Settings> {
        if !self.cluster_init && seed.is_none() {
            bail!("--cluster-reset: {} has no etcd member", data_dir.display());
        }
        if data_dir.join("store").exists() {
            bail!(
                "{} has a cluster in its embedded store; run `corten etcd-member run --cluster-init` and move the cluster with \
                 `corten datastore migrate` first",
                data_dir.display()
            );
        }
        let address = address
            .context("this machine has no address for other servers; give one with --advertise-address")?;
        let ports = (self.etcd_member_client_port, self.etcd_member_peer_port);
        let seeds = seed.map(|seed| seed.urls.clone()).unwrap_or_default();
        Settings::create(data_dir, address, ports, seeds)
    }

    /// Makes the member of this server the only one.
    pub(crate) async fn reset(&self, data_dir: &Path) -> anyhow::Result<()> {
        let settings = Settings::load(data_dir)?;
        let settings = settings.with_context(|| format!("{} has no etcd member", data_dir.display()))?;
        settings.check_data(data_dir)?;
        let certificates = Certificates::load_or_issue(data_dir, &settings)?;
        let arguments =
            process::arguments(data_dir, &settings, &certificates, &[("force-new-cluster", "true")]);
        let process = Process::start(arguments)?;
        let cluster = Cluster::connect(&[settings.local_url()], &certificates)?;
        let waited = cluster.wait_until_healthy(&process, START).await;
        let members = match waited {
            Ok(()) => cluster.members().await,
            Err(error) => Err(error),
        };
        process.stop().await;
        let members = members.context("the etcd member does not start alone")?;
        if members.len() != 1 {
            bail!("the etcd member still has {} members", members.len());
        }
        eprintln!(
            "The etcd member {} is the only one now. Start this server without --cluster-reset; on the machines of the former \
             members, delete the data directory of the server before they join again.",
            settings.name
        );
        Ok(())
    }
}

impl Member {
    /// Stops etcd.
    pub(crate) async fn stop(self) {
        self.process.stop().await;
    }
}

async fn start(data_dir: &Path, settings: &Settings, certificates: &Certificates) -> anyhow::Result<Member> {
    settings.check_data(data_dir)?;
    let has_data = settings::data(data_dir).join("member").exists();
    let joining = !has_data && !settings.seeds.is_empty();
    let initial = match joining {
        true => {
            let others = Cluster::connect(&settings.seeds, certificates)?;
            others.add(&settings.name, &settings.peer_url()).await?
        }
        false => format!("{}={}", settings.name, settings.peer_url()),
    };
    // A member with data takes neither from the command line.
    let state = if joining { "existing" } else { "new" };
    let more = [("initial-cluster", initial.as_str()), ("initial-cluster-state", state)];
    tracing::info!(member = settings.name, peer = settings.peer_url(), joining, "starting the etcd member");
    let process = Process::start(process::arguments(data_dir, settings, certificates, &more))?;
    // A member that has data may have to wait until most others are started, too.
    let limit = if has_data { RESTART } else { START };
    let ready = ready(settings, certificates, &process, limit).await;
    match ready.and_then(|others| settings.record_start(data_dir).map(|()| others)) {
        Ok(others) => {
            let urls = |own: String| std::iter::once(own).chain(others.iter().cloned()).collect::<Vec<_>>();
            let seed = MemberSeed { urls: urls(settings.client_url()) };
            let urls = urls(settings.local_url());
            Ok(Member { process, endpoints: certificates.endpoints(&urls)?, urls, seed })
        }
        Err(error) => {
            process.stop().await;
            Err(error)
        }
    }
}

/// Waits until the member is a voting one that responds. Returns the client URLs of the others.
async fn ready(
    settings: &Settings,
    certificates: &Certificates,
    process: &Process,
    limit: Duration,
) -> anyhow::Result<Vec<String>> {
    let local = settings.local_url();
    let known: Vec<String> = std::iter::once(local.clone()).chain(settings.seeds.iter().cloned()).collect();
    let cluster = Cluster::connect(&known, certificates)?;
    cluster.promote(&settings.peer_url(), process, limit).await?;
    let own = Cluster::connect(std::slice::from_ref(&local), certificates)?;
    own.wait_until_healthy(process, limit).await?;
    let others =
        own.members().await?.into_iter().filter(|member| !member.peer_urls.contains(&settings.peer_url()));
    Ok(others.flat_map(|member| member.client_urls).collect())
}

/// The program: beside this one, or of the PATH.
fn program() -> PathBuf {
    let beside = std::env::current_exe().ok().and_then(|own| Some(own.parent()?.join("etcd")));
    beside.filter(|path| path.is_file()).unwrap_or_else(|| "etcd".into())
}
