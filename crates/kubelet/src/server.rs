//! The kubelet's own API, on 10250: logs, sessions in containers, what runs here and how it is.
//!
//! Nobody is answered before it is known who asks and that they may; see `access`.

mod access;
mod answer;
mod listen;
mod log_files;
mod logs;
mod metrics;
mod plain;
mod port_forward;
mod query;
mod redirect;
mod routes;
mod session;
mod sessions;
mod shown;
mod spdy;
mod spdy_session;
mod websocket;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use corten_pki::IssuedCert;
use rustls::server::danger::ClientCertVerifier;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::machine::Machine;

pub use shown::Shown;

/// How the API is reached, and whom it believes.
pub struct Options {
    /// Port 0 picks a free one.
    pub address: SocketAddr,
    /// What the node shows.
    pub certificate: IssuedCert,
    /// Who signs the certificates of clients; nobody's count if it is empty.
    pub client_ca_pem: String,
    pub trust: Trust,
    /// Where anybody may ask whether the kubelet works.
    pub health: Option<SocketAddr>,
    /// Where anybody may look, without showing who they are.
    pub read_only: Option<SocketAddr>,
}

/// Who is believed, and who may.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trust {
    /// Whether who shows nothing is `system:anonymous`, rather than nobody.
    pub anonymous: bool,
    /// Whether the API server is asked about tokens, and how long its answer counts.
    pub tokens: Option<Duration>,
    /// Whether the API server is asked who may; everybody may otherwise.
    pub reviews: bool,
    /// How long its consent counts, and its refusal.
    pub consent: Duration,
    pub refusal: Duration,
}

impl Default for Trust {
    /// As upstream's kubelet does it unless told otherwise.
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

/// Why the API cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("listening on {address}")]
    Listen {
        address: SocketAddr,
        #[source]
        source: std::io::Error,
    },
    #[error("the certificates of the node cannot be used")]
    Certificates(#[source] corten_pki::Error),
    #[error("TLS cannot be set up")]
    Tls(#[source] rustls::Error),
    #[error("the authorities of clients cannot be used")]
    Authorities(#[source] rustls::server::VerifierBuilderError),
}

/// The API's socket, on which nobody is answered yet.
pub struct Bound {
    listener: TcpListener,
    acceptor: TlsAcceptor,
    shown: Shown,
    clients: Option<Arc<dyn ClientCertVerifier>>,
    trust: Trust,
    health: Option<TcpListener>,
    read_only: Option<TcpListener>,
    port: u16,
}

/// Takes the API's port.
pub async fn bind(options: &Options) -> Result<Bound, Error> {
    let (config, shown, clients) = listen::tls(options)?;
    let address = options.address;
    let failed = |source| Error::Listen { address, source };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let port = listener.local_addr().map_err(failed)?.port();
    Ok(Bound {
        listener,
        acceptor: TlsAcceptor::from(Arc::new(config)),
        shown,
        clients,
        trust: options.trust.clone(),
        health: plain::bind(options.health).await,
        read_only: plain::bind(options.read_only).await,
        port,
    })
}

impl Bound {
    pub fn port(&self) -> u16 {
        self.port
    }

    /// What the node shows, to be replaced before it is over.
    pub fn shown(&self) -> Shown {
        self.shown.clone()
    }

    /// Answers, for as long as it is not dropped.
    pub(crate) async fn serve(self, machine: Arc<Machine>) {
        let access = access::Access::new(&machine, self.clients, self.trust);
        let server = Arc::new(Server { access, machine });
        tokio::join!(
            listen::serve(server.clone(), self.listener, self.acceptor),
            plain::serve(server.clone(), self.health, plain::Offer::Health),
            plain::serve(server, self.read_only, plain::Offer::ReadOnly),
        );
    }
}

/// What requests are answered with.
struct Server {
    machine: Arc<Machine>,
    access: access::Access,
}
