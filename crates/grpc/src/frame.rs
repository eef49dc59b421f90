//! Messages in a body: each has a flag, a length and its bytes.
//!
//! Invariant: a reader buffers one message of at most its limit, plus what one HTTP/2 frame brought.

use bytes::{Buf, Bytes, BytesMut};

use crate::protobuf::Message;
use crate::{Code, Status};

/// Flag and length before every message.
const PREFIX: usize = 5;

/// A message with its prefix.
pub(crate) fn encode(message: &impl Message) -> Result<Bytes, Status> {
    let mut bytes = vec![0; PREFIX];
    message.put_fields(&mut bytes);
    let length = u32::try_from(bytes.len() - PREFIX)
        .map_err(|_| Status::new(Code::ResourceExhausted, "grpc: message too large for its length prefix"))?;
    bytes[1..PREFIX].copy_from_slice(&length.to_be_bytes());
    Ok(bytes.into())
}

/// Splits the bytes of a body into messages.
#[derive(Debug)]
pub(crate) struct Frames {
    buffer: BytesMut,
    max: usize,
}

impl Frames {
    pub(crate) fn new(max: usize) -> Frames {
        Frames { buffer: BytesMut::new(), max }
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The next message, if all of it has arrived.
    pub(crate) fn next<T: Message>(&mut self) -> Result<Option<T>, Status> {
        let Some(prefix) = self.buffer.first_chunk::<PREFIX>() else { return Ok(None) };
        let [flag, length @ ..] = *prefix;
        if flag != 0 {
            let message = "grpc: compressed flag set with identity or empty encoding";
            return Err(Status::internal(message));
        }
        let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
        if length > self.max {
            let message = format!("grpc: received message larger than max ({length} vs. {})", self.max);
            return Err(Status::new(Code::ResourceExhausted, message));
        }
        let Some(bytes) = self.buffer.get(PREFIX..PREFIX + length) else {
            // One allocation for the whole message instead of repeated doubling. Only bytes that arrived count first, so
            // that a peer that promises much and sends nothing costs nothing.
            if self.buffer.len() >= length / 4 {
                self.buffer.reserve(PREFIX + length - self.buffer.len());
            }
            return Ok(None);
        };
        let message =
            T::decode(bytes).ok_or_else(|| Status::internal("grpc: error unmarshalling message"))?;
        self.buffer.advance(PREFIX + length);
        if self.buffer.is_empty() {
            // A stream may be silent for hours; it keeps no buffer meanwhile.
            self.buffer = BytesMut::new();
        }
        Ok(Some(message))
    }

    /// True if no part of a message is left.
    pub(crate) fn is_empty(&self) -> bool {
        self.buffer.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::health::HealthCheckRequest;

    fn request(service: &str) -> HealthCheckRequest {
        HealthCheckRequest { service: service.to_owned() }
    }

    #[test]
    fn messages_are_found_however_they_are_split() {
        let mut bytes = encode(&request("one")).unwrap().to_vec();
        bytes.extend(encode(&request("")).unwrap());
        bytes.extend(encode(&request("three")).unwrap());
        for size in 1..=bytes.len() {
            let (mut frames, mut found) = (Frames::new(100), Vec::new());
            for part in bytes.chunks(size) {
                frames.push(part);
                while let Some(message) = frames.next::<HealthCheckRequest>().unwrap() {
                    found.push(message.service);
                }
            }
            assert!(frames.is_empty());
            assert_eq!(found, ["one", "", "three"], "parts of {size}");
        }
    }

    #[test]
    fn large_and_compressed_and_invalid_messages_are_refused() {
        let code = |bytes: &[u8]| {
            let mut frames = Frames::new(10);
            frames.push(bytes);
            frames.next::<HealthCheckRequest>().unwrap_err()
        };
        let large = code(&[0, 0, 0, 0, 11]);
        assert_eq!(large.message, "grpc: received message larger than max (11 vs. 10)");
        assert_eq!(large.code, Code::ResourceExhausted);
        assert_eq!(code(&[1, 0, 0, 0, 0]).code, Code::Internal);
        assert_eq!(code(&[0, 0, 0, 0, 1, 0xff]).code, Code::Internal);
    }
}
