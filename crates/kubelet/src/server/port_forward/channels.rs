//! Port-forward over the channels of a WebSocket: two for each requested port, one for data and one for errors. Each
//! port has one connection, which begins with the session.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_tungstenite::tungstenite::Message;

use super::{carry, dial, failure};
use crate::kubelet::Kubelet;
use crate::server::query::Query;
use crate::server::websocket::{ClientMessage, Protocol, Socket, close_message};

const AHEAD: usize = 16;
/// Channels are numbered by a byte, and 255 is not a channel.
const MAX_PORTS: usize = 127;

/// The ports of a query that cannot be forwarded; messages are upstream's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum PortsError {
    #[error("query parameter \"port\" cannot be empty")]
    Empty,
    #[error("query parameter \"port\" is required")]
    Missing,
    #[error("port {0:?} must be > 0")]
    Zero(String),
    #[error("unable to parse {0:?} as a port")]
    Invalid(String),
    #[error("too many ports")]
    TooMany,
}

/// The ports of a query.
pub(super) fn ports(query: &Query) -> Result<Vec<u16>, PortsError> {
    let mut ports = Vec::new();
    for text in query.all("port") {
        if text.is_empty() {
            return Err(PortsError::Empty);
        }
        for port in text.split(',') {
            match port.parse() {
                Ok(0) => return Err(PortsError::Zero(text.to_owned())),
                Ok(port) => ports.push(port),
                Err(_) => return Err(PortsError::Invalid(text.to_owned())),
            }
        }
    }
    match ports.len() {
        0 => Err(PortsError::Missing),
        1..=MAX_PORTS => Ok(ports),
        _ => Err(PortsError::TooMany),
    }
}

/// Carries the data of all ports until the client is gone.
pub(super) async fn forward(
    kubelet: Arc<Kubelet>,
    sandbox: String,
    socket: Socket,
    protocol: Protocol,
    ports: Vec<u16>,
) {
    let (mut sink, mut source) = socket.split();
    let (out, mut outgoing) = mpsc::channel::<(u8, Bytes)>(AHEAD);
    let mut inputs = Vec::new();
    let mut connections = JoinSet::new();
    for (channel, port) in (0..).step_by(2).zip(ports) {
        let (sender, data) = mpsc::channel(AHEAD);
        inputs.push(sender);
        let place = PortChannels { channel, port, out: out.clone() };
        connections.spawn(place.connect(kubelet.clone(), sandbox.clone(), data));
    }
    loop {
        tokio::select! {
            message = source.next() => {
                let bytes = match message {
                    Some(Ok(Message::Binary(bytes))) => bytes,
                    Some(Ok(Message::Text(text))) => text.into(),
                    Some(Ok(Message::Close(_)) | Err(_)) | None => break,
                    Some(Ok(_)) => continue,
                };
                if let Some(ClientMessage::Bytes(channel, bytes)) = protocol.read(&bytes)
                    && channel.is_multiple_of(2)
                    && let Some(input) = inputs.get(usize::from(channel / 2))
                {
                    // Data of a closed connection is discarded.
                    let _ = input.send(bytes).await;
                }
            }
            Some((channel, bytes)) = outgoing.recv() => {
                if sink.send(protocol.message(channel, &bytes)).await.is_err() {
                    break;
                }
            }
        }
    }
    // A client that is gone needs no close message, and its connections end with it.
    let _ = sink.send(close_message()).await;
    connections.shutdown().await;
}

/// A port and its channels: the one for data, and the one after it for errors.
struct PortChannels {
    channel: u8,
    port: u16,
    out: mpsc::Sender<(u8, Bytes)>,
}

impl PortChannels {
    async fn connect(self, kubelet: Arc<Kubelet>, sandbox: String, mut data: mpsc::Receiver<Bytes>) {
        let number = Bytes::copy_from_slice(&self.port.to_le_bytes());
        if !self.send(self.channel, number.clone()).await || !self.send(self.channel + 1, number).await {
            return;
        }
        let carried = match dial(&kubelet, &sandbox, &self.port.to_string()).await {
            Ok(connection) => carry(connection, &mut data, |bytes| self.send(self.channel, bytes)).await,
            Err(why) => Err(why),
        };
        if let Err(why) = carried {
            let why = failure(&self.port.to_string(), &sandbox, &why.to_string());
            self.send(self.channel + 1, why.into()).await;
        }
    }

    async fn send(&self, channel: u8, bytes: Bytes) -> bool {
        self.out.send((channel, bytes)).await.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_parsed_from_the_query() {
        let ports = |query: &str| ports(&Query::parse(Some(query)));
        assert_eq!(ports("port=80,81&port=9"), Ok(vec![80, 81, 9]));
        assert_eq!(ports("").unwrap_err().to_string(), "query parameter \"port\" is required");
        assert_eq!(ports("port=").unwrap_err().to_string(), "query parameter \"port\" cannot be empty");
        assert_eq!(ports("port=0").unwrap_err().to_string(), "port \"0\" must be > 0");
        assert_eq!(ports("port=x").unwrap_err().to_string(), "unable to parse \"x\" as a port");
    }
}
