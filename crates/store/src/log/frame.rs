//! The frame: the unit of writes, valid as a whole or not at all.
//!
//! Its checksum covers its offset and its file's number besides its bytes, so that neither remains of an older file nor values
//! that look like frames can be taken for one. The head has its own checksum, so that frames can be skipped without reading
//! them.

use crate::{Damage, Revision};

use super::{file::PAGE, record::Record};

pub(super) const HEAD: usize = 24;
/// Frames begin at multiples of this, where they are searched behind damage.
pub(super) const ALIGNMENT: u64 = 8;
pub(super) const MAGIC: [u8; 4] = *b"cfr1";

/// The offset of a frame, and its file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// The file's own number.
    pub(super) file: u64,
    pub(super) at: u64,
}

impl Place {
    /// The checksum of bytes at this place.
    fn hash(self, bytes: &[u8]) -> u32 {
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&self.file.to_le_bytes());
        hasher.update(&self.at.to_le_bytes());
        hasher.update(bytes);
        hasher.finalize()
    }
}

/// The fixed beginning of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    sum: u32,
    /// The length of the records.
    length: u32,
    /// The revision of the last write in the frame or before it.
    pub(super) last: Revision,
}

impl Head {
    pub(super) fn decode(bytes: &[u8; HEAD], place: Place) -> Option<Head> {
        let short = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let last = u64::from_le_bytes(bytes.get(16..24)?.try_into().ok()?);
        let head = Head { sum: short(4)?, length: short(8)?, last };
        (*bytes == head.encode(place)).then_some(head)
    }

    fn encode(self, place: Place) -> [u8; HEAD] {
        let mut bytes = [0; HEAD];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4..8].copy_from_slice(&self.sum.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.length.to_le_bytes());
        bytes[16..].copy_from_slice(&self.last.to_le_bytes());
        let sum = place.hash(&bytes);
        bytes[12..16].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    pub(super) fn length(&self) -> usize {
        self.length as usize
    }

    /// The offset of the next frame.
    pub(super) fn end(&self, at: u64) -> u64 {
        (at + HEAD as u64 + u64::from(self.length)).next_multiple_of(ALIGNMENT)
    }

    pub(super) fn verifies(&self, place: Place, records: &[u8]) -> bool {
        self.sum == place.hash(records)
    }
}

/// A frame that is being built.
#[derive(Default)]
pub(super) struct Builder {
    bytes: Vec<u8>,
}

/// A larger buffer than this is not kept for the next frame.
const KEEP: usize = 1 << 20;

impl Builder {
    pub(super) fn push(&mut self, record: &Record<'_>) {
        self.bytes.resize(self.bytes.len().max(HEAD), 0);
        record.encode(&mut self.bytes);
    }

    /// The length of the frame.
    pub(super) fn len(&self) -> u64 {
        (self.bytes.len().max(HEAD) as u64).next_multiple_of(ALIGNMENT)
    }

    /// The encoded frame for a place, padded to the alignment.
    pub(super) fn seal(&mut self, place: Place, last: Revision) -> &[u8] {
        self.bytes.resize(self.bytes.len().max(HEAD), 0);
        let records = &self.bytes[HEAD..];
        let length = u32::try_from(records.len()).unwrap_or(u32::MAX);
        let head = Head { sum: place.hash(records), length, last };
        self.bytes[..HEAD].copy_from_slice(&head.encode(place));
        self.bytes.resize(self.bytes.len().next_multiple_of(ALIGNMENT as usize), 0);
        &self.bytes
    }

    /// The sealed frame with zeros up to the end of a page: the kernel would have to read a page that is not in memory before
    /// writing a part of it.
    pub(super) fn whole_pages(&mut self, at: u64) -> &[u8] {
        let end = at + self.bytes.len() as u64;
        let zeros = end.next_multiple_of(PAGE) - end;
        self.bytes.resize(self.bytes.len() + zeros as usize, 0);
        &self.bytes
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(KEEP);
    }
}

/// A verified frame.
pub(super) struct Frame<'a> {
    pub(super) head: Head,
    pub(super) records: &'a [u8],
}

impl<'a> Frame<'a> {
    /// Its records in order. An invalid one is damage, reported with `file` and `at`.
    pub(super) fn records(&self, file: &'a str, at: u64) -> impl Iterator<Item = Result<Record<'a>, Damage>> {
        let mut rest = self.records;
        std::iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            let record = Record::decode(&mut rest);
            if record.is_none() {
                rest = &[];
            }
            Some(record.ok_or_else(|| Damage::Log { file: file.into(), at }))
        })
    }
}
