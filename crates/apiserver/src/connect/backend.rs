//! The backend of a proxied request: a host, a port, and TLS or not. Each request has its own connection.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

const DIAL: Duration = Duration::from_secs(30);

pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;
pub(crate) type Outgoing = UnsyncBoxBody<Bytes, Failure>;

#[derive(Clone)]
pub(crate) struct ProxyBackend {
    pub(crate) host: String,
    pub(crate) port: u16,
    /// The addresses to dial; empty for those that the host resolves to.
    pub(crate) resolved: Vec<SocketAddr>,
    /// `None` for plain HTTP.
    pub(crate) tls: Option<Arc<ClientConfig>>,
}

impl ProxyBackend {
    /// Host and port as in a URL.
    pub(super) fn authority(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }

    pub(super) fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }

    /// The body of a GET request as text, up to a size limit.
    pub(crate) async fn text(&self, path: &str, limit: usize) -> Result<String, String> {
        let body = Empty::new().map_err(|never: Infallible| match never {}).boxed_unsync();
        let request = Request::get(path).body(body).map_err(|error| error.to_string())?;
        let answer = self.send(request).await?;
        let code = answer.status();
        let body =
            Limited::new(answer.into_body(), limit).collect().await.map_err(|error| error.to_string())?;
        match code {
            StatusCode::OK => Ok(String::from_utf8_lossy(&body.to_bytes()).into_owned()),
            code => Err(format!("unexpected status {code}")),
        }
    }

    /// Sends a request; the connection lasts as long as the response or its upgraded session.
    pub(crate) async fn send(&self, mut request: Request<Outgoing>) -> Result<Response<Incoming>, String> {
        let authority = self.authority();
        // A forwarded request keeps its client's Host header.
        if let Ok(host) = authority.parse() {
            request.headers_mut().entry(header::HOST).or_insert(host);
        }
        let dial = async {
            match self.resolved.as_slice() {
                [] => TcpStream::connect((self.host.as_str(), self.port)).await,
                checked => TcpStream::connect(checked).await,
            }
        };
        let stream = match tokio::time::timeout(DIAL, dial).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return Err(format!("dial tcp {authority}: {}", io_error_message(&error))),
            Err(_) => return Err(format!("dial tcp {authority}: i/o timeout")),
        };
        // The connection works without this option too.
        let _ = stream.set_nodelay(true);
        let Some(tls) = &self.tls else { return exchange(stream, request).await };
        let name = ServerName::try_from(self.host.clone()).map_err(|error| error.to_string())?;
        let handshake = TlsConnector::from(tls.clone()).connect(name, stream);
        match tokio::time::timeout(DIAL, handshake).await {
            Ok(Ok(stream)) => exchange(stream, request).await,
            Ok(Err(error)) => Err(format!("tls: {error}")),
            Err(_) => Err("net/http: TLS handshake timeout".to_owned()),
        }
    }
}

async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    request: Request<Outgoing>,
) -> Result<Response<Incoming>, String> {
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|error| error.to_string())?;
    tokio::spawn(async move {
        // The response reports an error of the connection.
        let _ = connection.with_upgrades().await;
    });
    sender.send_request(request).await.map_err(|error| error.to_string())
}

/// The message of a connection error, as a Go server words it.
pub(crate) fn io_error_message(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "connect: connection refused".to_owned(),
        io::ErrorKind::HostUnreachable => "connect: no route to host".to_owned(),
        io::ErrorKind::NetworkUnreachable => "connect: network is unreachable".to_owned(),
        _ => error.to_string(),
    }
}
