//! The chunks between header and digest: the body in pieces, sealed if there is a key.
//!
//! *Invariant:* bytes of a sealed chunk are returned only after it was opened, and the end only after the last chunk and the
//! digest of the file were verified.

use std::io::{self, BufRead, Read, Write};

use aws_lc_rs::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use sha2::{Digest, Sha256};

use super::ArchiveError;
use crate::passphrase::Key;

/// The size of a chunk's plain bytes; the last one may be shorter.
pub(super) const CHUNK: usize = 64 << 10;
const TAG: usize = 16;
/// The bit of a length that marks the last chunk.
const LAST: u32 = 1 << 31;

/// The key of an archive with the number of the next chunk.
pub(super) struct Sealer {
    key: LessSafeKey,
    header: [u8; 32],
    number: u64,
}

impl Sealer {
    pub(super) fn new(key: &Key, header: [u8; 32]) -> Result<Sealer, ArchiveError> {
        let key = UnboundKey::new(&CHACHA20_POLY1305, &key[..]).map_err(|_| ArchiveError::Unsealed)?;
        Ok(Sealer { key: LessSafeKey::new(key), header, number: 0 })
    }

    /// The nonce of the next chunk, which has the place and the mark of the last chunk in it.
    fn nonce(&mut self, is_last: bool) -> Nonce {
        let mut nonce = [0; NONCE_LEN];
        nonce[..8].copy_from_slice(&self.number.to_be_bytes());
        nonce[NONCE_LEN - 1] = u8::from(is_last);
        self.number += 1;
        Nonce::assume_unique_for_key(nonce)
    }

    fn seal(&mut self, chunk: &mut Vec<u8>, is_last: bool) -> Result<(), ArchiveError> {
        let (nonce, header) = (self.nonce(is_last), self.header);
        let sealed = self.key.seal_in_place_append_tag(nonce, Aad::from(header), chunk);
        sealed.map_err(|_| ArchiveError::Damaged("a chunk cannot be sealed"))
    }

    fn open(&mut self, chunk: &mut Vec<u8>, is_last: bool) -> Result<(), ArchiveError> {
        let (nonce, header) = (self.nonce(is_last), self.header);
        let plain = self.key.open_in_place(nonce, Aad::from(header), chunk);
        let length = plain.map_err(|_| ArchiveError::Unsealed)?.len();
        chunk.truncate(length);
        Ok(())
    }
}

/// Passes bytes on and counts and hashes them.
pub(super) struct Hashing<T> {
    pub(super) inner: T,
    hash: Sha256,
    pub(super) bytes: u64,
}

impl<T> Hashing<T> {
    pub(super) fn new(inner: T) -> Hashing<T> {
        Hashing { inner, hash: Sha256::new(), bytes: 0 }
    }

    fn digest(&self) -> [u8; 32] {
        self.hash.clone().finalize().into()
    }
}

impl<W: Write> Write for Hashing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.hash.update(&bytes[..written]);
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

impl<R: Read> Read for Hashing<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.hash.update(&buffer[..read]);
        self.bytes += read as u64;
        Ok(read)
    }
}

pub(super) struct ChunkWriter<W> {
    to: Hashing<W>,
    sealer: Option<Sealer>,
    chunk: Vec<u8>,
}

impl<W: Write> ChunkWriter<W> {
    pub(super) fn new(to: Hashing<W>, sealer: Option<Sealer>) -> ChunkWriter<W> {
        ChunkWriter { to, sealer, chunk: Vec::with_capacity(CHUNK + TAG) }
    }

    fn put(&mut self, is_last: bool) -> Result<(), ArchiveError> {
        if let Some(sealer) = &mut self.sealer {
            sealer.seal(&mut self.chunk, is_last)?;
        }
        let length = u32::try_from(self.chunk.len()).unwrap_or_default() | if is_last { LAST } else { 0 };
        self.to.write_all(&length.to_le_bytes())?;
        self.to.write_all(&self.chunk)?;
        self.chunk.clear();
        Ok(())
    }

    /// Writes the last chunk and the digest. Returns the writer, the length of the archive and the digest of all of it.
    pub(super) fn finish(mut self) -> Result<(W, u64, [u8; 32]), ArchiveError> {
        self.put(true)?;
        let digest = self.to.digest();
        self.to.write_all(&digest)?;
        self.to.flush()?;
        let whole = self.to.digest();
        Ok((self.to.inner, self.to.bytes, whole))
    }
}

impl<W: Write> Write for ChunkWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // A full chunk waits for more, because the last one is marked.
        if self.chunk.len() == CHUNK {
            self.put(false)?;
        }
        let taken = bytes.len().min(CHUNK - self.chunk.len());
        self.chunk.extend_from_slice(&bytes[..taken]);
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

pub(super) struct ChunkReader<R> {
    from: Hashing<R>,
    sealer: Option<Sealer>,
    chunk: Vec<u8>,
    /// The first unread byte of the chunk.
    at: usize,
    is_last: bool,
}

impl<R: Read> ChunkReader<R> {
    pub(super) fn new(from: Hashing<R>, sealer: Option<Sealer>) -> ChunkReader<R> {
        ChunkReader { from, sealer, chunk: Vec::new(), at: 0, is_last: false }
    }

    fn next(&mut self) -> Result<(), ArchiveError> {
        let mut length = [0; 4];
        self.from.read_exact(&mut length)?;
        let length = u32::from_le_bytes(length);
        self.is_last = length & LAST != 0;
        let length = (length & !LAST) as usize;
        let plain = match &self.sealer {
            Some(_) => length.checked_sub(TAG),
            None => Some(length),
        };
        let is_valid = plain.is_some_and(|plain| plain == CHUNK || self.is_last && plain < CHUNK);
        if !is_valid {
            return Err(ArchiveError::Damaged("a chunk has an invalid length"));
        }
        self.chunk.resize(length, 0);
        self.from.read_exact(&mut self.chunk)?;
        if let Some(sealer) = &mut self.sealer {
            sealer.open(&mut self.chunk, self.is_last)?;
        }
        self.at = 0;
        Ok(())
    }

    /// Verifies that everything was read, the digest, and that nothing follows.
    pub(super) fn finish(mut self) -> Result<u64, ArchiveError> {
        if !self.fill_buf()?.is_empty() {
            return Err(ArchiveError::Damaged("data follow its end"));
        }
        let expected = self.from.digest();
        let mut digest = [0; 32];
        self.from.read_exact(&mut digest)?;
        if digest != expected {
            return Err(ArchiveError::Damaged("its checksum does not match"));
        }
        if self.from.read(&mut [0])? != 0 {
            return Err(ArchiveError::Damaged("data follow its end"));
        }
        Ok(self.from.bytes)
    }
}

impl<R: Read> BufRead for ChunkReader<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        while self.at == self.chunk.len() && !self.is_last {
            self.next()?;
        }
        Ok(&self.chunk[self.at..])
    }

    fn consume(&mut self, amount: usize) {
        self.at = (self.at + amount).min(self.chunk.len());
    }
}

impl<R: Read> Read for ChunkReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let available = self.fill_buf()?;
        let taken = available.len().min(buffer.len());
        buffer[..taken].copy_from_slice(&available[..taken]);
        self.consume(taken);
        Ok(taken)
    }
}
