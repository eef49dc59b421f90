//! The records of a frame: the writes of a commit, leases and compactions.
//!
//! Numbers are little-endian and of fixed width. Records have no checksum: they are decoded only from verified frames, and
//! an invalid record is `None`.

use std::sync::Arc;

use bytes::Bytes;

use crate::{Entry, Event, LeaseId, Revision, lease::Term};

const WRITE: u8 = 1;
const DELETION: u8 = 2;
const LEASE: u8 = 3;
const LEASE_END: u8 = 4;
const COMPACTED: u8 = 5;
const END: u8 = 6;
/// The same as `WRITE`, `DELETION` and `END`, with a digest of keys and revisions.
const KEYED_WRITE: u8 = 7;
const KEYED_DELETION: u8 = 8;
const KEYED_END: u8 = 9;
const TIME: u8 = 10;

/// One record, borrowed from its frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Record<'a> {
    Write(Write<'a>),
    Lease {
        id: LeaseId,
        ttl_ms: u64,
        expires_ms: u64,
    },
    LeaseEnd(LeaseId),
    /// History up to this revision is compacted.
    Compacted(Revision),
    /// The last record of a snapshot.
    End(Totals),
    /// The time of the commit in milliseconds since 1970; the first record, if history is kept.
    Time(u64),
}

/// One version of one key, or its deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Write<'a> {
    pub(super) revision: Revision,
    /// The revision it replaces; 0 for none.
    pub(super) previous: Revision,
    /// That of the live entries after it; 0 in a snapshot.
    pub(super) digest: Digest,
    pub(super) key: &'a str,
    /// `None` for a deletion.
    pub(super) put: Option<Put<'a>>,
}

/// A digest of live entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Digest {
    /// Of revisions alone, as versions wrote it that gave every write its own revision.
    OfRevisions(u64),
    OfKeys(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Put<'a> {
    pub(super) create_revision: Revision,
    pub(super) version: u64,
    /// 0 for none.
    pub(super) lease: u64,
    pub(super) value: &'a [u8],
}

/// The totals of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Totals {
    pub(super) revision: Revision,
    pub(super) digest: Digest,
    pub(super) compacted: Revision,
    /// The highest lease ever granted.
    pub(super) last_lease: u64,
}

impl<'a> Write<'a> {
    /// The record of an event, with the value as it is stored if that is not the entry's.
    pub(super) fn of(event: &'a Event, digest: u64, sealed: Option<&'a [u8]>) -> Self {
        let previous = event.previous.as_ref().map_or(0, |entry| entry.mod_revision);
        let put = event.current.as_deref().map(|entry| Put::of(entry, sealed));
        Write { revision: event.revision, previous, digest: Digest::OfKeys(digest), key: &event.key, put }
    }

    pub(super) fn live(entry: &'a Entry, sealed: Option<&'a [u8]>) -> Self {
        let (revision, put) = (entry.mod_revision, Some(Put::of(entry, sealed)));
        Write { revision, previous: 0, digest: Digest::OfKeys(0), key: &entry.key, put }
    }

    /// The entry of a put, with a shared key and the value as it is stored; `None` for a deletion.
    pub(super) fn entry(&self, key: Arc<str>) -> Option<Arc<Entry>> {
        let put = self.put?;
        Some(Arc::new(Entry {
            key,
            value: Bytes::copy_from_slice(put.value),
            create_revision: put.create_revision,
            mod_revision: self.revision,
            version: put.version,
            lease: (put.lease != 0).then_some(LeaseId(put.lease)),
            note: None,
        }))
    }
}

impl<'a> Put<'a> {
    fn of(entry: &'a Entry, sealed: Option<&'a [u8]>) -> Self {
        let lease = entry.lease.map_or(0, |id| id.0);
        let Entry { create_revision, version, value, .. } = entry;
        let value = sealed.unwrap_or(value);
        Put { create_revision: *create_revision, version: *version, lease, value }
    }
}

impl<'a> Record<'a> {
    pub(super) fn lease(id: LeaseId, term: Option<&Term>) -> Self {
        match term {
            Some(term) => Record::Lease { id, ttl_ms: term.ttl_ms(), expires_ms: term.expires_ms() },
            None => Record::LeaseEnd(id),
        }
    }

    pub(super) fn encode(&self, to: &mut Vec<u8>) {
        match self {
            Record::Write(write) => write.encode(to),
            Record::Lease { id, ttl_ms, expires_ms } => numbers(to, LEASE, &[id.0, *ttl_ms, *expires_ms]),
            Record::LeaseEnd(id) => numbers(to, LEASE_END, &[id.0]),
            Record::Compacted(revision) => numbers(to, COMPACTED, &[*revision]),
            Record::Time(time) => numbers(to, TIME, &[*time]),
            Record::End(totals) => {
                let (tag, digest) = totals.digest.tagged(END, KEYED_END);
                numbers(to, tag, &[totals.revision, digest, totals.compacted, totals.last_lease]);
            }
        }
    }

    /// Decodes the record at the start of `bytes`, and advances `bytes`.
    pub(super) fn decode(bytes: &mut &'a [u8]) -> Option<Self> {
        let (tag, rest) = bytes.split_first()?;
        *bytes = rest;
        Some(match *tag {
            WRITE => Record::Write(Write::decode(true, Digest::OfRevisions, bytes)?),
            DELETION => Record::Write(Write::decode(false, Digest::OfRevisions, bytes)?),
            KEYED_WRITE => Record::Write(Write::decode(true, Digest::OfKeys, bytes)?),
            KEYED_DELETION => Record::Write(Write::decode(false, Digest::OfKeys, bytes)?),
            LEASE => {
                let (id, ttl_ms, expires_ms) = (LeaseId(number(bytes)?), number(bytes)?, number(bytes)?);
                Record::Lease { id, ttl_ms, expires_ms }
            }
            LEASE_END => Record::LeaseEnd(LeaseId(number(bytes)?)),
            COMPACTED => Record::Compacted(number(bytes)?),
            TIME => Record::Time(number(bytes)?),
            END => Record::End(Totals::decode(Digest::OfRevisions, bytes)?),
            KEYED_END => Record::End(Totals::decode(Digest::OfKeys, bytes)?),
            _ => return None,
        })
    }
}

impl Digest {
    /// The number, and the tag of a record that has it.
    fn tagged(self, of_revisions: u8, of_keys: u8) -> (u8, u64) {
        match self {
            Digest::OfRevisions(digest) => (of_revisions, digest),
            Digest::OfKeys(digest) => (of_keys, digest),
        }
    }
}

impl Totals {
    fn decode(digest: fn(u64) -> Digest, bytes: &mut &[u8]) -> Option<Self> {
        Some(Totals {
            revision: number(bytes)?,
            digest: digest(number(bytes)?),
            compacted: number(bytes)?,
            last_lease: number(bytes)?,
        })
    }
}

impl<'a> Write<'a> {
    fn encode(&self, to: &mut Vec<u8>) {
        let (tag, digest) = match self.put {
            Some(_) => self.digest.tagged(WRITE, KEYED_WRITE),
            None => self.digest.tagged(DELETION, KEYED_DELETION),
        };
        numbers(to, tag, &[self.revision, self.previous, digest, self.key.len() as u64]);
        to.extend_from_slice(self.key.as_bytes());
        if let Some(put) = &self.put {
            for number in [put.create_revision, put.version, put.lease, put.value.len() as u64] {
                to.extend_from_slice(&number.to_le_bytes());
            }
            to.extend_from_slice(put.value);
        }
    }

    fn decode(put: bool, digest: fn(u64) -> Digest, bytes: &mut &'a [u8]) -> Option<Self> {
        let (revision, previous, digest) = (number(bytes)?, number(bytes)?, digest(number(bytes)?));
        let key = std::str::from_utf8(counted(bytes)?).ok()?;
        let put = if put { Some(Put::decode(bytes)?) } else { None };
        Some(Write { revision, previous, digest, key, put })
    }
}

impl<'a> Put<'a> {
    fn decode(bytes: &mut &'a [u8]) -> Option<Self> {
        let (create_revision, version, lease) = (number(bytes)?, number(bytes)?, number(bytes)?);
        Some(Put { create_revision, version, lease, value: counted(bytes)? })
    }
}

fn numbers(to: &mut Vec<u8>, tag: u8, numbers: &[u64]) {
    to.push(tag);
    for number in numbers {
        to.extend_from_slice(&number.to_le_bytes());
    }
}

fn number(bytes: &mut &[u8]) -> Option<u64> {
    let (number, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(u64::from_le_bytes(*number))
}

/// Bytes with a length prefix.
fn counted<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let count = usize::try_from(number(bytes)?).ok()?;
    let (counted, rest) = bytes.split_at_checked(count)?;
    *bytes = rest;
    Some(counted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_round_trip_and_truncated_ones_are_refused() {
        let put = Put { create_revision: 3, version: 2, lease: 9, value: b"value" };
        let (old, digest) = (Digest::OfRevisions(11), Digest::OfKeys(11));
        let write = Write { revision: 7, previous: 5, digest, key: "/key", put: Some(put) };
        let totals = Totals { revision: 1, digest, compacted: 3, last_lease: 4 };
        let records = [
            Record::Write(write),
            Record::Write(Write { put: None, ..write }),
            Record::Write(Write { digest: old, ..write }),
            Record::Write(Write { digest: old, put: None, ..write }),
            Record::Lease { id: LeaseId(1), ttl_ms: 2, expires_ms: 3 },
            Record::LeaseEnd(LeaseId(1)),
            Record::Compacted(8),
            Record::Time(1_700_000_000_000),
            Record::End(totals),
            Record::End(Totals { digest: old, ..totals }),
        ];
        for record in records {
            let mut bytes = Vec::new();
            record.encode(&mut bytes);
            let mut rest = &bytes[..];
            assert_eq!(Record::decode(&mut rest), Some(record));
            assert!(rest.is_empty(), "{record:?}");
            for length in 0..bytes.len() {
                assert_eq!(Record::decode(&mut &bytes[..length]), None, "{record:?} cut to {length}");
            }
        }
        assert_eq!(Record::decode(&mut &[77, 0, 0][..]), None);
    }
}
