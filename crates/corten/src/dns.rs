//! The server of names on this node: it has the DNS service's addresses itself and answers there, so that no packet has
//! to be led anywhere and nothing else has to run.

mod figures;

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use corten_base::{Backoff, Clock};
use corten_dns::{Bound, Dns, Options, PORT};
use corten_net::namespace::Namespace;
use corten_reconcile::Manager;

/// The link that has the service's addresses.
const LINK: &str = "corten-dns";
const RESOLV_CONF: &str = "/etc/resolv.conf";
/// Somebody else may have the port, such as this very server's predecessor.
const RETRY: Backoff = Backoff { first: Duration::from_millis(500), longest: Duration::from_secs(30) };

/// What the server of names has to be told.
#[derive(Debug, Clone)]
pub(crate) struct DnsOptions {
    /// Where it is asked: the addresses of its service.
    pub(crate) addresses: Vec<IpAddr>,
    /// What the cluster's names end in.
    pub(crate) domain: String,
}

/// Answers from now on, until the manager ends.
pub(crate) fn start(manager: &Manager, options: DnsOptions) -> anyhow::Result<()> {
    let addresses = options.addresses.clone();
    let options = Options {
        domain: options.domain,
        addresses: options.addresses,
        resolv_conf: PathBuf::from(RESOLV_CONF),
    };
    let clock = Clock::real();
    let dns = Arc::new(Dns::new(&options, clock.clone()).context("--cluster-domain")?);
    let (following, caches) = (dns.clone(), manager.caches().clone());
    manager.spawn(async move { corten_dns::follow(&following, &caches).await });
    for address in addresses.clone() {
        manager.spawn(serve(dns.clone(), addresses.clone(), address, clock.clone()));
    }
    Ok(())
}

/// Takes the service's addresses from this node.
pub(crate) fn let_go() {
    let done = Namespace::current().map_err(anyhow::Error::from);
    if let Err(error) = done.and_then(|namespace| Ok(corten_net::let_go(&namespace, LINK)?)) {
        tracing::debug!(%error, "the addresses of the DNS service could not be given back");
    }
}

async fn serve(dns: Arc<Dns>, held: Vec<IpAddr>, address: IpAddr, clock: Clock) {
    let mut failures = 0;
    loop {
        match bind(&held, address).await {
            Ok(bound) => {
                tokio::join!(bound.serve(dns.clone()), figures::serve(dns, address, clock));
                return;
            }
            Err(error) => {
                failures += 1;
                let reason = format!("{error:#}");
                tracing::warn!(%address, reason, "names cannot be answered yet; --disable=dns leaves it to others");
                clock.sleep(RETRY.delay(failures)).await;
            }
        }
    }
}

async fn bind(held: &[IpAddr], address: IpAddr) -> anyhow::Result<Bound> {
    let held = held.to_vec();
    let holding = move || {
        let namespace = Namespace::current().context("opening the network namespace")?;
        corten_net::hold(&namespace, LINK, &held).context("taking the addresses of the DNS service")
    };
    tokio::task::spawn_blocking(holding).await.context("taking addresses")??;
    Bound::at(address, PORT).await.with_context(|| format!("listening on {address} port {PORT}"))
}
