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
}

impl Request {
    pub(crate) fn of(get: &Value, container: &Container, pod_ip: &str) -> Result<Request, String> {
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

/// Asks a container once; what takes too long has failed.
pub(crate) async fn get(request: &Request, limit: Duration) -> Result<Answer, String> {
    timed(request, limit, Box::pin(send(request, MAX_BODY, trusting))).await
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
    let connection =
        TcpStream::connect((request.host.as_str(), request.port)).await.map_err(|e| failed(&e))?;
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
    for (name, default) in [("user-agent", "kube-probe/1.37"), ("accept", "*/*")] {
        if !named(name) {
            message = message.header(name, default);
        }
    }
    if !named("host") {
        message = message.header("host", format!("{}:{}", request.host, request.port));
    }
    for (name, value) in &request.headers {
        message = message.header(name, value);
    }
    let message = message.body(Empty::<Bytes>::new()).map_err(|e| e.to_string())?;
    let answer = sender.send_request(message).await.map_err(|e| e.to_string())?;
    let status = answer.status().as_u16();
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
    Ok(Answer { status, body: String::from_utf8_lossy(&read).into_owned() })
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
