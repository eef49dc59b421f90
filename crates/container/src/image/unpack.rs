//! Layers: archives of changes, turned into what overlayfs stacks.
//!
//! A layer is unpacked beside those below it, not on top of them: a deletion becomes overlayfs' whiteout, and a
//! folder that the archive does not mention looks like the one below. Archives are not trusted: nothing is
//! written, read or followed outside the layer's own folder and those below.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, Dev, FileType, Mode, OFlags, ResolveFlags, Timespec, Timestamps, XattrFlags};
use tar::EntryType;

mod tree;

use tree::{Tree, attributes};

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
pub(super) fn apply(archive: impl Read, into: &Path, below: &[PathBuf]) -> io::Result<()> {
    let mut tree = Tree::open(into, below)?;
    let mut archive = tar::Archive::new(archive);
    let mut folder_times = Vec::new();
    for entry in archive.entries()? {
        let mut entry = entry?;
        let path = PathBuf::from(OsString::from_vec(entry.path_bytes().into_owned()));
        let unpacked = apply_entry(&mut tree, &mut entry, &path, &mut folder_times);
        unpacked.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))?;
    }
    // Last, because every file in a folder changes its time.
    for (folder, name, seconds) in folder_times.iter().rev() {
        set_time(folder, name, *seconds)?;
    }
    // Tar readers stop at the end mark; the digest covers what follows it too.
    io::copy(&mut archive.into_inner(), &mut io::sink()).map(|_| ())
}

fn apply_entry<R: Read>(
    tree: &mut Tree,
    entry: &mut tar::Entry<'_, R>,
    path: &Path,
    folder_times: &mut Vec<(OwnedFd, OsString, u64)>,
) -> io::Result<()> {
    let kind = entry.header().entry_type();
    let Some((folder, name)) = split(path)? else {
        return if kind == EntryType::Directory {
            decorate(entry, tree.root(), OsStr::new("."), true)
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
    let mode = Mode::from_raw_mode(entry.header().mode()? & 0o7777);
    match kind {
        EntryType::Directory => {
            tree.make_folder(&parent, &name)?;
            folder_times.push((parent.try_clone()?, name.clone(), entry.header().mtime()?));
        }
        EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => {
            tree.clear(&parent, &name)?;
            let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let file = rustix::fs::openat(&parent, name.as_os_str(), flags, Mode::from_raw_mode(0o600))?;
            io::copy(entry, &mut File::from(file))?;
        }
        EntryType::Symlink => {
            tree.clear(&parent, &name)?;
            let target = entry.link_name_bytes().ok_or_else(|| malformed("a link to nowhere"))?;
            rustix::fs::symlinkat(OsStr::from_bytes(&target), &parent, name.as_os_str())?;
        }
        EntryType::Link => {
            let target = entry.link_name_bytes().ok_or_else(|| malformed("a link to nowhere"))?;
            let target = PathBuf::from(OsString::from_vec(target.into_owned()));
            let (folder, target) = split(&target)?.ok_or_else(|| malformed("a link to the root"))?;
            return tree.link(&folder, &target, &parent, &name);
        }
        EntryType::Char | EntryType::Block | EntryType::Fifo => {
            tree.clear(&parent, &name)?;
            let major = entry.header().device_major()?.unwrap_or_default();
            let minor = entry.header().device_minor()?.unwrap_or_default();
            let kind = match kind {
                EntryType::Char => FileType::CharacterDevice,
                EntryType::Block => FileType::BlockDevice,
                _ => FileType::Fifo,
            };
            rustix::fs::mknodat(&parent, name.as_os_str(), kind, mode, rustix::fs::makedev(major, minor))?;
        }
        // Comments and the like.
        _ => return Ok(()),
    }
    decorate(entry, &parent, &name, kind == EntryType::Directory)
}

/// Owner, mode, extended attributes and time, in this order: each may undo those before.
fn decorate<R: Read>(
    entry: &mut tar::Entry<'_, R>,
    folder: &impl AsFd,
    name: &OsStr,
    is_folder: bool,
) -> io::Result<()> {
    let header = entry.header();
    let owner = (number(header.uid()?)?, number(header.gid()?)?);
    let mode = Mode::from_raw_mode(header.mode()? & 0o7777);
    let seconds = header.mtime()?;
    let is_link = header.entry_type() == EntryType::Symlink;
    attributes(folder, name, owner, (!is_link).then_some(mode))?;
    if let Some(extensions) = entry.pax_extensions()? {
        for extension in extensions {
            let extension = extension?;
            let Some(key) = extension.key().ok().and_then(|key| key.strip_prefix("SCHILY.xattr.")) else {
                continue;
            };
            // What overlayfs says about itself is ours to say.
            if !is_link && !key.starts_with("trusted.overlay.") {
                set_extended(folder, name, key, extension.value_bytes())?;
            }
        }
    }
    if is_folder { Ok(()) } else { set_time(folder, name, seconds) }
}

fn number(id: u64) -> io::Result<u32> {
    u32::try_from(id).map_err(|_| malformed("an owner that cannot be"))
}

fn set_extended(folder: &impl AsFd, name: &OsStr, key: &str, value: &[u8]) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = rustix::fs::openat(folder, name, flags, Mode::empty())?;
    match rustix::fs::fsetxattr(&file, key, value, XattrFlags::empty()) {
        // File systems need not have every attribute; images rarely depend on them.
        Err(rustix::io::Errno::NOTSUP) => Ok(()),
        other => other.map_err(Into::into),
    }
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
    let Some(name) = clean.file_name().map(OsStr::to_owned) else { return Ok(None) };
    clean.pop();
    Ok(Some((clean, name)))
}

const OPAQUE: &str = "trusted.overlay.opaque";

fn malformed(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the layer has {what}"))
}
