//! What a kubelet shows to anybody: whether it works, and, only if an operator wants that, what runs here.
//!
//! Nothing can be done here, only looked at.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use corten_base::{ConnectionLimits, Connections};
use http::{Method, Request, StatusCode};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};

use super::answer::{self, Answer};
use super::query::Query;
use super::{Server, metrics, routes};

const HEADERS: Duration = Duration::from_secs(30);

/// What is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Offer {
    Health,
    ReadOnly,
}

/// Takes a port. One that is taken is no reason not to run pods.
pub(super) async fn bind(address: Option<SocketAddr>) -> Option<TcpListener> {
    let address = address?;
    let bound = TcpListener::bind(address).await;
    bound.inspect_err(|error| tracing::warn!(%address, %error, "a port of the kubelet is not served")).ok()
}

/// Answers, for as long as it is not dropped.
pub(super) async fn serve(server: Arc<Server>, listener: Option<TcpListener>, offer: Offer) {
    let Some(listener) = listener else { return };
    let connections = Connections::new(ConnectionLimits::FEW);
    loop {
        match listener.accept().await {
            Ok((stream, address)) => {
                let Some(place) = connections.enter(address.ip()) else { continue };
                let connection = connection(server.clone(), stream, offer);
                tokio::spawn(async move {
                    connection.await;
                    drop(place);
                });
            }
            Err(error) => {
                // Out of descriptors, most likely: give the others a chance to end.
                tracing::warn!(%error, "accept failed");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

async fn connection(server: Arc<Server>, stream: TcpStream, offer: Offer) {
    let service = service_fn(move |request: Request<Incoming>| {
        let server = Arc::clone(&server);
        async move { Ok::<_, Infallible>(answer(&server, offer, &request).await) }
    });
    let mut http = hyper::server::conn::http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEADERS);
    if let Err(error) = http.serve_connection(TokioIo::new(stream), service).await {
        tracing::debug!(%error, "connection ended");
    }
}

async fn answer(server: &Server, offer: Offer, request: &Request<Incoming>) -> Answer {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return answer::text(StatusCode::METHOD_NOT_ALLOWED, "405: Method Not Allowed");
    }
    let path: Vec<_> = request.uri().path().split('/').filter(|part| !part.is_empty()).collect();
    match (offer, path.as_slice()) {
        (_, ["healthz"] | ["healthz", "ping" | "syncloop" | "log"]) => answer::text(StatusCode::OK, "ok"),
        (Offer::ReadOnly, ["pods"]) => answer::tree(&routes::pods(server)),
        (Offer::ReadOnly, ["metrics", rest @ ..]) => metrics::answer(server, rest).await,
        (Offer::ReadOnly, ["stats", "summary"]) => {
            metrics::summary(server, &Query::parse(request.uri().query())).await
        }
        _ => answer::text(StatusCode::NOT_FOUND, "404 page not found\n"),
    }
}
