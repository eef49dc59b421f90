//! The API server: filters, verbs, watch cache, discovery, over TLS.
//!
//! A request is authenticated and authorized before anything else happens to it, decoded, prepared,
//! validated, committed to the store and only then acknowledged. Reads come from the watch caches, which
//! the store feeds before it acknowledges a write. Never in here: anything a controller would do.

mod access_reviews;
mod admission;
mod allocation;
mod authentication;
mod authorization;
mod body;
mod bootstrap;
mod cache;
mod call;
mod catalog;
mod compress;
mod connect;
mod decode;
mod dispatch;
mod endpoints;
mod events;
mod filter;
mod heavy;
mod in_flight;
mod listen;
mod local;
mod metrics;
mod negotiate;
mod object;
mod options;
mod random;
mod reading;
mod request;
mod resource_metrics;
mod respond;
mod reviews;
mod tls;
mod verbs;
mod version;
mod warnings;
mod websocket;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use corten_base::Clock;
use corten_pki::ServerPki;
use corten_store::Store;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

pub use admission::{AdmissionPlugins, TolerationSeconds};
pub use allocation::{PortRange, ServiceRanges};
pub use authentication::{AuthenticationOptions, ServiceAccountOptions};
pub use authorization::AuthorizationModes;
pub use catalog::RuntimeConfig;
pub use connect::TlsError as KubeletTlsError;
pub use corten_api::time::go_duration;
pub use in_flight::Limits;
pub use local::Handle;
use reading::Readers;
pub use tls::TlsError;

use allocation::Allocators;
use authentication::Authentication;
use call::Backend;
use catalog::Catalog;
use endpoints::Health;
use in_flight::Lanes;
use metrics::Metrics;
use tls::ClientCertificates;

/// Why the server cannot run.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("TLS cannot be set up")]
    Tls(#[source] TlsError),
    #[error("TLS to kubelets cannot be set up")]
    Kubelets(#[source] KubeletTlsError),
    #[error("the fresh cluster could not be set up: {0}")]
    Bootstrap(String),
    #[error("the listening socket has no address")]
    Address(#[source] std::io::Error),
}

/// What a server is made of.
pub struct Options {
    pub pki: ServerPki,
    pub authentication: AuthenticationOptions,
    pub store: Store,
    /// Where others reach it; `None` if only parts of the same process do.
    pub listener: Option<TcpListener>,
    pub clock: Clock,
    pub runtime_config: RuntimeConfig,
    pub admission_plugins: AdmissionPlugins,
    pub authorization_modes: AuthorizationModes,
    /// The address clients are told to use.
    pub advertised: SocketAddr,
    /// Where pods reach this server; `None` if nowhere.
    pub endpoint: Option<SocketAddr>,
    pub service_ranges: ServiceRanges,
    pub node_ports: PortRange,
    pub limits: Limits,
    /// Whether it asks kubelets what nodes and pods use, and tells.
    pub resource_metrics: bool,
    /// The flags the server was started with, by name, for people to look at.
    pub flags: Vec<(String, String)>,
}

pub struct Server {
    backend: Arc<Backend>,
    metrics: Metrics,
    health: Health,
    client_certificates: ClientCertificates,
    /// Where everybody reaches it who asks for that, pods above all.
    advertised: String,
    port: u16,
    endpoint: Option<SocketAddr>,
    service_ranges: ServiceRanges,
    lanes: Lanes,
    readers: Readers,
    started_at: Instant,
    flags: Vec<(String, String)>,
    stop: watch::Receiver<bool>,
}

/// A server that answers requests until it is stopped.
pub struct Running {
    server: Arc<Server>,
    stop: watch::Sender<bool>,
    task: Option<tokio::task::JoinHandle<()>>,
    keeper: tokio::task::JoinHandle<()>,
    scraper: Option<tokio::task::JoinHandle<()>>,
}

/// Loads the stored objects, fills a fresh cluster and starts to answer.
pub async fn start(options: Options) -> Result<Running, StartError> {
    let (config, client_certificates) =
        tls::configure(&options.pki, &options.authentication).map_err(StartError::Tls)?;
    let kubelets = connect::Kubelets::new(&options.pki).map_err(StartError::Kubelets)?;
    let (stop, stopping) = watch::channel(false);
    let catalog = Catalog::load(&options.store, &options.runtime_config, options.resource_metrics);
    let authorizer = authorization::Authorizer::start(options.authorization_modes, &options.store);
    let server = Arc::new(Server {
        health: Health::new(options.store.clone()),
        backend: Arc::new(Backend {
            catalog,
            clock: options.clock,
            store: options.store,
            authorizer,
            admission: admission::Admission::new(&options.admission_plugins),
            event_leases: events::EventLeases::default(),
            allocators: Allocators::new(&options.service_ranges, options.node_ports),
            limits: options.limits,
            authentication: Authentication::new(options.authentication),
            kubelets,
            resource_metrics: resource_metrics::ResourceMetrics::default(),
        }),
        metrics: Metrics::new(),
        client_certificates,
        advertised: options.endpoint.unwrap_or(options.advertised).to_string(),
        port: options.advertised.port(),
        endpoint: options.endpoint,
        service_ranges: options.service_ranges,
        lanes: Lanes::new(&options.limits),
        readers: Readers::default(),
        started_at: Instant::now(),
        flags: options.flags,
        stop: stopping.clone(),
    });
    server.backend.authentication.follow_use(Arc::downgrade(&server));
    bootstrap::run(&server).await.map_err(|failure| StartError::Bootstrap(failure.to_string()))?;
    server.health.set_ready();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let keeper = tokio::spawn(bootstrap::keep(server.clone()));
    let scraper = options.resource_metrics.then(|| tokio::spawn(resource_metrics::follow(server.clone())));
    let task = options
        .listener
        .map(|listener| tokio::spawn(listen::serve(server.clone(), listener, acceptor, stopping)));
    Ok(Running { server, stop, task, keeper, scraper })
}

impl Running {
    /// Stops taking requests, lets those in flight end, and closes the store.
    pub async fn stop(self) {
        self.keeper.abort();
        if let Some(scraper) = &self.scraper {
            scraper.abort();
        }
        // It ends at once, by being told to.
        let _ = self.keeper.await;
        bootstrap::withdraw(&self.server).await;
        self.server.health.set_stopping();
        self.stop.send_replace(true);
        if let Some(task) = self.task {
            // The task only ends by returning.
            let _ = task.await;
        }
        self.server.backend.store.clone().close();
    }
}
