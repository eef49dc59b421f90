//! Reading an archive, one record at a time.

use std::io::{self, Read};

use flate2::bufread::DeflateDecoder;

use super::chunks::{ChunkReader, Hashing, Sealer};
use super::record::{self, Counts, Next, Record};
use super::{ArchiveError, Header};
use crate::Passphrase;

/// An archive that is being read.
pub struct Archive<R: Read> {
    pub header: Header,
    /// `None` after the end.
    decoder: Option<Limited<DeflateDecoder<ChunkReader<R>>>>,
    counts: Counts,
    /// The order of the last record's kind.
    order: u8,
    last_key: Option<String>,
}

/// Fails beyond a number of bytes: an archive may expand to a thousand times its size.
struct Limited<R> {
    inner: R,
    left: u64,
    limit: u64,
}

impl<R: Read> Read for Limited<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.left = self.left.checked_sub(read as u64).ok_or(ArchiveError::TooLarge(self.limit))?;
        Ok(read)
    }
}

impl<R: Read> Archive<R> {
    /// Reads the header and derives the key. `limit` bounds the bytes of all records.
    pub fn open(from: R, passphrase: Option<&Passphrase>, limit: u64) -> Result<Archive<R>, ArchiveError> {
        let mut from = Hashing::new(from);
        let (header, digest) = Header::read(&mut from)?;
        let sealer = match (&header.encryption, passphrase) {
            (Some(parameters), Some(passphrase)) => {
                Some(Sealer::new(&parameters.derive(passphrase)?, digest)?)
            }
            (Some(_), None) => return Err(ArchiveError::PassphraseNeeded),
            (None, Some(_)) => return Err(ArchiveError::NotEncrypted),
            (None, None) => None,
        };
        let inner = DeflateDecoder::new(ChunkReader::new(from, sealer));
        let decoder = Some(Limited { inner, left: limit, limit });
        Ok(Archive { header, decoder, counts: Counts::default(), order: 0, last_key: None })
    }

    /// The next record; `None` after the last one, once the whole archive is verified.
    pub fn next_record(&mut self) -> Result<Option<Record>, ArchiveError> {
        let Some(mut decoder) = self.decoder.take() else { return Ok(None) };
        match record::read(&mut decoder)? {
            Next::Record(record) => {
                self.check(&record)?;
                self.decoder = Some(decoder);
                Ok(Some(record))
            }
            Next::End(counts) if counts != self.counts => {
                Err(ArchiveError::Damaged("the numbers of its records do not match"))
            }
            Next::End(_) if decoder.read(&mut [0])? != 0 => Err(ArchiveError::Damaged("data follow its end")),
            Next::End(_) => decoder.inner.into_inner().finish().map(|_| None),
        }
    }

    /// Checks the order of records, and counts them.
    fn check(&mut self, record: &Record) -> Result<(), ArchiveError> {
        if record.order() < self.order {
            return Err(ArchiveError::Damaged("its records are not in order"));
        }
        self.order = record.order();
        match record {
            Record::File { .. } => self.counts.files += 1,
            Record::Lease { .. } => self.counts.leases += 1,
            Record::Entry(entry) => {
                if self.last_key.as_ref().is_some_and(|last| *last >= entry.key) {
                    return Err(ArchiveError::Damaged("its keys are not in order"));
                }
                self.last_key = Some(entry.key.clone());
                self.counts.entries += 1;
            }
        }
        Ok(())
    }
}

/// The result of reading an archive to its end.
#[derive(Clone, Debug)]
pub struct Checked {
    pub header: Header,
    pub entries: u64,
}

/// Reads a whole archive and keeps nothing of it.
pub fn verify(from: impl Read, passphrase: Option<&Passphrase>, limit: u64) -> Result<Checked, ArchiveError> {
    let mut archive = Archive::open(from, passphrase, limit)?;
    while archive.next_record()?.is_some() {}
    Ok(Checked { header: archive.header, entries: archive.counts.entries })
}
