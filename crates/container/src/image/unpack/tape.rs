//! Reads untrusted archives, front to back, in bounded memory.
//!
//! Sizes that a header claims are compared with a limit before they are used: long names and extended headers have a
//! maximum size, headers are counted, and a sparse file's map has a maximum length. Headers are interpreted as Go's
//! `archive/tar` does, so that an image is the same here as with other runtimes: entries without content have none,
//! whatever size they claim.

use std::io::{self, Read};

use tar::{EntryType, GnuExtSparseHeader, GnuSparseHeader, Header};

use super::malformed;

const BLOCK: usize = 512;
/// Maximum size of an extended header or a long name, as in Go.
const LONGEST_SPECIAL: u64 = 1 << 20;
/// Maximum length of a path, as in the kernel.
const LONGEST_PATH: usize = 4096;
/// Maximum number of parts of a sparse file that hold data.
const MOST_PARTS: usize = 16 << 10;

/// An archive.
pub(in crate::image) struct Archive<R> {
    from: R,
    /// Bytes before the next header: the rest of the content, and the padding of its last block.
    content: u64,
    padding: u64,
    headers: u64,
    most_headers: u64,
}

/// An entry: a file, folder, link or device.
#[derive(Debug)]
pub(in crate::image) struct Entry {
    pub(in crate::image) kind: EntryType,
    pub(in crate::image) path: Vec<u8>,
    pub(in crate::image) link: Option<Vec<u8>>,
    pub(in crate::image) mode: u32,
    pub(in crate::image) owner: (u64, u64),
    pub(in crate::image) modified: u64,
    pub(in crate::image) device: (u32, u32),
    /// Extended attributes.
    pub(in crate::image) attributes: Vec<(String, Vec<u8>)>,
    pub(in crate::image) sparse: Option<Sparse>,
}

/// The places of a sparse file's content; the rest are holes.
#[derive(Debug)]
pub(in crate::image) struct Sparse {
    /// Offsets and lengths, in order.
    pub(in crate::image) parts: Vec<(u64, u64)>,
    pub(in crate::image) size: u64,
}

/// Headers before an entry's own that apply to it.
#[derive(Default)]
struct Before {
    long_path: Option<Vec<u8>>,
    long_link: Option<Vec<u8>>,
    path: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
    size: Option<u64>,
    owner: (Option<u64>, Option<u64>),
    attributes: Vec<(String, Vec<u8>)>,
}

impl<R: Read> Archive<R> {
    pub(in crate::image) fn new(from: R, most_headers: u64) -> Archive<R> {
        Archive { from, content: 0, padding: 0, headers: 0, most_headers }
    }

    /// The next entry; unread content of the last one is skipped.
    pub(in crate::image) fn next(&mut self) -> io::Result<Option<Entry>> {
        let mut before = Before::default();
        loop {
            self.skip()?;
            let Some(header) = self.header()? else { return Ok(None) };
            let size = field(&header.as_old().size, header.entry_size())?;
            match header.entry_type() {
                EntryType::GNULongName => before.long_path = Some(text(self.special(size)?)),
                EntryType::GNULongLink => before.long_link = Some(text(self.special(size)?)),
                // As with Go, the last of several applies; together they could be of any size.
                EntryType::XHeader => {
                    let Before { long_path, long_link, .. } = before;
                    before = Before { long_path, long_link, ..Before::default() };
                    before.extend(&self.special(size)?)?;
                }
                // Comments on all entries that follow.
                EntryType::XGlobalHeader => self.expect(size)?,
                _ => return self.entry(&header, before).map(Some),
            }
        }
    }

    /// The content of the last entry.
    pub(in crate::image) fn content(&mut self) -> impl Read {
        Content(self)
    }

    /// The bytes after the end of the archive.
    pub(in crate::image) fn into_inner(self) -> R {
        self.from
    }

    fn entry(&mut self, header: &Header, before: Before) -> io::Result<Entry> {
        let path = before.path.or(before.long_path).unwrap_or_else(|| header.path_bytes().into_owned());
        let link = before.link.or(before.long_link);
        let link = link.or_else(|| header.link_name_bytes().map(std::borrow::Cow::into_owned));
        for text in [Some(&path), link.as_ref()].into_iter().flatten() {
            if text.len() > LONGEST_PATH || text.contains(&0) {
                return Err(malformed("a path that cannot be"));
            }
        }
        let kind = kind_of(header, &path);
        let has_content = !matches!(
            kind,
            EntryType::Link
                | EntryType::Symlink
                | EntryType::Char
                | EntryType::Block
                | EntryType::Directory
                | EntryType::Fifo
        );
        let size = before.size.map_or_else(|| field(&header.as_old().size, header.entry_size()), Ok)?;
        let sparse = match kind {
            EntryType::GNUSparse => Some(self.sparse(header, size)?),
            _ => None,
        };
        self.expect(if has_content { size } else { 0 })?;
        let old = header.as_old();
        let uid = before.owner.0.map_or_else(|| field(&old.uid, header.uid()), Ok)?;
        let gid = before.owner.1.map_or_else(|| field(&old.gid, header.gid()), Ok)?;
        let device = match kind {
            EntryType::Char | EntryType::Block => {
                (header.device_major()?.unwrap_or_default(), header.device_minor()?.unwrap_or_default())
            }
            _ => (0, 0),
        };
        Ok(Entry {
            kind,
            path,
            link,
            mode: field(&old.mode, header.mode())?,
            owner: (uid, gid),
            modified: field(&old.mtime, header.mtime())?,
            device,
            attributes: before.attributes,
            sparse,
        })
    }

    /// The next header; `None` at the end.
    fn header(&mut self) -> io::Result<Option<Header>> {
        let mut header = Header::new_old();
        if !self.block(header.as_mut_bytes())? || header.as_bytes().iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        self.headers += 1;
        if self.headers > self.most_headers {
            return Err(malformed("more entries than are allowed"));
        }
        let bytes = header.as_bytes();
        // The checksum's own place counts as spaces.
        let around = bytes[..148].iter().chain(&bytes[156..]);
        let sum = around.map(|byte| u32::from(*byte)).sum::<u32>() + 8 * u32::from(b' ');
        if header.cksum()? != sum {
            return Err(malformed("a header that is damaged"));
        }
        Ok(Some(header))
    }

    /// Fills a block; `false` if there is none.
    fn block(&mut self, block: &mut [u8]) -> io::Result<bool> {
        let mut filled = 0;
        while filled < block.len() {
            match self.from.read(&mut block[filled..]) {
                Ok(0) if filled == 0 => return Ok(false),
                Ok(0) => return Err(malformed("no end")),
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// The content of a header that applies to the next one, as a whole.
    fn special(&mut self, size: u64) -> io::Result<Vec<u8>> {
        if size > LONGEST_SPECIAL {
            return Err(malformed("an extended header that is too large"));
        }
        self.expect(size)?;
        let mut bytes = Vec::new();
        self.content().read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn expect(&mut self, size: u64) -> io::Result<()> {
        let filled =
            size.checked_next_multiple_of(BLOCK as u64).ok_or_else(|| malformed("an endless file"))?;
        (self.content, self.padding) = (size, filled - size);
        Ok(())
    }

    fn skip(&mut self) -> io::Result<()> {
        let length = self.content + self.padding;
        let skipped = io::copy(&mut (&mut self.from).take(length), &mut io::sink())?;
        // Some archives end without filling their last block.
        if skipped < self.content {
            return Err(malformed("no end"));
        }
        (self.content, self.padding) = (0, 0);
        Ok(())
    }

    /// The map of a sparse file, which may continue after its header.
    fn sparse(&mut self, header: &Header, stored: u64) -> io::Result<Sparse> {
        let header = header.as_gnu().ok_or_else(|| malformed("a sparse file of another kind"))?;
        let mut sparse = Sparse { parts: Vec::new(), size: header.real_size()? };
        sparse.add(&header.sparse)?;
        let mut extended = header.is_extended();
        while extended {
            let mut more = GnuExtSparseHeader::new();
            if !self.block(more.as_mut_bytes())? {
                return Err(malformed("no end"));
            }
            sparse.add(&more.sparse)?;
            extended = more.is_extended();
        }
        let held: u64 = sparse.parts.iter().map(|(_, length)| length).sum();
        if held != stored {
            return Err(malformed("a sparse file of another size"));
        }
        Ok(sparse)
    }
}

impl Sparse {
    fn add(&mut self, parts: &[GnuSparseHeader]) -> io::Result<()> {
        for part in parts.iter().filter(|part| !part.is_empty()) {
            let (at, length) = (part.offset()?, part.length()?);
            let before = self.parts.last().map_or(0, |(at, length)| at + length);
            let end = at.checked_add(length).filter(|end| *end <= self.size && at >= before);
            if end.is_none() || self.parts.len() >= MOST_PARTS {
                return Err(malformed("a sparse file that cannot be"));
            }
            self.parts.push((at, length));
        }
        Ok(())
    }
}

impl Before {
    /// Applies an extended header: lines of a length, a key and a value.
    fn extend(&mut self, mut records: &[u8]) -> io::Result<()> {
        let bad = || malformed("an extended header that makes no sense");
        while !records.is_empty() {
            let space = records.iter().take(20).position(|byte| *byte == b' ').ok_or_else(bad)?;
            let length: usize = number(&records[..space]).ok_or_else(bad)?;
            let record = records.get(space + 1..length).ok_or_else(bad)?;
            let record = record.strip_suffix(b"\n").ok_or_else(bad)?;
            let equals = record.iter().position(|byte| *byte == b'=').ok_or_else(bad)?;
            let (key, value) = (&record[..equals], &record[equals + 1..]);
            self.set(std::str::from_utf8(key).map_err(|_| bad())?, value).ok_or_else(bad)?;
            records = &records[length..];
        }
        Ok(())
    }

    fn set(&mut self, key: &str, value: &[u8]) -> Option<()> {
        match key {
            "path" => self.path = Some(value.to_owned()),
            "linkpath" => self.link = Some(value.to_owned()),
            "size" => self.size = Some(number(value)?),
            "uid" => self.owner.0 = Some(number(value)?),
            "gid" => self.owner.1 = Some(number(value)?),
            // Sparse files of another format, whose content would be misread.
            key if key.starts_with("GNU.sparse.") => return None,
            key => {
                if let Some(name) = key.strip_prefix("SCHILY.xattr.") {
                    self.attributes.push((name.to_owned(), value.to_owned()));
                }
            }
        }
        Some(())
    }
}

/// Reads to the end of an entry's content.
struct Content<'a, R>(&'a mut Archive<R>);

impl<R: Read> Read for Content<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let archive = &mut *self.0;
        if archive.content == 0 || buffer.is_empty() {
            return Ok(0);
        }
        let most = usize::try_from(archive.content).unwrap_or(usize::MAX).min(buffer.len());
        let read = archive.from.read(&mut buffer[..most])?;
        if read == 0 {
            return Err(malformed("no end"));
        }
        archive.content -= read as u64;
        Ok(read)
    }
}

/// An empty number is zero.
fn field<T: Default>(written: &[u8], number: io::Result<T>) -> io::Result<T> {
    if written.iter().all(|byte| matches!(byte, 0 | b' ')) { Ok(T::default()) } else { number }
}

/// In the oldest archives a folder is a file whose name ends in a slash.
fn kind_of(header: &Header, path: &[u8]) -> EntryType {
    let is_old = header.as_old().linkflag == [0];
    if is_old && path.ends_with(b"/") { EntryType::Directory } else { header.entry_type() }
}

/// The bytes before the first NUL.
fn text(mut bytes: Vec<u8>) -> Vec<u8> {
    if let Some(end) = bytes.iter().position(|byte| *byte == 0) {
        bytes.truncate(end);
    }
    bytes
}

fn number<T: std::str::FromStr>(digits: &[u8]) -> Option<T> {
    let digits = std::str::from_utf8(digits).ok().filter(|text| text.bytes().all(|b| b.is_ascii_digit()))?;
    digits.parse().ok()
}

#[cfg(test)]
mod tests;
