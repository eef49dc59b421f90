//! Unary gRPC over a Unix socket.

use std::path::PathBuf;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, TE};
use http::{HeaderMap, Request};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::UnixStream;
use tokio::sync::Mutex;

use super::protobuf::Message;
use crate::{Error, Result};

/// Maximum size of a response; lists of thousands of containers fit.
const LARGEST_RESPONSE: usize = 64 << 20;
/// Flag and length before every message.
const PREFIX: usize = 5;

pub(super) struct Channel {
    path: PathBuf,
    sender: Mutex<Option<SendRequest<Full<Bytes>>>>,
}

impl Channel {
    pub(super) fn new(path: PathBuf) -> Channel {
        Channel { path, sender: Mutex::default() }
    }

    pub(super) async fn call<A: Message, B: Message>(
        &self,
        service: &str,
        method: &str,
        request: &A,
    ) -> Result<B> {
        let body = framed(&request.encode());
        let request = Request::post(format!("http://localhost/{service}/{method}"))
            .header(CONTENT_TYPE, "application/grpc")
            .header(TE, "trailers")
            .body(Full::new(body))
            .map_err(|error| Error::internal("cannot build the request", error))?;
        let failed = |error: hyper::Error| {
            Error::Unavailable(format!("cannot call {method} of the container runtime: {error}"))
        };
        let mut sender = self.sender().await?;
        let response = sender.send_request(request).await.map_err(failed)?;
        let headers = response.headers().clone();
        let body = Limited::new(response.into_body(), LARGEST_RESPONSE).collect().await;
        let body = body
            .map_err(|error| Error::Unavailable(format!("cannot read the response of {method}: {error}")))?;
        // An error may come without a body; then its status is in the headers.
        status(body.trailers().unwrap_or(&headers))?;
        let bytes = body.to_bytes();
        let answer = bytes.get(PREFIX..).and_then(B::decode);
        answer.ok_or_else(|| Error::Internal(format!("invalid response of {method}")))
    }

    async fn sender(&self) -> Result<SendRequest<Full<Bytes>>> {
        let mut current = self.sender.lock().await;
        if let Some(sender) = current.as_ref().filter(|sender| !sender.is_closed()) {
            return Ok(sender.clone());
        }
        let failed =
            |what: String| Error::Unavailable(format!("cannot connect to {}: {what}", self.path.display()));
        let stream = UnixStream::connect(&self.path).await.map_err(|error| failed(error.to_string()))?;
        let shaken = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await;
        let (sender, connection) = shaken.map_err(|error| failed(error.to_string()))?;
        // Its end is noticed by the next call.
        tokio::spawn(connection);
        *current = Some(sender.clone());
        Ok(sender)
    }
}

fn framed(message: &[u8]) -> Bytes {
    let mut bytes = vec![0];
    bytes.extend((message.len() as u32).to_be_bytes());
    bytes.extend_from_slice(message);
    bytes.into()
}

/// Converts gRPC's status codes.
fn status(trailers: &HeaderMap) -> Result<()> {
    let text = |name: &str| trailers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let message = unescaped(text("grpc-message"));
    Err(match text("grpc-status") {
        "0" => return Ok(()),
        "3" => Error::InvalidArgument(message),
        "4" => Error::DeadlineExceeded(message),
        "5" => Error::NotFound(message),
        "6" => Error::AlreadyExists(message),
        "9" => Error::FailedPrecondition(message),
        "12" => Error::Unimplemented(message),
        "14" => Error::Unavailable(message),
        "" => Error::Unavailable("the runtime closed the connection".to_owned()),
        _ => Error::Internal(message),
    })
}

/// Messages come percent-encoded.
fn unescaped(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let code = after.get(..2).and_then(|code| std::str::from_utf8(code).ok());
        match code.and_then(|code| u8::from_str_radix(code, 16).ok()).filter(|_| byte == b'%') {
            Some(decoded) => {
                bytes.push(decoded);
                rest = &after[2..];
            }
            None => {
                bytes.push(byte);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(code: &str, message: &str, expected: &Result<()>) {
        let mut trailers = HeaderMap::new();
        trailers.insert("grpc-status", code.parse().unwrap());
        trailers.insert("grpc-message", message.parse().unwrap());
        assert_eq!(status(&trailers), *expected);
    }

    #[test]
    fn status_codes_are_distinguished() {
        check("0", "", &Ok(()));
        check("5", "no %22x%22 here", &Err(Error::NotFound("no \"x\" here".to_owned())));
        check("2", "100%", &Err(Error::Internal("100%".to_owned())));
        assert!(matches!(status(&HeaderMap::new()), Err(Error::Unavailable(_))));
    }
}
