//! The frames of SPDY/3.1 that are used here, read from and written to a connection.

use std::io;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt};

use super::headers::{Headers, Packer, Unpacker};

const VERSION: u16 = 3;
const SYN_STREAM: u16 = 1;
const SYN_REPLY: u16 = 2;
const RST_STREAM: u16 = 3;
const PING: u16 = 6;
const GOAWAY: u16 = 7;
const FIN: u8 = 1;
/// The maximum size of a frame; clients send less.
const MAX_FRAME: usize = 4 << 20;

/// A received frame.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Incoming {
    Opened {
        id: u32,
        headers: Headers,
        ended: bool,
    },
    Data {
        id: u32,
        bytes: Bytes,
        ended: bool,
    },
    Reset {
        id: u32,
    },
    Ping {
        id: u32,
    },
    GoAway,
    /// A frame that is ignored.
    Other,
}

/// A frame to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outgoing {
    Open { id: u32, headers: Headers },
    Accept { id: u32 },
    Data { id: u32, bytes: Bytes, ends: bool },
    Reset { id: u32 },
    Ping { id: u32 },
}

/// Reads one frame; `None` if the connection has ended.
pub(super) async fn read(
    io: &mut (impl AsyncRead + Unpin),
    unpacker: &mut Unpacker,
) -> io::Result<Option<Incoming>> {
    let mut head = [0; 8];
    match io.read_exact(&mut head).await {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error),
    }
    let [a, b, c, d, flags, rest @ ..] = head;
    let length = u32::from_be_bytes([0, rest[0], rest[1], rest[2]]) as usize;
    if length > MAX_FRAME {
        return Err(io::Error::other("a frame is too long"));
    }
    let mut body = vec![0; length];
    io.read_exact(&mut body).await?;
    let ended = flags & FIN != 0;
    if a & 0x80 == 0 {
        let id = u32::from_be_bytes([a, b, c, d]);
        return Ok(Some(Incoming::Data { id, bytes: body.into(), ended }));
    }
    if u16::from_be_bytes([a & 0x7f, b]) != VERSION {
        return Err(io::Error::other("not SPDY/3"));
    }
    let kind = u16::from_be_bytes([c, d]);
    control(kind, &body, ended, unpacker).map(Some)
}

fn control(kind: u16, body: &[u8], ended: bool, unpacker: &mut Unpacker) -> io::Result<Incoming> {
    let id = || {
        let bytes = body.first_chunk().ok_or_else(|| io::Error::other("a frame is too short"))?;
        Ok::<u32, io::Error>(u32::from_be_bytes(*bytes) & 0x7fff_ffff)
    };
    Ok(match kind {
        SYN_STREAM => {
            // The associated stream and the priority are ignored.
            let packed = body.get(10..).ok_or_else(|| io::Error::other("a frame is too short"))?;
            Incoming::Opened { id: id()?, headers: unpacker.unpack(packed)?, ended }
        }
        RST_STREAM => Incoming::Reset { id: id()? },
        PING => {
            let bytes = body.first_chunk().ok_or_else(|| io::Error::other("a frame is too short"))?;
            Incoming::Ping { id: u32::from_be_bytes(*bytes) }
        }
        GOAWAY => Incoming::GoAway,
        _ => Incoming::Other,
    })
}

/// Encodes a frame.
pub(super) fn write(frame: &Outgoing, packer: &mut Packer) -> io::Result<Vec<u8>> {
    Ok(match frame {
        Outgoing::Data { id, bytes, ends } => {
            let mut out = id.to_be_bytes().to_vec();
            out.extend(flags_and_length(if *ends { FIN } else { 0 }, bytes.len()));
            out.extend_from_slice(bytes);
            out
        }
        Outgoing::Open { id, headers } => {
            let packed = packer.pack(headers)?;
            framed(SYN_STREAM, &[&id.to_be_bytes(), [0; 6].as_slice(), packed.as_slice()].concat())
        }
        Outgoing::Accept { id } => {
            let packed = packer.pack(&Headers::new())?;
            framed(SYN_REPLY, &[&id.to_be_bytes(), packed.as_slice()].concat())
        }
        // 5 is `CANCEL`: the stream is no longer needed.
        Outgoing::Reset { id } => framed(RST_STREAM, &[id.to_be_bytes(), 5_u32.to_be_bytes()].concat()),
        Outgoing::Ping { id } => framed(PING, &id.to_be_bytes()),
    })
}

fn framed(kind: u16, body: &[u8]) -> Vec<u8> {
    let mut out = (0x8000 | VERSION).to_be_bytes().to_vec();
    out.extend(kind.to_be_bytes());
    out.extend(flags_and_length(0, body.len()));
    out.extend_from_slice(body);
    out
}

fn flags_and_length(flags: u8, length: usize) -> [u8; 4] {
    let [_, a, b, c] = (length as u32).to_be_bytes();
    [flags, a, b, c]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn frames_survive_a_round_trip() {
        let (mut packer, mut unpacker) = (Packer::new().unwrap(), Unpacker::new());
        let headers = Headers::from([("streamtype".to_owned(), "data".to_owned())]);
        let mut bytes = Vec::new();
        let open = Outgoing::Open { id: 1, headers: headers.clone() };
        let data = Outgoing::Data { id: 1, bytes: Bytes::from_static(b"hi"), ends: true };
        for frame in [open, data, Outgoing::Reset { id: 3 }, Outgoing::Ping { id: 7 }] {
            bytes.extend(write(&frame, &mut packer).unwrap());
        }
        let mut io = bytes.as_slice();
        let mut found = Vec::new();
        while let Some(frame) = read(&mut io, &mut unpacker).await.unwrap() {
            found.push(frame);
        }
        let expected = [
            Incoming::Opened { id: 1, headers, ended: false },
            Incoming::Data { id: 1, bytes: Bytes::from_static(b"hi"), ended: true },
            Incoming::Reset { id: 3 },
            Incoming::Ping { id: 7 },
        ];
        assert_eq!(found, expected);
    }
}
