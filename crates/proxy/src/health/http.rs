//! A small HTTP server: paths and answers, nothing else.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use corten_base::{ConnectionLimits, Connections};
use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use socket2::{Domain, Socket, Type};
use tokio::net::{TcpListener, TcpStream};

/// How long a request's headers may take.
const PATIENCE: Duration = Duration::from_secs(10);
const BACKLOG: i32 = 1024;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: String,
}

impl Answer {
    /// Something about health.
    pub(crate) fn json(is_well: bool, body: String) -> Answer {
        let headers = vec![
            ("content-type", "application/json".to_owned()),
            ("x-content-type-options", "nosniff".to_owned()),
        ];
        Answer { code: if is_well { 200 } else { 503 }, headers, body }
    }

    pub(crate) fn text(code: u16, body: impl Into<String>) -> Answer {
        let headers = vec![("content-type", "text/plain; version=0.0.4; charset=utf-8".to_owned())];
        Answer { code, headers, body: body.into() }
    }
}

/// What is answered at a path.
pub(crate) type Answers = Arc<dyn Fn(&str) -> Answer + Send + Sync>;

/// An address of IPv6 is not one of IPv4, too, so that both can be listened to by different people.
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

/// Answers for as long as it is not dropped.
pub(crate) async fn serve(listener: TcpListener, answers: Answers) {
    let connections = Connections::new(ConnectionLimits::FEW);
    loop {
        match listener.accept().await {
            Ok((stream, address)) => {
                let Some(place) = connections.enter(address.ip()) else { continue };
                let connection = connection(stream, answers.clone());
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
}

async fn connection(stream: TcpStream, answers: Answers) {
    let service = service_fn(move |request: Request<Incoming>| {
        let answer = response(&answers(request.uri().path()));
        async move { Ok::<_, std::convert::Infallible>(answer) }
    });
    let mut http = hyper::server::conn::http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(PATIENCE);
    if let Err(error) = http.serve_connection(TokioIo::new(stream), service).await {
        tracing::debug!(%error, "connection ended");
    }
}

fn response(answer: &Answer) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(answer.body.clone())));
    *response.status_mut() = StatusCode::from_u16(answer.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    for (name, value) in &answer.headers {
        if let Ok(value) = HeaderValue::from_str(value) {
            response.headers_mut().insert(header::HeaderName::from_static(name), value);
        }
    }
    response
}
