//! Reads files of an image before it is mounted, from its unpacked layers, as a container would see them.
//!
//! Layers are not trusted. A symbolic link is read and resolved here, in the merged view; no system call ever follows one.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};

/// As many links as the kernel follows on one path.
const MOST_LINKS: usize = 40;

/// Reads a regular file of an image; the topmost of `layers` comes first. A missing file is empty; one that is longer
/// than `limit` or not a regular file is an error.
pub(crate) fn read(layers: &[PathBuf], path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let open = |layer: &PathBuf| rustix::fs::open(layer, flags, Mode::empty());
    let layers = layers.iter().map(open).collect::<Result<Vec<_>, _>>()?;
    let Some((layer, place)) = resolve(&layers, path)? else { return Ok(Vec::new()) };
    // Not a FIFO, which would block: the type was checked above, and an unpacked layer does not change.
    let file = File::from(open_beneath(layer, &place, OFlags::RDONLY | OFlags::NONBLOCK)?);
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "not a regular file"));
    }
    let mut content = Vec::new();
    file.take(limit + 1).read_to_end(&mut content)?;
    if content.len() as u64 > limit { Err(io::ErrorKind::FileTooLarge.into()) } else { Ok(content) }
}

/// The layer that has the file of a path, and the file's place in it; `None` if there is none.
fn resolve<'a>(layers: &'a [OwnedFd], path: &Path) -> io::Result<Option<(&'a OwnedFd, PathBuf)>> {
    let mut place = PathBuf::new();
    let mut ahead = parts(path);
    let mut links = 0;
    while let Some(part) = ahead.pop() {
        if part == ".." {
            place.pop();
            continue;
        }
        let next = place.join(&part);
        let Some((layer, kind)) = topmost_entry(layers, &next)? else { return Ok(None) };
        match kind {
            FileType::Symlink => {
                links += 1;
                if links > MOST_LINKS {
                    return Err(io::Error::new(io::ErrorKind::InvalidData, "too many symbolic links"));
                }
                let link = open_beneath(layer, &next, OFlags::PATH | OFlags::NOFOLLOW)?;
                let target = rustix::fs::readlinkat(&link, "", Vec::new())?;
                let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
                if target.is_absolute() {
                    place = PathBuf::new();
                }
                ahead.extend(parts(&target));
            }
            FileType::Directory => place = next,
            FileType::RegularFile if ahead.is_empty() => return Ok(Some((layer, next))),
            _ => return Err(io::Error::new(io::ErrorKind::InvalidData, "not a regular file")),
        }
    }
    Err(io::Error::new(io::ErrorKind::InvalidData, "not a regular file"))
}

/// The components of a path, the last first.
fn parts(path: &Path) -> Vec<OsString> {
    let part = |component| match component {
        Component::Normal(part) => Some(OsString::from(part)),
        Component::ParentDir => Some("..".into()),
        _ => None,
    };
    path.components().rev().filter_map(part).collect()
}

/// The topmost layer that has an entry at a place, and its type; a whiteout is a device with the number 0.
fn topmost_entry<'a>(layers: &'a [OwnedFd], place: &Path) -> io::Result<Option<(&'a OwnedFd, FileType)>> {
    for layer in layers {
        let Ok(found) = open_beneath(layer, place, OFlags::PATH | OFlags::NOFOLLOW) else { continue };
        let stat = rustix::fs::fstat(&found)?;
        return Ok(match FileType::from_raw_mode(stat.st_mode) {
            FileType::CharacterDevice if stat.st_rdev == 0 => None,
            kind => Some((layer, kind)),
        });
    }
    Ok(None)
}

fn open_beneath(layer: &OwnedFd, place: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_SYMLINKS;
    // `NO_SYMLINKS` refuses a link at the end too, unless only a handle on the link itself is asked for.
    Ok(rustix::fs::openat2(layer, place, flags | OFlags::CLOEXEC, Mode::empty(), resolve)?)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_in_layers_stay_in_the_image() {
        let folder = tempfile::tempdir().unwrap();
        let layers = ["top", "bottom"].map(|layer| folder.path().join(layer));
        for layer in &layers {
            fs::create_dir_all(layer.join("real")).unwrap();
        }
        fs::write(layers[1].join("real/passwd"), "below").unwrap();
        let check = |link: &str, expected: Option<&[u8]>| {
            let _ = fs::remove_file(layers[0].join("etc"));
            symlink(link, layers[0].join("etc")).unwrap();
            let read = read(&layers, Path::new("etc/passwd"), 100).ok();
            assert_eq!(read.as_deref(), expected, "{link}");
        };
        check("/real", Some(b"below"));
        check("../../real", Some(b"below"));
        check("/etc", None);
        check("/", Some(b""));
        check("/proc/self/root/etc", Some(b""));
        check("../../../../../../../../../../etc", None);
        let node = folder.path().join("node");
        fs::create_dir(&node).unwrap();
        fs::write(node.join("passwd"), "of the node").unwrap();
        check(&node.to_string_lossy(), Some(b""));
        File::create(layers[1].join("real/passwd")).unwrap().set_len(1 << 40).unwrap();
        check("/real", None);
    }
}
