//! The row format and its checksum.
//!
//! `sum` holds the checksum of the value in its high half and, in its low half, that of all other
//! columns together with the high half. So the links between rows can be trusted without reading
//! values, and a value is checked whenever it is read.

use std::sync::Arc;

use bytes::Bytes;
use rusqlite::Row;

use super::unsigned;
use crate::{Damage, Entry, Error, Event, LeaseId, Revision};

/// The columns [`Header::read`] expects, in order. `value` follows where it is wanted.
pub(super) const HEADER: &str = "rev, key, prev, create_rev, version, lease, deleted, digest, sum";
pub(super) const VALUE: usize = 9;

/// A row without its value.
#[derive(Clone, Debug)]
pub(super) struct Header {
    pub(super) revision: Revision,
    pub(super) key: Arc<str>,
    pub(super) previous: Revision,
    pub(super) create_revision: Revision,
    pub(super) version: u64,
    /// 0 for none.
    pub(super) lease: u64,
    pub(super) deleted: bool,
    pub(super) digest: u64,
    value_sum: u32,
}

impl Header {
    pub(super) fn of(event: &Event, digest: u64) -> Header {
        let current = event.current.as_deref();
        Header {
            revision: event.revision,
            key: Arc::clone(&event.key),
            previous: event.previous.as_ref().map_or(0, |entry| entry.mod_revision),
            create_revision: current.map_or(0, |entry| entry.create_revision),
            version: current.map_or(0, |entry| entry.version),
            lease: current.and_then(|entry| entry.lease).map_or(0, |id| id.0),
            deleted: current.is_none(),
            digest,
            value_sum: crc32fast::hash(current.map_or(&[], |entry| &entry.value)),
        }
    }

    /// Reads and verifies the header columns.
    pub(super) fn read(row: &Row<'_>) -> Result<Header, Error> {
        // A column that lost its type reads as 0 and then fails the checksum.
        let number = |column: usize| row.get::<_, i64>(column).map_or(0, unsigned);
        let sum = number(8);
        let header = Header {
            revision: number(0),
            key: row.get_ref(1)?.as_str().unwrap_or_default().into(),
            previous: number(2),
            create_revision: number(3),
            version: number(4),
            lease: number(5),
            deleted: number(6) != 0,
            digest: number(7),
            value_sum: (sum >> 32) as u32,
        };
        if header.sum() == sum { Ok(header) } else { Err(header.damaged().into()) }
    }

    pub(super) fn sum(&self) -> u64 {
        let mut hasher = crc32fast::Hasher::new();
        let mut numbers = [0; 53];
        let fields =
            [self.revision, self.previous, self.create_revision, self.version, self.lease, self.digest];
        for (field, bytes) in fields.iter().zip(numbers.chunks_exact_mut(8)) {
            bytes.copy_from_slice(&field.to_le_bytes());
        }
        numbers[48] = u8::from(self.deleted);
        numbers[49..].copy_from_slice(&self.value_sum.to_le_bytes());
        hasher.update(&numbers);
        hasher.update(self.key.as_bytes());
        u64::from(self.value_sum) << 32 | u64::from(hasher.finalize())
    }

    /// The entry this row put, once its value has been verified; `None` for a deletion.
    pub(super) fn entry(&self, value: &[u8]) -> Result<Option<Arc<Entry>>, Error> {
        if crc32fast::hash(value) != self.value_sum {
            return Err(self.damaged().into());
        }
        Ok((!self.deleted).then(|| {
            Arc::new(Entry {
                note: None,
                key: Arc::clone(&self.key),
                value: Bytes::copy_from_slice(value),
                create_revision: self.create_revision,
                mod_revision: self.revision,
                version: self.version,
                lease: (self.lease != 0).then_some(LeaseId(self.lease)),
            })
        }))
    }

    fn damaged(&self) -> Damage {
        Damage::Record { key: self.key.to_string(), revision: self.revision }
    }
}

/// Reads and verifies a row with its value.
pub(super) fn read(row: &Row<'_>) -> Result<(Header, Option<Arc<Entry>>), Error> {
    let header = Header::read(row)?;
    let value = row.get_ref(VALUE)?.as_blob().unwrap_or_default();
    let entry = header.entry(value)?;
    Ok((header, entry))
}
