//! SPDY/3.1, the protocol of sessions before WebSockets: many streams over one connection, all opened by the client.
//!
//! As the clients that speak it, this knows no windows: who does not read holds up the connection.

mod frames;
mod headers;

use std::collections::HashMap;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;

use frames::{Incoming, Outgoing};
use headers::{Headers, Packer, Unpacker};

/// How many frames wait, each way and for each stream.
const AHEAD: usize = 16;

/// A stream that the client opened.
pub(super) struct Stream {
    headers: Headers,
    /// What comes; closed at its end.
    pub(super) data: mpsc::Receiver<Bytes>,
    pub(super) out: Outlet,
}

impl Stream {
    /// A header by its name in lower case.
    pub(super) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }

    pub(super) fn id(&self) -> u32 {
        self.out.id
    }
}

/// The way back to the client on one stream. Dropped, it is not closed: that is said.
#[derive(Clone)]
pub(super) struct Outlet {
    id: u32,
    frames: mpsc::Sender<Outgoing>,
}

/// The client is gone.
#[derive(Debug)]
pub(super) struct Gone;

impl Outlet {
    pub(super) async fn send(&self, bytes: Bytes) -> Result<(), Gone> {
        self.frame(Outgoing::Data { id: self.id, bytes, ends: false }).await
    }

    pub(super) async fn end(&self) -> Result<(), Gone> {
        self.frame(Outgoing::Data { id: self.id, bytes: Bytes::new(), ends: true }).await
    }

    pub(super) async fn reset(&self) -> Result<(), Gone> {
        self.frame(Outgoing::Reset { id: self.id }).await
    }

    /// Waits until the client is gone.
    pub(super) async fn closed(&self) {
        self.frames.closed().await;
    }

    async fn frame(&self, frame: Outgoing) -> Result<(), Gone> {
        self.frames.send(frame).await.map_err(|_| Gone)
    }
}

/// Speaks SPDY on a connection; what the client opens comes out, until it is gone.
pub(super) fn serve(io: impl AsyncRead + AsyncWrite + Send + 'static) -> mpsc::Receiver<Stream> {
    let (opened, streams) = mpsc::channel(AHEAD);
    let (frames, outgoing) = mpsc::channel(AHEAD);
    let (reader, writer) = tokio::io::split(io);
    tokio::spawn(async move {
        // However the connection ends, it has ended: both halves end together.
        tokio::select! {
            _ = receive(reader, opened, frames) => {}
            _ = send(writer, outgoing) => {}
        }
    });
    streams
}

async fn receive(
    reader: impl AsyncRead,
    opened: mpsc::Sender<Stream>,
    frames: mpsc::Sender<Outgoing>,
) -> std::io::Result<()> {
    let mut reader = std::pin::pin!(tokio::io::BufReader::new(reader));
    let mut unpacker = Unpacker::new();
    let mut streams: HashMap<u32, mpsc::Sender<Bytes>> = HashMap::new();
    let gone = |_| std::io::Error::from(std::io::ErrorKind::BrokenPipe);
    while let Some(frame) = frames::read(&mut reader, &mut unpacker).await? {
        match frame {
            Incoming::Opened { id, headers, ended } => {
                let (sender, data) = mpsc::channel(AHEAD);
                if !ended {
                    streams.insert(id, sender);
                }
                frames.send(Outgoing::Accept { id }).await.map_err(gone)?;
                let stream = Stream { headers, data, out: Outlet { id, frames: frames.clone() } };
                // Streams that nobody waits for are left alone.
                let _ = opened.send(stream).await;
            }
            Incoming::Data { id, bytes, ended } => {
                if let Some(stream) = streams.get(&id)
                    && !bytes.is_empty()
                {
                    // What nobody reads any more is thrown away.
                    let _ = stream.send(bytes).await;
                }
                if ended {
                    streams.remove(&id);
                }
            }
            Incoming::Reset { id } => drop(streams.remove(&id)),
            Incoming::Ping { id } => frames.send(Outgoing::Ping { id }).await.map_err(gone)?,
            Incoming::GoAway => return Ok(()),
            Incoming::Other => {}
        }
    }
    Ok(())
}

async fn send(writer: impl AsyncWrite, mut outgoing: mpsc::Receiver<Outgoing>) -> std::io::Result<()> {
    let mut writer = std::pin::pin!(writer);
    let mut packer = Packer::new()?;
    while let Some(frame) = outgoing.recv().await {
        writer.write_all(&frames::write(&frame, &mut packer)?).await?;
        writer.flush().await?;
    }
    writer.shutdown().await
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;

    use super::*;

    #[tokio::test]
    async fn streams_carry_bytes_both_ways() {
        let (mut client, server) = tokio::io::duplex(4096);
        let mut streams = serve(server);
        let mut packer = Packer::new().unwrap();
        let headers = Headers::from([("streamtype".to_owned(), "data".to_owned())]);
        let mut said = frames::tests::opening(1, &headers, &mut packer);
        let data = Outgoing::Data { id: 1, bytes: Bytes::from_static(b"ping"), ends: true };
        said.extend(frames::write(&data, &mut packer).unwrap());
        client.write_all(&said).await.unwrap();

        let mut stream = streams.recv().await.unwrap();
        assert_eq!((stream.id(), stream.header("streamtype")), (1, "data"));
        assert_eq!(stream.data.recv().await.unwrap(), "ping");
        assert_eq!(stream.data.recv().await, None);
        stream.out.send(Bytes::from_static(b"pong")).await.unwrap();
        stream.out.end().await.unwrap();

        let accepted = frames::write(&Outgoing::Accept { id: 1 }, &mut Packer::new().unwrap()).unwrap();
        let mut answer = vec![0; accepted.len() + 12 + 8];
        client.read_exact(&mut answer).await.unwrap();
        assert_eq!(answer[..accepted.len()], accepted);
        assert_eq!(answer[accepted.len()..], *b"\0\0\0\x01\0\0\0\x04pong\0\0\0\x01\x01\0\0\0");
        drop(client);
        stream.out.closed().await;
    }
}
