//! Writing an archive, one record at a time.

use std::io::Write;

use flate2::Compression;
use flate2::write::DeflateEncoder;
use jiff::Timestamp;

use super::chunks::{ChunkWriter, Hashing, Sealer};
use super::record::{self, Counts, FileName, Record};
use super::{ArchiveError, Header};
use crate::Passphrase;
use crate::passphrase::KeyParameters;

/// A finished archive.
#[derive(Clone, Copy, Debug)]
pub struct Written {
    pub bytes: u64,
    /// The digest of all bytes.
    pub sha256: [u8; 32],
    pub entries: u64,
}

pub struct Writer<W: Write> {
    encoder: DeflateEncoder<ChunkWriter<W>>,
    counts: Counts,
}

impl<W: Write> Writer<W> {
    /// Begins an archive of a copy at a revision. Deriving a key from the passphrase takes a moment.
    pub fn new(
        to: W,
        created: Timestamp,
        revision: u64,
        passphrase: Option<&Passphrase>,
    ) -> Result<Writer<W>, ArchiveError> {
        let mut to = Hashing::new(to);
        let parameters = passphrase.map(|_| KeyParameters::random()).transpose()?;
        let header = Header::new(created, revision, parameters);
        let digest = header.write(&mut to)?;
        let sealer = match (passphrase, &header.encryption) {
            (Some(passphrase), Some(parameters)) => {
                Some(Sealer::new(&parameters.derive(passphrase)?, digest)?)
            }
            _ => None,
        };
        let encoder = DeflateEncoder::new(ChunkWriter::new(to, sealer), Compression::fast());
        Ok(Writer { encoder, counts: Counts::default() })
    }

    pub fn file(&mut self, name: FileName, content: Vec<u8>) -> Result<(), ArchiveError> {
        self.counts.files += 1;
        Record::File { name, content }.write(&mut self.encoder)
    }

    pub fn lease(&mut self, id: u64, remaining_ms: u64) -> Result<(), ArchiveError> {
        self.counts.leases += 1;
        Record::Lease { id, remaining_ms }.write(&mut self.encoder)
    }

    /// Writes a key and its value; keys must come in order. `lease` is 0 for none.
    pub fn entry(&mut self, key: &str, value: &[u8], lease: u64) -> Result<(), ArchiveError> {
        self.counts.entries += 1;
        record::entry(&mut self.encoder, key, value, lease)
    }

    /// Ends the archive. Returns the writer.
    pub fn finish(mut self) -> Result<(W, Written), ArchiveError> {
        record::end(&mut self.encoder, self.counts)?;
        let (to, bytes, sha256) = self.encoder.finish()?.finish()?;
        Ok((to, Written { bytes, sha256, entries: self.counts.entries }))
    }
}
