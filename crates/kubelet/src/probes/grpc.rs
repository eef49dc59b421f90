//! gRPC's own health protocol, asked once over a connection of its own: `grpc.health.v1.Health/Check`, without encryption.

use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use http::header::{CONTENT_TYPE, TE, USER_AGENT};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout_at};

use crate::http::PROBE;

/// Flag and length before every message.
const PREFIX: usize = 5;
const LARGEST_ANSWER: usize = 64 * 1024;
/// Who cannot be reached is tried again after this long.
const PAUSE: Duration = Duration::from_secs(1);

/// As the protocol numbers them.
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

/// Asks whether a service serves; the error says why it does not, in upstream's words.
pub(super) async fn check(host: &str, port: u16, service: &str, limit: Duration) -> Result<(), String> {
    let deadline = Instant::now() + limit;
    let address = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
    let seconds = limit.as_secs();
    let connected = timeout_at(deadline, connect(&address)).await;
    let mut sender = connected.map_err(|_| {
        format!("timeout: failed to connect service {address:?} within {seconds}s: context deadline exceeded")
    })?;
    match timeout_at(deadline, call(&mut sender, &address, service)).await {
        Ok(answer) => answer,
        Err(_) => Err(format!("timeout: health rpc did not complete within {seconds}s")),
    }
}

/// Connects, however often that fails.
async fn connect(address: &str) -> SendRequest<Full<Bytes>> {
    loop {
        if let Ok(stream) = TcpStream::connect(address).await
            && let Ok((sender, connection)) =
                http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await
        {
            // It ends with the sender.
            tokio::spawn(connection);
            return sender;
        }
        sleep(PAUSE).await;
    }
}

async fn call(sender: &mut SendRequest<Full<Bytes>>, address: &str, service: &str) -> Result<(), String> {
    let failed = |error: &dyn std::fmt::Display| {
        format!("error: health rpc probe failed: rpc error: code = Unavailable desc = {error}")
    };
    let request = http::Request::post(format!("http://{address}/grpc.health.v1.Health/Check"))
        .header(CONTENT_TYPE, "application/grpc")
        .header(TE, "trailers")
        .header(USER_AGENT, PROBE)
        .body(Full::new(request(service)))
        .map_err(|error| failed(&error))?;
    let response = sender.send_request(request).await.map_err(|error| failed(&error))?;
    let headers = response.headers().clone();
    let body = Limited::new(response.into_body(), LARGEST_ANSWER).collect().await;
    let body = body.map_err(|error| failed(&error))?;
    // A failure may come without a body, and then in the headers.
    judge(body.trailers().unwrap_or(&headers))?;
    match status(body.to_bytes().get(PREFIX..).unwrap_or_default()) {
        "SERVING" => Ok(()),
        other => Err(format!("service unhealthy (responded with {other:?})")),
    }
}

/// The one message of the request: its only field is the service's name.
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

/// What an answer says: its only field is the status.
fn status(message: &[u8]) -> &'static str {
    match message {
        [0x08, number, ..] => STATUSES.get(usize::from(*number)).copied().unwrap_or(STATUSES[0]),
        _ => STATUSES[0],
    }
}

fn judge(trailers: &HeaderMap) -> Result<(), String> {
    let text = |name: &str| trailers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let message = text("grpc-message");
    let code = match text("grpc-status") {
        "0" => return Ok(()),
        number => number.parse::<usize>().ok().and_then(|number| CODES.get(number)).copied(),
    };
    match code.unwrap_or("Unknown") {
        "Unimplemented" => Err(format!(
            "error: this server does not implement the grpc health protocol (grpc.health.v1.Health): {message}"
        )),
        code => Err(format!("error: health rpc probe failed: rpc error: code = {code} desc = {message}")),
    }
}

#[cfg(test)]
mod tests {
    use hyper::body::Incoming;
    use hyper::service::service_fn;
    use tokio::net::TcpListener;

    use super::*;

    /// A server that answers every call with a status, or with an error's code.
    async fn server(answer: Result<u8, &'static str>) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            let serve = service_fn(move |request: http::Request<Incoming>| async move {
                assert_eq!(request.uri().path(), "/grpc.health.v1.Health/Check");
                assert_eq!(request.headers()[USER_AGENT], PROBE);
                let asked = request.into_body().collect().await.unwrap().to_bytes();
                assert_eq!(asked.as_ref(), b"\0\0\0\0\x05\x0a\x03web");
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
    async fn a_service_is_as_well_as_it_says() {
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
            assert_eq!(told, expected.map_err(str::to_owned));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_there_is_a_timeout() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        let told = check("127.0.0.1", port, "", Duration::from_secs(3)).await.unwrap_err();
        let expected = format!(
            "timeout: failed to connect service \"127.0.0.1:{port}\" within 3s: context deadline exceeded"
        );
        assert_eq!(told, expected);
    }
}
