//! Streams over a WebSocket: messages instead of a response body.
//!
//! Only for streams in one direction, logs and watches: messages of the client are discarded, and the stream ends when the
//! client closes it. Sessions, which flow in both directions, are between a client and a kubelet (`connect`).

use std::pin::Pin;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::{Buf, Bytes};
use corten_api::Status;
use futures_util::{SinkExt, Stream, StreamExt};
use http::header::{
    CONNECTION, CONTENT_TYPE, HeaderName, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY,
    SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use http::request::Parts;
use http::{HeaderMap, Response, StatusCode};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role};
use tokio_tungstenite::tungstenite::{Message, Utf8Bytes};

use crate::body::ResponseBody;
use crate::respond::Answer;

/// The timeout of the closing handshake.
const FAREWELL: Duration = Duration::from_secs(5);

/// The mapping of a stream to messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Framing {
    /// One binary message per piece.
    Binary,
    /// One base64 text message per piece, for clients that only read text.
    Base64,
    /// One text message per line, which is an event.
    Lines,
    /// One binary message per event with a length prefix.
    Sized,
}

type Pieces = Pin<Box<dyn Stream<Item = Bytes> + Send>>;

/// A log, over a WebSocket if the client requests one. It begins with an empty message.
pub(crate) fn log(answer: Answer, parts: &Parts, headers: &HeaderMap) -> Result<Answer, Status> {
    let Some(upgrade) = requested_upgrade(parts, headers) else { return Ok(answer) };
    let offered = offered(headers);
    let (protocol, framing) = log_protocol(&offered).ok_or_else(|| unsupported_protocol(&offered))?;
    let switching = switching(headers, protocol)?;
    Ok(stream_messages(answer, upgrade, switching, framing, Some(Bytes::new())))
}

/// A watch, over a WebSocket if the client requests one: each event is a message.
pub(crate) fn watch(answer: Answer, parts: &Parts, headers: &HeaderMap) -> Result<Answer, Status> {
    let Some(upgrade) = requested_upgrade(parts, headers) else { return Ok(answer) };
    let content = answer.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let is_sized = content.is_some_and(|content| content.contains("protobuf"));
    let framing = if is_sized { Framing::Sized } else { Framing::Lines };
    // As upstream, any subprotocol of the client is accepted.
    let switching = switching(headers, offered(headers).first().copied().unwrap_or_default())?;
    Ok(stream_messages(answer, upgrade, switching, framing, None))
}

/// The upgrade of the connection, if the client requests a WebSocket.
fn requested_upgrade(parts: &Parts, headers: &HeaderMap) -> Option<OnUpgrade> {
    parts.extensions.get::<OnUpgrade>().filter(|_| is_requested(headers)).cloned()
}

/// True if the client requests a WebSocket.
pub(crate) fn is_requested(headers: &HeaderMap) -> bool {
    let has = |name: HeaderName, word: &str| {
        let text = headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        text.split(',').any(|part| part.trim().eq_ignore_ascii_case(word))
    };
    has(UPGRADE, "websocket") && has(CONNECTION, "upgrade")
}

/// The subprotocols that a client offers, in its order of preference.
pub(crate) fn offered(headers: &HeaderMap) -> Vec<&str> {
    let values = headers.get_all(SEC_WEBSOCKET_PROTOCOL).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim).collect()
}

/// The first offered subprotocol that carries a log.
fn log_protocol<'a>(offered: &[&'a str]) -> Option<(&'a str, Framing)> {
    if offered.is_empty() {
        return Some(("", Framing::Binary));
    }
    offered.iter().find_map(|name| match *name {
        "" | "binary.k8s.io" => Some((*name, Framing::Binary)),
        "base64.binary.k8s.io" => Some((*name, Framing::Base64)),
        _ => None,
    })
}

fn unsupported_protocol(offered: &[&str]) -> Status {
    let known = "[ binary.k8s.io base64.binary.k8s.io]";
    let mut status = Status::unclassified(format!(
        "requested protocol(s) are not supported: [{}]; supports {known}",
        offered.join(" ")
    ));
    status.code = StatusCode::FORBIDDEN.as_u16();
    status
}

/// The response that accepts the upgrade.
fn switching(headers: &HeaderMap, protocol: &str) -> Result<Answer, Status> {
    let unable = || Status::bad_request("bad WebSocket handshake");
    let key = headers.get(SEC_WEBSOCKET_KEY).ok_or_else(unable)?;
    headers.get(SEC_WEBSOCKET_VERSION).filter(|version| *version == "13").ok_or_else(unable)?;
    let value = |text: &str| HeaderValue::from_str(text).map_err(|_| unable());
    let mut answer = Response::new(ResponseBody::Empty);
    *answer.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = answer.headers_mut();
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(SEC_WEBSOCKET_ACCEPT, value(&derive_accept_key(key.as_bytes()))?);
    if !protocol.is_empty() {
        headers.insert(SEC_WEBSOCKET_PROTOCOL, value(protocol)?);
    }
    Ok(answer)
}

/// Streams a response's body as messages; a response that is not a stream is returned unchanged.
fn stream_messages(
    answer: Answer,
    upgrade: OnUpgrade,
    switching: Answer,
    framing: Framing,
    first: Option<Bytes>,
) -> Answer {
    let (parts, body) = answer.into_parts();
    match body {
        ResponseBody::Stream(pieces) => {
            let first = futures_util::stream::iter(first);
            tokio::spawn(send(upgrade, framing, Box::pin(first.chain(pieces))));
            switching
        }
        body => Response::from_parts(parts, body),
    }
}

async fn send(upgrade: OnUpgrade, framing: Framing, mut pieces: Pieces) {
    let io = match upgrade.await {
        Ok(io) => TokioIo::new(io),
        Err(err) => return tracing::debug!(%err, "cannot upgrade connection to WebSocket"),
    };
    let (mut out, mut said) = WebSocketStream::from_raw_socket(io, Role::Server, None).await.split();
    loop {
        tokio::select! {
            said = said.next() => match said {
                Some(Ok(Message::Close(_)) | Err(_)) | None => break,
                Some(Ok(_)) => {}
            },
            piece = pieces.next() => {
                let Some(piece) = piece else { break };
                for message in framing.messages(piece) {
                    if out.send(message).await.is_err() {
                        return;
                    }
                }
            }
        }
    }
    let close = CloseFrame { code: CloseCode::Normal, reason: Utf8Bytes::default() };
    let farewell = async {
        if out.send(Message::Close(Some(close))).await.is_ok() {
            while let Some(Ok(_)) = said.next().await {}
        }
    };
    // A client that does not complete the handshake is disconnected.
    let _ = tokio::time::timeout(FAREWELL, farewell).await;
}

impl Framing {
    fn messages(self, mut piece: Bytes) -> Vec<Message> {
        match self {
            Framing::Binary => vec![Message::Binary(piece)],
            Framing::Base64 => vec![Message::text(STANDARD.encode(&piece))],
            Framing::Lines => piece
                .split_inclusive(|byte| *byte == b'\n')
                .map(|line| Message::text(String::from_utf8_lossy(line).into_owned()))
                .collect(),
            Framing::Sized => {
                let mut messages = Vec::new();
                while piece.len() >= 4 {
                    let length = usize::try_from(piece.get_u32()).unwrap_or(usize::MAX).min(piece.len());
                    messages.push(Message::Binary(piece.split_to(length)));
                }
                messages
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_become_messages() {
        let of = |framing: Framing, piece: &'static [u8]| framing.messages(Bytes::from_static(piece));
        let bytes = |text: &'static [u8]| Message::Binary(Bytes::from_static(text));
        assert_eq!(of(Framing::Binary, b"a\nb"), [bytes(b"a\nb")]);
        assert_eq!(of(Framing::Binary, b""), [bytes(b"")]);
        assert_eq!(of(Framing::Base64, b"hello"), [Message::text("aGVsbG8=")]);
        assert_eq!(of(Framing::Lines, b"{1}\n{2}\n"), [Message::text("{1}\n"), Message::text("{2}\n")]);
        let events = b"\0\0\0\x02ab\0\0\0\x01c";
        assert_eq!(of(Framing::Sized, events), [bytes(b"ab"), bytes(b"c")]);
    }

    #[test]
    fn protocols_of_logs() {
        assert_eq!(log_protocol(&[]), Some(("", Framing::Binary)));
        assert_eq!(log_protocol(&["x", "binary.k8s.io"]), Some(("binary.k8s.io", Framing::Binary)));
        assert_eq!(log_protocol(&["base64.binary.k8s.io"]), Some(("base64.binary.k8s.io", Framing::Base64)));
        assert_eq!(log_protocol(&["x"]), None);
        assert_eq!(unsupported_protocol(&["x"]).code, 403);
    }
}
