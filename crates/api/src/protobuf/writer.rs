//! Protobuf's wire format, written from the end to the front: a message's length is known once its
//! content is written, so nothing is measured beforehand or moved afterwards.

/// Bytes growing towards the front.
pub(super) struct Writer {
    buffer: Vec<u8>,
    /// Everything from here on is written.
    at: usize,
}

impl Writer {
    pub(super) fn new() -> Self {
        Writer { buffer: Vec::new(), at: 0 }
    }

    /// The number of written bytes.
    pub(super) fn len(&self) -> usize {
        self.buffer.len() - self.at
    }

    pub(super) fn written(&self) -> &[u8] {
        &self.buffer[self.at..]
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        if self.at < bytes.len() {
            self.grow(bytes.len());
        }
        let start = self.at - bytes.len();
        self.buffer[start..self.at].copy_from_slice(bytes);
        self.at = start;
    }

    fn grow(&mut self, needed: usize) {
        let written = self.len();
        let size = (written + needed).max(512) * 2;
        let mut buffer = vec![0; size];
        buffer[size - written..].copy_from_slice(self.written());
        self.buffer = buffer;
        self.at = size - written;
    }

    pub(super) fn varint(&mut self, mut value: u64) {
        let mut bytes = [0u8; 10];
        let mut length = 0;
        loop {
            bytes[length] = (value & 0x7f) as u8;
            value >>= 7;
            if value == 0 {
                break;
            }
            bytes[length] |= 0x80;
            length += 1;
        }
        self.bytes(&bytes[..=length]);
    }

    pub(super) fn tag(&mut self, number: u32, wire: u8) {
        self.varint(u64::from(number) << 3 | u64::from(wire));
    }

    /// Adds tag and length before the bytes that were written since `len()` was `before`.
    pub(super) fn close(&mut self, number: u32, before: usize) {
        self.varint((self.len() - before) as u64);
        self.tag(number, super::reader::BYTES);
    }

    /// A field of bytes.
    pub(super) fn field(&mut self, number: u32, bytes: &[u8]) {
        let before = self.len();
        self.bytes(bytes);
        self.close(number, before);
    }
}
