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

use std::{io, path::Path};

use crate::{
    Damage, Error, Revision,
    disk::{Disk, DiskFile, Open},
};

const MAGIC: [u8; 8] = *b"cortenW1";
const LENGTH: usize = 28;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Marks {
    pub(crate) acknowledged: Revision,
    pub(crate) assigned: Revision,
}

pub(crate) struct Witness {
    file: Box<dyn DiskFile>,
}

impl Witness {
    /// The marks of an existing record; `None` if there is none yet.
    pub(crate) fn read(disk: &dyn Disk, path: &Path) -> Result<Result<Option<Marks>, Damage>, Error> {
        if !disk.exists(path).map_err(Error::file(path))? {
            return Ok(Ok(None));
        }
        let file = disk.open(path, Open::Existing).map_err(Error::file(path))?;
        let size = file.size().map_err(Error::file(path))?;
        let mut bytes = vec![0; usize::try_from(size.min(LENGTH as u64 + 1)).unwrap_or(0)];
        file.read_exact_at(&mut bytes, 0).map_err(Error::file(path))?;
        // The first versions created it without contents.
        Ok(if bytes.is_empty() { Ok(None) } else { decode(&bytes).map(Some) })
    }

    /// Writes a record and syncs it. A new one gets its name only then, because its size may be on disk before its bytes; the
    /// caller syncs the directory.
    pub(crate) fn create(disk: &dyn Disk, path: &Path, marks: Marks) -> Result<Witness, Error> {
        let unfinished = path.with_extension("tmp");
        let exists = disk.exists(path).map_err(Error::file(path))?;
        let (at, open) = if exists { (path, Open::Existing) } else { (&*unfinished, Open::Empty) };
        let witness = Witness { file: disk.open(at, open).map_err(Error::disk(at))? };
        witness.write(marks).map_err(Error::disk(at))?;
        witness.sync().map_err(Error::sync(at))?;
        if !exists {
            disk.rename(at, path).map_err(Error::disk(at))?;
        }
        Ok(witness)
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
