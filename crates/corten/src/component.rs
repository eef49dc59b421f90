//! The common parts of components that run in a process of their own, against any Kubernetes API server: flags, identity,
//! health and metrics, and leader election.
//!
//! Of several such processes the one that holds the Lease works. A process that loses the Lease exits, as upstream's does,
//! so that none of its work outlives its leadership.

mod serving;

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use corten_base::Clock;
use corten_client::{Client, Key, Remote};
use corten_pki::Credentials;
use corten_reconcile::{Election, Leadership};

use crate::kubeconfig;
use crate::server::{log_to_stderr, parse_duration};
use crate::stop_signals::StopSignals;

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
    /// Use leader election: work only while holding a Lease.
    #[arg(long, default_value_t = true, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    pub(crate) leader_elect: bool,
    /// Time after the last renewal at which candidates may take the Lease.
    #[arg(long, default_value = "15s", value_parser = parse_duration)]
    leader_elect_lease_duration: Duration,
    /// Time to renew the Lease before leadership is given up.
    #[arg(long, default_value = "10s", value_parser = parse_duration)]
    leader_elect_renew_deadline: Duration,
    /// Period of attempts to acquire or renew the Lease.
    #[arg(long, default_value = "2s", value_parser = parse_duration)]
    leader_elect_retry_period: Duration,
    /// Name of the Lease [default: the component's name].
    #[arg(long)]
    leader_elect_resource_name: Option<String>,
    /// Namespace of the Lease.
    #[arg(long, default_value = "kube-system")]
    leader_elect_resource_namespace: String,
}

/// A component: upstream's name for it, its port and its user agent.
pub(crate) struct Component {
    pub(crate) name: &'static str,
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
        metrics: Metrics,
        work: impl FnOnce(Ready) -> anyhow::Result<W>,
    ) -> anyhow::Result<()> {
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
            self.lead(flags, ready, work, stop).await
        })
    }

    /// Waits for the leadership, and works until it is lost. A signal gives it up.
    async fn lead<W>(
        &self,
        flags: &Flags,
        ready: Ready,
        work: impl FnOnce(Ready) -> anyhow::Result<W>,
        stop: StopSignals,
    ) -> anyhow::Result<()> {
        let mut stop = std::pin::pin!(stop.wait());
        if !flags.leader_elect {
            let _working = work(ready)?;
            stop.await;
            tracing::info!("stopping");
            return Ok(());
        }
        let election = self.election(flags, &ready.clock);
        tracing::info!(lease = %election.key, identity = election.identity, "attempting to acquire leader lease");
        let acquiring = Leadership::acquire(ready.client.clone(), ready.clock.clone(), election);
        let mut leadership = tokio::select! {
            leadership = acquiring => leadership,
            () = &mut stop => {
                tracing::info!("stopping");
                return Ok(());
            }
        };
        let working = work(ready)?;
        tokio::select! {
            () = leadership.hold() => bail!("leaderelection lost"),
            () = &mut stop => {}
        }
        tracing::info!("stopping");
        drop(working);
        leadership.release().await;
        Ok(())
    }

    fn election(&self, flags: &Flags, clock: &Clock) -> Election {
        let name = flags.leader_elect_resource_name.as_deref().unwrap_or(self.name);
        Election {
            key: Key::new(flags.leader_elect_resource_namespace.as_str(), name),
            identity: identity(clock),
            lease: flags.leader_elect_lease_duration,
            renew: flags.leader_elect_renew_deadline,
            retry: flags.leader_elect_retry_period,
        }
    }
}

/// An identity in elections, unique among the processes of all machines.
pub(crate) fn identity(clock: &Clock) -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    format!("{}_{}-{:x}", host.trim(), std::process::id(), clock.now().as_nanosecond())
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
