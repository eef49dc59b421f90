//! What parts have in common that run alone, against any Kubernetes API server: flags, identity, health and metrics, and
//! leader election.
//!
//! Of several such processes the one that holds the Lease works. One that loses it ends, as upstream's does, so
//! that nothing it was doing outlives its leadership.

mod serving;

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use corten_base::Clock;
use corten_client::{Client, Key, Remote};
use corten_pki::{Credentials, parse_kubeconfig};
use corten_reconcile::{Election, Leadership};

use crate::server::{log_to_stderr, parse_duration};
use crate::stop_signals::StopSignals;

pub(crate) use serving::Metrics;

/// The flags that every such part takes.
#[derive(clap::Args)]
pub(crate) struct Flags {
    /// The server to work on, and who to be.
    #[arg(long)]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The address to serve health and metrics on.
    #[arg(long, default_value = "0.0.0.0")]
    bind_address: IpAddr,
    /// The port to serve health and metrics on; 0 for none [default: the part's own].
    #[arg(long)]
    secure_port: Option<u16>,
    /// Work only while holding a Lease, so that one of several does.
    #[arg(long, default_value_t = true, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    pub(crate) leader_elect: bool,
    /// How long others wait after the last renewal before they take over.
    #[arg(long, default_value = "15s", value_parser = parse_duration)]
    leader_elect_lease_duration: Duration,
    /// How long renewing is tried before giving up.
    #[arg(long, default_value = "10s", value_parser = parse_duration)]
    leader_elect_renew_deadline: Duration,
    /// How long to wait between tries.
    #[arg(long, default_value = "2s", value_parser = parse_duration)]
    leader_elect_retry_period: Duration,
    /// The Lease's name [default: the part's own].
    #[arg(long)]
    leader_elect_resource_name: Option<String>,
    /// The Lease's namespace.
    #[arg(long, default_value = "kube-system")]
    leader_elect_resource_namespace: String,
}

/// A part: upstream's name for it and its port.
pub(crate) struct Component {
    pub(crate) name: &'static str,
    pub(crate) port: u16,
    pub(crate) agent: &'static str,
}

/// A part that has what it needs to begin.
pub(crate) struct Ready {
    pub(crate) client: Client,
    pub(crate) credentials: Credentials,
    pub(crate) clock: Clock,
}

impl Component {
    /// Runs until it is told to stop or loses its leadership. `work` is called once this process leads; what it
    /// returns lives until the end.
    pub(crate) fn run<W>(
        &self,
        flags: &Flags,
        metrics: Metrics,
        work: impl FnOnce(Ready) -> anyhow::Result<W>,
    ) -> anyhow::Result<()> {
        log_to_stderr();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .context("starting the runtime")?;
        runtime.block_on(async {
            let stop = StopSignals::install()?;
            let ready = connect(flags.kubeconfig.as_deref(), self.agent)?;
            let port = flags.secure_port.unwrap_or(self.port);
            if port != 0 {
                let address = SocketAddr::new(flags.bind_address, port);
                serving::start(self.name, address, ready.client.clone(), metrics).await?;
            }
            tokio::select! {
                () = stop.wait() => {
                    tracing::info!("stopping");
                    Ok(())
                }
                result = self.lead(flags, ready, work) => result,
            }
        })
    }

    /// Works for as long as this process leads.
    async fn lead<W>(
        &self,
        flags: &Flags,
        ready: Ready,
        work: impl FnOnce(Ready) -> anyhow::Result<W>,
    ) -> anyhow::Result<()> {
        let leadership = if flags.leader_elect {
            let election = self.election(flags, &ready.clock);
            tracing::info!(lease = %election.key, identity = election.identity, "waiting to lead");
            Some(Leadership::acquire(ready.client.clone(), ready.clock.clone(), election).await)
        } else {
            None
        };
        let _working = work(ready)?;
        match leadership {
            Some(leadership) => leadership.hold().await,
            None => std::future::pending().await,
        }
        bail!("leaderelection lost")
    }

    /// The machine's name and something that tells two processes on it apart.
    fn election(&self, flags: &Flags, clock: &Clock) -> Election {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let identity = format!("{}_{}-{:x}", host.trim(), std::process::id(), clock.now().as_nanosecond());
        let name = flags.leader_elect_resource_name.as_deref().unwrap_or(self.name);
        Election {
            key: Key::new(flags.leader_elect_resource_namespace.as_str(), name),
            identity,
            lease: flags.leader_elect_lease_duration,
            renew: flags.leader_elect_renew_deadline,
            retry: flags.leader_elect_retry_period,
        }
    }
}

/// Whom a kubeconfig says to speak to, and as whom.
pub(crate) fn connect(kubeconfig: Option<&Path>, agent: &'static str) -> anyhow::Result<Ready> {
    let path = kubeconfig.context("--kubeconfig says which server to work on; give one")?;
    let text = std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    let path = path.display();
    let credentials = parse_kubeconfig(&text).with_context(|| format!("reading {path}"))?;
    let remote =
        Remote::new(&credentials).with_context(|| format!("preparing for {}", credentials.server))?;
    let client = Client::new(Arc::new(remote), agent);
    Ok(Ready { client, credentials, clock: Clock::real() })
}
