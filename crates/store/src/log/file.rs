//! One file of frames: a log that still grows, or a file that is complete.
//!
//! Only frames that were announced as written are read, and every read verifies them. A coarse index, which is built on
//! demand, finds the frame of a revision.

use std::{
    hash::{BuildHasher, RandomState},
    io,
    ops::Range,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use parking_lot::Mutex;

use super::frame::{self, ALIGNMENT, Frame, HEAD, Head, Place};
use crate::{
    Damage, Error, Revision,
    disk::{Disk, DiskFile, Open},
};

const MAGIC: [u8; 8] = *b"cortenL1";
/// The length of the file header before the first frame.
pub(super) const START: u64 = 32;
/// The unit of direct writes: the page size of common machines, or more.
pub(super) const PAGE: u64 = 4 << 10;
/// The distance between index entries.
const STRIDE: u64 = 32 << 10;
/// The bytes that are read at a time while searching for a frame.
const CHUNK: usize = 64 << 10;

pub(super) struct LogFile {
    pub(super) name: Arc<str>,
    path: PathBuf,
    file: Box<dyn DiskFile>,
    /// Its base revision: a log contains the writes after it, a snapshot the entries that were live at it.
    pub(super) base: Revision,
    /// The file's random number, which is part of every checksum.
    number: u64,
    /// The end of the frames that are on disk.
    end: AtomicU64,
    index: Mutex<Index>,
}

/// Offsets of frames with the revision before them, in order, as far as reads have scanned the file.
#[derive(Default)]
struct Index {
    points: Vec<(Revision, u64)>,
}

/// A buffer for frames.
#[derive(Default)]
pub(super) struct Buffer(Vec<u8>);

impl LogFile {
    /// Creates a file without frames, under a temporary name; its header is on disk.
    pub(super) fn create(disk: &dyn Disk, path: &Path, name: &str, base: Revision) -> Result<LogFile, Error> {
        let file = disk.open(path, Open::Empty).map_err(Error::disk(path))?;
        LogFile::begin(file, path, name, base)
    }

    /// The same, in an existing file without frames.
    pub(super) fn begin(
        file: Box<dyn DiskFile>,
        path: &Path,
        name: &str,
        base: Revision,
    ) -> Result<LogFile, Error> {
        let number = RandomState::new().hash_one(base);
        file.write_all_at(&start(base, number), 0).map_err(Error::disk(path))?;
        file.sync_data().map_err(Error::disk(path))?;
        Ok(LogFile::new(path, name, file, base, number, START))
    }

    /// Opens an existing file and reads only its header.
    pub(super) fn open(disk: &dyn Disk, path: &Path, name: &str) -> Result<LogFile, Error> {
        let file = disk.open(path, Open::Existing).map_err(Error::file(path))?;
        let mut bytes = [0; START as usize];
        let length = file.size().map_err(Error::file(path))?;
        let damaged = || Error::from(Damage::Log { file: name.into(), at: 0 });
        if length < START {
            return Err(damaged());
        }
        file.read_exact_at(&mut bytes, 0).map_err(Error::file(path))?;
        let word = |at: usize| bytes.get(at..at + 8).and_then(|b| b.try_into().ok()).map(u64::from_le_bytes);
        let (Some(base), Some(number)) = (word(8), word(16)) else { return Err(damaged()) };
        if bytes != start(base, number) {
            return Err(damaged());
        }
        Ok(LogFile::new(path, name, file, base, number, length))
    }

    fn new(
        path: &Path,
        name: &str,
        file: Box<dyn DiskFile>,
        base: Revision,
        number: u64,
        end: u64,
    ) -> LogFile {
        let (end, index) = (AtomicU64::new(end), Mutex::default());
        LogFile { name: name.into(), path: path.into(), file, base, number, end, index }
    }

    /// Gives the file its final name.
    pub(super) fn rename(&mut self, disk: &dyn Disk, path: PathBuf) -> Result<(), Error> {
        disk.rename(&self.path, &path).map_err(Error::disk(&self.path))?;
        self.path = path;
        Ok(())
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn end(&self) -> u64 {
        self.end.load(Ordering::Acquire)
    }

    pub(super) fn place(&self, at: u64) -> Place {
        Place { file: self.number, at }
    }

    /// Writes at an offset. The caller guarantees that no other thread writes there.
    pub(super) fn write(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        self.file.write_all_at(bytes, at)
    }

    /// Fills a range behind all frames with zeros, so that a later sync of frames written there has no other blocks or
    /// metadata to write.
    pub(super) fn prepare(&self, part: Range<u64>) -> io::Result<()> {
        let zeros = [0; 64 << 10];
        for at in part.clone().step_by(zeros.len()) {
            let length = zeros.len().min(usize::try_from(part.end - at).unwrap_or(usize::MAX));
            self.file.write_all_at(&zeros[..length], at)?;
        }
        Ok(())
    }

    pub(super) fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    /// Syncs frames that a commit depends on: an error is final.
    pub(super) fn sync_frames(&self) -> Result<(), Error> {
        self.file.sync_data().map_err(Error::sync(&self.path))
    }

    /// Writes a frame again, for the next sync.
    pub(super) fn rewrite(&self, part: Range<u64>) -> Result<(), Error> {
        let mut bytes = vec![0; usize::try_from(part.end - part.start).unwrap_or(0)];
        self.file.read_exact_at(&mut bytes, part.start).map_err(Error::file(&self.path))?;
        self.file.write_all_at(&bytes, part.start).map_err(Error::disk(&self.path))
    }

    /// Allows reads of frames up to this offset.
    pub(super) fn announce(&self, end: u64) {
        self.end.store(end, Ordering::Release);
    }

    /// Truncates the file.
    pub(super) fn cut(&self, end: u64) -> Result<(), Error> {
        self.file.set_size(end).map_err(Error::disk(&self.path))?;
        self.announce(end);
        self.file.sync_all().map_err(Error::sync(&self.path))
    }

    /// The frame at an offset, if there is a valid one.
    pub(super) fn frame<'a>(&self, at: u64, buffer: &'a mut Buffer) -> Result<Option<Frame<'a>>, Error> {
        let Some(head) = self.head(at)? else { return Ok(None) };
        buffer.0.resize(head.length(), 0);
        self.file.read_exact_at(&mut buffer.0, at + HEAD as u64).map_err(Error::file(&self.path))?;
        let verified = head.verifies(self.place(at), &buffer.0);
        Ok(verified.then_some(Frame { head, records: &buffer.0 }))
    }

    /// The frame at an offset, where a missing one is damage.
    pub(super) fn expect_frame<'a>(&self, at: u64, buffer: &'a mut Buffer) -> Result<Frame<'a>, Error> {
        let damage = Damage::Log { file: self.name.to_string(), at };
        self.frame(at, buffer)?.ok_or_else(|| damage.into())
    }

    /// The head of a frame at an offset, if it lies within the file.
    fn head(&self, at: u64) -> Result<Option<Head>, Error> {
        if at + HEAD as u64 > self.end() {
            return Ok(None);
        }
        let mut bytes = [0; HEAD];
        self.file.read_exact_at(&mut bytes, at).map_err(Error::file(&self.path))?;
        let head = Head::decode(&bytes, self.place(at));
        Ok(head.filter(|head| at + (HEAD + head.length()) as u64 <= self.end()))
    }

    /// The offset of the first valid frame behind an invalid one.
    pub(super) fn frame_behind(&self, at: u64, buffer: &mut Buffer) -> Result<Option<u64>, Error> {
        let (mut at, end) = (at + ALIGNMENT, self.end());
        let mut chunk = vec![0; CHUNK];
        while at < end {
            let length = CHUNK.min(usize::try_from(end - at).unwrap_or(CHUNK));
            self.file.read_exact_at(&mut chunk[..length], at).map_err(Error::file(&self.path))?;
            let starts = chunk[..length].chunks(ALIGNMENT as usize).enumerate();
            for (index, _) in starts.filter(|(_, bytes)| bytes.starts_with(&frame::MAGIC)) {
                let at = at + index as u64 * ALIGNMENT;
                if self.frame(at, buffer)?.is_some() {
                    return Ok(Some(at));
                }
            }
            at += length as u64;
        }
        Ok(None)
    }

    /// The offset of the frame with the first write after `revision`, or the end.
    pub(super) fn frame_after(&self, revision: Revision) -> Result<u64, Error> {
        let mut index = self.index.lock();
        let known = index.points.partition_point(|(before, _)| *before <= revision);
        let mut at = index.points[..known].last().map_or(START, |(_, at)| *at);
        while at < self.end() {
            let damage = Damage::Log { file: self.name.to_string(), at };
            let head = self.head(at)?.ok_or(damage)?;
            if head.last > revision {
                break;
            }
            at = head.end(at);
            if index.points.last().is_none_or(|(_, last)| *last + STRIDE <= at) {
                index.points.push((head.last, at));
            }
        }
        Ok(at)
    }
}

fn start(base: Revision, number: u64) -> [u8; START as usize] {
    let mut bytes = [0; START as usize];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..16].copy_from_slice(&base.to_le_bytes());
    bytes[16..24].copy_from_slice(&number.to_le_bytes());
    let sum = crc32fast::hash(&bytes[..24]);
    bytes[24..28].copy_from_slice(&sum.to_le_bytes());
    bytes
}
