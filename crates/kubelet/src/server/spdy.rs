//! SPDY/3.1, the protocol of sessions before WebSockets: many streams over one connection, all opened by the client.
//! The kubelet is its server for clients, and its client for runtimes that serve sessions themselves.
//!
//! As other implementations of it, this has no flow control: a stream that is not read blocks the connection.

mod frames;
pub(super) mod fuzz;
mod headers;

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;

use frames::{Incoming, Outgoing};
use headers::{Headers, Packer, Unpacker};

/// The number of frames that wait, each way and for each stream.
const AHEAD: usize = 16;

/// The receivers of each stream's data.
type Streams = Arc<Mutex<HashMap<u32, mpsc::Sender<Bytes>>>>;

/// A stream that the client opened.
pub(super) struct Stream {
    headers: Headers,
    /// The data; closed at its end.
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

/// The sending side of one stream. Dropping it does not close the stream.
#[derive(Clone)]
pub(super) struct Outlet {
    id: u32,
    frames: mpsc::Sender<Outgoing>,
}

/// The other end is gone.
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

    /// Waits until the other end is gone.
    pub(super) async fn closed(&self) {
        self.frames.closed().await;
    }

    async fn frame(&self, frame: Outgoing) -> Result<(), Gone> {
        self.frames.send(frame).await.map_err(|_| Gone)
    }
}

/// The client's end of a connection. Dropping it closes the connection.
pub(super) struct Opener {
    frames: mpsc::Sender<Outgoing>,
    streams: Streams,
    next: u32,
    connection: tokio::task::JoinHandle<()>,
}

impl Opener {
    /// Opens one more stream.
    pub(super) async fn open(&mut self, headers: &[(&str, &str)]) -> Result<Stream, Gone> {
        let id = self.next;
        self.next += 2;
        let headers: Headers =
            headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let (sender, data) = mpsc::channel(AHEAD);
        self.streams.lock().insert(id, sender);
        let out = Outlet { id, frames: self.frames.clone() };
        out.frame(Outgoing::Open { id, headers: headers.clone() }).await?;
        Ok(Stream { headers, data, out })
    }
}

impl Drop for Opener {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

/// Speaks SPDY on a connection as its client.
pub(super) fn connect(io: impl AsyncRead + AsyncWrite + Send + 'static) -> Opener {
    // The other end opens no streams.
    let (opened, _) = mpsc::channel(1);
    let (frames, streams, connection) = speak(io, opened);
    Opener { frames, streams, next: 1, connection }
}

/// Speaks SPDY on a connection as its server. Returns the streams that the client opens, until it is gone.
pub(super) fn serve(io: impl AsyncRead + AsyncWrite + Send + 'static) -> mpsc::Receiver<Stream> {
    let (opened, streams) = mpsc::channel(AHEAD);
    speak(io, opened);
    streams
}

fn speak(
    io: impl AsyncRead + AsyncWrite + Send + 'static,
    opened: mpsc::Sender<Stream>,
) -> (mpsc::Sender<Outgoing>, Streams, tokio::task::JoinHandle<()>) {
    let (frames, outgoing) = mpsc::channel(AHEAD);
    let streams = Streams::default();
    let (reader, writer) = tokio::io::split(io);
    let receiving = receive(reader, opened, frames.clone(), streams.clone());
    let known = streams.clone();
    let connection = tokio::spawn(async move {
        // However the connection ends, both halves end together, and so do all streams.
        tokio::select! {
            _ = receiving => {}
            _ = send(writer, outgoing) => {}
        }
        known.lock().clear();
    });
    (frames, streams, connection)
}

async fn receive(
    reader: impl AsyncRead,
    opened: mpsc::Sender<Stream>,
    frames: mpsc::Sender<Outgoing>,
    streams: Streams,
) -> std::io::Result<()> {
    let mut reader = std::pin::pin!(tokio::io::BufReader::new(reader));
    let mut unpacker = Unpacker::new();
    let gone = |_| std::io::Error::from(std::io::ErrorKind::BrokenPipe);
    while let Some(frame) = frames::read(&mut reader, &mut unpacker).await? {
        match frame {
            Incoming::Opened { id, headers, ended } => {
                let (sender, data) = mpsc::channel(AHEAD);
                if !ended {
                    streams.lock().insert(id, sender);
                }
                frames.send(Outgoing::Accept { id }).await.map_err(gone)?;
                let stream = Stream { headers, data, out: Outlet { id, frames: frames.clone() } };
                // Frames of unknown streams are ignored.
                let _ = opened.send(stream).await;
            }
            Incoming::Data { id, bytes, ended } => {
                let stream = streams.lock().get(&id).cloned();
                if let Some(stream) = stream
                    && !bytes.is_empty()
                {
                    // Data of a stream whose reader is gone is discarded.
                    let _ = stream.send(bytes).await;
                }
                if ended {
                    streams.lock().remove(&id);
                }
            }
            Incoming::Reset { id } => drop(streams.lock().remove(&id)),
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
    use super::*;

    #[tokio::test]
    async fn streams_carry_bytes_both_ways() {
        let (here, there) = tokio::io::duplex(4096);
        let mut streams = serve(there);
        let mut opener = connect(here);
        let mut asked = opener.open(&[("streamtype", "data")]).await.unwrap();
        asked.out.send(Bytes::from_static(b"ping")).await.unwrap();
        asked.out.end().await.unwrap();

        let mut stream = streams.recv().await.unwrap();
        assert_eq!((stream.id(), stream.header("streamtype")), (1, "data"));
        assert_eq!(stream.data.recv().await.unwrap(), "ping");
        assert_eq!(stream.data.recv().await, None);
        stream.out.send(Bytes::from_static(b"pong")).await.unwrap();
        stream.out.end().await.unwrap();
        assert_eq!(asked.data.recv().await.unwrap(), "pong");
        assert_eq!(asked.data.recv().await, None);

        let second = opener.open(&[]).await.unwrap();
        assert_eq!(second.id(), 3);
        drop(opener);
        stream.out.closed().await;
    }
}
