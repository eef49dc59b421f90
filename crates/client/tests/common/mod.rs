//! A small HTTPS server, whose certificate a test chooses.

#![allow(dead_code, reason = "each test file uses a part")]

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use corten_api::Value;
use corten_client::{Client, Remote};
use corten_pki::{
    AcceptAnyCertificate, Authority, Credentials, IssuedCert, LeafRequest, LeafUsage, Sans, identity_of,
};
use http::{Request, Response, header};
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use rustls::ServerConfig;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

pub(crate) type Body = UnsyncBoxBody<Bytes, Infallible>;
/// The answer to a request: none to close the connection instead.
type Answer = Arc<dyn Fn(&Received) -> Option<Response<Body>> + Send + Sync>;

/// A request as the server received it.
#[derive(Debug, Clone)]
pub(crate) struct Received {
    pub(crate) method: String,
    pub(crate) uri: String,
    pub(crate) agent: String,
    pub(crate) content_type: String,
    pub(crate) authorization: String,
    /// The common name of the client's certificate.
    pub(crate) user: String,
    pub(crate) body: Value,
}

/// An HTTPS server on a free port.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) authority: Arc<Authority>,
    received: Arc<Mutex<Vec<Received>>>,
    connections: Arc<Mutex<usize>>,
    tasks: JoinSet<()>,
}

/// A new certificate authority.
pub(crate) fn authority() -> Arc<Authority> {
    let directory = TempDir::new().expect("a temporary directory");
    let authority = Authority::load_or_create(directory.path(), "ca", "test-ca", SystemTime::now());
    Arc::new(authority.expect("an authority"))
}

/// The address of the servers of tests.
pub(crate) fn local() -> Sans {
    Sans::default().with_address(Ipv4Addr::LOCALHOST.into())
}

impl Server {
    pub(crate) async fn start(
        answer: impl Fn(&Received) -> Option<Response<Body>> + Send + Sync + 'static,
    ) -> Server {
        let free = (Ipv4Addr::LOCALHOST, 0).into();
        Server::start_at(free, authority(), local(), answer).await
    }

    /// A server at an address, with a certificate for these names.
    pub(crate) async fn start_at(
        address: SocketAddr,
        authority: Arc<Authority>,
        sans: Sans,
        answer: impl Fn(&Received) -> Option<Response<Body>> + Send + Sync + 'static,
    ) -> Server {
        let request =
            LeafRequest { common_name: "server".into(), organization: None, sans, usage: LeafUsage::Server };
        let certificate = authority.issue(&request, SystemTime::now()).expect("a certificate");
        let listener = TcpListener::bind(address).await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let (received, connections) = (Arc::default(), Arc::default());
        let tasks = JoinSet::new();
        let mut server = Server { address, authority, received, connections, tasks };
        server.serve(listener, acceptor(&certificate), Arc::new(answer));
        server
    }

    fn serve(&mut self, listener: TcpListener, acceptor: TlsAcceptor, answer: Answer) {
        let (received, connections) = (self.received.clone(), self.connections.clone());
        self.tasks.spawn(async move {
            // Connections end with the server.
            let mut open = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                *connections.lock() += 1;
                let (acceptor, received, answer) = (acceptor.clone(), received.clone(), answer.clone());
                open.spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    let peer = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
                    let user =
                        peer.and_then(|der| identity_of(der).ok()).map(|identity| identity.common_name);
                    let user = user.unwrap_or_default();
                    let service = service_fn(move |request| {
                        handle(request, user.clone(), received.clone(), answer.clone())
                    });
                    let http = hyper::server::conn::http1::Builder::new();
                    // A connection that the test closes ends with an error.
                    let _ = http.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
    }

    /// Closes the listener and all connections.
    pub(crate) async fn stop(&mut self) {
        self.tasks.shutdown().await;
    }

    /// The number of connections so far.
    pub(crate) fn connections(&self) -> usize {
        *self.connections.lock()
    }

    /// A server that always sends the same response.
    pub(crate) async fn saying(code: u16, body: &'static str) -> Server {
        Server::start(move |_| Some(response(code, body))).await
    }

    /// Credentials that trust this server, without any of the client.
    pub(crate) fn anonymous(&self) -> Credentials {
        Credentials {
            server: format!("https://{}", self.address),
            ca_pem: self.authority.pem().to_owned(),
            cert_pem: String::new(),
            key_pem: String::new(),
            token: None,
        }
    }

    pub(crate) fn client(&self) -> Client {
        client(&self.anonymous())
    }

    pub(crate) fn received(&self) -> Vec<Received> {
        self.received.lock().clone()
    }
}

pub(crate) fn client(credentials: &Credentials) -> Client {
    Client::new(Arc::new(Remote::new(credentials).expect("good credentials")), "test/v1")
}

fn acceptor(certificate: &IssuedCert) -> TlsAcceptor {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let verifier = Arc::new(AcceptAnyCertificate::new(&provider));
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("TLS")
        .with_client_cert_verifier(verifier)
        .with_single_cert(certificate.chain().expect("a chain"), certificate.key().expect("a key"))
        .expect("a certificate and its key");
    TlsAcceptor::from(Arc::new(config))
}

async fn handle(
    request: Request<Incoming>,
    user: String,
    received: Arc<Mutex<Vec<Received>>>,
    answer: Answer,
) -> Result<Response<Body>, std::io::Error> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.map_err(std::io::Error::other)?.to_bytes();
    let text = |name| {
        let value = parts.headers.get(name).and_then(|value| value.to_str().ok());
        value.unwrap_or_default().to_owned()
    };
    let request = Received {
        method: parts.method.to_string(),
        uri: parts.uri.to_string(),
        agent: text(header::USER_AGENT),
        content_type: text(header::CONTENT_TYPE),
        authorization: text(header::AUTHORIZATION),
        user,
        body: corten_api::json::parse(&body).unwrap_or_default(),
    };
    received.lock().push(request.clone());
    answer(&request).ok_or_else(|| std::io::Error::other("closing the connection"))
}

pub(crate) fn response(code: u16, body: impl Into<Bytes>) -> Response<Body> {
    let body = Full::new(body.into()).boxed_unsync();
    Response::builder().status(code).body(body).expect("a good response")
}

/// A response that sends these pieces one after another.
pub(crate) fn streamed(pieces: Vec<Bytes>) -> Response<Body> {
    let frames = futures_util::stream::iter(pieces.into_iter().map(|piece| Ok(Frame::data(piece))));
    Response::new(StreamBody::new(frames).boxed_unsync())
}

/// Waits for something that must happen, with a deadline.
pub(crate) async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(30), future).await.expect("it happens in time")
}
