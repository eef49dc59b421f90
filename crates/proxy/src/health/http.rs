//! The listeners and responses of health checks and metrics.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use corten_serving::http::{HttpServer, with_type};
use http::{HeaderValue, Request, Response, StatusCode, header};
use hyper::body::Incoming;
use socket2::{Domain, Socket, Type};
use tokio::net::TcpListener;

const BACKLOG: i32 = 1024;

/// The response of a health check.
pub(crate) fn json(is_healthy: bool, body: String) -> Response<String> {
    let code = if is_healthy { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let mut response = with_type(code, "application/json", body);
    let nosniff = HeaderValue::from_static("nosniff");
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, nosniff);
    response
}

/// Returns the response at a path.
pub(crate) type Handler = Arc<dyn Fn(&str) -> Response<String> + Send + Sync>;

/// An IPv6 listener does not take IPv4 connections, so that each family can have a listener at the same port.
pub(crate) fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM.nonblocking().cloexec(), None)?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

/// Serves until the returned future is dropped.
pub(crate) async fn serve(listener: TcpListener, handler: Handler) {
    let handler = move |request: Request<Incoming>| std::future::ready(handler(request.uri().path()));
    HttpServer::for_health().serve_all(listener, handler).await;
}
