//! Layers: archives of changes, turned into what overlayfs stacks.
//!
//! A layer is unpacked beside those below it, not on top of them: a deletion becomes overlayfs' whiteout, and a
//! folder that the archive does not mention looks like the one below. Archives are not trusted: nothing is
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

/// How a stream is packed, by its first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    None,
    Gzip,
    Zstd,
}

impl Compression {
    /// Looks at the first four bytes.
    pub fn of(head: &[u8]) -> Compression {
        match head {
            [0x1f, 0x8b, ..] => Compression::Gzip,
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Compression::Zstd,
            _ => Compression::None,
        }
    }
}

/// The stream as it was before it was packed, whichever way.
pub(super) fn decompressed<'a>(mut from: impl Read + Send + 'a) -> io::Result<Box<dyn Read + Send + 'a>> {
    let mut head = Vec::with_capacity(4);
    from.by_ref().take(4).read_to_end(&mut head)?;
    let compression = Compression::of(&head);
    let whole = io::Cursor::new(head).chain(from);
    Ok(match compression {
        Compression::None => Box::new(whole),
        Compression::Gzip => Box::new(flate2::read::MultiGzDecoder::new(io::BufReader::new(whole))),
        Compression::Zstd => Box::new(
            ruzstd::decoding::StreamingDecoder::new(io::BufReader::new(whole)).map_err(io::Error::other)?,
        ),
    })
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

/// The times of folders, as far as they can be remembered: of more than any honest layer has, they are not kept.
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

/// Writes a file's content to where it belongs; holes stay holes.
fn write_content(archive: &mut Archive<impl Read>, entry: &Entry, mut file: File) -> io::Result<()> {
    let Some(sparse) = &entry.sparse else { return io::copy(&mut archive.content(), &mut file).map(|_| ()) };
    let mut content = archive.content();
    for (at, length) in &sparse.parts {
        file.seek(SeekFrom::Start(*at))?;
        io::copy(&mut (&mut content).take(*length), &mut file)?;
    }
    file.set_len(sparse.size)
}

/// Owner, mode, extended attributes and time, in this order: each may undo those before.
fn decorate(entry: &Entry, folder: &impl AsFd, name: &OsStr) -> io::Result<()> {
    let owner = (number(entry.owner.0)?, number(entry.owner.1)?);
    let is_link = entry.kind == EntryType::Symlink;
    let mode = Mode::from_raw_mode(entry.mode & 0o7777);
    attributes(folder, name, owner, (!is_link).then_some(mode))?;
    for (key, value) in &entry.attributes {
        // What overlayfs says about itself is ours to say.
        if !is_link && !key.starts_with("trusted.overlay.") {
            set_extended(folder, name, key, value)?;
        }
    }
    if entry.kind == EntryType::Directory { Ok(()) } else { set_time(folder, name, entry.modified) }
}

fn number(id: u64) -> io::Result<u32> {
    u32::try_from(id).map_err(|_| malformed("an owner that cannot be"))
}

/// By name and without following a link: nothing is opened, because opening a device may do something.
fn set_extended(folder: &impl AsFd, name: &OsStr, key: &str, value: &[u8]) -> io::Result<()> {
    match rustix::fs::lsetxattr(path_of(folder).join(name), key, value, XattrFlags::empty()) {
        // File systems need not have every attribute; images rarely depend on them.
        Err(rustix::io::Errno::NOTSUP) => Ok(()),
        other => other.map_err(Into::into),
    }
}

/// Where a folder that is open can be found, whatever is at the path that it was opened by.
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

/// Removing a folder holds a descriptor for every folder above it.
fn check_depth(path: &Path) -> io::Result<()> {
    const DEEPEST: usize = 256;
    if path.components().count() > DEEPEST { Err(malformed("a path that is too deep")) } else { Ok(()) }
}

const OPAQUE: &str = "trusted.overlay.opaque";

fn malformed(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the layer has {what}"))
}
