//! The records of the body. Numbers are little-endian and of fixed width.
//!
//! A file has a name from a small alphabet and no folder, so that no archive can name a path elsewhere.

use std::fmt;
use std::io::{Read, Write};

use super::ArchiveError;

const FILE: u8 = 1;
const LEASE: u8 = 2;
const ENTRY: u8 = 3;
const END: u8 = 4;

const MAX_NAME: usize = 64;
const MAX_FILE: usize = 256 << 10;
const MAX_KEY: usize = 1 << 20;
/// The largest value of a store's transaction.
const MAX_VALUE: usize = 64 << 20;
/// Files of keys and certificates.
const EXTENSIONS: [&str; 3] = ["crt", "key", "pub"];

/// The name of a file with a key or a certificate.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileName(String);

impl FileName {
    /// The name, if it is one that an archive may have.
    pub fn new(name: &str) -> Option<FileName> {
        let (stem, extension) = name.rsplit_once('.')?;
        let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        let is_valid = EXTENSIONS.contains(&extension)
            && name.len() <= MAX_NAME
            && !stem.is_empty()
            && stem.bytes().all(is_plain);
        is_valid.then(|| FileName(name.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for FileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A key and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub key: String,
    pub value: Vec<u8>,
    /// 0 for none.
    pub lease: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    File {
        name: FileName,
        content: Vec<u8>,
    },
    /// A lease that keys have, and the milliseconds that it had left.
    Lease {
        id: u64,
        remaining_ms: u64,
    },
    Entry(Entry),
}

/// The numbers of an archive's records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) files: u64,
    pub(super) leases: u64,
    pub(super) entries: u64,
}

impl Record {
    /// The place of its kind in the order of records.
    pub(super) fn order(&self) -> u8 {
        match self {
            Record::File { .. } => FILE,
            Record::Lease { .. } => LEASE,
            Record::Entry(_) => ENTRY,
        }
    }

    pub(super) fn write(&self, to: &mut impl Write) -> Result<(), ArchiveError> {
        match self {
            Record::File { name, content } => {
                to.write_all(&[FILE])?;
                counted(to, name.as_str().as_bytes(), MAX_NAME)?;
                counted(to, content, MAX_FILE)
            }
            Record::Lease { id, remaining_ms } => {
                to.write_all(&[LEASE])?;
                to.write_all(&id.to_le_bytes())?;
                Ok(to.write_all(&remaining_ms.to_le_bytes())?)
            }
            Record::Entry(Entry { key, value, lease }) => entry(to, key, value, *lease),
        }
    }
}

/// Writes an entry without owning it.
pub(super) fn entry(to: &mut impl Write, key: &str, value: &[u8], lease: u64) -> Result<(), ArchiveError> {
    to.write_all(&[ENTRY])?;
    to.write_all(&lease.to_le_bytes())?;
    counted(to, key.as_bytes(), MAX_KEY)?;
    counted(to, value, MAX_VALUE)
}

pub(super) fn end(to: &mut impl Write, counts: Counts) -> Result<(), ArchiveError> {
    to.write_all(&[END])?;
    for count in [counts.files, counts.leases, counts.entries] {
        to.write_all(&count.to_le_bytes())?;
    }
    Ok(())
}

/// A record, or the numbers at the end.
pub(super) enum Next {
    Record(Record),
    End(Counts),
}

pub(super) fn read(from: &mut impl Read) -> Result<Next, ArchiveError> {
    let mut tag = [0];
    from.read_exact(&mut tag)?;
    let record = match tag[0] {
        FILE => {
            let name = text(from, MAX_NAME)?;
            let name = FileName::new(&name).ok_or(ArchiveError::Damaged("a file has an invalid name"))?;
            Record::File { name, content: read_counted(from, MAX_FILE)? }
        }
        LEASE => Record::Lease { id: number(from)?, remaining_ms: number(from)? },
        ENTRY => {
            let lease = number(from)?;
            Record::Entry(Entry { key: text(from, MAX_KEY)?, value: read_counted(from, MAX_VALUE)?, lease })
        }
        END => {
            let (files, leases, entries) = (number(from)?, number(from)?, number(from)?);
            return Ok(Next::End(Counts { files, leases, entries }));
        }
        _ => return Err(ArchiveError::Damaged("a record is of an unknown kind")),
    };
    Ok(Next::Record(record))
}

fn counted(to: &mut impl Write, bytes: &[u8], limit: usize) -> Result<(), ArchiveError> {
    let length = u32::try_from(bytes.len()).ok().filter(|_| bytes.len() <= limit);
    let length =
        length.ok_or(ArchiveError::Damaged("a key, a value or a file is too large for an archive"))?;
    to.write_all(&length.to_le_bytes())?;
    Ok(to.write_all(bytes)?)
}

/// Bytes with a length before them. Memory grows as they arrive.
fn read_counted(from: &mut impl Read, limit: usize) -> Result<Vec<u8>, ArchiveError> {
    let mut length = [0; 4];
    from.read_exact(&mut length)?;
    let length = u64::from(u32::from_le_bytes(length));
    if length > limit as u64 {
        return Err(ArchiveError::Damaged("a record is too long"));
    }
    let mut bytes = Vec::new();
    from.take(length).read_to_end(&mut bytes)?;
    if bytes.len() as u64 != length {
        return Err(ArchiveError::Damaged("it is truncated"));
    }
    Ok(bytes)
}

fn text(from: &mut impl Read, limit: usize) -> Result<String, ArchiveError> {
    String::from_utf8(read_counted(from, limit)?).map_err(|_| ArchiveError::Damaged("a key is not text"))
}

fn number(from: &mut impl Read) -> Result<u64, ArchiveError> {
    let mut number = [0; 8];
    from.read_exact(&mut number)?;
    Ok(u64::from_le_bytes(number))
}
