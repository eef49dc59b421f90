//! Small HTTP requests: to containers, for probes and hooks, and to servers of manifests. Containers' certificates are not
//! checked: a pod's own word is enough about itself. Others' are.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use corten_api::Value;
use corten_pki::{Anybody, pem_certificates};
use http_body_util::{BodyExt, Empty};
use hyper_util::rt::TokioIo;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::pod::Container;

/// A request that a pod asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) secure: bool,
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    /// Who asks, unless the headers say it.
    pub(crate) agent: &'static str,
}

/// Who asks containers how they are, and who runs their hooks.
pub(crate) const PROBE: &str = "kube-probe/1.37";
pub(crate) const LIFECYCLE: &str = "kube-lifecycle/1.37";

impl Request {
    pub(crate) fn of(
        get: &Value,
        container: &Container,
        pod_ip: &str,
        agent: &'static str,
    ) -> Result<Request, String> {
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

/// A port by number or by the name a container gave it.
pub(crate) fn port(asked: Option<&Value>, container: &Container) -> Result<u16, String> {
    let number = match asked {
        Some(Value::Int(number)) => u16::try_from(*number).ok(),
        Some(Value::String(text)) => text.parse().ok().or_else(|| named(container, text)),
        _ => None,
    };
    let shown = || asked.map(corten_api::json::write_to_string).unwrap_or_default();
    number.filter(|number| *number > 0).ok_or_else(|| format!("invalid port number: {}", shown()))
}

fn named(container: &Container, name: &str) -> Option<u16> {
    let ports = container.tree.items_at(&["ports"]).iter();
    let port = ports.into_iter().find(|port| port.str_at(&["name"]) == Some(name))?;
    u16::try_from(port.int_at(&["containerPort"])?).ok()
}

/// An answer: its status and the beginning of its body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: String,
    /// Where it leads on to, if it does.
    pub(crate) location: Option<String>,
}

/// Where a machine keeps the authorities it trusts.
const SYSTEM: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];
/// How much of a container's body is read.
const MAX_BODY: usize = 10 * 1024;
const MAX_REDIRECTS: usize = 10;

/// Asks a container once; what takes too long has failed.
pub(crate) async fn get(request: &Request, limit: Duration) -> Result<Answer, String> {
    timed(request, limit, Box::pin(send(request, MAX_BODY, trusting))).await
}

/// Asks a container and follows where it leads, as long as that is the same host.
pub(crate) async fn probe(request: &Request, limit: Duration) -> Result<Answer, String> {
    timed(request, limit, follow(request.clone())).await
}

async fn follow(mut request: Request) -> Result<Answer, String> {
    let host = request.host.clone();
    for _ in 0..MAX_REDIRECTS {
        let answer = send(&request, MAX_BODY, trusting).await?;
        let leads = matches!(answer.status, 301 | 302 | 303 | 307 | 308);
        let next = answer.location.as_deref().filter(|_| leads).and_then(|to| request.led_to(to));
        match next.filter(|next| next.host == host) {
            Some(next) => request = next,
            None => return Ok(answer),
        }
    }
    Err(format!("Get \"{}\": stopped after {MAX_REDIRECTS} redirects", request.url()))
}

/// Asks somebody else once, who has to be who they say.
pub(crate) async fn fetch(request: &Request, limit: Duration, longest: usize) -> Result<Answer, String> {
    timed(request, limit, Box::pin(send(request, longest, checking))).await
}

async fn timed(
    request: &Request,
    limit: Duration,
    sent: impl Future<Output = Result<Answer, String>>,
) -> Result<Answer, String> {
    match tokio::time::timeout(limit, sent).await {
        Ok(answer) => answer,
        Err(_) => Err(format!(
            "Get \"{}\": context deadline exceeded (Client.Timeout exceeded while awaiting headers)",
            request.url()
        )),
    }
}

impl Request {
    /// The request that an answer leads on to: a path, or a whole URL.
    fn led_to(&self, location: &str) -> Option<Request> {
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
    connector: fn() -> Result<TlsConnector, String>,
) -> Result<Answer, String> {
    let failed = |why: &dyn std::fmt::Display| format!("Get \"{}\": {why}", request.url());
    let connection = TcpStream::connect((request.host.as_str(), request.port))
        .await
        .map_err(|e| failed(&unreached(request, &e)))?;
    if !request.secure {
        return exchange(request, connection, longest).await.map_err(|e| failed(&e));
    }
    let connector = connector().map_err(|e| failed(&e))?;
    let name = ServerName::try_from(request.host.clone()).map_err(|e| failed(&e))?;
    let connection = connector.connect(name, connection).await.map_err(|e| failed(&e))?;
    exchange(request, connection, longest).await.map_err(|e| failed(&e))
}

async fn exchange(
    request: &Request,
    connection: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    longest: usize,
) -> Result<Answer, String> {
    let (mut sender, driver) =
        hyper::client::conn::http1::handshake(TokioIo::new(connection)).await.map_err(|e| e.to_string())?;
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
    // Whoever asks for nothing in particular says nothing of it.
    let said = |(name, value): &&(String, String)| !(name.eq_ignore_ascii_case("accept") && value.is_empty());
    for (name, value) in request.headers.iter().filter(said) {
        message = message.header(name, value);
    }
    let message = message.body(Empty::<Bytes>::new()).map_err(|e| e.to_string())?;
    let answer = sender.send_request(message).await.map_err(|e| e.to_string())?;
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

/// Why nobody could be reached, as Go says it.
fn unreached(request: &Request, error: &std::io::Error) -> String {
    let address = request.url();
    let address = address.split("://").nth(1).and_then(|rest| rest.split('/').next()).unwrap_or_default();
    format!("dial tcp {address}: connect: {}", go_error(error))
}

/// What the kernel refused for, as Go says it.
pub(crate) fn go_error(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::ConnectionRefused => "connection refused".to_owned(),
        std::io::ErrorKind::ConnectionReset => "connection reset by peer".to_owned(),
        std::io::ErrorKind::HostUnreachable => "no route to host".to_owned(),
        std::io::ErrorKind::NetworkUnreachable => "network is unreachable".to_owned(),
        _ => error.to_string(),
    }
}

/// Encryption without asking who is there.
fn trusting() -> Result<TlsConnector, String> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let verifier = Arc::new(Anybody::new(&provider));
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(|e| e.to_string())?;
    let config = builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

/// Encryption with those whom the machine's authorities vouch for.
fn checking() -> Result<TlsConnector, String> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut roots = RootCertStore::empty();
    if let Some(text) = SYSTEM.iter().find_map(|path| std::fs::read_to_string(path).ok()) {
        roots.add_parsable_certificates(pem_certificates(&text).map_err(|e| e.to_string())?);
    }
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(|e| e.to_string())?;
    Ok(TlsConnector::from(Arc::new(builder.with_root_certificates(roots).with_no_client_auth())))
}
