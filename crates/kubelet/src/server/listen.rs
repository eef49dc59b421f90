//! Connections to the kubelet's API: accept, TLS handshake, HTTP/1.1.
//!
//! Any client certificate passes the handshake, so that a bad one gets a `401` rather than a broken connection;
//! what it proves is decided by `access`.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use corten_base::{ConnectionLimits, Connections};
use corten_pki::{Anybody, pem_certificates};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use super::{Error, Options, Server, Shown, routes};

const HANDSHAKE: Duration = Duration::from_secs(10);
/// Also how long an idle connection is kept.
const HEADERS: Duration = Duration::from_secs(90);
/// The head of a request.
const HEAD: usize = 64 << 10;
const MOST_HEADERS: usize = 100;

/// What judges clients, if anything does.
type Clients = Option<Arc<dyn ClientCertVerifier>>;

/// The node's side of TLS, and what judges clients.
pub(super) fn tls(options: &Options) -> Result<(ServerConfig, Shown, Clients), Error> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(pem_certificates(&options.client_ca_pem).map_err(Error::Certificates)?);
    let clients: Clients = match roots.is_empty() {
        true => None,
        false => {
            let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone());
            Some(builder.build().map_err(Error::Authorities)?)
        }
    };
    let any = Anybody::new(&provider);
    let shown = Shown::new(&options.certificate, provider.clone())?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(Error::Tls)?
        .with_client_cert_verifier(Arc::new(any))
        .with_cert_resolver(Arc::new(shown.clone()));
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok((config, shown, clients))
}

pub(super) async fn serve(server: Arc<Server>, listener: TcpListener, acceptor: TlsAcceptor) {
    // Logs and sessions hold theirs as long as they last.
    let connections = Connections::new(ConnectionLimits { total: 4096, per_address: 2048 });
    loop {
        match listener.accept().await {
            Ok((stream, address)) => {
                let Some(place) = connections.enter(address.ip()) else { continue };
                let connection = connection(server.clone(), stream, acceptor.clone());
                tokio::spawn(async move {
                    connection.await;
                    drop(place);
                });
            }
            Err(error) => {
                // Out of descriptors, most likely: give the others a chance to end.
                tracing::warn!(%error, "accept failed");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

async fn connection(server: Arc<Server>, stream: TcpStream, acceptor: TlsAcceptor) {
    // A socket that cannot be tuned still works.
    let _ = stream.set_nodelay(true);
    let handshake = Box::pin(tokio::time::timeout(HANDSHAKE, acceptor.accept(stream)));
    let Ok(Ok(stream)) = handshake.await else { return };
    let peer = Arc::new(server.access.peer(stream.get_ref().1.peer_certificates()));
    let service = service_fn(move |request| {
        let (server, peer) = (server.clone(), peer.clone());
        async move { Ok::<_, Infallible>(routes::answer(&server, &peer, request).await) }
    });
    let mut http = hyper::server::conn::http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEADERS).max_headers(MOST_HEADERS).max_buf_size(HEAD);
    if let Err(error) = http.serve_connection(TokioIo::new(stream), service).with_upgrades().await {
        tracing::debug!(%error, "connection ended");
    }
}
