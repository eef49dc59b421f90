//! The server of names on this node: it has the DNS service's addresses itself and answers there, so that no packet has
//! to be led anywhere and nothing else has to run.

mod figures;

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use corten_base::{Backoff, Clock};
use corten_dns::{Bound, Dns, MayAsk, Neighbours, Options, PORT, anybody};
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
    /// The node's own address: where the rest of the cluster may ask too, as the service's endpoints say.
    pub(crate) node: IpAddr,
}

#[derive(Clone)]
struct Server {
    dns: Arc<Dns>,
    /// The addresses that the node has to have.
    held: Vec<IpAddr>,
    clock: Clock,
}

/// Answers from now on, until the manager ends.
pub(crate) fn start(manager: &Manager, options: DnsOptions) -> anyhow::Result<()> {
    let (addresses, node) = (options.addresses.clone(), options.node);
    let options = Options {
        domain: options.domain,
        addresses: options.addresses,
        resolv_conf: PathBuf::from(RESOLV_CONF),
    };
    let clock = Clock::real();
    let dns = Arc::new(Dns::new(&options, clock.clone()).context("--cluster-domain")?);
    let (following, caches) = (dns.clone(), manager.caches().clone());
    manager.spawn(async move { corten_dns::follow(&following, &caches).await });
    let server = Server { dns, held: addresses.clone(), clock };
    for address in addresses {
        manager.spawn(server.clone().serve(address, anybody()));
    }
    let neighbours = Arc::new(Neighbours::default());
    neighbours.follow(manager.caches());
    if !node.is_loopback() {
        manager.spawn(server.serve(node, Arc::new(move |asker| neighbours.include(asker))));
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

impl Server {
    async fn serve(self, address: IpAddr, may_ask: MayAsk) {
        let mut failures = 0;
        loop {
            match bind(&self.held, address).await {
                Ok(bound) => {
                    let figures = figures::serve(self.dns.clone(), address, may_ask.clone(), self.clock);
                    tokio::join!(bound.serve(self.dns, may_ask), figures);
                    return;
                }
                Err(error) => {
                    failures += 1;
                    let reason = format!("{error:#}");
                    // Whoever has the port may keep it for good: said once is enough.
                    if failures == 1 {
                        tracing::warn!(%address, reason, "names cannot be answered here yet");
                    }
                    self.clock.sleep(RETRY.delay(failures)).await;
                }
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
