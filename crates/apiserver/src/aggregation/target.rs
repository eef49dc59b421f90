//! The connection to one aggregated API server: its Service, the way to verify it, and its pooled connections.
//!
//! *Invariant:* only ready endpoints of the Service are dialed, never loopback or link-local addresses, and no redirect is
//! followed.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use corten_api::{Str, Value};
use corten_auth::User;
use corten_pki::{AcceptAnyCertificate, BundleVerifier, LiveCertificate, ServerPki};
use http::header::{ACCEPT, HeaderMap, HeaderName, HeaderValue, IF_NONE_MATCH};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Incoming;
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use parking_lot::Mutex;
use rustls::ClientConfig;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::ServerName;
use tokio::sync::watch;

use super::discovery::Known;
use super::identity;
use super::openapi::Documents;
use crate::call::Backend;
use crate::connect::{Deadline, Outgoing, is_proxyable, service_endpoints};
use crate::webhook_client::{SYSTEM_AUTHORITIES, error_message};

/// The time that an unused connection stays open.
const IDLE: Duration = Duration::from_secs(90);
/// The number of unused connections to one endpoint.
const IDLE_CONNECTIONS: usize = 25;
/// The timeout of a connection attempt.
const DIAL: Duration = Duration::from_secs(30);
/// The size limit of a response's headers.
const HEADERS: usize = 256 * 1024;
/// The size limit of a body that is not needed.
const DRAINED: usize = 256 * 1024;
/// Tells a request that this server forwarded already.
pub(super) const FORWARDED_BY: HeaderName = HeaderName::from_static("via");

/// A failure to use the front proxy's client certificate.
#[derive(Debug, thiserror::Error)]
pub enum FrontProxyError {
    #[error("cannot use front proxy client certificate")]
    Certificate(#[source] rustls::Error),
}

/// The credentials of this server as a front proxy.
pub(super) struct FrontProxyClient {
    certificate: LiveCertificate,
    /// Distinguishes this server in `Via` headers.
    id: HeaderValue,
}

type Pool = Client<Deadline<HttpsConnector<HttpConnector>>, Outgoing>;

/// The connection settings of an APIService. It lives until those change.
pub(crate) struct Target {
    pub(crate) name: String,
    pub(crate) group: Str,
    pub(crate) version: Str,
    pub(super) service: Service,
    /// The part of the specification that decides about connections.
    connection: Value,
    link: Result<Link, String>,
    id: HeaderValue,
    /// The status of the condition `Available`, as the last check found it.
    pub(super) is_available: AtomicBool,
    pub(super) discovered: Mutex<Known>,
    pub(super) documents: Documents,
    /// Changes with the APIService, the Service and its endpoints.
    pub(super) changed: watch::Sender<u64>,
}

pub(super) struct Service {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) port: i64,
}

struct Link {
    pool: Pool,
    /// For upgraded sessions, which have connections of their own.
    sessions: Arc<ClientConfig>,
}

/// A response that was read to its end.
pub(super) struct Fetched {
    pub(super) code: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

/// A document to fetch.
pub(super) struct Fetch<'a> {
    pub(super) path: &'a str,
    pub(super) accept: &'static str,
    pub(super) etag: &'a str,
    pub(super) user: &'a User,
    pub(super) timeout: Duration,
    /// The size limit of the body; with 0 the response is only its head.
    pub(super) limit: usize,
}

impl FrontProxyClient {
    pub(super) fn new(pki: &ServerPki) -> Result<FrontProxyClient, FrontProxyError> {
        let certificate = pki.live.front_proxy_client.clone();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        // Checked now: an APIService could not be served later.
        config(&certificate, Arc::new(AcceptAnyCertificate::new(&provider)), &provider)?;
        let id = HeaderValue::from_str(&format!("1.1 kube-aggregator-{}", crate::random::uuid()));
        Ok(FrontProxyClient {
            certificate,
            id: id.unwrap_or_else(|_| HeaderValue::from_static("1.1 kube-aggregator")),
        })
    }

    fn link(&self, spec: &Value, host: &str) -> Result<Link, String> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let verifier: Arc<dyn ServerCertVerifier> = if spec.bool_at(&["insecureSkipTLSVerify"]) == Some(true)
        {
            Arc::new(AcceptAnyCertificate::new(&provider))
        } else {
            Arc::new(verifier(spec.str_at(&["caBundle"]).unwrap_or_default(), &provider)?)
        };
        let name = ServerName::try_from(host.to_owned()).map_err(|error| error.to_string())?;
        let tls = config(&self.certificate, verifier, &provider).map_err(|error| error.to_string())?;
        let mut sessions = tls.clone();
        sessions.alpn_protocols = vec![b"http/1.1".to_vec()];
        let mut dial = HttpConnector::new();
        dial.enforce_http(false);
        dial.set_nodelay(true);
        dial.set_connect_timeout(Some(DIAL));
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_only()
            .with_server_name_resolver(FixedServerNameResolver::new(name))
            .enable_all_versions()
            .wrap_connector(dial);
        let pool = Client::builder(TokioExecutor::new())
            .pool_idle_timeout(IDLE)
            .pool_timer(TokioTimer::new())
            .timer(TokioTimer::new())
            .pool_max_idle_per_host(IDLE_CONNECTIONS)
            .http1_max_buf_size(HEADERS)
            .http2_max_header_list_size(HEADERS as u32)
            .http2_keep_alive_interval(Some(Duration::from_secs(30)))
            .http2_keep_alive_timeout(Duration::from_secs(15))
            .build(Deadline(connector));
        Ok(Link { pool, sessions: Arc::new(sessions) })
    }
}

fn config(
    certificate: &LiveCertificate,
    verifier: Arc<dyn ServerCertVerifier>,
    provider: &Arc<CryptoProvider>,
) -> Result<ClientConfig, FrontProxyError> {
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(FrontProxyError::Certificate)?
        .dangerous()
        .with_custom_certificate_verifier(verifier);
    Ok(builder.with_client_cert_resolver(Arc::new(certificate.clone())))
}

/// The verifier of servers with the CAs of a bundle, or with those of the system without one.
fn verifier(bundle: &str, provider: &Arc<CryptoProvider>) -> Result<BundleVerifier, String> {
    let bundle = STANDARD.decode(bundle).map_err(|error| error.to_string())?;
    let bundle = match bundle.trim_ascii() {
        b"" => {
            let system = SYSTEM_AUTHORITIES.iter().find_map(|path| std::fs::read_to_string(path).ok());
            system.unwrap_or_default()
        }
        own => String::from_utf8_lossy(own).into_owned(),
    };
    let verifier = BundleVerifier::new(&bundle, provider.clone()).map_err(|error| error.to_string())?;
    verifier.ok_or_else(|| "unable to load root certificates: unable to parse bytes as PEM block".to_owned())
}

impl Target {
    /// The target of an APIService that names a Service.
    pub(super) fn of(client: &FrontProxyClient, object: &Value) -> Option<Target> {
        let service = object.at(&["spec", "service"]).filter(|service| !service.is_null())?;
        let text = |key: &str| service.str_at(&[key]).unwrap_or_default().to_owned();
        let service = Service {
            namespace: text("namespace"),
            name: text("name"),
            port: service.int_at(&["port"]).unwrap_or(443),
        };
        let spec = object.get("spec")?;
        let registered = super::Registered::of(object);
        Some(Target {
            link: client.link(spec, &service.host()),
            name: registered.name,
            group: registered.group,
            version: registered.version,
            service,
            connection: connection(object),
            id: client.id.clone(),
            is_available: AtomicBool::new(super::availability::is_available(object)),
            discovered: Mutex::default(),
            documents: Documents::default(),
            changed: watch::Sender::new(0),
        })
    }

    /// True if an APIService still has these connection settings.
    pub(super) fn is_of(&self, object: &Value) -> bool {
        self.connection == connection(object)
    }

    /// The path of its group version.
    pub(super) fn path(&self) -> String {
        match self.group.is_empty() {
            true => format!("/api/{}", self.version),
            false => format!("/apis/{}/{}", self.group, self.version),
        }
    }

    /// Why no connection can be made.
    pub(super) fn invalid(&self) -> Option<&str> {
        self.link.as_ref().err().map(String::as_str)
    }

    pub(super) fn host(&self) -> String {
        self.service.host()
    }

    pub(super) fn sessions(&self) -> Result<Arc<ClientConfig>, String> {
        self.link.as_ref().map(|link| link.sessions.clone()).map_err(Clone::clone)
    }

    /// True if this server forwarded a request already: an APIService must not lead back to this server.
    pub(super) fn is_loop(&self, headers: &HeaderMap) -> bool {
        headers.get_all(&FORWARDED_BY).iter().any(|via| via == self.id)
    }

    pub(super) fn mark(&self, headers: &mut HeaderMap) {
        headers.append(FORWARDED_BY, self.id.clone());
    }

    /// A ready endpoint of the Service, another one each time.
    pub(super) fn resolve(&self, backend: &Backend) -> Result<SocketAddr, String> {
        let Service { namespace, name, port } = &self.service;
        let services = backend.catalog.cache("", "services");
        let service = services.and_then(|cache| cache.get(namespace, name));
        let service = service.ok_or_else(|| format!("service {name:?} not found"))?.tree();
        let kind = service.str_at(&["spec", "type"]).unwrap_or("ClusterIP");
        if !matches!(kind, "ClusterIP" | "NodePort" | "LoadBalancer") {
            return Err(format!("unsupported service type {kind:?}"));
        }
        let mut found = service_endpoints(backend, namespace, name, *port)?;
        found.retain(|address| is_proxyable(address.ip()));
        let families = service.items_at(&["spec", "ipFamilies"]);
        let prefers_ipv6 = families.first().and_then(Value::as_str) == Some("IPv6");
        let preferred = found.iter().find(|address| address.is_ipv6() == prefers_ipv6);
        preferred
            .or(found.first())
            .copied()
            .ok_or_else(|| format!("no endpoints available for service {name:?}"))
    }

    /// Sends a request to an endpoint over a pooled connection.
    pub(super) async fn send(
        &self,
        request: Request<Outgoing>,
        to: SocketAddr,
    ) -> Result<Response<Incoming>, String> {
        let link = self.link.as_ref().map_err(Clone::clone)?;
        link.pool.request(request).await.map_err(|error| error_message(&error, &to.to_string()))
    }

    /// Fetches a document as a user of this server itself.
    pub(super) async fn fetch(&self, backend: &Backend, fetch: &Fetch<'_>) -> Result<Fetched, String> {
        let to = self.resolve(backend)?;
        self.fetch_from(to, fetch).await
    }

    pub(super) async fn fetch_from(&self, to: SocketAddr, fetch: &Fetch<'_>) -> Result<Fetched, String> {
        let body = Empty::new().map_err(|never| match never {}).boxed_unsync();
        let mut request = Request::get(format!("https://{to}{}", fetch.path))
            .body(body)
            .map_err(|error| error.to_string())?;
        let headers = request.headers_mut();
        identity::set(headers, fetch.user).ok_or_else(|| "invalid user".to_owned())?;
        self.mark(headers);
        headers.insert(ACCEPT, HeaderValue::from_static(fetch.accept));
        if let Some(etag) = HeaderValue::from_str(fetch.etag).ok().filter(|etag| !etag.is_empty()) {
            headers.insert(IF_NONE_MATCH, etag);
        }
        let exchange = async {
            let (parts, body) = self.send(request, to).await?.into_parts();
            let body = match fetch.limit {
                0 => {
                    // Read all the same, within limits, so that the connection can be used again.
                    let rest = Limited::new(body, DRAINED).collect();
                    tokio::spawn(tokio::time::timeout(fetch.timeout, rest));
                    Bytes::new()
                }
                limit => {
                    let body = Limited::new(body, limit).collect().await;
                    body.map_err(|error| format!("cannot read response of at most {limit} bytes: {error}"))?
                        .to_bytes()
                }
            };
            Ok(Fetched { code: parts.status, headers: parts.headers, body })
        };
        match tokio::time::timeout(fetch.timeout, exchange).await {
            Ok(outcome) => outcome,
            Err(_) => {
                Err("context deadline exceeded (Client.Timeout exceeded while awaiting headers)".to_owned())
            }
        }
    }
}

impl Service {
    /// The name in the server's certificate.
    fn host(&self) -> String {
        format!("{}.{}.svc", self.name, self.namespace)
    }
}

/// The fields that decide about connections.
fn connection(object: &Value) -> Value {
    let field = |key: &str| object.at(&["spec", key]).cloned().unwrap_or_default();
    Value::Array(vec![field("service"), field("caBundle"), field("insecureSkipTLSVerify")])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bundle_without_certificates_is_an_error() {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        assert!(verifier(&STANDARD.encode("hello"), &provider).is_err());
        assert!(verifier("!", &provider).is_err());
    }
}
