//! Sessions over WebSockets: every message begins with the number of its channel.
//!
//! `v5` can close a channel by a message; `base64` is for clients that only have text.

pub(super) mod fuzz;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::{BufMut, Bytes, BytesMut};
use corten_api::json;
use futures_util::{SinkExt, Stream, StreamExt};
use http::header::{
    CONNECTION, HeaderName, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL,
    SEC_WEBSOCKET_VERSION, UPGRADE,
};
use http::{HeaderMap, Response, StatusCode};
use http_body_util::{BodyExt, Empty};
use tokio::sync::mpsc;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role};
use tokio_tungstenite::tungstenite::{self, Message, Utf8Bytes};

use super::idle::Upgraded;
use super::remote_command::{Channel, Client, Streams};
use super::response::{self, ApiResponse};

const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const STATUS: u8 = 3;
const RESIZE: u8 = 4;
/// Closes the channel whose number follows.
const CLOSE: u8 = 255;
/// The number of messages that wait, each way.
const AHEAD: usize = 8;

/// The protocol of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Protocol {
    name: &'static str,
    base64: bool,
    reads_status: bool,
    closes_channels: bool,
}

const fn protocol(name: &'static str, base64: bool, reads_status: bool, closes_channels: bool) -> Protocol {
    Protocol { name, base64, reads_status, closes_channels }
}

const PROTOCOLS: [Protocol; 6] = [
    protocol("v5.channel.k8s.io", false, true, true),
    protocol("v4.channel.k8s.io", false, true, false),
    protocol("v4.base64.channel.k8s.io", true, true, false),
    protocol("channel.k8s.io", false, false, false),
    protocol("base64.channel.k8s.io", true, false, false),
    protocol("", false, false, false),
];

pub(super) fn is_upgrade(headers: &HeaderMap) -> bool {
    let has = |name: HeaderName, word: &str| {
        let text = headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        text.split(',').any(|part| part.trim().eq_ignore_ascii_case(word))
    };
    has(UPGRADE, "websocket") && has(CONNECTION, "upgrade")
}

/// The protocols that a client offers, in order of preference.
pub(super) fn offered(headers: &HeaderMap) -> Vec<&str> {
    let values = headers.get_all(SEC_WEBSOCKET_PROTOCOL).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim).collect()
}

/// The first protocol of the client that is known here.
pub(super) fn negotiate(headers: &HeaderMap) -> Option<Protocol> {
    let offered = offered(headers);
    let known = |name: &&str| PROTOCOLS.into_iter().find(|protocol| protocol.name == *name);
    if offered.is_empty() { known(&"") } else { offered.iter().find_map(known) }
}

/// The response to a client that speaks none of these.
pub(super) fn unsupported_protocol(headers: &HeaderMap) -> ApiResponse {
    let known = PROTOCOLS.map(|protocol| protocol.name).join(" ");
    let why = format!("requested protocol(s) are not supported: {:?}; supports [{known}]", offered(headers));
    response::text(StatusCode::FORBIDDEN, why)
}

impl Protocol {
    pub(super) fn switching(self, headers: &HeaderMap) -> Option<ApiResponse> {
        switching(headers, self.name)
    }
}

/// The response that switches the connection to WebSocket; `None` if the request is not an upgrade.
pub(super) fn switching(headers: &HeaderMap, protocol: &str) -> Option<ApiResponse> {
    let key = headers.get(SEC_WEBSOCKET_KEY)?;
    if headers.get(SEC_WEBSOCKET_VERSION)? != "13" {
        return None;
    }
    let mut answer = Response::new(Empty::new().boxed_unsync());
    *answer.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let accept = HeaderValue::from_str(&derive_accept_key(key.as_bytes())).ok()?;
    let headers = answer.headers_mut();
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(SEC_WEBSOCKET_ACCEPT, accept);
    if !protocol.is_empty() {
        headers.insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_str(protocol).ok()?);
    }
    Some(answer)
}

pub(super) type Socket = WebSocketStream<Upgraded>;

pub(super) async fn socket(upgraded: Upgraded) -> Socket {
    WebSocketStream::from_raw_socket(upgraded, Role::Server, None).await
}

/// Splits a WebSocket connection into the channels of a session.
pub(super) fn client(socket: Socket, protocol: Protocol, streams: Streams) -> Client {
    let (mut sink, source) = socket.split();
    let (stdin_sender, stdin) = mpsc::channel(AHEAD);
    let (sizes_sender, sizes) = mpsc::channel(AHEAD);
    let (out, mut outgoing) = mpsc::channel::<(Channel, Bytes)>(AHEAD);
    let inputs = Inputs { stdin: streams.stdin.then_some(stdin_sender), sizes: Some(sizes_sender) };
    tokio::spawn(async move {
        // An empty message begins the session.
        let first = if streams.stdout {
            STDOUT
        } else if streams.stderr {
            STDERR
        } else {
            STATUS
        };
        if sink.send(protocol.message(first, &[])).await.is_err() {
            return;
        }
        let mut read = std::pin::pin!(inputs.take_all(source, protocol));
        let mut reading = true;
        loop {
            tokio::select! {
                () = &mut read, if reading => {
                    reading = false;
                    // The sender notices that the receiver is gone.
                    outgoing.close();
                }
                next = outgoing.recv() => {
                    let Some((channel, bytes)) = next else { break };
                    if sink.send(protocol.message(number(channel), &bytes)).await.is_err() {
                        break;
                    }
                }
            }
        }
        // A client that is gone needs no close message.
        let _ = sink.send(close_message()).await;
    });
    Client { stdin, sizes, out, reads_status: protocol.reads_status }
}

/// The close message of a normal end; clients take any other end for a failure.
pub(super) fn close_message() -> Message {
    Message::Close(Some(CloseFrame { code: CloseCode::Normal, reason: Utf8Bytes::default() }))
}

fn number(channel: Channel) -> u8 {
    match channel {
        Channel::Stdout => STDOUT,
        Channel::Stderr => STDERR,
        Channel::Status => STATUS,
    }
}

impl Protocol {
    pub(super) fn message(self, channel: u8, bytes: &[u8]) -> Message {
        if self.base64 {
            let digit = char::from(b'0'.wrapping_add(channel));
            return Message::text(format!("{digit}{}", STANDARD.encode(bytes)));
        }
        let mut message = BytesMut::with_capacity(1 + bytes.len());
        message.put_u8(channel);
        message.put_slice(bytes);
        Message::Binary(message.freeze())
    }

    /// Decodes a message; `None` if it is empty or invalid.
    pub(super) fn read(self, message: &Bytes) -> Option<ClientMessage> {
        let first = *message.first()?;
        if self.closes_channels && first == CLOSE {
            return message.get(1).map(|channel| ClientMessage::Closed(*channel));
        }
        if self.base64 {
            let bytes = STANDARD.decode(&message[1..]).ok()?;
            return Some(ClientMessage::Bytes(first.wrapping_sub(b'0'), bytes.into()));
        }
        Some(ClientMessage::Bytes(first, message.slice(1..)))
    }
}

/// A decoded message of a client.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ClientMessage {
    Bytes(u8, Bytes),
    Closed(u8),
}

/// The receivers of the client's messages.
struct Inputs {
    stdin: Option<mpsc::Sender<Bytes>>,
    sizes: Option<mpsc::Sender<(u16, u16)>>,
}

impl Inputs {
    /// Receives messages until the client is gone.
    async fn take_all(
        mut self,
        mut source: impl Stream<Item = tungstenite::Result<Message>> + Unpin,
        protocol: Protocol,
    ) {
        while let Some(Ok(message)) = source.next().await {
            let bytes = match message {
                Message::Binary(bytes) => bytes,
                Message::Text(text) => text.into(),
                Message::Close(_) => return,
                _ => continue,
            };
            match protocol.read(&bytes) {
                Some(ClientMessage::Bytes(STDIN, bytes)) => {
                    if let Some(stdin) = &self.stdin {
                        // Data of a closed channel is discarded.
                        let _ = stdin.send(bytes).await;
                    }
                }
                Some(ClientMessage::Bytes(RESIZE, bytes)) => {
                    if let (Some(sizes), Some(size)) = (&self.sizes, size(&bytes)) {
                        let _ = sizes.send(size).await;
                    }
                }
                Some(ClientMessage::Closed(STDIN)) => self.stdin = None,
                Some(ClientMessage::Closed(RESIZE)) => self.sizes = None,
                Some(_) | None => {}
            }
        }
    }
}

/// Parses a terminal size: `{"Width":80,"Height":24}`.
pub(super) fn size(bytes: &[u8]) -> Option<(u16, u16)> {
    let value = json::parse(bytes).ok()?;
    let number = |key: &str| u16::try_from(value.int_at(&[key])?).ok();
    Some((number("Width")?, number("Height")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(protocols: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(SEC_WEBSOCKET_PROTOCOL, protocols.parse().unwrap());
        headers
    }

    #[test]
    fn the_clients_first_known_protocol_is_chosen() {
        let agreed = |text: &str| negotiate(&headers(text)).map(|protocol| protocol.name);
        assert_eq!(agreed("v5.channel.k8s.io"), Some("v5.channel.k8s.io"));
        assert_eq!(agreed("v9.channel.k8s.io, channel.k8s.io"), Some("channel.k8s.io"));
        assert_eq!(agreed("v9.channel.k8s.io"), None);
        assert_eq!(negotiate(&HeaderMap::new()).map(|protocol| protocol.name), Some(""));
    }

    #[test]
    fn messages_are_decoded() {
        let [v5, v4, base64, ..] = PROTOCOLS;
        let read = |protocol: Protocol, bytes: &'static [u8]| protocol.read(&Bytes::from_static(bytes));
        assert_eq!(read(v5, b"\0ls"), Some(ClientMessage::Bytes(0, Bytes::from_static(b"ls"))));
        assert_eq!(read(v5, b"\xff\0"), Some(ClientMessage::Closed(0)));
        assert_eq!(read(v4, b"\xff\0"), Some(ClientMessage::Bytes(255, Bytes::from_static(b"\0"))));
        assert_eq!(read(base64, b"0bHM="), Some(ClientMessage::Bytes(0, Bytes::from_static(b"ls"))));
        assert_eq!(read(v5, b""), None);
        assert_eq!(v5.message(1, b"hi"), Message::Binary(Bytes::from_static(b"\x01hi")));
        assert_eq!(base64.message(1, b"hi"), Message::text("1aGk="));
    }

    #[test]
    fn sizes_are_parsed() {
        assert_eq!(size(br#"{"Width":80,"Height":24}"#), Some((80, 24)));
        assert_eq!(size(br#"{"Width":-1,"Height":24}"#), None);
        assert_eq!(size(b"x"), None);
    }
}
