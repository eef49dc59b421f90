//! A server over the network: TLS with the certificates or the token of a kubeconfig.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use corten_api::{Status, Value, json, meta};
use corten_pki::{Anybody, Credentials};
use futures_util::future::BoxFuture;
use futures_util::{StreamExt, stream};
use http::{HeaderValue, Request, Response, Uri, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use crate::Error;
use crate::transport::{EventStream, Seen, Transport, WatchEvent, WatchRequest};

/// How long a server may say nothing before it is asked whether it is there, and how long it has to say so.
const SILENCE: Duration = Duration::from_secs(15);
const PATIENCE: Duration = Duration::from_secs(10);

/// Why there is no way to a server.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    #[error("the server's address cannot be used: {0}")]
    Address(String),
    #[error("the certificates cannot be used: {0}")]
    Certificates(String),
    #[error("the token cannot be sent: it is not plain text")]
    Token,
    #[error("TLS cannot be set up")]
    Tls(#[from] rustls::Error),
}

#[derive(Clone)]
pub struct Remote {
    http: HttpClient<HttpsConnector<HttpConnector>, Full<Bytes>>,
    base: String,
    authorization: Option<HeaderValue>,
}

impl Remote {
    /// The same server in the identity of a token, unless a certificate says otherwise.
    pub fn with_token(&self, token: &str) -> Result<Remote, RemoteError> {
        Ok(Remote { authorization: Some(bearer(token)?), ..self.clone() })
    }

    /// A server that nobody vouches for yet, asked as nobody. What it says is worth what else vouches for it.
    pub fn unchecked(server: &str) -> Result<Remote, RemoteError> {
        let base = server.trim_end_matches('/').to_owned();
        base.parse::<Uri>().map_err(|e| RemoteError::Address(e.to_string()))?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let anybody = Arc::new(Anybody::new(&provider));
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .dangerous()
            .with_custom_certificate_verifier(anybody)
            .with_no_client_auth();
        Ok(Remote { http: http(config), base, authorization: None })
    }

    /// The server and the identity a kubeconfig names.
    pub fn new(credentials: &Credentials) -> Result<Remote, RemoteError> {
        let base = credentials.server.trim_end_matches('/').to_owned();
        base.parse::<Uri>().map_err(|e| RemoteError::Address(e.to_string()))?;
        let bad = |e: rustls_pki_types::pem::Error| RemoteError::Certificates(e.to_string());
        let mut roots = RootCertStore::empty();
        for root in CertificateDer::pem_slice_iter(credentials.ca_pem.as_bytes()) {
            roots.add(root.map_err(bad)?)?;
        }
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots);
        let config = if credentials.cert_pem.is_empty() {
            builder.with_no_client_auth()
        } else {
            let chain = CertificateDer::pem_slice_iter(credentials.cert_pem.as_bytes())
                .collect::<Result<Vec<_>, _>>()
                .map_err(bad)?;
            let key = PrivateKeyDer::from_pem_slice(credentials.key_pem.as_bytes()).map_err(bad)?;
            builder.with_client_auth_cert(chain, key)?
        };
        let authorization = credentials.token.as_deref().map(bearer).transpose()?;
        Ok(Remote { http: http(config), base, authorization })
    }

    async fn send(self, mut request: Request<Bytes>) -> Result<Response<Incoming>, Error> {
        let uri = format!("{}{}", self.base, request.uri());
        *request.uri_mut() = uri.parse().map_err(Error::transport)?;
        if let Some(authorization) = self.authorization {
            request.headers_mut().insert(header::AUTHORIZATION, authorization);
        }
        self.http.request(request.map(Full::new)).await.map_err(Error::transport)
    }
}

/// Connections that notice when nobody is at the other end any more: a request that waits for a server that was cut off
/// fails, and the next one finds its own way.
fn http(config: ClientConfig) -> HttpClient<HttpsConnector<HttpConnector>, Full<Bytes>> {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_connect_timeout(Some(PATIENCE));
    tcp.set_keepalive(Some(SILENCE));
    // A request is written in parts; none of them waits until the one before has arrived.
    tcp.set_nodelay(true);
    let connector = HttpsConnectorBuilder::new()
        .with_tls_config(config)
        .https_only()
        .enable_all_versions()
        .wrap_connector(tcp);
    HttpClient::builder(TokioExecutor::new())
        .timer(TokioTimer::new())
        .http2_keep_alive_interval(SILENCE)
        .http2_keep_alive_timeout(PATIENCE)
        .http2_keep_alive_while_idle(true)
        .build(connector)
}

fn bearer(token: &str) -> Result<HeaderValue, RemoteError> {
    let mut value = HeaderValue::from_str(&format!("Bearer {token}")).map_err(|_| RemoteError::Token)?;
    value.set_sensitive(true);
    Ok(value)
}

impl Transport for Remote {
    fn call(&self, request: Request<Bytes>) -> BoxFuture<'static, Result<Response<Bytes>, Error>> {
        let remote = self.clone();
        Box::pin(async move {
            let (parts, body) = remote.send(request).await?.into_parts();
            let body = body.collect().await.map_err(Error::transport)?.to_bytes();
            Ok(Response::from_parts(parts, body))
        })
    }

    fn watch(&self, request: WatchRequest) -> BoxFuture<'static, Result<EventStream, Error>> {
        let remote = self.clone();
        Box::pin(async move {
            let http = Request::get(watch_path(&request))
                .header(header::USER_AGENT, request.agent.as_str())
                .header(header::ACCEPT, "application/json")
                .body(Bytes::new())
                .map_err(Error::transport)?;
            let (parts, body) = remote.clone().send(http).await?.into_parts();
            if parts.status.is_success() {
                return Ok(events(body));
            }
            let body = body.collect().await.map_err(Error::transport)?.to_bytes();
            let refusal = json::parse(&body).map_err(Error::transport)?;
            Err(Status::from_value(&refusal).into())
        })
    }
}

fn watch_path(request: &WatchRequest) -> String {
    let path = request.kind.collection(&request.namespace);
    let from = match request.after.as_str() {
        "" => "sendInitialEvents=true&resourceVersionMatch=NotOlderThan".to_owned(),
        after => format!("resourceVersion={after}"),
    };
    let fields = match request.kind.fields.as_str() {
        "" => String::new(),
        fields => format!("&fieldSelector={}", fields.replace('=', "%3D").replace(',', "%2C")),
    };
    format!("{path}?watch=true&allowWatchBookmarks=true&{from}{fields}")
}

/// The frames of a watch, each a line, as events.
fn events(body: Incoming) -> EventStream {
    let frames = stream::unfold((body, BytesMut::new()), |(mut body, mut buffer)| async move {
        loop {
            if let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
                let line = buffer.split_to(end + 1).freeze();
                return Some((event(&line), (body, buffer)));
            }
            match body.frame().await? {
                Ok(frame) => buffer.extend(frame.into_data().ok()),
                Err(error) => return Some((Err(Error::transport(error)), (body, buffer))),
            }
        }
    });
    frames.boxed()
}

fn event(line: &Bytes) -> Result<WatchEvent, Error> {
    let mut frame = json::parse(line).map_err(Error::transport)?;
    let object = frame.remove(&["object"]).unwrap_or_default();
    let seen = |object: Value| Seen {
        text: Bytes::from(json::write_to_string(&object)),
        tree: Some(Arc::new(object)),
    };
    match frame.str_at(&["type"]).unwrap_or_default() {
        "ADDED" | "MODIFIED" => Ok(WatchEvent::Present(seen(object))),
        "DELETED" => {
            let revision = meta::resource_version(&object).parse().unwrap_or(0);
            Ok(WatchEvent::Deleted { last: seen(object), revision })
        }
        "BOOKMARK" => Ok(WatchEvent::Bookmark {
            version: meta::resource_version(&object).to_owned(),
            ends_initial: object.str_at(&["metadata", "annotations", "k8s.io/initial-events-end"])
                == Some("true"),
        }),
        "ERROR" => Err(Status::from_value(&object).into()),
        other => Err(Error::transport(format!("unknown event {other:?}"))),
    }
}
