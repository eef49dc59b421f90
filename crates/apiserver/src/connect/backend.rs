//! Who answers: a host, a port, and whether to speak TLS with it. Each request has a connection of its own.

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

pub(super) type Failure = Box<dyn std::error::Error + Send + Sync>;
pub(super) type Outgoing = UnsyncBoxBody<Bytes, Failure>;

#[derive(Clone)]
pub(crate) struct Backend {
    pub(super) host: String,
    pub(super) port: u16,
    /// What is dialed; empty for whatever the host resolves to.
    pub(super) resolved: Vec<SocketAddr>,
    /// Plain HTTP without.
    pub(super) tls: Option<Arc<ClientConfig>>,
}

impl Backend {
    /// As a URL has it.
    pub(super) fn authority(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }

    pub(super) fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }

    /// What is found at a path, as text of a reasonable size.
    pub(crate) async fn text(&self, path: &str, limit: usize) -> Result<String, String> {
        let body = Empty::new().map_err(|never: Infallible| match never {}).boxed_unsync();
        let request = Request::get(path).body(body).map_err(|error| error.to_string())?;
        let answer = self.send(request).await?;
        let code = answer.status();
        let body =
            Limited::new(answer.into_body(), limit).collect().await.map_err(|error| error.to_string())?;
        match code {
            StatusCode::OK => Ok(String::from_utf8_lossy(&body.to_bytes()).into_owned()),
            code => Err(format!("the answer was {code}")),
        }
    }

    /// Sends a request; the connection lasts for as long as the answer, or what it is upgraded to.
    pub(super) async fn send(&self, mut request: Request<Outgoing>) -> Result<Response<Incoming>, String> {
        let authority = self.authority();
        // What is passed on names whom its client asked.
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
            Ok(Err(error)) => return Err(format!("dial tcp {authority}: {}", said(&error))),
            Err(_) => return Err(format!("dial tcp {authority}: i/o timeout")),
        };
        // A socket that cannot be tuned still works.
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
        // How it ended is told by the answer.
        let _ = connection.with_upgrades().await;
    });
    sender.send_request(request).await.map_err(|error| error.to_string())
}

/// A failed connection as clients of Go servers know it.
fn said(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "connect: connection refused".to_owned(),
        io::ErrorKind::HostUnreachable => "connect: no route to host".to_owned(),
        io::ErrorKind::NetworkUnreachable => "connect: network is unreachable".to_owned(),
        _ => error.to_string(),
    }
}
