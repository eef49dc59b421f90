//! The DNS server of this node: it binds the DNS Service's addresses on the node itself, so that DNS queries need neither
//! the proxy nor a pod.

mod metrics;

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use corten_base::{Backoff, Clock};
use corten_dns::{Bound, ClientFilter, ClusterClients, Dns, Options, PORT, all_clients};
use corten_net::namespace::Namespace;
use corten_reconcile::Manager;

/// The network link that has the Service's addresses.
const LINK: &str = "corten-dns";
const RESOLV_CONF: &str = "/etc/resolv.conf";
/// Another process may have the port, such as this server's predecessor.
const RETRY: Backoff = Backoff { first: Duration::from_millis(500), longest: Duration::from_secs(30) };

/// The settings of the DNS server.
#[derive(Debug, Clone)]
pub(crate) struct DnsOptions {
    /// The addresses of the DNS Service.
    pub(crate) addresses: Vec<IpAddr>,
    /// The cluster's domain.
    pub(crate) domain: String,
    /// The node's own address, which the Service's endpoints name: other nodes and pods may query it there.
    pub(crate) node: IpAddr,
}

#[derive(Clone)]
struct Server {
    dns: Arc<Dns>,
    /// The addresses to assign to the link.
    held: Vec<IpAddr>,
    clock: Clock,
}

/// Runs the DNS server until the manager is dropped.
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
        manager.spawn(server.clone().serve(address, all_clients()));
    }
    let clients = Arc::new(ClusterClients::default());
    clients.follow(manager.caches());
    if !node.is_loopback() {
        manager.spawn(server.serve(node, Arc::new(move |client| clients.contains(client))));
    }
    Ok(())
}

/// Removes the Service's addresses from this node.
pub(crate) fn remove_addresses() {
    let done = Namespace::current().map_err(anyhow::Error::from);
    if let Err(error) = done.and_then(|namespace| Ok(corten_net::remove_service_addresses(&namespace, LINK)?))
    {
        tracing::debug!(err = %error, "cannot remove the addresses of the DNS service");
    }
}

impl Server {
    async fn serve(self, address: IpAddr, accepts: ClientFilter) {
        let mut failures = 0;
        loop {
            match bind(&self.held, address).await {
                Ok(bound) => {
                    let metrics = metrics::serve(self.dns.clone(), address, accepts.clone(), self.clock);
                    tokio::join!(bound.serve(self.dns, accepts), metrics);
                    return;
                }
                Err(error) => {
                    failures += 1;
                    let (err, backoff) = (format!("{error:#}"), RETRY.delay(failures));
                    // The other process may keep the port for good, so this is logged once.
                    if failures == 1 {
                        tracing::warn!(%address, err, "cannot bind DNS listener; retrying");
                    }
                    self.clock.sleep(backoff).await;
                }
            }
        }
    }
}

async fn bind(held: &[IpAddr], address: IpAddr) -> anyhow::Result<Bound> {
    let held = held.to_vec();
    let holding = move || {
        let namespace = Namespace::current().context("cannot open the network namespace")?;
        corten_net::assign_service_addresses(&namespace, LINK, &held)
            .context("cannot assign the addresses of the DNS service")
    };
    tokio::task::spawn_blocking(holding).await.context("cannot assign addresses")??;
    Bound::bind(address, PORT).await.with_context(|| format!("cannot listen on {address} port {PORT}"))
}
