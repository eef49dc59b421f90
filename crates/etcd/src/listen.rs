//! Listeners for clients: gRPC and etcd's HTTP endpoints on one address, over TLS or a Unix socket.
//!
//! A listener over TLS accepts only clients with a certificate that its `ServerConfig` verified: the API has no users, so a
//! connection is a full administrator of the store.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use corten_base::ConnectionLimits;
use corten_grpc::{Router, ServerLimits};
use corten_serving::accept::accept;
use http::{Request, Response, StatusCode, header};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio_rustls::TlsAcceptor;

use crate::Etcd;
use crate::counted_io::CountedIo;
use crate::identity::VERSION;
use crate::metrics::{Counted, Traffic};

const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// The time that a client of HTTP/1.1 may take for a request's head.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);
/// The delay after a failed accept. The process is most likely out of descriptors, and open connections need time to end.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);

/// The methods and limits of every connection.
#[derive(Clone)]
pub struct Service {
    etcd: Arc<Etcd>,
    router: Arc<Router>,
    traffic: Arc<Traffic>,
    limits: ServerLimits,
    /// True if keys are not served.
    is_for_metrics: bool,
}

impl Service {
    pub fn new(etcd: &Arc<Etcd>) -> Service {
        // A client of etcd opens a stream for each watch and lease of a component.
        let limits = ServerLimits { streams: 10_000, ..ServerLimits::default() };
        let router = Arc::new(etcd.router());
        let traffic = Arc::new(Traffic::of(&router));
        Service { etcd: Arc::clone(etcd), router, traffic, limits, is_for_metrics: false }
    }

    /// The same server for listeners that serve metrics and health alone.
    #[must_use]
    pub fn for_metrics(&self) -> Service {
        Service { is_for_metrics: true, ..self.clone() }
    }

    /// Serves a TCP listener until the returned future is dropped, over TLS if there is a configuration.
    pub async fn serve_tcp(
        self,
        listener: TcpListener,
        limits: ConnectionLimits,
        tls: Option<Arc<ServerConfig>>,
    ) {
        let acceptor = tls.map(TlsAcceptor::from);
        accept(listener, limits, |stream, address| {
            let (service, acceptor) = (self.clone(), acceptor.clone());
            Some(async move {
                // A socket that cannot be tuned still works.
                let _ = stream.set_nodelay(true);
                let Some(acceptor) = acceptor else { return service.connection(stream).await };
                let handshake = Box::pin(tokio::time::timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)));
                match handshake.await {
                    Ok(Ok(stream)) => service.connection(stream).await,
                    Ok(Err(err)) => tracing::debug!(%address, %err, "TLS handshake failed"),
                    Err(_) => {}
                }
            })
        })
        .await;
    }

    /// Serves a Unix socket until the returned future is dropped. The permissions of its file decide about clients.
    pub async fn serve_unix(self, listener: UnixListener) {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => {
                    tokio::spawn(self.clone().connection(stream));
                }
                Err(err) => {
                    tracing::warn!(%err, "accept failed; retrying");
                    tokio::time::sleep(ACCEPT_RETRY).await;
                }
            }
        }
    }

    async fn connection<I>(self, io: I)
    where
        I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let mut builder = auto::Builder::new(TokioExecutor::new());
        builder.http1().timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT);
        builder
            .http2()
            .timer(TokioTimer::new())
            .max_concurrent_streams(self.limits.streams)
            .max_header_list_size(16 << 10)
            .keep_alive_interval(self.limits.keep_alive.interval)
            .keep_alive_timeout(self.limits.keep_alive.timeout);
        let service = self.clone();
        let service = service_fn(move |request: Request<Incoming>| {
            let service = service.clone();
            async move { Ok::<_, Infallible>(service.respond(request).await) }
        });
        let io = CountedIo::new(io, Arc::clone(&self.traffic));
        if let Err(err) = builder.serve_connection(TokioIo::new(io), service).await {
            tracing::debug!(%err, "connection ended");
        }
    }

    async fn respond(&self, request: Request<Incoming>) -> Response<Either> {
        let content_type = request.headers().get(header::CONTENT_TYPE);
        if content_type.is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc")) {
            if self.is_for_metrics {
                return refused();
            }
            let calls = self.traffic.started(request.uri().path());
            let response = self.router.handle(request).await;
            return response.map(|body| Either::Grpc(Counted::new(body, calls)));
        }
        let (code, kind, text) = match request.uri().path() {
            "/version" => (StatusCode::OK, "application/json", versions()),
            "/health" => self.health(request.uri().query().unwrap_or_default()),
            "/livez" | "/readyz" => (StatusCode::OK, "text/plain; charset=utf-8", "ok\n".to_owned()),
            "/metrics" => {
                (StatusCode::OK, corten_serving::http::METRICS_CONTENT_TYPE, self.etcd.metrics(&self.traffic))
            }
            _ => (StatusCode::NOT_FOUND, "text/plain; charset=utf-8", "404 page not found\n".to_owned()),
        };
        let mut response = Response::new(Either::Text(Some(text.into())));
        *response.status_mut() = code;
        response.headers_mut().insert(header::CONTENT_TYPE, http::HeaderValue::from_static(kind));
        response
    }

    /// The health as etcd reports it. Alarms in `exclude` do not count.
    fn health(&self, query: &str) -> (StatusCode, &'static str, String) {
        let excluded: Vec<&str> = query.split('&').filter_map(|pair| pair.strip_prefix("exclude=")).collect();
        match self.etcd.complaint(&excluded) {
            None => (StatusCode::OK, "application/json", r#"{"health":"true","reason":""}"#.to_owned()),
            Some(why) => {
                let text = format!("{{\"health\":\"false\",\"reason\":\"{why}\"}}\n");
                (StatusCode::SERVICE_UNAVAILABLE, "text/plain; charset=utf-8", text)
            }
        }
    }
}

fn refused() -> Response<Either> {
    let mut response = Response::new(Either::Text(None));
    *response.status_mut() = StatusCode::NOT_FOUND;
    response
}

fn versions() -> String {
    format!(r#"{{"etcdserver":"{VERSION}","etcdcluster":"{VERSION}","storage":"{VERSION}"}}"#)
}

impl Etcd {
    /// The reason for which the server is not healthy, if it is not.
    fn complaint(&self, excluded: &[&str]) -> Option<String> {
        let alarms = self.active_alarms();
        let alarm =
            alarms.iter().find(|alarm| !excluded.contains(alarm)).map(|alarm| format!("ALARM {alarm}"));
        alarm.or_else(|| self.store.is_closed().then(|| "the store is closed".to_owned()))
    }
}

/// The body of a response: gRPC's, or a text.
enum Either {
    Grpc(Counted),
    Text(Option<Bytes>),
}

impl hyper::body::Body for Either {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Either::Grpc(body) => Pin::new(body).poll_frame(cx),
            Either::Text(text) => Poll::Ready(text.take().map(|text| Ok(Frame::data(text)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Either::Grpc(body) => body.is_end_stream(),
            Either::Text(text) => text.is_none(),
        }
    }
}
