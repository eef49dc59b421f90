//! Health and metrics of a part that runs alone, over TLS with a certificate made at the start.
//!
//! Health is for everybody. Metrics are for those whom the cluster lets read them: the server is asked who shows a
//! token, and whether they may.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::Context;
use corten_api::{Value, value};
use corten_base::{ConnectionLimits, Connections};
use corten_client::{Client, kinds};
use corten_pki::IssuedCert;
use http::{Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

/// How long a handshake, and a request's headers, may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Tells what there is to tell, in Prometheus' text form.
pub(crate) type Metrics = Arc<dyn Fn() -> String + Send + Sync>;

#[derive(Clone)]
struct Serving {
    client: Client,
    metrics: Metrics,
    acceptor: TlsAcceptor,
}

/// Listens from now on, until the process ends.
pub(crate) async fn start(
    name: &str,
    address: SocketAddr,
    client: Client,
    metrics: Metrics,
) -> anyhow::Result<()> {
    let certificate = IssuedCert::self_signed(name, SystemTime::now()).context("making a certificate")?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| {
            let (chain, key) = (certificate.chain(), certificate.key());
            let bad = |_| rustls::Error::General("the certificate cannot be read".to_owned());
            builder.with_no_client_auth().with_single_cert(chain.map_err(bad)?, key.map_err(bad)?)
        })
        .context("setting up TLS")?;
    let listener = TcpListener::bind(address)
        .await
        .with_context(|| format!("listening on {address}; --secure-port chooses another port"))?;
    let serving = Serving { client, metrics, acceptor: TlsAcceptor::from(Arc::new(config)) };
    let connections = Connections::new(ConnectionLimits::FEW);
    tokio::spawn(async move {
        loop {
            match listener.accept().await {
                Ok((stream, address)) => {
                    let Some(place) = connections.enter(address.ip()) else { continue };
                    let connection = serving.clone().connection(stream);
                    tokio::spawn(async move {
                        connection.await;
                        drop(place);
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "accept failed");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        }
    });
    Ok(())
}

impl Serving {
    async fn connection(self, stream: TcpStream) {
        let Ok(Ok(stream)) = tokio::time::timeout(PATIENCE, self.acceptor.accept(stream)).await else {
            return;
        };
        let service = service_fn(move |request| {
            let serving = self.clone();
            async move { Ok::<_, std::convert::Infallible>(serving.answer(&request).await) }
        });
        let mut http = hyper::server::conn::http1::Builder::new();
        http.timer(TokioTimer::new()).header_read_timeout(PATIENCE);
        if let Err(error) = http.serve_connection(TokioIo::new(stream), service).await {
            tracing::debug!(%error, "connection ended");
        }
    }

    async fn answer(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        match request.uri().path() {
            "/healthz" | "/livez" | "/readyz" => said(StatusCode::OK, "ok"),
            "/metrics" => match self.judge(request).await {
                StatusCode::OK => said(StatusCode::OK, (self.metrics)()),
                StatusCode::UNAUTHORIZED => said(StatusCode::UNAUTHORIZED, "Unauthorized\n"),
                code => said(code, "Forbidden\n"),
            },
            _ => said(StatusCode::NOT_FOUND, "404 page not found\n"),
        }
    }

    /// Whether somebody may read what they ask for.
    async fn judge(&self, request: &Request<Incoming>) -> StatusCode {
        let header = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let Some(token) = header.and_then(|text| text.strip_prefix("Bearer ")) else {
            return StatusCode::UNAUTHORIZED;
        };
        let review = value!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": (token)},
        });
        let Ok(review) = self.client.create(&kinds::TOKEN_REVIEWS, &review).await else {
            return StatusCode::UNAUTHORIZED;
        };
        if review.bool_at(&["status", "authenticated"]) != Some(true) {
            return StatusCode::UNAUTHORIZED;
        }
        let user = |key: &str| review.at(&["status", "user", key]).cloned().unwrap_or(Value::Null);
        let access = value!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
            "spec": {
                "user": (user("username")), "groups": (user("groups")), "uid": (user("uid")),
                "nonResourceAttributes": {"path": (request.uri().path()), "verb": "get"},
            },
        });
        match self.client.create(&kinds::SUBJECT_ACCESS_REVIEWS, &access).await {
            Ok(access) if access.bool_at(&["status", "allowed"]) == Some(true) => StatusCode::OK,
            _ => StatusCode::FORBIDDEN,
        }
    }
}

fn said(code: StatusCode, text: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut answer = Response::new(Full::new(text.into()));
    *answer.status_mut() = code;
    let plain = header::HeaderValue::from_static("text/plain; charset=utf-8");
    answer.headers_mut().insert(header::CONTENT_TYPE, plain);
    answer
}
