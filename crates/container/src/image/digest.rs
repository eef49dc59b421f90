//! Digests: content addresses.

use std::fmt;
use std::io::{self, Read};
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::ImageError;

/// A SHA-256 digest, the only algorithm in use.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest(String);

impl Digest {
    pub fn of(bytes: &[u8]) -> Digest {
        Digest(hexadecimal(&Sha256::digest(bytes)))
    }

    /// The digest without the algorithm.
    pub fn hex(&self) -> &str {
        &self.0
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    use fmt::Write;
    let mut text = String::with_capacity(64);
    for byte in bytes {
        // Cannot fail: the target is a string.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

impl FromStr for Digest {
    type Err = ImageError;

    fn from_str(text: &str) -> Result<Digest, ImageError> {
        let hex = text.strip_prefix("sha256:").filter(|hex| {
            hex.len() == 64 && hex.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        });
        hex.map(|hex| Digest(hex.to_owned())).ok_or_else(|| ImageError::InvalidDigest(text.to_owned()))
    }
}

impl TryFrom<String> for Digest {
    type Error = ImageError;

    fn try_from(text: String) -> Result<Digest, ImageError> {
        text.parse()
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> String {
        digest.to_string()
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", self.0)
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A reader or writer that computes the digest of the bytes that pass through.
pub(crate) struct Verified<T> {
    inner: T,
    hash: Sha256,
    bytes: u64,
}

impl<T> Verified<T> {
    pub(crate) fn new(inner: T) -> Verified<T> {
        Verified { inner, hash: Sha256::new(), bytes: 0 }
    }

    pub(crate) fn get_ref(&self) -> &T {
        &self.inner
    }

    /// The digest and the size of the bytes that passed.
    pub(crate) fn finish(self) -> (Digest, u64) {
        (Digest(hexadecimal(&self.hash.finalize())), self.bytes)
    }
}

impl<T: Read> Read for Verified<T> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.hash.update(&buffer[..read]);
        self.bytes += read as u64;
        Ok(read)
    }
}

impl<T: io::Write> io::Write for Verified<T> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(buffer)?;
        self.hash.update(&buffer[..written]);
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}
