//! Ports over the channels of a WebSocket: two for each port that is asked for, one for its bytes and one for what goes
//! wrong. Each has one connection, which begins with the session.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_tungstenite::tungstenite::Message;

use super::{carry, dial, failure};
use crate::machine::Machine;
use crate::server::query::Query;
use crate::server::websocket::{Protocol, Said, Socket, goodbye};

const AHEAD: usize = 16;
/// Channels are numbered by a byte, and 255 is no channel.
const MAX_PORTS: usize = 127;

/// The ports that a query names.
pub(super) fn ports(query: &Query) -> Result<Vec<u16>, String> {
    let mut ports = Vec::new();
    for text in query.all("port") {
        if text.is_empty() {
            return Err("query parameter \"port\" cannot be empty".to_owned());
        }
        for port in text.split(',') {
            match port.parse() {
                Ok(0) => return Err(format!("port {text:?} must be > 0")),
                Ok(port) => ports.push(port),
                Err(_) => return Err(format!("unable to parse {text:?} as a port")),
            }
        }
    }
    match ports.len() {
        0 => Err("query parameter \"port\" is required".to_owned()),
        1..=MAX_PORTS => Ok(ports),
        _ => Err("too many ports".to_owned()),
    }
}

/// Carries the bytes of all ports until the client is gone.
pub(super) async fn forward(
    machine: Arc<Machine>,
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
        let place = Place { channel, port, out: out.clone() };
        connections.spawn(place.connect(machine.clone(), sandbox.clone(), data));
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
                if let Some(Said::Bytes(channel, bytes)) = protocol.read(&bytes)
                    && channel.is_multiple_of(2)
                    && let Some(input) = inputs.get(usize::from(channel / 2))
                {
                    // What nobody reads any more is thrown away.
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
    // A client that is gone needs no goodbye, and its connections end with it.
    let _ = sink.send(goodbye()).await;
    connections.shutdown().await;
}

/// A port and its channels: the one for bytes, and the one after it for what goes wrong.
struct Place {
    channel: u8,
    port: u16,
    out: mpsc::Sender<(u8, Bytes)>,
}

impl Place {
    async fn connect(self, machine: Arc<Machine>, sandbox: String, mut data: mpsc::Receiver<Bytes>) {
        let number = Bytes::copy_from_slice(&self.port.to_le_bytes());
        if !self.send(self.channel, number.clone()).await || !self.send(self.channel + 1, number).await {
            return;
        }
        let carried = match dial(&machine, &sandbox, &self.port.to_string()).await {
            Ok(connection) => carry(connection, &mut data, |bytes| self.send(self.channel, bytes)).await,
            Err(why) => Err(why),
        };
        if let Err(why) = carried {
            let why = failure(&self.port.to_string(), &sandbox, &why);
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
    fn ports_are_named_in_a_query() {
        let ports = |query: &str| ports(&Query::parse(Some(query)));
        assert_eq!(ports("port=80,81&port=9"), Ok(vec![80, 81, 9]));
        assert_eq!(ports("").unwrap_err(), "query parameter \"port\" is required");
        assert_eq!(ports("port=").unwrap_err(), "query parameter \"port\" cannot be empty");
        assert_eq!(ports("port=0").unwrap_err(), "port \"0\" must be > 0");
        assert_eq!(ports("port=x").unwrap_err(), "unable to parse \"x\" as a port");
    }
}
