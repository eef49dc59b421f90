//! The health and metrics endpoints of a component that runs alone, over TLS with a certificate made at its start.
//!
//! All clients may read health. Metrics need a bearer token: the API server authenticates it (TokenReview) and authorizes
//! the request (SubjectAccessReview).

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::SystemTime;

use anyhow::Context;
use corten_api::{Value, value};
use corten_client::{Client, kinds};
use corten_pki::IssuedCert;
use corten_serving::http::{self as serving, HttpServer};
use http::{Request, Response, StatusCode, header};
use hyper::body::Incoming;
use rustls::ServerConfig;
use tokio::net::TcpListener;

/// Returns the component's metrics in Prometheus' text format.
pub(crate) type Metrics = Arc<dyn Fn() -> String + Send + Sync>;

#[derive(Clone)]
struct Endpoints {
    client: Client,
    metrics: Metrics,
}

/// Binds the listener and serves until the process ends.
pub(crate) async fn start(
    name: &str,
    address: SocketAddr,
    client: Client,
    metrics: Metrics,
) -> anyhow::Result<()> {
    let certificate = IssuedCert::self_signed(name, SystemTime::now())
        .context("cannot create a self-signed certificate")?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| {
            let (chain, key) = (certificate.chain(), certificate.key());
            let bad = |_| rustls::Error::General("the certificate cannot be read".to_owned());
            builder.with_no_client_auth().with_single_cert(chain.map_err(bad)?, key.map_err(bad)?)
        })
        .context("cannot set up TLS")?;
    let listener = TcpListener::bind(address)
        .await
        .with_context(|| format!("cannot listen on {address} (choose another --secure-port)"))?;
    let endpoints = Endpoints { client, metrics };
    let handler = move |request: Request<Incoming>| {
        let endpoints = endpoints.clone();
        async move { endpoints.respond(&request).await }
    };
    tokio::spawn(HttpServer::for_health().with_tls(Arc::new(config)).serve_all(listener, handler));
    Ok(())
}

impl Endpoints {
    async fn respond(&self, request: &Request<Incoming>) -> Response<String> {
        match request.uri().path() {
            "/healthz" | "/livez" | "/readyz" => serving::text(StatusCode::OK, "ok"),
            "/metrics" => match self.authorize(request).await {
                StatusCode::OK => serving::metrics((self.metrics)()),
                StatusCode::UNAUTHORIZED => serving::text(StatusCode::UNAUTHORIZED, "Unauthorized\n"),
                code => serving::text(code, "Forbidden\n"),
            },
            _ => serving::not_found(),
        }
    }

    /// Authenticates and authorizes a request: 200, 401 or 403.
    async fn authorize(&self, request: &Request<Incoming>) -> StatusCode {
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
