//! The listeners without authentication: healthz, and, only if an operator enables it, the read-only API.
//!
//! Nothing can be changed here.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use corten_base::ConnectionLimits;
use corten_serving::http::HttpServer;
use http::{Method, Request, StatusCode};
use hyper::body::Incoming;
use tokio::net::TcpListener;

use super::query::Query;
use super::response::{self, ApiResponse};
use super::{Server, metrics, routes};

const HEADER_TIMEOUT: Duration = Duration::from_secs(30);

/// The API of a listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Offer {
    Health,
    ReadOnly,
}

/// Binds a port. A port that is taken is no reason not to run pods.
pub(super) async fn bind(address: Option<SocketAddr>) -> Option<TcpListener> {
    let address = address?;
    let bound = TcpListener::bind(address).await;
    bound.inspect_err(|err| tracing::warn!(%address, %err, "cannot bind healthz/read-only listener")).ok()
}

/// Serves until the future is dropped.
pub(super) async fn serve(server: Arc<Server>, listener: Option<TcpListener>, offer: Offer) {
    let Some(listener) = listener else { return };
    let handler = move |request: Request<Incoming>| {
        let server = server.clone();
        async move { handle(&server, offer, &request).await }
    };
    HttpServer::new(ConnectionLimits::FEW, HEADER_TIMEOUT).serve_all(listener, handler).await;
}

async fn handle(server: &Server, offer: Offer, request: &Request<Incoming>) -> ApiResponse {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return response::text(StatusCode::METHOD_NOT_ALLOWED, "405: Method Not Allowed");
    }
    let path: Vec<_> = request.uri().path().split('/').filter(|part| !part.is_empty()).collect();
    match (offer, path.as_slice()) {
        (_, ["healthz"] | ["healthz", "ping" | "syncloop" | "log"]) => response::text(StatusCode::OK, "ok"),
        (Offer::ReadOnly, ["pods"]) => response::tree(&routes::pods(server)),
        (Offer::ReadOnly, ["metrics", rest @ ..]) => metrics::handle(server, rest).await,
        (Offer::ReadOnly, ["stats", "summary"]) => {
            metrics::summary(server, &Query::parse(request.uri().query())).await
        }
        _ => response::text(StatusCode::NOT_FOUND, "404 page not found\n"),
    }
}
