//! The API server: filters, verbs, watch cache, discovery, over TLS.
//!
//! A request is first authenticated and authorized, then decoded, admitted, prepared, validated, committed to the store, and
//! only then acknowledged. Reads come from the watch caches, which the store updates before it acknowledges a write. Never in
//! here: the work of controllers.

mod access_reviews;
mod admission;
mod aggregation;
mod allocation;
mod authentication;
mod authorization;
mod body;
mod bootstrap;
mod cache;
mod call;
mod catalog;
mod column_descriptions;
mod compress;
mod connect;
mod crd;
mod decode;
mod dispatch;
mod encryption;
mod endpoints;
mod event_leases;
mod filter;
#[doc(hidden)]
pub mod fuzz;
mod heavy;
mod in_flight;
mod listen;
mod local;
#[cfg(test)]
#[path = "../../api/tests/bounds/meter.rs"]
mod meter;
mod metrics;
mod negotiate;
mod object;
mod pre_release;
mod random;
mod recent_writes;
mod rendered;
mod request;
mod request_body;
mod resolver;
mod resource_metrics;
mod respond;
mod server_id;
mod server_joins;
mod storage;
mod tls;
mod verbs;
mod version;
mod virtual_resources;
mod warnings;
mod watcher;
mod webhook_client;
mod websocket;
mod write_options;

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
pub use aggregation::FrontProxyError;
pub use allocation::{PortRange, ServiceRanges};
pub use authentication::{AuthenticationOptions, ServiceAccountOptions};
pub use authorization::AuthorizationModes;
pub use catalog::RuntimeConfig;
pub use connect::TlsError as KubeletTlsError;
pub use corten_api::time::go_duration;
pub use encryption::{EncryptionAtRest, EncryptionError};
pub use in_flight::Limits;
pub use local::Handle;
pub use server_joins::{SERVER_JOIN, ServerJoins};
pub use storage::{EncryptedForms, StorageMediaType, StoredForms, is_same_object, rewritten};
pub use tls::TlsError;

use allocation::Allocators;
use authentication::Authentication;
use bootstrap::kubernetes_service::OwnLease;
use call::Backend;
use catalog::Catalog;
use endpoints::Health;
use in_flight::Lanes;
use metrics::Metrics;
use request_body::Readers;
use server_joins::JoinEndpoint;
use tls::ClientCertificates;

/// A failure to start the server.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("cannot configure TLS")]
    Tls(#[source] TlsError),
    #[error("cannot configure TLS for kubelet connections")]
    Kubelets(#[source] KubeletTlsError),
    #[error("cannot configure TLS for aggregated API servers")]
    Aggregation(#[source] FrontProxyError),
    #[error("cannot create bootstrap objects: {0}")]
    Bootstrap(String),
    #[error("cannot read address of API server listener")]
    Address(#[source] std::io::Error),
}

/// The configuration of a server.
pub struct Options {
    pub pki: ServerPki,
    pub authentication: AuthenticationOptions,
    pub store: Store,
    /// The encryption of the store's values.
    pub encryption: Arc<EncryptionAtRest>,
    /// The listener for network clients; `None` if all clients are in this process.
    pub listener: Option<TcpListener>,
    pub clock: Clock,
    pub runtime_config: RuntimeConfig,
    pub admission_plugins: AdmissionPlugins,
    pub authorization_modes: AuthorizationModes,
    /// The address that clients use.
    pub advertised: SocketAddr,
    /// The address of this server in the endpoints of the `kubernetes` service; `None` for no endpoint.
    pub endpoint: Option<SocketAddr>,
    pub service_ranges: ServiceRanges,
    pub node_ports: PortRange,
    pub limits: Limits,
    /// True to scrape kubelets and to serve `metrics.k8s.io`.
    pub resource_metrics: bool,
    /// The flags that the server was started with, by name, for `/flagz`.
    pub flags: Vec<(String, String)>,
    /// Decides about machines that join as servers; `None` to let none join.
    pub joins: Option<Arc<dyn ServerJoins>>,
}

pub struct Server {
    backend: Arc<Backend>,
    metrics: Metrics,
    encryption: Arc<EncryptionAtRest>,
    health: Health,
    client_certificates: ClientCertificates,
    /// The server address in discovery and in the URI of token keys: the endpoint for pods, if there is one.
    advertised: String,
    port: u16,
    endpoint: Option<SocketAddr>,
    /// Lists this server among the living ones of its datastore.
    own_lease: OwnLease,
    service_ranges: ServiceRanges,
    lanes: Lanes,
    readers: Readers,
    started_at: Instant,
    flags: Vec<(String, String)>,
    joins: Option<Arc<JoinEndpoint>>,
    stop: watch::Receiver<bool>,
}

/// A running server.
pub struct Running {
    server: Arc<Server>,
    stop: watch::Sender<bool>,
    task: Option<tokio::task::JoinHandle<()>>,
    reconciler: tokio::task::JoinHandle<()>,
    definitions: tokio::task::JoinHandle<()>,
    aggregation: tokio::task::JoinHandle<()>,
    manifests: tokio::task::JoinHandle<()>,
    aging: tokio::task::JoinHandle<()>,
    scraper: Option<tokio::task::JoinHandle<()>>,
}

/// The CAs that a running server trusts.
#[derive(Clone)]
pub struct Certificates(Arc<Server>);

impl Certificates {
    /// Trusts these CAs of client certificates from now on, and publishes them. If a CA is `retired`, connections are closed when
    /// they are idle, so that their certificates are verified again.
    pub async fn trust(&self, bundle: &str, retired: &str, closes: bool) -> Result<(), String> {
        let Certificates(server) = self;
        server.client_certificates.trust(bundle, closes).map_err(|error| error.to_string())?;
        server.backend.authentication.replace_trust(bundle, retired);
        authentication::publish(server).await
    }
}

/// Loads the stored objects, creates the bootstrap objects and starts to serve.
pub async fn start(options: Options) -> Result<Running, StartError> {
    let (config, client_certificates) =
        tls::configure(&options.pki, &options.authentication).map_err(StartError::Tls)?;
    let kubelets = connect::Kubelets::new(&options.pki).map_err(StartError::Kubelets)?;
    let aggregation = aggregation::Aggregation::new(&options.pki).map_err(StartError::Aggregation)?;
    let (stop, stopping) = watch::channel(false);
    let catalog = Catalog::load(&options.store, &options.runtime_config, options.resource_metrics);
    let admission = admission::Admission::start(&options.admission_plugins, &options.store);
    let authorizer = authorization::Authorizer::start(options.authorization_modes, &options.store);
    let server = Arc::new(Server {
        health: Health::new(options.store.clone(), Arc::clone(&options.encryption)),
        backend: Arc::new(Backend {
            catalog,
            clock: options.clock,
            store: options.store,
            authorizer,
            admission,
            event_leases: event_leases::EventLeases::default(),
            allocators: Allocators::new(&options.service_ranges, options.node_ports),
            limits: options.limits,
            authentication: Authentication::new(options.authentication),
            kubelets,
            aggregation,
            resource_metrics: resource_metrics::ResourceMetrics::default(),
        }),
        metrics: Metrics::new(),
        encryption: options.encryption,
        client_certificates,
        advertised: options.endpoint.unwrap_or(options.advertised).to_string(),
        port: options.advertised.port(),
        endpoint: options.endpoint,
        own_lease: OwnLease::default(),
        service_ranges: options.service_ranges,
        lanes: Lanes::new(&options.limits),
        readers: Readers::default(),
        started_at: Instant::now(),
        flags: options.flags,
        joins: options.joins.map(|joins| Arc::new(JoinEndpoint::new(joins))),
        stop: stopping.clone(),
    });
    server.backend.authentication.start_use_recorder(Arc::downgrade(&server));
    let refused =
        bootstrap::run(&server).await.map_err(|failure| StartError::Bootstrap(failure.to_string()))?;
    let api_services = aggregation::refresh(&server);
    server.health.set_ready();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let reconciler = tokio::spawn(bootstrap::reconcile(server.clone(), refused));
    let definitions = tokio::spawn(crd::run(server.clone()));
    let aggregation = tokio::spawn(aggregation::run(server.clone(), api_services));
    let manifests = tokio::spawn(admission::configuration::follow(server.clone()));
    let aging = tokio::spawn(cache::aging::run(server.clone()));
    let scraper =
        options.resource_metrics.then(|| tokio::spawn(resource_metrics::scrape_kubelets(server.clone())));
    let task = options
        .listener
        .map(|listener| tokio::spawn(listen::serve(server.clone(), listener, acceptor, stopping)));
    Ok(Running { server, stop, task, reconciler, definitions, aggregation, manifests, aging, scraper })
}

impl Running {
    /// Adds metrics of another part of this process to `/metrics`.
    pub fn add_metrics(
        &self,
        render: impl Fn(&mut corten_serving::metrics::Exposition) + Send + Sync + 'static,
    ) {
        self.server.metrics.more.lock().push(Box::new(render));
    }

    /// The server's certificates and trust, to be replaced while it runs.
    pub fn certificates(&self) -> Certificates {
        Certificates(self.server.clone())
    }

    /// Stops accepting requests, waits for those in flight, and closes the store.
    pub async fn stop(self) {
        self.reconciler.abort();
        self.definitions.abort();
        self.aggregation.abort();
        self.manifests.abort();
        self.aging.abort();
        if let Some(scraper) = &self.scraper {
            scraper.abort();
        }
        // It was aborted, so it ends at once.
        let _ = self.reconciler.await;
        let _ = self.definitions.await;
        let _ = self.aggregation.await;
        let _ = self.manifests.await;
        let _ = self.aging.await;
        bootstrap::remove_endpoint(&self.server).await;
        self.server.health.set_stopping();
        self.stop.send_replace(true);
        if let Some(task) = self.task {
            // The task only ends by returning.
            let _ = task.await;
        }
        self.server.backend.store.clone().close();
    }
}
