//! HTTP/1.1 over plain TCP or TLS, with upgrades, and the responses of health and metrics endpoints.
//!
//! Handshakes and request heads have deadlines, so a silent client never holds a connection for long. Handlers decide
//! about clients: a server with TLS passes any client certificate that its `ServerConfig` accepts on to them.

use std::convert::Infallible;
use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use corten_base::ConnectionLimits;
use http::{HeaderValue, Request, Response, StatusCode, header};
use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::ServerConfig;
use rustls::pki_types::CertificateDer;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use crate::accept::accept;

const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// The header timeout of health and metrics endpoints.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);

/// The content type of Prometheus' text format.
pub const METRICS_CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The client's side of a connection.
#[derive(Debug, Clone, Copy)]
pub struct Peer<'a> {
    pub address: SocketAddr,
    /// The client's certificate chain, if there is TLS and the client sent one.
    pub certificates: Option<&'a [CertificateDer<'static>]>,
}

/// An HTTP/1.1 server: its limits, its timeouts and its TLS configuration.
#[derive(Clone)]
pub struct HttpServer {
    limits: ConnectionLimits,
    tls: Option<TlsAcceptor>,
    http: http1::Builder,
}

impl HttpServer {
    /// A server without TLS. `header_timeout` is also the time that an idle connection is kept.
    pub fn new(limits: ConnectionLimits, header_timeout: Duration) -> HttpServer {
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new()).header_read_timeout(header_timeout);
        HttpServer { limits, tls: None, http }
    }

    /// A server for health and metrics, which few clients read.
    pub fn for_health() -> HttpServer {
        HttpServer::new(ConnectionLimits::FEW, HEADER_TIMEOUT)
    }

    #[must_use]
    pub fn with_tls(mut self, config: Arc<ServerConfig>) -> HttpServer {
        self.tls = Some(TlsAcceptor::from(config));
        self
    }

    /// Limits the number of a request's headers, and the bytes of a request's head.
    #[must_use]
    pub fn with_head_limits(mut self, headers: usize, bytes: usize) -> HttpServer {
        self.http.max_headers(headers).max_buf_size(bytes);
        self
    }

    /// Serves until the returned future is dropped. `connect` is called for every connection, after its handshake, and
    /// returns the handler of its requests, or `None` to close the connection.
    pub async fn serve<Connect, Handler, Handled, B>(self, listener: TcpListener, connect: Connect)
    where
        Connect: Fn(Peer<'_>) -> Option<Handler> + Clone + Send + 'static,
        Handler: Fn(Request<Incoming>) -> Handled + Send + 'static,
        Handled: Future<Output = Response<B>> + Send + 'static,
        B: Body<Data: Send, Error: Into<Box<dyn Error + Send + Sync>>> + Send + 'static,
    {
        let limits = self.limits;
        accept(listener, limits, |stream, address| {
            Some(self.clone().connection(stream, address, connect.clone()))
        })
        .await;
    }

    /// Serves the same handler to all clients, until the returned future is dropped.
    pub async fn serve_all<Handler, Handled, B>(self, listener: TcpListener, handler: Handler)
    where
        Handler: Fn(Request<Incoming>) -> Handled + Clone + Send + 'static,
        Handled: Future<Output = Response<B>> + Send + 'static,
        B: Body<Data: Send, Error: Into<Box<dyn Error + Send + Sync>>> + Send + 'static,
    {
        self.serve(listener, move |_| Some(handler.clone())).await;
    }

    async fn connection<Connect, Handler, Handled, B>(
        self,
        stream: TcpStream,
        address: SocketAddr,
        connect: Connect,
    ) where
        Connect: Fn(Peer<'_>) -> Option<Handler> + Send,
        Handler: Fn(Request<Incoming>) -> Handled + Send + 'static,
        Handled: Future<Output = Response<B>> + Send + 'static,
        B: Body<Data: Send, Error: Into<Box<dyn Error + Send + Sync>>> + Send + 'static,
    {
        // A socket that cannot be tuned still works.
        let _ = stream.set_nodelay(true);
        let Some(tls) = self.tls else {
            if let Some(handler) = connect(Peer { address, certificates: None }) {
                requests(&self.http, stream, handler).await;
            }
            return;
        };
        // On the heap, so that its memory is free again after the handshake.
        let handshake = Box::pin(tokio::time::timeout(HANDSHAKE_TIMEOUT, tls.accept(stream)));
        let stream = match handshake.await {
            Ok(Ok(stream)) => stream,
            Ok(Err(err)) => {
                tracing::debug!(%address, %err, "TLS handshake failed");
                return;
            }
            Err(_) => return,
        };
        let certificates = stream.get_ref().1.peer_certificates();
        let handler = connect(Peer { address, certificates });
        if let Some(handler) = handler {
            requests(&self.http, stream, handler).await;
        }
    }
}

async fn requests<Io, Handler, Handled, B>(http: &http1::Builder, io: Io, handler: Handler)
where
    Io: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    Handler: Fn(Request<Incoming>) -> Handled + Send + 'static,
    Handled: Future<Output = Response<B>> + Send + 'static,
    B: Body<Data: Send, Error: Into<Box<dyn Error + Send + Sync>>> + Send + 'static,
{
    let service = service_fn(move |request| {
        let handled = handler(request);
        async move { Ok::<_, Infallible>(handled.await) }
    });
    if let Err(err) = http.serve_connection(TokioIo::new(io), service).with_upgrades().await {
        tracing::debug!(%err, "connection ended");
    }
}

/// A plain-text response.
pub fn text(code: StatusCode, body: impl Into<String>) -> Response<String> {
    with_type(code, "text/plain; charset=utf-8", body)
}

/// The response of a metrics endpoint.
pub fn metrics(text: impl Into<String>) -> Response<String> {
    with_type(StatusCode::OK, METRICS_CONTENT_TYPE, text)
}

/// The response at a path that is not served, as upstream's components word it.
pub fn not_found() -> Response<String> {
    text(StatusCode::NOT_FOUND, "404 page not found\n")
}

/// A response of a content type.
pub fn with_type(code: StatusCode, content_type: &'static str, body: impl Into<String>) -> Response<String> {
    let mut response = Response::new(body.into());
    *response.status_mut() = code;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    const DEADLINE: Duration = Duration::from_secs(30);

    async fn started(server: HttpServer) -> (SocketAddr, tokio::task::JoinHandle<()>) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let serving = tokio::spawn(server.serve_all(listener, |request: Request<Incoming>| async move {
            match request.uri().path() {
                "/metrics" => metrics("up 1\n"),
                _ => not_found(),
            }
        }));
        (address, serving)
    }

    async fn exchange(address: SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut response = String::new();
        let read = tokio::time::timeout(DEADLINE, stream.read_to_string(&mut response));
        read.await.expect("no end of the connection before the deadline").unwrap();
        response
    }

    #[tokio::test]
    async fn paths_are_served_with_their_content_types() {
        let (address, serving) = started(HttpServer::for_health()).await;
        let get = |path| format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        let found = exchange(address, &get("/metrics")).await;
        assert!(found.starts_with("HTTP/1.1 200 OK\r\n") && found.ends_with("\r\n\r\nup 1\n"), "{found}");
        assert!(found.contains(METRICS_CONTENT_TYPE), "{found}");
        let missing = exchange(address, &get("/other")).await;
        assert!(missing.starts_with("HTTP/1.1 404 Not Found\r\n"), "{missing}");
        serving.abort();
    }

    #[tokio::test]
    async fn a_client_that_sends_no_request_is_disconnected() {
        let server = HttpServer::new(ConnectionLimits::FEW, Duration::from_millis(50));
        let (address, serving) = started(server).await;
        exchange(address, "GET / HTTP/1.1\r\n").await;
        serving.abort();
    }

    #[tokio::test]
    async fn a_head_over_the_limits_is_refused() {
        let (address, serving) = started(HttpServer::for_health().with_head_limits(2, 8192)).await;
        let response = exchange(address, "GET / HTTP/1.1\r\nhost: x\r\na: 1\r\nb: 2\r\n\r\n").await;
        assert!(response.starts_with("HTTP/1.1 431 "), "{response}");
        serving.abort();
    }
}
