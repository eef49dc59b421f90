//! The kubelet's API, on port 10250: logs, exec, attach, port-forward, pods, metrics and stats.
//!
//! Every request is authenticated and authorized before it is handled; see `access`.

mod access;
mod exec;
#[doc(hidden)]
pub mod fuzz;
mod idle;
mod listen;
mod log_files;
mod logs;
mod metrics;
mod plain;
mod port_forward;
mod query;
mod redirect;
mod remote_command;
mod response;
mod routes;
mod spdy;
mod spdy_session;
mod websocket;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use corten_pki::{IssuedCert, LiveAuthorities};
use tokio::net::TcpListener;

use crate::kubelet::Kubelet;

pub use corten_pki::LiveCertificate as ServingCertificate;

/// The settings of the kubelet's API.
pub struct Options {
    /// The address of the listener; port 0 picks a free one.
    pub address: SocketAddr,
    /// The serving certificate.
    pub certificate: IssuedCert,
    /// The certificate authorities of clients, in PEM; client certificates are not accepted if it is empty.
    pub client_ca_pem: String,
    /// The settings of authentication and authorization.
    pub trust: Trust,
    /// The address of the healthz listener, without authentication; `None` disables it.
    pub health: Option<SocketAddr>,
    /// The address of the read-only listener, without authentication; `None` disables it.
    pub read_only: Option<SocketAddr>,
}

/// The settings of authentication and authorization.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trust {
    /// True if requests without credentials are `system:anonymous` rather than unauthorized.
    pub anonymous: bool,
    /// The cache time of token reviews; `None` disables tokens.
    pub tokens: Option<Duration>,
    /// True if the API server authorizes requests; every authenticated request is allowed otherwise.
    pub reviews: bool,
    /// The cache time of allowed requests.
    pub consent: Duration,
    /// The cache time of denied requests.
    pub refusal: Duration,
}

impl Default for Trust {
    /// The defaults of upstream's kubelet.
    fn default() -> Trust {
        Trust {
            anonymous: false,
            tokens: Some(Duration::from_secs(120)),
            reviews: true,
            consent: Duration::from_secs(300),
            refusal: Duration::from_secs(30),
        }
    }
}

/// The API cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The listener could not be bound.
    #[error("cannot bind the kubelet API listener to {address}")]
    Listen {
        address: SocketAddr,
        #[source]
        source: std::io::Error,
    },
    /// The serving certificate or the client authorities cannot be parsed.
    #[error("cannot parse certificates of the kubelet API")]
    Certificates(#[source] corten_pki::Error),
    /// TLS could not be configured.
    #[error("cannot configure TLS of the kubelet API")]
    Tls(#[source] rustls::Error),
}

/// The bound listeners of the API, which do not accept connections yet.
pub struct Bound {
    listener: TcpListener,
    tls: Arc<rustls::ServerConfig>,
    shown: ServingCertificate,
    clients: Option<LiveAuthorities>,
    trust: Trust,
    health: Option<TcpListener>,
    read_only: Option<TcpListener>,
    port: u16,
}

/// Binds the listeners of the API.
pub async fn bind(options: &Options) -> Result<Bound, Error> {
    let (config, shown, clients) = listen::tls(options)?;
    let address = options.address;
    let failed = |source| Error::Listen { address, source };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let port = listener.local_addr().map_err(failed)?.port();
    Ok(Bound {
        listener,
        tls: Arc::new(config),
        shown,
        clients,
        trust: options.trust.clone(),
        health: plain::bind(options.health).await,
        read_only: plain::bind(options.read_only).await,
        port,
    })
}

impl Bound {
    /// The port of the API.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The serving certificate, which can be replaced before it expires.
    pub fn serving_certificate(&self) -> ServingCertificate {
        self.shown.clone()
    }

    /// The CAs of clients, which can be replaced; `None` if client certificates are not accepted.
    pub fn client_authorities(&self) -> Option<LiveAuthorities> {
        self.clients.clone()
    }

    /// Serves the API until the future is dropped.
    pub(crate) async fn serve(self, kubelet: Arc<Kubelet>) {
        let access = access::Access::new(&kubelet, self.clients, self.trust);
        let server = Arc::new(Server { access, kubelet });
        tokio::join!(
            listen::serve(server.clone(), self.listener, self.tls),
            plain::serve(server.clone(), self.health, plain::Offer::Health),
            plain::serve(server, self.read_only, plain::Offer::ReadOnly),
        );
    }
}

/// The state that requests are handled with.
struct Server {
    kubelet: Arc<Kubelet>,
    access: access::Access,
}
