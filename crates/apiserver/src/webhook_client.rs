//! Calls to webhooks: a JSON document is posted to a service or a URL, and a JSON document comes back.
//!
//! A service is resolved through EndpointSlices in this process, so that calls do not depend on the node's proxy.
//! Connections are kept per endpoint, and calls begin with another endpoint each time. Services are called with HTTP/1.1, as
//! upstream does: the Host header is the service's name, while the connection leads to an endpoint. URLs may use HTTP/2.
//!
//! The webhook may be dead, slow or hostile: every call has a deadline, an answer a size limit in proportion to the request,
//! redirects are not followed, and names of URLs are resolved on few threads of their own (`resolver`).

mod credentials;
mod users;

use std::error::Error as _;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use corten_api::{Value, json};
use corten_pki::BundleVerifier;
use http::header::{ACCEPT, CONTENT_TYPE, HOST, USER_AGENT};
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::{Client, Error as ClientError};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::pki_types::ServerName;
use rustls::{CertificateError, ClientConfig};
use tokio::sync::Semaphore;

use crate::call::Backend;
use crate::connect::{Deadline, io_error_message, is_proxyable, service_endpoints};
use crate::heavy;
use crate::resolver::Names;
use credentials::Credentials;
pub(crate) use users::KubeconfigUsers;

/// The smallest limit of an answer; larger requests have larger ones.
const LEAST_ANSWER: usize = 3 * 1024 * 1024;
/// The largest limit.
const MOST_ANSWER: usize = 16 * 1024 * 1024;
/// The limit of an answer, in sizes of the request.
const ANSWER_RATIO: usize = 4;
/// A larger answer is not parsed on a thread of the runtime before that has handed over its other tasks.
const LARGE_ANSWER: usize = 64 * 1024;
/// The limit of an answer's text in an error.
const MOST_SHOWN: usize = 1024;
/// The connections that are kept for each endpoint, and their idle time.
const KEPT_CONNECTIONS: usize = 8;
const KEPT_FOR: Duration = Duration::from_secs(90);
/// The bundles of system CAs, for webhooks without a CA of their own.
pub(crate) const SYSTEM_AUTHORITIES: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];

/// The members of responses to admission and conversion reviews.
const RESPONSE_MEMBERS: [&str; 9] = [
    "uid",
    "allowed",
    "status",
    "patch",
    "patchType",
    "auditAnnotations",
    "warnings",
    "result",
    "convertedObjects",
];

/// The places of large answers that are parsed.
static PARSERS: Semaphore = Semaphore::const_new(2);

type Connections = Client<Deadline<HttpsConnector<HttpConnector<Names>>>, Full<Bytes>>;

/// The name by which webhooks know this client.
const AGENT: HeaderValue = HeaderValue::from_static("kube-apiserver-admission");

/// The address of a webhook and the way to verify it.
pub(crate) struct WebhookClient {
    target: Target,
    path: String,
    authorities: Option<Vec<u8>>,
    credentials: Option<Arc<Credentials>>,
    /// Made when the webhook is first called.
    connections: OnceLock<Result<Connections, String>>,
}

/// A call that failed.
#[derive(Debug, thiserror::Error)]
#[error("{why}")]
pub(crate) struct CallError {
    pub(crate) why: String,
    /// The status code of the answer, if that is the error.
    pub(crate) code: Option<u16>,
}

impl From<String> for CallError {
    fn from(why: String) -> CallError {
        CallError { why, code: None }
    }
}

enum Target {
    Service { namespace: String, name: String, port: i64 },
    Url { host: String, port: u16 },
}

impl WebhookClient {
    /// From a `clientConfig`.
    pub(crate) fn new(config: &Value) -> Result<WebhookClient, String> {
        let authorities = config.str_at(&["caBundle"]).map(|bundle| STANDARD.decode(bundle));
        let authorities = authorities.transpose().map_err(|e| format!("unable to decode caBundle: {e}"))?;
        let authorities = authorities.filter(|bundle| !bundle.trim_ascii().is_empty());
        if let Some(service) = config.get("service").filter(|service| !service.is_null()) {
            let text = |key: &str| service.str_at(&[key]).unwrap_or_default().to_owned();
            let target = Target::Service {
                namespace: text("namespace"),
                name: text("name"),
                port: service.int_at(&["port"]).unwrap_or(443),
            };
            return Ok(WebhookClient {
                target,
                path: text("path"),
                authorities,
                credentials: None,
                connections: OnceLock::new(),
            });
        }
        let url = config.str_at(&["url"]).unwrap_or_default();
        let parsed: http::Uri = url.parse().map_err(|e| format!("Unparsable URL: {e}"))?;
        let host = parsed.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        let path = parsed.path_and_query().map(ToString::to_string).unwrap_or_default();
        Ok(WebhookClient {
            target: Target::Url { host, port: parsed.port_u16().unwrap_or(443) },
            path,
            authorities,
            credentials: None,
            connections: OnceLock::new(),
        })
    }

    /// The client with the credentials that some users have for its server.
    pub(crate) fn with_users(self, users: &KubeconfigUsers) -> WebhookClient {
        let server = match &self.target {
            Target::Service { namespace, name, port } => format!("{name}.{namespace}.svc:{port}"),
            Target::Url { host, port } if host.contains(':') => format!("[{host}]:{port}"),
            Target::Url { host, port } => format!("{host}:{port}"),
        };
        WebhookClient { credentials: users.of(&server).cloned(), ..self }
    }

    /// Checks that the credentials can be used.
    pub(crate) fn check(&self) -> Result<(), String> {
        self.credentials.as_ref().map_or(Ok(()), |credentials| credentials.check())
    }

    /// The URL, as errors show it.
    fn url(&self, timeout: Duration) -> String {
        let path = self.request_path();
        let query = timeout_parameter(timeout);
        let separator = if path.contains('?') { '&' } else { '?' };
        match &self.target {
            Target::Service { namespace, name, port } => {
                format!("https://{name}.{namespace}.svc:{port}{path}{separator}{query}")
            }
            Target::Url { host, port } if host.contains(':') => {
                format!("https://[{host}]:{port}{path}{separator}{query}")
            }
            Target::Url { host, port: 443 } => format!("https://{host}{path}{separator}{query}"),
            Target::Url { host, port } => format!("https://{host}:{port}{path}{separator}{query}"),
        }
    }

    fn request_path(&self) -> String {
        if self.path.starts_with('/') { self.path.clone() } else { format!("/{}", self.path) }
    }

    /// Posts a document and returns the answer.
    pub(crate) async fn post(
        &self,
        backend: &Backend,
        body: &Value,
        timeout: Duration,
    ) -> Result<Value, CallError> {
        let failed = |error: CallError| CallError {
            why: format!("Post {:?}: {}", self.url(timeout), error.why),
            ..error
        };
        let call = self.exchange(backend, body, timeout);
        match tokio::time::timeout(timeout, call).await {
            Ok(outcome) => outcome.map_err(failed),
            Err(_) => Err(failed("context deadline exceeded".to_owned().into())),
        }
    }

    async fn exchange(&self, backend: &Backend, body: &Value, timeout: Duration) -> Result<Value, CallError> {
        let body = Bytes::from(json::write_to_string(body));
        let limit = LEAST_ANSWER.max(body.len().saturating_mul(ANSWER_RATIO)).min(MOST_ANSWER);
        let answer = self.send(backend, body, timeout).await?;
        let code = answer.status();
        let body =
            Limited::new(answer.into_body(), limit).collect().await.map_err(|error| error.to_string())?;
        let body = body.to_bytes();
        if !matches!(code.as_u16(), 200..=206) {
            return Err(CallError { why: refusal(code, &body), code: Some(code.as_u16()) });
        }
        if body.len() <= LARGE_ANSWER {
            return json::parse(&body).map_err(|error| error.to_string().into());
        }
        // Trees take many times the memory of their text: few are made at a time, and only their known members are kept.
        let _place = PARSERS.acquire().await.map_err(|error| error.to_string())?;
        let mut parsed = heavy::blocking(|| json::parse(&body)).map_err(|error| error.to_string())?;
        if let Some(map) = parsed.as_object_mut() {
            map.retain(|key, _| ["kind", "apiVersion", "response"].contains(&key.as_str()));
        }
        if let Some(response) = parsed.get_mut("response").and_then(Value::as_object_mut) {
            response.retain(|key, _| RESPONSE_MEMBERS.contains(&key.as_str()));
        }
        Ok(parsed)
    }

    /// Sends the request to one of the webhook's endpoints: to the next one, if one accepts no connection.
    async fn send(
        &self,
        backend: &Backend,
        body: Bytes,
        timeout: Duration,
    ) -> Result<Response<Incoming>, String> {
        let connections = self.connections.get_or_init(|| self.connect()).as_ref().map_err(Clone::clone)?;
        let mut failed = "no endpoints".to_owned();
        for authority in self.authorities_to_dial(backend)? {
            let request = self.request(&authority, body.clone(), timeout)?;
            match connections.request(request).await {
                Ok(answer) => return Ok(answer),
                Err(error) => {
                    failed = error_message(&error, &authority);
                    if !error.is_connect() {
                        break;
                    }
                }
            }
        }
        Err(failed)
    }

    fn request(
        &self,
        authority: &str,
        body: Bytes,
        timeout: Duration,
    ) -> Result<Request<Full<Bytes>>, String> {
        let path = self.request_path();
        let separator = if path.contains('?') { '&' } else { '?' };
        let uri = format!("https://{authority}{path}{separator}{}", timeout_parameter(timeout));
        let mut request = Request::post(uri).body(Full::new(body)).map_err(|error| error.to_string())?;
        let json_type = HeaderValue::from_static("application/json");
        let headers = request.headers_mut();
        headers.insert(CONTENT_TYPE, json_type.clone());
        headers.insert(ACCEPT, json_type);
        headers.insert(USER_AGENT, AGENT);
        if let Some(credentials) = &self.credentials {
            credentials.set_headers(headers)?;
        }
        if let Target::Service { namespace, name, port } = &self.target
            && let Ok(host) = HeaderValue::from_str(&format!("{name}.{namespace}.svc:{port}"))
        {
            headers.insert(HOST, host);
        }
        Ok(request)
    }

    /// Host and port of the servers to try, in order.
    fn authorities_to_dial(&self, backend: &Backend) -> Result<Vec<String>, String> {
        match &self.target {
            Target::Url { host, port } if host.contains(':') => Ok(vec![format!("[{host}]:{port}")]),
            Target::Url { host, port } => Ok(vec![format!("{host}:{port}")]),
            Target::Service { namespace, name, port } => {
                let mut resolved: Vec<SocketAddr> = service_endpoints(backend, namespace, name, *port)?;
                // Beyond what validation refuses: addresses that loopback is embedded in.
                resolved.retain(|address| is_proxyable(address.ip()));
                match resolved.is_empty() {
                    true => Err(format!("no endpoints available for service {name:?}")),
                    false => Ok(resolved.iter().map(ToString::to_string).collect()),
                }
            }
        }
    }

    /// The connections to this webhook, none of which exists yet.
    fn connect(&self) -> Result<Connections, String> {
        let mut http = HttpConnector::new_with_resolver(Names);
        http.enforce_http(false);
        http.set_nodelay(true);
        let builder = HttpsConnectorBuilder::new().with_tls_config(self.tls()?).https_only();
        let connector = match &self.target {
            Target::Service { namespace, name, .. } => {
                let name = ServerName::try_from(format!("{name}.{namespace}.svc"));
                let name = name.map_err(|error| error.to_string())?;
                let builder = builder.with_server_name_resolver(FixedServerNameResolver::new(name));
                builder.enable_http1().wrap_connector(http)
            }
            Target::Url { .. } => builder.enable_all_versions().wrap_connector(http),
        };
        let mut client = Client::builder(TokioExecutor::new());
        client.pool_timer(TokioTimer::new()).pool_idle_timeout(KEPT_FOR);
        client.pool_max_idle_per_host(KEPT_CONNECTIONS);
        Ok(client.build(Deadline(connector)))
    }

    fn tls(&self) -> Result<ClientConfig, String> {
        let bundle = match &self.authorities {
            Some(bundle) => String::from_utf8_lossy(bundle).into_owned(),
            None => {
                let bundle = SYSTEM_AUTHORITIES.iter().find_map(|path| std::fs::read_to_string(path).ok());
                bundle.unwrap_or_default()
            }
        };
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let verifier = BundleVerifier::new(&bundle, provider.clone()).map_err(|e| e.to_string())?;
        let verifier = verifier.ok_or_else(|| match &self.authorities {
            Some(_) => "unable to load root certificates: unable to parse bytes as PEM block".to_owned(),
            None => {
                "tls: failed to verify certificate: x509: certificate signed by unknown authority".to_owned()
            }
        })?;
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier));
        let credentials = self.credentials.as_ref();
        Ok(match credentials.and_then(|credentials| credentials.certificate.clone()) {
            Some(certificate) => config.with_client_cert_resolver(certificate),
            None => config.with_no_client_auth(),
        })
    }
}

/// The message of a failed exchange, as a Go client words it.
pub(crate) fn error_message(error: &ClientError, authority: &str) -> String {
    let mut last = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        last = inner.to_string();
        if let Some(tls) = inner.downcast_ref::<rustls::Error>() {
            return tls_error_message(tls);
        }
        if inner.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_incomplete_message) {
            return "EOF".to_owned();
        }
        let io = inner.downcast_ref::<io::Error>();
        match io.map(|io| (io, io.get_ref())) {
            // An error of another layer, such as TLS.
            Some((_, Some(wrapped))) => cause = Some(wrapped),
            Some((io, None)) if error.is_connect() => {
                return format!("dial tcp {authority}: {}", io_error_message(io));
            }
            Some((io, None)) if io.kind() == io::ErrorKind::UnexpectedEof => return "EOF".to_owned(),
            Some((io, None)) => return io_error_message(io),
            None => cause = inner.source(),
        }
    }
    last
}

fn tls_error_message(error: &rustls::Error) -> String {
    let why = match error {
        rustls::Error::InvalidCertificate(
            CertificateError::UnknownIssuer | CertificateError::BadSignature,
        ) => "x509: certificate signed by unknown authority".to_owned(),
        rustls::Error::InvalidCertificate(
            CertificateError::Expired
            | CertificateError::ExpiredContext { .. }
            | CertificateError::NotValidYet
            | CertificateError::NotValidYetContext { .. },
        ) => "x509: certificate has expired or is not yet valid".to_owned(),
        rustls::Error::InvalidCertificate(error) => format!("x509: {error}"),
        other => return format!("tls: {other}"),
    };
    format!("tls: failed to verify certificate: {why}")
}

/// The message of an answer that is an error, as a Go client words it.
fn refusal(code: StatusCode, body: &[u8]) -> String {
    let text = String::from_utf8_lossy(&body[..body.len().min(MOST_SHOWN)]).trim().to_owned();
    let fixed = match code.as_u16() {
        400 => "the server rejected our request for an unknown reason",
        401 => "the server has asked for the client to provide credentials",
        403 => return if text.is_empty() { "forbidden".to_owned() } else { format!("forbidden: {text}") },
        404 => "the server could not find the requested resource",
        405 => "the server does not allow this method on the requested resource",
        409 => "the server reported a conflict",
        422 => "the server rejected our request due to an error in our request",
        429 => "the server has received too many requests and has asked us to try again later",
        503 => "the server is currently unable to handle the request",
        504 => {
            "the server was unable to return a response in the time allotted, but may still be processing the request"
        }
        500.. => {
            let shown = if text.is_empty() { "unknown" } else { &text };
            return format!("an error on the server ({shown:?}) has prevented the request from succeeding");
        }
        other => {
            return format!(
                "the server responded with the status code {other} but did not return more information"
            );
        }
    };
    fixed.to_owned()
}

/// The time that a webhook has, in seconds. Rounded up: the webhook must not believe that it has none.
fn timeout_parameter(timeout: Duration) -> String {
    format!("timeout={}s", timeout.as_secs() + u64::from(timeout.subsec_nanos() > 0))
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::*;

    #[test]
    fn urls() {
        let second = Duration::from_secs(30);
        for (config, expected) in [
            (
                value!({"service": {"namespace": "n", "name": "s", "path": "/convert", "port": 8443}}),
                "https://s.n.svc:8443/convert?timeout=30s",
            ),
            (value!({"service": {"namespace": "n", "name": "s"}}), "https://s.n.svc:443/?timeout=30s"),
            (value!({"url": "https://example.com/a?b=c"}), "https://example.com/a?b=c&timeout=30s"),
            (value!({"url": "https://[::1]:9443"}), "https://[::1]:9443/?timeout=30s"),
        ] {
            assert_eq!(WebhookClient::new(&config).unwrap().url(second), expected);
        }
        let client = WebhookClient::new(&value!({"url": "https://example.com"})).unwrap();
        assert_eq!(client.url(Duration::from_millis(9_001)), "https://example.com/?timeout=10s");
        assert!(WebhookClient::new(&value!({"service": {}, "caBundle": "!"})).is_err());
    }
}
