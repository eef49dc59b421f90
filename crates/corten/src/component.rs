//! The common parts of components that run in a process of their own, against any Kubernetes API server: flags, identity,
//! health and metrics, and leader election.
//!
//! Of several such processes the one that holds the lock works. A process that loses the lock exits, as upstream's does,
//! so that none of its work outlives its leadership. A process that a signal stops ends its work and releases the lock.

mod election;
mod serving;

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail};
use corten_base::Clock;
use corten_client::{Client, Remote};
use corten_pki::Credentials;
use corten_reconcile::{Election, Leadership};

use crate::kubeconfig;
use crate::server::log_to_stderr;
use crate::stop_signals::StopSignals;

pub(crate) use election::{ElectionFlags, ElectionSettings};
pub(crate) use serving::Metrics;

/// Flags of every component.
#[derive(clap::Args)]
pub(crate) struct Flags {
    /// Kubeconfig of the API server.
    #[arg(long)]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Address of the health and metrics endpoints.
    #[arg(long, default_value = "0.0.0.0")]
    bind_address: IpAddr,
    /// Port of the health and metrics endpoints; 0 disables them [default: the component's own].
    #[arg(long)]
    secure_port: Option<u16>,
    #[command(flatten)]
    pub(crate) election: ElectionFlags,
    /// Name of the lock [default: the component's name].
    #[arg(long, value_name = "NAME", help_heading = "Leader election")]
    leader_elect_resource_name: Option<String>,
}

/// A component: upstream's name for it, its port and its user agent.
pub(crate) struct Component {
    pub(crate) name: &'static str,
    /// The source of its events about leader election.
    pub(crate) recorder: &'static str,
    pub(crate) port: u16,
    pub(crate) agent: &'static str,
}

/// The client of a component that is ready to start.
pub(crate) struct Ready {
    pub(crate) client: Client,
    pub(crate) credentials: Credentials,
    pub(crate) clock: Clock,
}

impl Component {
    /// Runs until a signal stops it or it loses its leadership. `work` is called once this process leads; its result is
    /// dropped at the end.
    pub(crate) fn run<W>(
        &self,
        flags: &Flags,
        election: ElectionSettings,
        metrics: Metrics,
        work: impl FnOnce(Ready) -> anyhow::Result<W>,
    ) -> anyhow::Result<()> {
        let election = election.named(flags.leader_elect_resource_name.as_deref());
        let election = election.election(self.recorder, &Clock::real())?;
        log_to_stderr();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .context("cannot start the async runtime")?;
        runtime.block_on(async {
            let stop = StopSignals::install()?;
            let ready = connect(flags.kubeconfig.as_deref(), self.agent)?;
            let port = flags.secure_port.unwrap_or(self.port);
            if port != 0 {
                let address = SocketAddr::new(flags.bind_address, port);
                serving::start(self.name, address, ready.client.clone(), metrics).await?;
            }
            let stop = async {
                stop.wait().await;
                tracing::info!("stopping");
            };
            match election {
                Some(election) => self.lead(election, ready, stop, work).await,
                None => {
                    let _working = work(ready)?;
                    stop.await;
                    Ok(())
                }
            }
        })
    }

    /// Waits for the leadership, and works until it is lost or the process is stopped.
    async fn lead<W>(
        &self,
        election: Election,
        ready: Ready,
        stop: impl Future<Output = ()>,
        work: impl FnOnce(Ready) -> anyhow::Result<W>,
    ) -> anyhow::Result<()> {
        tracing::info!(lock = %election.key, identity = election.identity, "attempting to acquire leader lease");
        let client = ready.client.named(format!("{}/leader-election", self.agent));
        let mut stop = std::pin::pin!(stop);
        let mut leadership = tokio::select! {
            () = &mut stop => return Ok(()),
            leadership = Leadership::acquire(client, ready.clock.clone(), election) => leadership,
        };
        tracing::info!("acquired leader lease");
        let working = work(ready);
        let is_lost = match &working {
            Ok(_) => tokio::select! {
                () = &mut stop => false,
                () = leadership.hold() => true,
            },
            Err(_) => false,
        };
        // The next leader must not meet the work of this one.
        let failure = working.map(drop).err();
        leadership.release().await;
        match failure {
            Some(error) => Err(error),
            None if is_lost => bail!("leaderelection lost"),
            None => Ok(()),
        }
    }
}

/// A client of the server and the user that a kubeconfig names.
pub(crate) fn connect(path: Option<&Path>, agent: &'static str) -> anyhow::Result<Ready> {
    let path = path.context("no API server: name a kubeconfig with --kubeconfig")?;
    let credentials = kubeconfig::read(path)?;
    let remote =
        Remote::new(&credentials).with_context(|| format!("cannot connect to {}", credentials.server))?;
    let client = Client::new(Arc::new(remote), agent);
    Ok(Ready { client, credentials, clock: Clock::real() })
}
