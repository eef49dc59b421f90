//! A transport over the network: TLS with the certificates or the token of a kubeconfig.

mod connect;

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use corten_api::{Status, Value, json, meta};
use corten_pki::{AcceptAnyCertificate, ApiServerVerifier, Credentials};
use futures_util::future::BoxFuture;
use futures_util::{StreamExt, stream};
use http::{HeaderValue, Request, Response, Uri, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use crate::Error;
use crate::transport::{EventStream, Seen, Transport, WatchEvent, WatchRequest};
use connect::Http;

pub(crate) use connect::Liveness;

/// The largest response of a server whose certificate was not verified: enough for `cluster-info`.
const UNVERIFIED_RESPONSE: usize = 1 << 20;
/// The largest watch event: ten times the largest object that an API server stores.
const WATCH_EVENT: usize = 16 << 20;

/// A kubeconfig that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    #[error("invalid server address: {0}")]
    Address(String),
    #[error("invalid certificates: {0}")]
    Certificates(String),
    #[error("invalid token: it is not printable ASCII")]
    Token,
    #[error("cannot set up TLS")]
    Tls(#[from] rustls::Error),
}

/// The certificates of a server that are accepted. All are signed by the cluster's CA.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trust {
    /// Those for the server's address.
    Address,
    /// Those for the server's address and for the API server's own name.
    ApiServer,
}

/// A request that was not answered, or a watch that was refused.
pub(crate) enum Failure {
    /// There was no connection to send it on.
    Unsent(Error),
    /// It may have been carried out.
    Unanswered(Error),
    /// The server refused a watch.
    Refused(Error),
}

impl Failure {
    fn of(error: &hyper_util::client::legacy::Error) -> Failure {
        let wrap = if error.is_connect() { Failure::Unsent } else { Failure::Unanswered };
        wrap(Error::with_sources(error))
    }

    pub(crate) fn is_unsent(&self) -> bool {
        matches!(self, Failure::Unsent(_))
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Error {
        match failure {
            Failure::Unsent(error) | Failure::Unanswered(error) | Failure::Refused(error) => error,
        }
    }
}

#[derive(Clone)]
pub struct Remote {
    http: Http,
    liveness: Liveness,
    base: String,
    authorization: Option<HeaderValue>,
    /// The largest response in bytes.
    response_limit: usize,
}

impl Remote {
    /// The same server with a bearer token. A client certificate takes precedence over it.
    pub fn with_token(&self, token: &str) -> Result<Remote, RemoteError> {
        Ok(Remote { authorization: Some(bearer(token)?), ..self.clone() })
    }

    /// A server whose certificate is not verified, without credentials. The caller must verify its responses by other means;
    /// they are limited in size, because any server may send them.
    pub fn unchecked(server: &str) -> Result<Remote, RemoteError> {
        let base = server.trim_end_matches('/').to_owned();
        base.parse::<Uri>().map_err(|e| RemoteError::Address(e.to_string()))?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let verifier = Arc::new(AcceptAnyCertificate::new(&provider));
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_no_client_auth();
        let liveness = Liveness::Patient;
        let http = connect::http(config, liveness);
        Ok(Remote { http, liveness, base, authorization: None, response_limit: UNVERIFIED_RESPONSE })
    }

    /// The server and the user of a kubeconfig.
    pub fn new(credentials: &Credentials) -> Result<Remote, RemoteError> {
        Remote::connect(credentials, Trust::Address, Liveness::Patient)
    }

    pub(crate) fn connect(
        credentials: &Credentials,
        trust: Trust,
        liveness: Liveness,
    ) -> Result<Remote, RemoteError> {
        let base = credentials.server.trim_end_matches('/').to_owned();
        base.parse::<Uri>().map_err(|e| RemoteError::Address(e.to_string()))?;
        let bad = |e: rustls_pki_types::pem::Error| RemoteError::Certificates(e.to_string());
        let mut roots = RootCertStore::empty();
        for root in CertificateDer::pem_slice_iter(credentials.ca_pem.as_bytes()) {
            roots.add(root.map_err(bad)?)?;
        }
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder =
            ClientConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions()?;
        let builder = match trust {
            Trust::Address => builder.with_root_certificates(roots),
            Trust::ApiServer => {
                let verifier = ApiServerVerifier::new(roots, provider)
                    .map_err(|error| RemoteError::Certificates(error.to_string()))?;
                builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier))
            }
        };
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
        let http = connect::http(config, liveness);
        Ok(Remote { http, liveness, base, authorization, response_limit: usize::MAX })
    }

    /// The same server, whose responses are limited in size as those of an unverified one.
    #[must_use]
    pub fn limited(&self) -> Remote {
        Remote { response_limit: UNVERIFIED_RESPONSE, ..self.clone() }
    }

    pub(crate) fn liveness(&self) -> Liveness {
        self.liveness
    }

    async fn send(self, mut request: Request<Bytes>) -> Result<Response<Incoming>, Failure> {
        let uri = format!("{}{}", self.base, request.uri());
        *request.uri_mut() = uri.parse().map_err(|error| Failure::Unsent(Error::transport(error)))?;
        if let Some(authorization) = self.authorization {
            request.headers_mut().insert(header::AUTHORIZATION, authorization);
        }
        self.http.request(request.map(Full::new)).await.map_err(|error| Failure::of(&error))
    }

    /// Sends a request and reads the whole response.
    pub(crate) async fn request(self, request: Request<Bytes>) -> Result<Response<Bytes>, Failure> {
        let limit = self.response_limit;
        let (parts, body) = self.send(request).await?.into_parts();
        let body = collect(body, limit).await.map_err(Failure::Unanswered)?;
        Ok(Response::from_parts(parts, body))
    }

    /// Opens a watch.
    pub(crate) async fn open(self, request: &WatchRequest) -> Result<EventStream, Failure> {
        let limit = self.response_limit;
        let http = Request::get(watch_path(request))
            .header(header::USER_AGENT, request.agent.as_str())
            .header(header::ACCEPT, "application/json")
            .body(Bytes::new())
            .map_err(|error| Failure::Unsent(Error::transport(error)))?;
        let (parts, body) = self.send(http).await?.into_parts();
        if parts.status.is_success() {
            return Ok(events(body));
        }
        let body = collect(body, limit).await.map_err(Failure::Unanswered)?;
        let refusal = json::parse(&body).map_err(|error| Failure::Refused(Error::transport(error)))?;
        Err(Failure::Refused(Status::from_value(&refusal).into()))
    }
}

fn bearer(token: &str) -> Result<HeaderValue, RemoteError> {
    let mut value = HeaderValue::from_str(&format!("Bearer {token}")).map_err(|_| RemoteError::Token)?;
    value.set_sensitive(true);
    Ok(value)
}

impl Transport for Remote {
    fn call(&self, request: Request<Bytes>) -> BoxFuture<'static, Result<Response<Bytes>, Error>> {
        let remote = self.clone();
        Box::pin(async move { Ok(remote.request(request).await?) })
    }

    fn watch(&self, request: WatchRequest) -> BoxFuture<'static, Result<EventStream, Error>> {
        let remote = self.clone();
        Box::pin(async move { Ok(remote.open(&request).await?) })
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

/// Reads a whole body of up to `limit` bytes.
async fn collect(body: Incoming, limit: usize) -> Result<Bytes, Error> {
    let body = Limited::new(body, limit).collect().await;
    Ok(body.map_err(|error| Error::with_sources(&*error))?.to_bytes())
}

/// The events of a watch, one per line.
fn events(body: Incoming) -> EventStream {
    let frames = stream::unfold((body, BytesMut::new()), |(mut body, mut buffer)| async move {
        let mut searched = 0;
        loop {
            if let Some(end) = buffer[searched..].iter().position(|byte| *byte == b'\n') {
                let line = buffer.split_to(searched + end + 1).freeze();
                return Some((event(&line), (body, buffer)));
            }
            if buffer.len() > WATCH_EVENT {
                return Some((Err(Error::transport("watch event too large")), (body, buffer)));
            }
            searched = buffer.len();
            match body.frame().await? {
                Ok(frame) => buffer.extend(frame.into_data().ok()),
                Err(error) => return Some((Err(Error::with_sources(&error)), (body, buffer))),
            }
        }
    });
    frames.boxed()
}

fn event(line: &Bytes) -> Result<WatchEvent, Error> {
    let mut frame = json::parse_envelope(line).map_err(Error::transport)?;
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
