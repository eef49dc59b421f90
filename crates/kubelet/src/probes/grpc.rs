//! The gRPC health protocol: one `grpc.health.v1.Health/Check` call over a connection of its own, without TLS.

use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use http::header::{CONTENT_TYPE, TE, USER_AGENT};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout_at};

use crate::probes::http::PROBE;

/// The flag and length before every message.
const PREFIX: usize = 5;
const MAX_RESPONSE: usize = 64 * 1024;
/// The time between attempts to connect.
const PAUSE: Duration = Duration::from_secs(1);

/// The serving statuses, by number.
const STATUSES: [&str; 4] = ["UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN"];
const CODES: [&str; 17] = [
    "OK",
    "Canceled",
    "Unknown",
    "InvalidArgument",
    "DeadlineExceeded",
    "NotFound",
    "AlreadyExists",
    "PermissionDenied",
    "ResourceExhausted",
    "FailedPrecondition",
    "Aborted",
    "OutOfRange",
    "Unimplemented",
    "Internal",
    "Unavailable",
    "DataLoss",
    "Unauthenticated",
];

/// A service that does not serve; messages are upstream's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum GrpcError {
    #[error("timeout: failed to connect service {address:?} within {seconds}s: context deadline exceeded")]
    Connect { address: String, seconds: u64 },
    #[error("timeout: health rpc did not complete within {seconds}s")]
    Timeout { seconds: u64 },
    #[error("error: this server does not implement the grpc health protocol (grpc.health.v1.Health): {0}")]
    Unimplemented(String),
    #[error("error: health rpc probe failed: rpc error: code = {code} desc = {message}")]
    Rpc { code: &'static str, message: String },
    #[error("service unhealthy (responded with {0:?})")]
    Unhealthy(&'static str),
}

/// Checks that a service serves.
pub(super) async fn check(host: &str, port: u16, service: &str, limit: Duration) -> Result<(), GrpcError> {
    let deadline = Instant::now() + limit;
    let address = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
    let seconds = limit.as_secs();
    let connected = timeout_at(deadline, connect(&address)).await;
    let mut sender = connected.map_err(|_| GrpcError::Connect { address: address.clone(), seconds })?;
    match timeout_at(deadline, call(&mut sender, &address, service)).await {
        Ok(answer) => answer,
        Err(_) => Err(GrpcError::Timeout { seconds }),
    }
}

/// Connects; retried until it succeeds.
async fn connect(address: &str) -> SendRequest<Full<Bytes>> {
    loop {
        if let Ok(stream) = TcpStream::connect(address).await
            && let Ok((sender, connection)) =
                http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await
        {
            // The task ends with the sender.
            tokio::spawn(connection);
            return sender;
        }
        sleep(PAUSE).await;
    }
}

async fn call(sender: &mut SendRequest<Full<Bytes>>, address: &str, service: &str) -> Result<(), GrpcError> {
    let failed =
        |err: &dyn std::fmt::Display| GrpcError::Rpc { code: "Unavailable", message: err.to_string() };
    let request = http::Request::post(format!("http://{address}/grpc.health.v1.Health/Check"))
        .header(CONTENT_TYPE, "application/grpc")
        .header(TE, "trailers")
        .header(USER_AGENT, PROBE)
        .body(Full::new(request(service)))
        .map_err(|err| failed(&err))?;
    let response = sender.send_request(request).await.map_err(|err| failed(&err))?;
    let headers = response.headers().clone();
    let body = Limited::new(response.into_body(), MAX_RESPONSE).collect().await;
    let body = body.map_err(|err| failed(&err))?;
    // A failure without a body has its status in the headers.
    check_status(body.trailers().unwrap_or(&headers))?;
    match status(body.to_bytes().get(PREFIX..).unwrap_or_default()) {
        "SERVING" => Ok(()),
        other => Err(GrpcError::Unhealthy(other)),
    }
}

/// The request message: its only field is the service's name.
fn request(service: &str) -> Bytes {
    let mut message = Vec::new();
    if !service.is_empty() {
        message.push(0x0a);
        put_length(&mut message, service.len());
        message.extend_from_slice(service.as_bytes());
    }
    let mut framed = vec![0];
    framed.extend(u32::try_from(message.len()).unwrap_or(u32::MAX).to_be_bytes());
    framed.extend(message);
    framed.into()
}

fn put_length(message: &mut Vec<u8>, mut length: usize) {
    while length >= 0x80 {
        message.push((length & 0x7f) as u8 | 0x80);
        length >>= 7;
    }
    message.push(length as u8);
}

/// The serving status of a response message, its only field.
fn status(message: &[u8]) -> &'static str {
    match message {
        [0x08, number, ..] => STATUSES.get(usize::from(*number)).copied().unwrap_or(STATUSES[0]),
        _ => STATUSES[0],
    }
}

fn check_status(trailers: &HeaderMap) -> Result<(), GrpcError> {
    let text = |name: &str| trailers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let message = text("grpc-message");
    let code = match text("grpc-status") {
        "0" => return Ok(()),
        number => number.parse::<usize>().ok().and_then(|number| CODES.get(number)).copied(),
    };
    match code.unwrap_or("Unknown") {
        "Unimplemented" => Err(GrpcError::Unimplemented(message.to_owned())),
        code => Err(GrpcError::Rpc { code, message: message.to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use hyper::body::Incoming;
    use hyper::service::service_fn;
    use tokio::net::TcpListener;

    use super::*;

    /// A server that responds to every call with a status, or with an error code.
    async fn server(answer: Result<u8, &'static str>) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            let serve = service_fn(move |request: http::Request<Incoming>| async move {
                assert_eq!(request.uri().path(), "/grpc.health.v1.Health/Check");
                assert_eq!(request.headers()[USER_AGENT], PROBE);
                let labels = request.into_body().collect().await.unwrap().to_bytes();
                assert_eq!(labels.as_ref(), b"\0\0\0\0\x05\x0a\x03web");
                let response = http::Response::builder().header(CONTENT_TYPE, "application/grpc");
                let (response, body) = match answer {
                    Ok(number) => (response, vec![0, 0, 0, 0, 2, 8, number]),
                    Err(code) => {
                        (response.header("grpc-status", code).header("grpc-message", "no"), Vec::new())
                    }
                };
                let mut trailers = HeaderMap::new();
                if answer.is_ok() {
                    trailers.insert("grpc-status", "0".parse().unwrap());
                }
                let body = Full::new(Bytes::from(body))
                    .with_trailers(async move { (!trailers.is_empty()).then_some(Ok(trailers)) });
                Ok::<_, hyper::Error>(response.body(body).unwrap())
            });
            let builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            let _ = builder.serve_connection(TokioIo::new(stream), serve).await;
        });
        port
    }

    #[tokio::test]
    async fn serving_status_and_errors_decide() {
        let limit = Duration::from_secs(20);
        let cases = [
            (Ok(1), Ok(())),
            (Ok(2), Err("service unhealthy (responded with \"NOT_SERVING\")")),
            (Ok(3), Err("service unhealthy (responded with \"SERVICE_UNKNOWN\")")),
            (Err("5"), Err("error: health rpc probe failed: rpc error: code = NotFound desc = no")),
            (
                Err("12"),
                Err(
                    "error: this server does not implement the grpc health protocol (grpc.health.v1.Health): no",
                ),
            ),
        ];
        for (answer, expected) in cases {
            let port = server(answer).await;
            let told = check("127.0.0.1", port, "web", limit).await;
            assert_eq!(told.map_err(|err| err.to_string()), expected.map_err(str::to_owned));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_missing_server_is_a_timeout() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        let told = check("127.0.0.1", port, "", Duration::from_secs(3)).await.unwrap_err();
        let expected = format!(
            "timeout: failed to connect service \"127.0.0.1:{port}\" within 3s: context deadline exceeded"
        );
        assert_eq!(told.to_string(), expected);
    }
}
