//! Connections to a server that detect when it is cut off: a request to it fails, and the next one opens a new connection.

use std::error::Error;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::Uri;
use http_body_util::Full;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::ClientConfig;
use tower_service::Service;

pub(super) type Http = Client<Deadline<HttpsConnector<HttpConnector>>, Full<Bytes>>;

/// The time in which a server must show that it is alive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Liveness {
    /// There is no other server.
    Patient,
    /// There are others, so that it is worth to notice a dead one soon.
    Prompt,
}

impl Liveness {
    /// The silence after which the server is pinged.
    fn interval(self) -> Duration {
        match self {
            Liveness::Patient => Duration::from_secs(15),
            Liveness::Prompt => Duration::from_secs(1),
        }
    }

    /// The time that it has to answer. Connecting takes as long at most.
    fn timeout(self) -> Duration {
        match self {
            Liveness::Patient => Duration::from_secs(10),
            Liveness::Prompt => Duration::from_millis(1500),
        }
    }
}

pub(super) fn http(config: ClientConfig, liveness: Liveness) -> Http {
    let (interval, timeout) = (liveness.interval(), liveness.timeout());
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_connect_timeout(Some(timeout));
    tcp.set_keepalive(Some(interval));
    // A request is written in parts, and none may wait for the acknowledgement of the one before.
    tcp.set_nodelay(true);
    let connector = HttpsConnectorBuilder::new()
        .with_tls_config(config)
        .https_only()
        .enable_all_versions()
        .wrap_connector(tcp);
    Client::builder(TokioExecutor::new())
        .timer(TokioTimer::new())
        .http2_keep_alive_interval(interval)
        .http2_keep_alive_timeout(timeout)
        // Where there are several, health checks look after idle connections.
        .http2_keep_alive_while_idle(liveness == Liveness::Patient)
        .build(Deadline { connector, limit: timeout })
}

/// A connector with a deadline for the whole connection: a server that hangs accepts it, but never answers the handshake.
#[derive(Clone)]
pub(super) struct Deadline<C> {
    connector: C,
    limit: Duration,
}

type BoxError = Box<dyn Error + Send + Sync>;

impl<C> Service<Uri> for Deadline<C>
where
    C: Service<Uri, Error = BoxError>,
    C::Future: Send + 'static,
{
    type Response = C::Response;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<C::Response, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.connector.poll_ready(context)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let connection = tokio::time::timeout(self.limit, self.connector.call(uri));
        Box::pin(async move { connection.await.unwrap_or_else(|_| Err("the server does not answer".into())) })
    }
}
