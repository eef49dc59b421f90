//! The message format: a header, a fixed part that depends on the kind, and attributes, each with a length and padded to four
//! bytes.

use std::net::IpAddr;

use super::flag;

/// The flag of attributes that contain attributes.
const NESTED: u16 = 0x8000;
/// The mask of an attribute's kind, without flags.
const KIND: u16 = 0x3fff;
const HEADER: usize = 16;

/// A list of attributes under construction.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Attributes(Vec<u8>);

impl Attributes {
    pub fn new() -> Attributes {
        Attributes::default()
    }

    pub fn bytes(mut self, kind: u16, value: &[u8]) -> Attributes {
        // No value comes near the limit: names, addresses, and lists whose builders keep them short.
        let length = (value.len() + 4) as u16;
        self.0.extend_from_slice(&length.to_ne_bytes());
        self.0.extend_from_slice(&kind.to_ne_bytes());
        self.0.extend_from_slice(value);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }

    pub fn text(self, kind: u16, value: &str) -> Attributes {
        self.bytes(kind, &[value.as_bytes(), &[0]].concat())
    }

    pub fn u8(self, kind: u16, value: u8) -> Attributes {
        self.bytes(kind, &[value])
    }

    pub fn u16_be(self, kind: u16, value: u16) -> Attributes {
        self.bytes(kind, &value.to_be_bytes())
    }

    pub fn u32(self, kind: u16, value: u32) -> Attributes {
        self.bytes(kind, &value.to_ne_bytes())
    }

    pub fn u32_be(self, kind: u16, value: u32) -> Attributes {
        self.bytes(kind, &value.to_be_bytes())
    }

    pub fn u64_be(self, kind: u16, value: u64) -> Attributes {
        self.bytes(kind, &value.to_be_bytes())
    }

    pub fn address(self, kind: u16, address: IpAddr) -> Attributes {
        match address {
            IpAddr::V4(address) => self.bytes(kind, &address.octets()),
            IpAddr::V6(address) => self.bytes(kind, &address.octets()),
        }
    }

    pub fn nested(self, kind: u16, inner: &Attributes) -> Attributes {
        self.bytes(kind | NESTED, &inner.0)
    }

    /// The size in bytes.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Adds nested attributes after fixed bytes.
    pub fn nested_after(self, kind: u16, begin: &[u8], inner: &Attributes) -> Attributes {
        self.bytes(kind | NESTED, &[begin, &inner.0].concat())
    }
}

/// A request. Its sequence number is set when it is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message(Vec<u8>);

impl Message {
    pub fn new(kind: u16, flags: u16, fixed: &[u8], attributes: &Attributes) -> Message {
        let mut bytes = vec![0; HEADER];
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        bytes[6..8].copy_from_slice(&(flags | flag::REQUEST).to_ne_bytes());
        bytes.extend_from_slice(fixed);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes.extend_from_slice(&attributes.0);
        let length = bytes.len() as u32;
        bytes[..4].copy_from_slice(&length.to_ne_bytes());
        Message(bytes)
    }

    /// The size in bytes.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn write(&self, sequence: u32, acknowledged: bool, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&self.0);
        out[start + 8..start + 12].copy_from_slice(&sequence.to_ne_bytes());
        if acknowledged {
            let [low, high] = flag::ACK.to_ne_bytes();
            out[start + 6] |= low;
            out[start + 7] |= high;
        }
    }
}

/// The attributes in a buffer, as far as it is well formed.
pub fn attributes(mut buffer: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = u16::from_ne_bytes(buffer.get(..2)?.try_into().ok()?) as usize;
        let kind = u16::from_ne_bytes(buffer.get(2..4)?.try_into().ok()?) & KIND;
        let value = buffer.get(4..length)?;
        buffer = buffer.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

/// A message from the kernel, and the rest of the buffer.
pub(super) struct Received<'a> {
    pub(super) kind: u16,
    pub(super) flags: u16,
    pub(super) sequence: u32,
    pub(super) body: &'a [u8],
}

pub(super) fn messages(mut buffer: &[u8]) -> impl Iterator<Item = Received<'_>> {
    std::iter::from_fn(move || {
        let u16_at = |at: usize| Some(u16::from_ne_bytes(buffer.get(at..at + 2)?.try_into().ok()?));
        let u32_at = |at: usize| Some(u32::from_ne_bytes(buffer.get(at..at + 4)?.try_into().ok()?));
        let length = u32_at(0)? as usize;
        let received = Received {
            kind: u16_at(4)?,
            flags: u16_at(6)?,
            sequence: u32_at(8)?,
            body: buffer.get(HEADER..length)?,
        };
        buffer = buffer.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some(received)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_read_as_they_were_written() {
        let inner = Attributes::new().u8(1, 7);
        let written = Attributes::new().text(3, "eth0").nested(18, &inner).u32(4, 1500);
        let read: Vec<_> = attributes(&written.0).collect();
        assert_eq!(read, [(3, &b"eth0\0"[..]), (18, &[5, 0, 1, 0, 7, 0, 0, 0]), (4, &1500u32.to_ne_bytes())]);
    }

    #[test]
    fn a_truncated_attribute_ends_the_list() {
        let written = Attributes::new().u32(1, 1).u32(2, 2).0;
        for length in 0..written.len() {
            assert_eq!(attributes(&written[..length]).count(), usize::from(length >= 8), "{length}");
        }
        assert_eq!(attributes(&[0, 0, 1, 0]).count(), 0, "a length of nothing");
    }

    #[test]
    fn messages_have_their_length_and_sequence_number() {
        let message = Message::new(16, flag::CREATE, &[1, 2, 3], &Attributes::new().u8(1, 7));
        let mut wire = Vec::new();
        message.write(9, true, &mut wire);
        message.write(10, false, &mut wire);
        let read: Vec<_> = messages(&wire).map(|m| (m.kind, m.flags, m.sequence, m.body.len())).collect();
        let flags = flag::CREATE | flag::REQUEST;
        assert_eq!(read, [(16, flags | flag::ACK, 9, 12), (16, flags, 10, 12)]);
    }
}
