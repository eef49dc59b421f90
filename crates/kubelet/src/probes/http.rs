//! Small HTTP requests: to containers, for probes and hooks, and to servers of manifests. Containers' certificates
//! are not verified, as upstream; those of other servers are.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use corten_api::Value;
use corten_pki::{AcceptAnyCertificate, pem_certificates};
use http_body_util::{BodyExt, Empty};
use hyper_util::rt::TokioIo;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::pod::Container;

/// A request of a probe or hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) secure: bool,
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    /// The user agent, unless the headers have one.
    pub(crate) agent: &'static str,
}

/// The user agents of probes and lifecycle hooks.
pub(crate) const PROBE: &str = "kube-probe/1.37";
pub(crate) const LIFECYCLE: &str = "kube-lifecycle/1.37";

impl Request {
    pub(crate) fn of(
        get: &Value,
        container: &Container,
        pod_ip: &str,
        agent: &'static str,
    ) -> Result<Request, InvalidPort> {
        let text = |key: &str| get.str_at(&[key]).filter(|text| !text.is_empty());
        let path = text("path").unwrap_or("/");
        let headers = get.items_at(&["httpHeaders"]).iter().map(|header| {
            let text = |key: &str| header.str_at(&[key]).unwrap_or_default().to_owned();
            (text("name"), text("value"))
        });
        Ok(Request {
            secure: text("scheme").is_some_and(|scheme| scheme.eq_ignore_ascii_case("https")),
            host: text("host").unwrap_or(pod_ip).to_owned(),
            port: port(get.get("port"), container)?,
            path: if path.starts_with('/') { path.to_owned() } else { format!("/{path}") },
            headers: headers.collect(),
            agent,
        })
    }
}

/// A port that is neither a number nor the name of a container's port; messages are upstream's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid port number: {0}")]
pub(crate) struct InvalidPort(String);

/// A request that failed, in the words of Go's HTTP client.
#[derive(Debug, thiserror::Error)]
#[error("Get \"{url}\": {cause}")]
pub(crate) struct HttpError {
    url: String,
    cause: Cause,
}

/// The cause of a failed request.
#[derive(Debug, thiserror::Error)]
enum Cause {
    #[error("{0}")]
    Dial(String),
    #[error("stopped after {MAX_REDIRECTS} redirects")]
    Redirects,
    #[error("context deadline exceeded (Client.Timeout exceeded while awaiting headers)")]
    Timeout,
    #[error(transparent)]
    Io(#[from] std::io::Error),
    #[error(transparent)]
    ServerName(#[from] rustls_pki_types::InvalidDnsNameError),
    #[error(transparent)]
    Tls(#[from] rustls::Error),
    #[error(transparent)]
    Certificates(#[from] corten_pki::Error),
    #[error(transparent)]
    Request(#[from] http::Error),
    #[error(transparent)]
    Exchange(#[from] hyper::Error),
}

/// A port by number or by the name of a container's port.
pub(crate) fn port(labels: Option<&Value>, container: &Container) -> Result<u16, InvalidPort> {
    let number = match labels {
        Some(Value::Int(number)) => u16::try_from(*number).ok(),
        Some(Value::String(text)) => text.parse().ok().or_else(|| named(container, text)),
        _ => None,
    };
    let shown = || labels.map(corten_api::json::write_to_string).unwrap_or_default();
    number.filter(|number| *number > 0).ok_or_else(|| InvalidPort(shown()))
}

fn named(container: &Container, name: &str) -> Option<u16> {
    let ports = container.tree.items_at(&["ports"]).iter();
    let port = ports.into_iter().find(|port| port.str_at(&["name"]) == Some(name))?;
    u16::try_from(port.int_at(&["containerPort"])?).ok()
}

/// A response: its status and the beginning of its body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: String,
    /// The target of a redirect.
    pub(crate) location: Option<String>,
}

/// The files of the system's certificate authorities.
const SYSTEM: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];
/// The number of bytes that are read of a container's response.
const MAX_BODY: usize = 10 * 1024;
const MAX_REDIRECTS: usize = 10;

/// Sends one request to a container, with a timeout.
pub(crate) async fn get(request: &Request, limit: Duration) -> Result<Answer, HttpError> {
    with_timeout(request, limit, Box::pin(send(request, MAX_BODY, insecure_tls))).await
}

/// Sends a request to a container and follows redirects to the same host, with a timeout.
pub(crate) async fn probe(request: &Request, limit: Duration) -> Result<Answer, HttpError> {
    with_timeout(request, limit, follow(request.clone())).await
}

async fn follow(mut request: Request) -> Result<Answer, HttpError> {
    let host = request.host.clone();
    for _ in 0..MAX_REDIRECTS {
        let answer = send(&request, MAX_BODY, insecure_tls).await?;
        let leads = matches!(answer.status, 301 | 302 | 303 | 307 | 308);
        let next = answer.location.as_deref().filter(|_| leads).and_then(|to| request.redirected(to));
        match next.filter(|next| next.host == host) {
            Some(next) => request = next,
            None => return Ok(answer),
        }
    }
    Err(HttpError { url: request.url(), cause: Cause::Redirects })
}

/// Sends one request to another server, whose certificate is verified.
pub(crate) async fn fetch(request: &Request, limit: Duration, longest: usize) -> Result<Answer, HttpError> {
    with_timeout(request, limit, Box::pin(send(request, longest, verified_tls))).await
}

async fn with_timeout(
    request: &Request,
    limit: Duration,
    sent: impl Future<Output = Result<Answer, HttpError>>,
) -> Result<Answer, HttpError> {
    match tokio::time::timeout(limit, sent).await {
        Ok(answer) => answer,
        Err(_) => Err(HttpError { url: request.url(), cause: Cause::Timeout }),
    }
}

impl Request {
    /// The request to the target of a redirect: a path, or a whole URL.
    fn redirected(&self, location: &str) -> Option<Request> {
        let uri: http::Uri = location.parse().ok()?;
        let path = uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
        let Some(host) = uri.host() else { return Some(Request { path, ..self.clone() }) };
        let secure = uri.scheme_str().map_or(self.secure, |scheme| scheme == "https");
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let port = uri.port_u16().unwrap_or(if secure { 443 } else { 80 });
        Some(Request { secure, host, port, path, ..self.clone() })
    }

    pub(crate) fn url(&self) -> String {
        let scheme = if self.secure { "https" } else { "http" };
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        format!("{scheme}://{host}:{}{}", self.port, self.path)
    }
}

async fn send(
    request: &Request,
    longest: usize,
    connector: fn() -> Result<TlsConnector, Cause>,
) -> Result<Answer, HttpError> {
    let failed = |cause: Cause| HttpError { url: request.url(), cause };
    let connection = TcpStream::connect((request.host.as_str(), request.port))
        .await
        .map_err(|err| failed(Cause::Dial(dial_error(request, &err))))?;
    if !request.secure {
        return exchange(request, connection, longest).await.map_err(failed);
    }
    let connector = connector().map_err(failed)?;
    let name = ServerName::try_from(request.host.clone()).map_err(|err| failed(err.into()))?;
    let connection = connector.connect(name, connection).await.map_err(|err| failed(err.into()))?;
    exchange(request, connection, longest).await.map_err(failed)
}

async fn exchange(
    request: &Request,
    connection: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    longest: usize,
) -> Result<Answer, Cause> {
    let (mut sender, driver) = hyper::client::conn::http1::handshake(TokioIo::new(connection)).await?;
    let driver = tokio::spawn(driver);
    let mut message = http::Request::get(&request.path);
    let named = |name: &str| request.headers.iter().any(|(key, _)| key.eq_ignore_ascii_case(name));
    for (name, default) in [("user-agent", request.agent), ("accept", "*/*")] {
        if !named(name) {
            message = message.header(name, default);
        }
    }
    if !named("host") {
        message = message.header("host", format!("{}:{}", request.host, request.port));
    }
    // An empty `Accept` header means none.
    let said = |(name, value): &&(String, String)| !(name.eq_ignore_ascii_case("accept") && value.is_empty());
    for (name, value) in request.headers.iter().filter(said) {
        message = message.header(name, value);
    }
    let message = message.body(Empty::<Bytes>::new())?;
    let answer = sender.send_request(message).await?;
    let status = answer.status().as_u16();
    let location = answer.headers().get("location").and_then(|to| to.to_str().ok()).map(str::to_owned);
    let mut body = answer.into_body();
    let mut read = Vec::new();
    while let Some(Ok(frame)) = body.frame().await {
        read.extend_from_slice(frame.data_ref().map(AsRef::as_ref).unwrap_or_default());
        if read.len() >= longest {
            read.truncate(longest);
            break;
        }
    }
    driver.abort();
    Ok(Answer { status, body: String::from_utf8_lossy(&read).into_owned(), location })
}

/// A failed connection, in the words of Go.
fn dial_error(request: &Request, err: &std::io::Error) -> String {
    let address = request.url();
    let address = address.split("://").nth(1).and_then(|rest| rest.split('/').next()).unwrap_or_default();
    format!("dial tcp {address}: connect: {}", go_error(err))
}

/// An I/O error, in the words of Go.
pub(crate) fn go_error(err: &std::io::Error) -> String {
    match err.kind() {
        std::io::ErrorKind::ConnectionRefused => "connection refused".to_owned(),
        std::io::ErrorKind::ConnectionReset => "connection reset by peer".to_owned(),
        std::io::ErrorKind::HostUnreachable => "no route to host".to_owned(),
        std::io::ErrorKind::NetworkUnreachable => "network is unreachable".to_owned(),
        _ => err.to_string(),
    }
}

/// TLS without verification of the server's certificate.
fn insecure_tls() -> Result<TlsConnector, Cause> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let verifier = Arc::new(AcceptAnyCertificate::new(&provider));
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder?;
    let config = builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

/// TLS with verification by the system's certificate authorities.
fn verified_tls() -> Result<TlsConnector, Cause> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut roots = RootCertStore::empty();
    if let Some(text) = SYSTEM.iter().find_map(|path| std::fs::read_to_string(path).ok()) {
        roots.add_parsable_certificates(pem_certificates(&text)?);
    }
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder?;
    Ok(TlsConnector::from(Arc::new(builder.with_root_certificates(roots).with_no_client_auth())))
}
