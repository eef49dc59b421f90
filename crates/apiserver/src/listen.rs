//! Connections: accept, TLS handshake, HTTP/1.1 or HTTP/2, until the server stops.
//!
//! A peer cannot hold resources for long: handshakes, first requests and headers have deadlines, keep-alive finds dead
//! peers, and stopping waits for requests in flight only up to a timeout. The connections of one address are limited. An
//! HTTP/2 connection has a limit of concurrent streams, streams that are reset before their response are counted, and an
//! HTTP/2 client that gets a 401 has to reconnect, as with upstream.

use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use corten_base::ConnectionLimits;
use corten_serving::accept::accept_until;
use http::{StatusCode, Version};
use hyper::Request;
use hyper::body::Incoming;
use hyper::service::Service;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, watch};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::Server;
use crate::authentication::Peer;
use crate::respond::Answer;
use crate::server_joins::SERVER_JOIN;

const HANDSHAKE: Duration = Duration::from_secs(10);
/// The deadline of a connection's first request, upstream's for headers.
const FIRST_REQUEST: Duration = Duration::from_secs(32);
/// The deadline of a request's headers, which also limits idle connections.
const HEADERS: Duration = Duration::from_secs(120);
const TCP_KEEP_ALIVE: Duration = Duration::from_secs(30);
const H2_PING: Duration = Duration::from_secs(30);
const H2_PING_ANSWER: Duration = Duration::from_secs(20);
/// The size limit of a request's head; selectors and tokens make the longest.
const H1_HEAD: usize = 256 << 10;
const H1_HEADERS: usize = 100;
const H2_HEAD: u32 = 64 << 10;
const H2_STREAMS: u32 = 250;
/// The limit of streams that are reset before they are handled; beyond it the connection is closed.
const H2_PENDING_RESETS: usize = 20;
/// The limit of streams that this server resets because of protocol errors.
const H2_ERROR_RESETS: usize = 256;
/// The send buffer of one stream, for a client that does not read.
const H2_UNREAD: usize = 128 << 10;
/// The shutdown timeout of requests in flight.
const DRAIN: Duration = Duration::from_secs(10);

/// Serves until `stop` turns true and the connections are drained.
pub(crate) async fn serve(
    server: Arc<Server>,
    listener: TcpListener,
    acceptor: TlsAcceptor,
    mut stop: watch::Receiver<bool>,
) {
    let limits = ConnectionLimits::of_descriptors(corten_sys::limits::descriptors());
    let stop_connections = stop.clone();
    accept_until(listener, limits, stopped(&mut stop), DRAIN, |stream, _| {
        Some(connection(server.clone(), stream, acceptor.clone(), stop_connections.clone()))
    })
    .await;
}

async fn connection(
    server: Arc<Server>,
    stream: TcpStream,
    acceptor: TlsAcceptor,
    stop: watch::Receiver<bool>,
) {
    prepare(&stream);
    // On the heap, so that its memory is freed after the handshake.
    let handshake = Box::pin(tokio::time::timeout(HANDSHAKE, acceptor.accept(stream)));
    let stream = match handshake.await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            server.metrics.handshake_errors.fetch_add(1, Ordering::Relaxed);
            tracing::debug!(err = %error, "TLS handshake failed");
            return;
        }
        Err(_) => return,
    };
    // One allocation, rather than a copy in every future it passes through.
    let stream = Box::new(stream);
    // Before the certificate is verified, so that no change in between is missed.
    let distrusted = server.client_certificates.distrusted.subscribe();
    let (socket, session) = stream.get_ref();
    let remote = socket.peer_addr().ok().map(|remote| remote.ip());
    let peer = server.client_certificates.peer(session.peer_certificates(), remote);
    let h2 = session.alpn_protocol() == Some(b"h2");
    let course = Arc::new(Course::default());
    let service = Requests { server, peer: Arc::new(peer), remote, course: course.clone() };
    let (io, end) = (TokioIo::new(stream), End { stop, distrusted, course });
    // Each on the heap of its own: an idle connection does not hold the memory of the other protocol.
    let ended =
        if h2 { Box::pin(http2(io, service, end)).await } else { Box::pin(http1(io, service, end)).await };
    if let Err(error) = ended {
        tracing::debug!(err = %error, "connection failed");
    }
}

/// Waits until the server stops.
pub(crate) async fn stopped(stop: &mut watch::Receiver<bool>) {
    // A dropped sender means the same.
    let _ = stop.wait_for(|stop| *stop).await;
}

fn prepare(stream: &TcpStream) {
    let keep_alive = socket2::TcpKeepalive::new().with_time(TCP_KEEP_ALIVE).with_interval(TCP_KEEP_ALIVE);
    // The connection works without these options too.
    let _ = socket2::SockRef::from(stream).set_tcp_keepalive(&keep_alive);
    let _ = stream.set_nodelay(true);
}

/// The state of a connection.
#[derive(Default)]
struct Course {
    /// True once there was a request.
    used: AtomicBool,
    /// Notified when a request was not authenticated.
    disbelieved: Notify,
}

/// The reasons to close a connection that do not come from its peer.
struct End {
    stop: watch::Receiver<bool>,
    /// Changes when certificates have to be verified again, on a new connection.
    distrusted: watch::Receiver<()>,
    course: Arc<Course>,
}

enum Why {
    /// The server stops, a CA is not trusted any more, or the peer is not authenticated: requests in flight are finished.
    Over,
    /// No request arrived in time.
    Unused,
}

impl End {
    async fn wait(&mut self) -> Why {
        let Self { stop, distrusted, course } = self;
        let first = tokio::time::timeout(FIRST_REQUEST, Self::over(stop, distrusted, course));
        match Box::pin(first).await {
            Ok(()) => Why::Over,
            Err(_) if !course.used.load(Ordering::Relaxed) => Why::Unused,
            Err(_) => {
                Self::over(stop, distrusted, course).await;
                Why::Over
            }
        }
    }

    async fn over(stop: &mut watch::Receiver<bool>, distrusted: &mut watch::Receiver<()>, course: &Course) {
        tokio::select! {
            () = stopped(stop) => {}
            Ok(()) = distrusted.changed() => {}
            () = course.disbelieved.notified() => {}
        }
    }
}

/// Drives a connection until its peer closes it, or shuts it down gracefully for one of the reasons in `End`.
macro_rules! drive {
    ($connection:expr, $end:expr) => {{
        let mut connection = std::pin::pin!($connection);
        tokio::select! {
            ended = connection.as_mut() => return ended,
            why = $end.wait() => match why {
                Why::Over => connection.as_mut().graceful_shutdown(),
                Why::Unused => return Ok(()),
            },
        }
        connection.await
    }};
}

async fn http1(
    io: TokioIo<Box<TlsStream<TcpStream>>>,
    service: Requests,
    mut end: End,
) -> Result<(), hyper::Error> {
    let mut builder = hyper::server::conn::http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS)
        .max_headers(H1_HEADERS)
        .max_buf_size(H1_HEAD)
        .pipeline_flush(true);
    drive!(builder.serve_connection(io, service).with_upgrades(), end)
}

async fn http2(
    io: TokioIo<Box<TlsStream<TcpStream>>>,
    service: Requests,
    mut end: End,
) -> Result<(), hyper::Error> {
    let mut builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(H2_STREAMS)
        .max_pending_accept_reset_streams(H2_PENDING_RESETS)
        .max_local_error_reset_streams(H2_ERROR_RESETS)
        .max_header_list_size(H2_HEAD)
        .max_send_buf_size(H2_UNREAD)
        .initial_stream_window_size(256 * 1024)
        .initial_connection_window_size(1024 * 1024)
        .max_frame_size(64 * 1024)
        .keep_alive_interval(H2_PING)
        .keep_alive_timeout(H2_PING_ANSWER);
    drive!(builder.serve_connection(io, service), end)
}

/// The service that handles the requests of one connection.
struct Requests {
    server: Arc<Server>,
    peer: Arc<Peer>,
    remote: Option<IpAddr>,
    course: Arc<Course>,
}

impl Service<Request<Incoming>> for Requests {
    type Response = Answer;
    type Error = std::convert::Infallible;
    /// On the heap, so that an idle connection does not hold the memory of a request.
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let (server, peer, course) = (self.server.clone(), self.peer.clone(), self.course.clone());
        course.used.store(true, Ordering::Relaxed);
        if let Some(joins) = server.joins.clone().filter(|_| request.uri().path() == SERVER_JOIN) {
            let remote = self.remote;
            return Box::pin(async move { Ok(joins.answer(request, remote).await) });
        }
        // As upstream: only with HTTP/2, where one connection carries many concurrent requests.
        let is_http2 = request.version() == Version::HTTP_2;
        Box::pin(async move {
            let answer = server.handle(request, &peer).await;
            if is_http2 && answer.status() == StatusCode::UNAUTHORIZED {
                course.disbelieved.notify_one();
            }
            Ok(answer)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end() -> (End, Arc<Course>, watch::Sender<bool>) {
        let (sender, stop) = watch::channel(false);
        let course = Arc::new(Course::default());
        let distrusted = watch::Sender::new(()).subscribe();
        (End { stop, distrusted, course: course.clone() }, course, sender)
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_without_a_request_is_closed_and_one_with_requests_stays() {
        let started = tokio::time::Instant::now();
        let (mut unused, _course, _stop) = end();
        assert!(matches!(unused.wait().await, Why::Unused));
        assert_eq!(started.elapsed(), FIRST_REQUEST);

        let (mut used, course, stop) = end();
        course.used.store(true, Ordering::Relaxed);
        let waited = tokio::time::timeout(10 * FIRST_REQUEST, used.wait()).await;
        assert!(waited.is_err(), "nothing ends it");
        stop.send_replace(true);
        assert!(matches!(used.wait().await, Why::Over));

        let (mut refused, course, _stop) = end();
        course.disbelieved.notify_one();
        assert!(matches!(refused.wait().await, Why::Over));
    }
}
