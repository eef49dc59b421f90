//! Layers: archives of changes, converted to what overlayfs stacks.
//!
//! A layer is unpacked beside those below it, not on top of them: a deletion becomes a whiteout of overlayfs, and a
//! folder that the archive does not mention gets the mode of the one below. Archives are not trusted: nothing is
//! written, read or followed outside the layer's own folder and those below, and no device of the node is ever opened.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, Dev, FileType, Mode, OFlags, ResolveFlags, Timespec, Timestamps, XattrFlags};
use tar::EntryType;

use super::limits::{Budget, Limits};
use tape::Entry;
use tree::{Tree, attributes};

mod tape;
mod tree;

pub(super) use tape::Archive;

/// The compression of a stream, by its first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    None,
    Gzip,
    Zstd,
}

impl Compression {
    /// Detects the compression from the first four bytes.
    pub fn of(head: &[u8]) -> Compression {
        match head {
            [0x1f, 0x8b, ..] => Compression::Gzip,
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Compression::Zstd,
            _ => Compression::None,
        }
    }
}

/// The longest header of a zstd frame.
const ZSTD_HEADER: usize = 18;

/// The decompressed stream, whatever its compression.
pub(super) fn decompressed<'a>(
    mut from: impl Read + Send + 'a,
    limits: &Limits,
) -> io::Result<Box<dyn Read + Send + 'a>> {
    let mut head = Vec::with_capacity(ZSTD_HEADER);
    from.by_ref().take(ZSTD_HEADER as u64).read_to_end(&mut head)?;
    let compression = Compression::of(&head);
    if compression == Compression::Zstd
        && zstd_window(&head).is_none_or(|window| window > limits.window_bytes)
    {
        return Err(malformed("a zstd frame that needs more memory than is allowed"));
    }
    let whole = io::Cursor::new(head).chain(from);
    Ok(match compression {
        Compression::None => Box::new(whole),
        Compression::Gzip => Box::new(flate2::read::MultiGzDecoder::new(io::BufReader::new(whole))),
        Compression::Zstd => Box::new(
            ruzstd::decoding::StreamingDecoder::new(io::BufReader::new(whole)).map_err(io::Error::other)?,
        ),
    })
}

/// The bytes that a zstd decoder has to keep, by the header of a frame: its window, or all of its content. The decoder
/// allocates as many and does not limit them itself.
fn zstd_window(header: &[u8]) -> Option<u64> {
    let descriptor = *header.get(4)?;
    let is_single_segment = descriptor & 0x20 != 0;
    if !is_single_segment {
        let window = *header.get(5)?;
        let base = 1_u64 << (10 + (window >> 3));
        return Some(base + base / 8 * u64::from(window & 7));
    }
    let at = 5 + [0, 1, 2, 4][usize::from(descriptor & 3)];
    let length = 1 << (descriptor >> 6);
    let mut content = [0; 8];
    content[..length].copy_from_slice(header.get(at..at + length)?);
    let size = u64::from_le_bytes(content);
    // A size of two bytes begins where that of one ends.
    Some(if length == 2 { size + 256 } else { size })
}

/// Unpacks a layer into an empty folder; `below` are the layers under it, the topmost first.
pub(super) fn apply(
    archive: impl Read,
    into: &Path,
    below: &[PathBuf],
    limits: &Limits,
    budget: Arc<Budget>,
) -> io::Result<()> {
    let mut tree = Tree::open(into, below, budget)?;
    let mut archive = Archive::new(archive, limits.entries);
    let mut folder_times = FolderTimes::default();
    while let Some(entry) = archive.next()? {
        let path = PathBuf::from(OsString::from_vec(entry.path.clone()));
        let unpacked = apply_entry(&mut tree, &mut archive, &entry, &path, &mut folder_times);
        unpacked.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))?;
    }
    // Last, because every file in a folder changes its time.
    for (path, seconds) in folder_times.of.iter().rev() {
        tree.set_folder_time(path, *seconds)?;
    }
    // Readers of archives stop at the end mark; the digest covers what follows it too.
    io::copy(&mut archive.into_inner(), &mut io::sink()).map(|_| ())
}

/// The modification times of folders; beyond a number that no real layer reaches they are not kept.
#[derive(Default)]
struct FolderTimes {
    of: Vec<(PathBuf, u64)>,
    bytes: usize,
}

impl FolderTimes {
    const MOST_BYTES: usize = 64 << 20;

    fn remember(&mut self, path: &Path, seconds: u64) {
        let bytes = path.as_os_str().len() + size_of::<(PathBuf, u64)>();
        if self.bytes + bytes <= FolderTimes::MOST_BYTES {
            self.bytes += bytes;
            self.of.push((path.to_owned(), seconds));
        }
    }
}

fn apply_entry(
    tree: &mut Tree,
    archive: &mut Archive<impl Read>,
    entry: &Entry,
    path: &Path,
    folder_times: &mut FolderTimes,
) -> io::Result<()> {
    let kind = entry.kind;
    let Some((folder, name)) = split(path)? else {
        return if kind == EntryType::Directory {
            decorate(entry, tree.root(), OsStr::new("."))
        } else {
            Ok(())
        };
    };
    let parent = tree.folder(&folder)?;
    if let Some(hidden) = name.as_bytes().strip_prefix(b".wh.") {
        return match hidden {
            b".wh..opq" => {
                rustix::fs::fsetxattr(&parent, OPAQUE, b"y", XattrFlags::empty()).map_err(Into::into)
            }
            b"" | b"." | b".." => Err(malformed("a deletion of nothing")),
            hidden => tree.hide(&parent, OsStr::from_bytes(hidden)),
        };
    }
    match kind {
        EntryType::Directory => {
            tree.make_folder(&parent, &name)?;
            folder_times.remember(&folder.join(&name), entry.modified);
        }
        EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => {
            tree.clear(&parent, &name)?;
            let file = tree::new_file(&parent, &name)?;
            write_content(archive, entry, file)?;
        }
        EntryType::Symlink => {
            tree.clear(&parent, &name)?;
            let target = entry.link.as_deref().ok_or_else(|| malformed("a link to nowhere"))?;
            rustix::fs::symlinkat(OsStr::from_bytes(target), &parent, name.as_os_str())?;
        }
        EntryType::Link => {
            let target = entry.link.clone().ok_or_else(|| malformed("a link to nowhere"))?;
            let target = PathBuf::from(OsString::from_vec(target));
            let (folder, target) = split(&target)?.ok_or_else(|| malformed("a link to the root"))?;
            return tree.link(&folder, &target, &parent, &name);
        }
        EntryType::Char | EntryType::Block | EntryType::Fifo => {
            tree.clear(&parent, &name)?;
            let kind = match kind {
                EntryType::Char => FileType::CharacterDevice,
                EntryType::Block => FileType::BlockDevice,
                _ => FileType::Fifo,
            };
            let device = rustix::fs::makedev(entry.device.0, entry.device.1);
            rustix::fs::mknodat(&parent, name.as_os_str(), kind, Mode::empty(), device)?;
        }
        // Comments and the like.
        _ => return Ok(()),
    }
    decorate(entry, &parent, &name)
}

/// Writes a file's content; holes stay holes.
fn write_content(archive: &mut Archive<impl Read>, entry: &Entry, mut file: File) -> io::Result<()> {
    let Some(sparse) = &entry.sparse else { return io::copy(&mut archive.content(), &mut file).map(|_| ()) };
    let mut content = archive.content();
    for (at, length) in &sparse.parts {
        file.seek(SeekFrom::Start(*at))?;
        io::copy(&mut (&mut content).take(*length), &mut file)?;
    }
    file.set_len(sparse.size)
}

/// Sets owner, mode, extended attributes and time, in this order: each may undo those before.
fn decorate(entry: &Entry, folder: &impl AsFd, name: &OsStr) -> io::Result<()> {
    let owner = (number(entry.owner.0)?, number(entry.owner.1)?);
    let is_link = entry.kind == EntryType::Symlink;
    let mode = Mode::from_raw_mode(entry.mode & 0o7777);
    attributes(folder, name, owner, (!is_link).then_some(mode))?;
    for (key, value) in &entry.attributes {
        // Attributes of overlayfs are not the image's to set.
        if !is_link && !key.starts_with("trusted.overlay.") {
            set_extended(folder, name, key, value)?;
        }
    }
    if entry.kind == EntryType::Directory { Ok(()) } else { set_time(folder, name, entry.modified) }
}

fn number(id: u64) -> io::Result<u32> {
    u32::try_from(id).map_err(|_| malformed("an owner that cannot be"))
}

/// By name and without following a link: nothing is opened, because opening a device may have an effect.
fn set_extended(folder: &impl AsFd, name: &OsStr, key: &str, value: &[u8]) -> io::Result<()> {
    match rustix::fs::lsetxattr(path_of(folder).join(name), key, value, XattrFlags::empty()) {
        // File systems need not have every attribute; images rarely depend on them.
        Err(rustix::io::Errno::NOTSUP) => Ok(()),
        other => other.map_err(Into::into),
    }
}

/// A path of an open folder that stays valid whatever happens at the path that it was opened by.
fn path_of(folder: &impl AsFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", folder.as_fd().as_raw_fd()))
}

fn set_time(folder: &impl AsFd, name: &OsStr, seconds: u64) -> io::Result<()> {
    let time = Timespec { tv_sec: i64::try_from(seconds).unwrap_or_default(), tv_nsec: 0 };
    let times = Timestamps { last_access: time, last_modification: time };
    Ok(rustix::fs::utimensat(folder, name, &times, AtFlags::SYMLINK_NOFOLLOW)?)
}

/// Folder and name within the layer; `None` for its root.
fn split(path: &Path) -> io::Result<Option<(PathBuf, OsString)>> {
    let mut clean = PathBuf::new();
    for component in path.components() {
        match component {
            Component::Normal(part) => clean.push(part),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
            Component::ParentDir => return Err(malformed("a path that leaves the layer")),
        }
    }
    check_depth(&clean)?;
    let Some(name) = clean.file_name().map(OsStr::to_owned) else { return Ok(None) };
    clean.pop();
    Ok(Some((clean, name)))
}

/// Bounded, because removing a folder holds a descriptor for every folder above it.
fn check_depth(path: &Path) -> io::Result<()> {
    const DEEPEST: usize = 256;
    if path.components().count() > DEEPEST { Err(malformed("a path that is too deep")) } else { Ok(()) }
}

const OPAQUE: &str = "trusted.overlay.opaque";

fn malformed(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the layer has {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Unpacks a frame with this header and one block of a repeated byte.
    fn unpack(header: &[u8]) -> Result<Vec<u8>, String> {
        let repeated = [3 | 100 << 3, 0x03, 0, b'x'];
        let frame = [&[0x28, 0xb5, 0x2f, 0xfd], header, &repeated].concat();
        let limits = Limits { window_bytes: 1 << 20, ..Limits::default() };
        let mut bytes = Vec::new();
        let mut stream = decompressed(frame.as_slice(), &limits).map_err(|error| error.to_string())?;
        stream.read_to_end(&mut bytes).map_err(|error| error.to_string())?;
        Ok(bytes)
    }

    #[test]
    fn a_frame_that_needs_much_memory_is_refused() {
        // A window of a mebibyte, an eighth more, and as much as there can be.
        assert_eq!(unpack(&[0, 10 << 3]).map(|bytes| bytes.len()), Ok(100));
        for window in [10 << 3 | 1, 0xff] {
            let error = unpack(&[0, window]).unwrap_err();
            assert!(error.contains("more memory than is allowed"), "{window}: {error}");
        }
        // The same for frames in one piece, which say how large their content is.
        assert_eq!(unpack(&[0x20, 100]).map(|bytes| bytes.len()), Ok(100));
        for header in [&[0xa0, 1, 0, 16, 0][..], &[0xe0, 0, 0, 0, 0, 0, 0, 0, 0x80]] {
            assert!(unpack(header).unwrap_err().contains("more memory than is allowed"), "{header:?}");
        }
        assert_eq!(zstd_window(&[0, 0, 0, 0, 0x60, 0, 1]), Some(512));
        assert_eq!(zstd_window(&[0, 0, 0, 0, 0xa3, 9, 9, 9, 9, 1, 2, 0, 0]), Some(0x201));
    }
}
