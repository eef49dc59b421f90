//! The archive: one file that has all of a cluster.
//!
//! ```text
//! archive  = magic, length, header (JSON), chunk…, SHA-256 of everything before it
//! chunk    = length and the mark of the last one, at most 64 KiB of the body, sealed if there is a passphrase
//! body     = deflate(record…)
//! record   = file | lease | entry, in this order, and an end with their numbers
//! ```
//!
//! The header says when and by which version the archive was written, up to which revision, and how the key is derived. With a
//! passphrase, each chunk is sealed by ChaCha20-Poly1305 with its number and the mark of the last one as the nonce and the
//! digest of the header as associated data, so that chunks can be neither changed nor dropped, repeated or exchanged.
//!
//! Invariants: a reader returns the last record only after the digest of the whole file and all numbers were verified, and
//! after it nothing may follow. It holds one record and one chunk at a time; every length has a limit that is checked before
//! memory is taken, and memory grows only as data arrive.

mod chunks;
mod header;
mod read;
mod record;
mod write;

use std::io;

pub use header::Header;
pub use read::{Archive, Checked, verify};
pub use record::{Entry, FileName, Record};
pub use write::{Writer, Written};

/// An archive that cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    #[error("it is not a backup of Corten")]
    Magic,
    #[error("its header is invalid: {0}")]
    Header(&'static str),
    #[error("it is encrypted; give its passphrase with --passphrase-file")]
    PassphraseNeeded,
    #[error("it is not encrypted, although a passphrase was given")]
    NotEncrypted,
    #[error("the passphrase is wrong, or the archive is damaged")]
    Unsealed,
    #[error("it is damaged: {0}")]
    Damaged(&'static str),
    #[error("its contents are larger than {0} bytes; raise --max-size if it is one of yours")]
    TooLarge(u64),
    #[error("no random numbers")]
    Random,
    #[error("cannot read or write it")]
    Io(#[source] io::Error),
}

impl From<io::Error> for ArchiveError {
    /// The error that a layer below passed through an [`io::Error`].
    fn from(error: io::Error) -> ArchiveError {
        match error.downcast::<ArchiveError>() {
            Ok(error) => error,
            Err(error) => match error.kind() {
                io::ErrorKind::UnexpectedEof => ArchiveError::Damaged("it is truncated"),
                // The decoder of deflate.
                io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData => {
                    ArchiveError::Damaged("its compressed data are invalid")
                }
                _ => ArchiveError::Io(error),
            },
        }
    }
}

impl From<ArchiveError> for io::Error {
    fn from(error: ArchiveError) -> io::Error {
        io::Error::other(error)
    }
}

/// An archive whose body is these bytes, for tests of the decoder.
pub(crate) fn with_body(body: &[u8]) -> Result<Vec<u8>, ArchiveError> {
    let mut to = chunks::Hashing::new(Vec::new());
    Header::new(jiff::Timestamp::UNIX_EPOCH, 1, None).write(&mut to)?;
    let chunks = chunks::ChunkWriter::new(to, None);
    let mut encoder = flate2::write::DeflateEncoder::new(chunks, flate2::Compression::fast());
    io::Write::write_all(&mut encoder, body)?;
    encoder.finish()?.finish().map(|(archive, _, _)| archive)
}

#[cfg(test)]
mod tests;
