//! The gRPC health protocol: one `grpc.health.v1.Health/Check` call over a connection of its own, without TLS.

use std::time::Duration;

use corten_grpc::health::{CHECK, HealthCheckRequest, HealthCheckResponse, ServingStatus};
use corten_grpc::{CallOptions, Channel, ChannelOptions, Code, Endpoint, Status};
use tokio::time::{Instant, sleep, timeout_at};

use crate::probes::http::PROBE;

const MAX_RESPONSE: usize = 64 * 1024;
/// The time between attempts to connect.
const PAUSE: Duration = Duration::from_secs(1);

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
    Rpc { code: Code, message: String },
    #[error("service unhealthy (responded with {0:?})")]
    Unhealthy(&'static str),
}

/// Checks that a service serves.
pub(super) async fn check(host: &str, port: u16, service: &str, limit: Duration) -> Result<(), GrpcError> {
    let deadline = Instant::now() + limit;
    let address = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
    let seconds = limit.as_secs();
    let endpoint = Endpoint::Tcp { host: host.to_owned(), port, tls: None };
    let options = ChannelOptions { user_agent: PROBE, connect_timeout: limit, ..ChannelOptions::default() };
    let channel = Channel::new(vec![endpoint], options);
    let connected = timeout_at(deadline, connect(&channel)).await;
    connected.map_err(|_| GrpcError::Connect { address, seconds })?;
    let request = HealthCheckRequest { service: service.to_owned() };
    let options = CallOptions { max_message: MAX_RESPONSE, ..CallOptions::default() };
    match timeout_at(deadline, channel.unary(CHECK, &request, options)).await {
        Ok(response) => judge(response),
        Err(_) => Err(GrpcError::Timeout { seconds }),
    }
}

/// Connects; retried until it succeeds.
async fn connect(channel: &Channel) {
    while channel.connect().await.is_err() {
        sleep(PAUSE).await;
    }
}

fn judge(response: Result<HealthCheckResponse, Status>) -> Result<(), GrpcError> {
    match response {
        Ok(response) => match response.status {
            ServingStatus::Serving => Ok(()),
            ServingStatus::NotServing => Err(GrpcError::Unhealthy("NOT_SERVING")),
            ServingStatus::ServiceUnknown => Err(GrpcError::Unhealthy("SERVICE_UNKNOWN")),
            ServingStatus::Unknown | ServingStatus::Other(_) => Err(GrpcError::Unhealthy("UNKNOWN")),
        },
        Err(Status { code: Code::Unimplemented, message }) => Err(GrpcError::Unimplemented(message)),
        Err(Status { code, message }) => Err(GrpcError::Rpc { code, message }),
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::HeaderMap;
    use http::header::{CONTENT_TYPE, USER_AGENT};
    use http_body_util::{BodyExt, Full};
    use hyper::body::Incoming;
    use hyper::service::service_fn;
    use hyper_util::rt::{TokioExecutor, TokioIo};
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
