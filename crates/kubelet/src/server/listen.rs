//! The authenticated listener of the kubelet's API: TLS and its routes.
//!
//! Any client certificate passes the handshake, so that a bad one gets a `401` rather than a broken connection;
//! what it proves is decided by `access`.

use std::sync::Arc;
use std::time::Duration;

use corten_base::ConnectionLimits;
use corten_pki::{AcceptAnyCertificate, LiveAuthorities, pem_certificates};
use corten_serving::http::HttpServer;
use http::Request;
use hyper::body::Incoming;
use rustls::ServerConfig;
use tokio::net::TcpListener;

use super::{Error, Options, Server, ServingCertificate, routes};

/// The timeout of request headers, and of idle connections.
const HEADER_TIMEOUT: Duration = Duration::from_secs(90);
/// The maximum size of a request's head.
const MAX_HEAD: usize = 64 << 10;
const MAX_HEADERS: usize = 100;
/// Logs and sessions keep their connection for as long as they last.
const LIMITS: ConnectionLimits = ConnectionLimits { total: 4096, per_address: 2048 };

/// The verifier of client certificates, if they are accepted.
type Clients = Option<LiveAuthorities>;

/// The TLS configuration, the serving certificate, and the verifier of client certificates.
pub(super) fn tls(options: &Options) -> Result<(ServerConfig, ServingCertificate, Clients), Error> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let known = pem_certificates(&options.client_ca_pem).map_err(Error::Certificates)?;
    let clients = match known.is_empty() {
        true => None,
        false => Some(LiveAuthorities::new(&options.client_ca_pem).map_err(Error::Certificates)?),
    };
    let any = AcceptAnyCertificate::new(&provider);
    let certificate = ServingCertificate::new(&options.certificate).map_err(Error::Certificates)?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(Error::Tls)?
        .with_client_cert_verifier(Arc::new(any))
        .with_cert_resolver(Arc::new(certificate.clone()));
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok((config, certificate, clients))
}

/// Serves the API until the future is dropped.
pub(super) async fn serve(server: Arc<Server>, listener: TcpListener, tls: Arc<ServerConfig>) {
    let http = HttpServer::new(LIMITS, HEADER_TIMEOUT).with_tls(tls).with_head_limits(MAX_HEADERS, MAX_HEAD);
    let connect = move |peer: corten_serving::http::Peer<'_>| {
        let (server, peer) = (server.clone(), Arc::new(server.access.peer(peer.certificates)));
        Some(move |request: Request<Incoming>| {
            let (server, peer) = (server.clone(), peer.clone());
            async move { routes::handle(&server, &peer, request).await }
        })
    };
    http.serve(listener, connect).await;
}
