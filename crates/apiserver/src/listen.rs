//! Connections: accept, TLS handshake, HTTP/1.1 or HTTP/2, until told to stop.
//!
//! Nothing a peer does or leaves undone can hold resources for long: handshakes and headers have
//! deadlines, dead peers are found by keep-alive, and stopping waits only so long for requests in flight.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hyper::Request;
use hyper::body::Incoming;
use hyper::service::Service;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::Server;
use crate::authentication::Peer;
use crate::respond::Answer;

const HANDSHAKE: Duration = Duration::from_secs(10);
/// Also how long an idle connection is kept.
const HEADERS: Duration = Duration::from_secs(120);
const TCP_KEEP_ALIVE: Duration = Duration::from_secs(30);
const H2_PING: Duration = Duration::from_secs(30);
const H2_PING_ANSWER: Duration = Duration::from_secs(20);
/// How long requests in flight may take to end.
const DRAIN: Duration = Duration::from_secs(10);

/// Serves until `stop` turns true and the connections are drained.
pub(crate) async fn serve(
    server: Arc<Server>,
    listener: TcpListener,
    acceptor: TlsAcceptor,
    mut stop: watch::Receiver<bool>,
) {
    let (alive, mut all_gone) = tokio::sync::mpsc::channel::<()>(1);
    loop {
        let stream = tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    // Out of descriptors, most likely: give the others a chance to end.
                    tracing::warn!(%error, "accept failed");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            },
            () = stopped(&mut stop) => break,
        };
        let (server, acceptor, stop, alive) = (server.clone(), acceptor.clone(), stop.clone(), alive.clone());
        tokio::spawn(async move {
            connection(server, stream, acceptor, stop).await;
            drop(alive);
        });
    }
    drop((listener, alive));
    if tokio::time::timeout(DRAIN, all_gone.recv()).await.is_err() {
        tracing::warn!("some connections did not end in time");
    }
}

async fn connection(
    server: Arc<Server>,
    stream: TcpStream,
    acceptor: TlsAcceptor,
    stop: watch::Receiver<bool>,
) {
    prepare(&stream);
    // On the heap, so that its room is free again once the handshake is over.
    let handshake = Box::pin(tokio::time::timeout(HANDSHAKE, acceptor.accept(stream)));
    let stream = match handshake.await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            server.metrics.handshake_errors.fetch_add(1, Ordering::Relaxed);
            tracing::debug!(%error, "TLS handshake failed");
            return;
        }
        Err(_) => return,
    };
    // One allocation, rather than a copy in every future it passes through.
    let stream = Box::new(stream);
    let (socket, session) = stream.get_ref();
    let remote = socket.peer_addr().ok().map(|remote| remote.ip());
    let peer = server.client_certificates.peer(session.peer_certificates(), remote);
    let h2 = session.alpn_protocol() == Some(b"h2");
    let (io, service) = (TokioIo::new(stream), Requests { server, peer: Arc::new(peer) });
    // Each on the heap for itself: an idle connection does not carry the room of the other protocol.
    let ended =
        if h2 { Box::pin(http2(io, service, stop)).await } else { Box::pin(http1(io, service, stop)).await };
    if let Err(error) = ended {
        tracing::debug!(%error, "connection ended");
    }
}

/// Ends when the server is told to stop.
pub(crate) async fn stopped(stop: &mut watch::Receiver<bool>) {
    // A sender that is gone means the same.
    let _ = stop.wait_for(|stop| *stop).await;
}

fn prepare(stream: &TcpStream) {
    let keep_alive = socket2::TcpKeepalive::new().with_time(TCP_KEEP_ALIVE).with_interval(TCP_KEEP_ALIVE);
    // A socket that cannot be tuned still works.
    let _ = socket2::SockRef::from(stream).set_tcp_keepalive(&keep_alive);
    let _ = stream.set_nodelay(true);
}

/// Drives a connection until it ends, or until its requests have ended once the server is to stop.
macro_rules! drive {
    ($connection:expr, $stop:expr) => {{
        let mut connection = std::pin::pin!($connection);
        tokio::select! {
            ended = connection.as_mut() => return ended,
            () = stopped(&mut $stop) => connection.as_mut().graceful_shutdown(),
        }
        connection.await
    }};
}

async fn http1(
    io: TokioIo<Box<TlsStream<TcpStream>>>,
    service: Requests,
    mut stop: watch::Receiver<bool>,
) -> Result<(), hyper::Error> {
    let mut builder = hyper::server::conn::http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEADERS).pipeline_flush(true);
    drive!(builder.serve_connection(io, service).with_upgrades(), stop)
}

async fn http2(
    io: TokioIo<Box<TlsStream<TcpStream>>>,
    service: Requests,
    mut stop: watch::Receiver<bool>,
) -> Result<(), hyper::Error> {
    let mut builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(250)
        .initial_stream_window_size(256 * 1024)
        .initial_connection_window_size(1024 * 1024)
        .max_frame_size(64 * 1024)
        .keep_alive_interval(H2_PING)
        .keep_alive_timeout(H2_PING_ANSWER);
    drive!(builder.serve_connection(io, service), stop)
}

/// What answers the requests of one connection.
struct Requests {
    server: Arc<Server>,
    peer: Arc<Peer>,
}

impl Service<Request<Incoming>> for Requests {
    type Response = Answer;
    type Error = std::convert::Infallible;
    /// On the heap, so that an idle connection does not carry the room a request needs.
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let (server, peer) = (self.server.clone(), self.peer.clone());
        Box::pin(async move { Ok(server.handle(request, &peer).await) })
    }
}
