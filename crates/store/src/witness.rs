//! The witness file: an independent record of the last acknowledged revision.
//!
//! A log ends at the first frame that fails its checksum, as it must after a crash in the middle of a write. Damage to the last
//! acknowledged frames looks the same. So after each commit, and before any acknowledgement, the revision is also written here;
//! opening a store that recovers less than that fails.
//!
//! The exact guarantee: the record is written in place, within one sector of a file synced at its
//! creation, and is not synced again. It is therefore exact when the process dies in any way, and
//! may be up to the kernel's write-back delay behind after a power failure (never ahead, because the
//! commit was synced before). The log itself shows that case except for its very last frame.
//!
//! It also contains the last assigned revision, so that those of failed commits are not reused.

use std::{
    fs::{File, OpenOptions},
    io::{self, ErrorKind, Read},
    os::unix::fs::FileExt,
    path::Path,
};

use corten_base::files;

use crate::{Damage, Error, Revision};

const MAGIC: [u8; 8] = *b"cortenW1";
const LENGTH: usize = 28;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Marks {
    pub(crate) acknowledged: Revision,
    pub(crate) assigned: Revision,
}

pub(crate) struct Witness {
    file: File,
}

impl Witness {
    /// Opens the record; `None` when there is none yet. A file that was never written is empty: the
    /// first write is synced before the store is used.
    pub(crate) fn open(path: &Path) -> Result<(Witness, Result<Option<Marks>, Damage>), Error> {
        let opened = files::open_private(OpenOptions::new().read(true).write(true), path);
        match opened {
            Ok(mut file) => {
                let mut bytes = Vec::new();
                file.read_to_end(&mut bytes).map_err(Error::file(path))?;
                let marks = if bytes.is_empty() { Ok(None) } else { decode(&bytes).map(Some) };
                Ok((Witness { file }, marks))
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let mut options = OpenOptions::new();
                let file = files::open_private(options.read(true).write(true).create_new(true), path);
                Ok((Witness { file: file.map_err(Error::file(path))? }, Ok(None)))
            }
            Err(error) => Err(Error::file(path)(error)),
        }
    }

    pub(crate) fn write(&self, marks: Marks) -> io::Result<()> {
        self.file.write_all_at(&encode(marks), 0)
    }

    pub(crate) fn sync(&self) -> io::Result<()> {
        self.file.sync_all()
    }
}

fn encode(marks: Marks) -> [u8; LENGTH] {
    let mut bytes = [0; LENGTH];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..16].copy_from_slice(&marks.acknowledged.to_le_bytes());
    bytes[16..24].copy_from_slice(&marks.assigned.to_le_bytes());
    let sum = crc32fast::hash(&bytes[..24]);
    bytes[24..].copy_from_slice(&sum.to_le_bytes());
    bytes
}

fn decode(bytes: &[u8]) -> Result<Marks, Damage> {
    let number =
        |at: usize| -> Option<u64> { Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?)) };
    let read = || {
        let marks = Marks { acknowledged: number(8)?, assigned: number(16)? };
        (bytes == encode(marks)).then_some(marks)
    };
    read().ok_or(Damage::Witness)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flipped_bit_is_detected() {
        let marks = Marks { acknowledged: 7, assigned: 9 };
        let bytes = encode(marks);
        assert_eq!(decode(&bytes).unwrap(), marks);
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes;
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(decode(&damaged).is_err(), "bit {bit}");
        }
        assert!(decode(&bytes[..LENGTH - 1]).is_err());
    }
}
