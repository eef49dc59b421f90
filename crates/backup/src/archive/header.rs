//! The header of an archive: what can be known of it without its passphrase.

use std::io::{Read, Write};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::ArchiveError;
use crate::passphrase::KeyParameters;

const MAGIC: &[u8; 16] = b"corten backup 1\n";
const MAX_LENGTH: u32 = 4096;
const MAX_TEXT: usize = 128;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Header {
    /// The time of the copy.
    created: String,
    /// The version of Corten that wrote it.
    pub version: String,
    /// The revision that the copy shows.
    pub revision: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) encryption: Option<KeyParameters>,
}

impl Header {
    pub(super) fn new(created: Timestamp, revision: u64, encryption: Option<KeyParameters>) -> Header {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        Header { created: created.to_string(), version, revision, encryption }
    }

    /// The time of the copy.
    pub fn created(&self) -> Timestamp {
        self.created.parse().unwrap_or_default()
    }

    /// True if the archive has a passphrase.
    pub fn is_encrypted(&self) -> bool {
        self.encryption.is_some()
    }

    /// Reads the beginning of an archive. Returns the header and the digest of its bytes.
    pub(super) fn read(from: &mut impl Read) -> Result<(Header, [u8; 32]), ArchiveError> {
        let mut fixed = [0; MAGIC.len() + 4];
        from.read_exact(&mut fixed).map_err(|_| ArchiveError::Magic)?;
        let (magic, length) = fixed.split_at(MAGIC.len());
        let length = length.try_into().map(u32::from_le_bytes).unwrap_or_default();
        if magic != MAGIC {
            return Err(ArchiveError::Magic);
        }
        if length > MAX_LENGTH {
            return Err(ArchiveError::Header("it is too long"));
        }
        let mut text = vec![0; length as usize];
        from.read_exact(&mut text)?;
        let header: Header = serde_json::from_slice(&text)
            .map_err(|_| ArchiveError::Header("it is not as this version writes it"))?;
        header.check()?;
        Ok((header, digest(&fixed, &text)))
    }

    /// The header of a file that begins with these bytes.
    pub fn parse(mut beginning: &[u8]) -> Result<Header, ArchiveError> {
        Header::read(&mut beginning).map(|(header, _)| header)
    }

    /// The bytes that are enough for [`Header::parse`].
    pub const BYTES: usize = MAGIC.len() + 4 + MAX_LENGTH as usize;

    fn check(&self) -> Result<(), ArchiveError> {
        if self.created.parse::<Timestamp>().is_err() {
            return Err(ArchiveError::Header("it has no time"));
        }
        // Shown on terminals.
        if self.version.len() > MAX_TEXT || !self.version.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(ArchiveError::Header("its version is not a version"));
        }
        self.encryption.as_ref().map_or(Ok(()), KeyParameters::check)
    }

    /// Writes the beginning of an archive. Returns the digest of its bytes.
    pub(super) fn write(&self, to: &mut impl Write) -> Result<[u8; 32], ArchiveError> {
        let text = serde_json::to_vec(self).map_err(|_| ArchiveError::Header("it cannot be written"))?;
        let length = u32::try_from(text.len()).unwrap_or(u32::MAX).to_le_bytes();
        let fixed = [&MAGIC[..], &length].concat();
        to.write_all(&fixed)?;
        to.write_all(&text)?;
        Ok(digest(&fixed, &text))
    }
}

fn digest(fixed: &[u8], text: &[u8]) -> [u8; 32] {
    Sha256::new().chain_update(fixed).chain_update(text).finalize().into()
}
