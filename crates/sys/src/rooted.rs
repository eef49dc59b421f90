//! Paths inside a root that is not trusted: an image, a volume, the file system of a container.
//!
//! An attacker who controls the content of a root can put a symbolic link anywhere in it, at any moment. So a path is resolved
//! by the kernel in one step (`openat2`): links and `..` never lead out of the root (`RESOLVE_IN_ROOT`), and the magic links
//! of procfs, which lead anywhere, are never followed (`RESOLVE_NO_MAGICLINKS`). The result is a descriptor. Callers
//! act on the descriptor and never resolve the path a second time.
//!
//! This file is part of two programs, the library and the supervisor, and depends on nothing but the standard library.

use std::ffi::{CString, c_long};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

unsafe extern "C" {
    fn syscall(number: c_long, ...) -> c_long;
}

const OPENAT2: c_long = 437;
#[cfg(target_arch = "x86_64")]
const FSTATFS: c_long = 138;
#[cfg(target_arch = "aarch64")]
const FSTATFS: c_long = 44;
#[cfg(target_arch = "x86_64")]
const MKDIRAT: c_long = 258;
#[cfg(target_arch = "aarch64")]
const MKDIRAT: c_long = 34;
#[cfg(target_arch = "x86_64")]
const MKNODAT: c_long = 259;
#[cfg(target_arch = "aarch64")]
const MKNODAT: c_long = 33;

#[cfg(target_arch = "x86_64")]
const READLINKAT: c_long = 267;
#[cfg(target_arch = "aarch64")]
const READLINKAT: c_long = 78;

/// A handle on a file that neither reads nor writes it.
pub const O_PATH: u64 = 0o10000000;
pub const O_WRONLY: u64 = 1;
pub const O_RDWR: u64 = 2;
pub const O_NOCTTY: u64 = 0o400;
const O_CLOEXEC: u64 = 0o2000000;
#[cfg(target_arch = "x86_64")]
const O_NOFOLLOW: u64 = 0o400000;
#[cfg(target_arch = "aarch64")]
const O_NOFOLLOW: u64 = 0o100000;

const RESOLVE_NO_MAGICLINKS: u64 = 0x02;
const RESOLVE_NO_SYMLINKS: u64 = 0x04;
const RESOLVE_IN_ROOT: u64 = 0x10;

/// Numbers of file systems, as `statfs` reports them.
pub const PROCFS: i64 = 0x9fa0;
pub const SYSFS: i64 = 0x6265_6572;
pub const DEVPTS: i64 = 0x1cd1;
pub const TMPFS: i64 = 0x0102_1994;

/// The kernel asks to try again when something below the root is renamed during a lookup with `..`. An attacker can cause that
/// for ever, so the attempts are limited.
const ATTEMPTS: usize = 64;

/// Maximum number of dangling links whose targets are created; as many as the kernel follows on one path.
const DANGLING_LINKS: usize = 40;

/// The handling of symbolic links on the way and at the end of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Links {
    /// Follow them as if the root were `/`.
    Inside,
    /// A link anywhere in the path is an error.
    Refused,
}

/// A directory whose content is not trusted.
#[derive(Debug)]
pub struct Root(OwnedFd);

impl Root {
    /// The root at a trusted path of the node.
    pub fn open(path: &Path) -> io::Result<Root> {
        // A handle suffices, and needs no read permission.
        let directory = File::options().read(true).custom_flags(O_PATH as i32).open(path)?;
        if !directory.metadata()?.is_dir() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        Ok(Root(directory.into()))
    }

    pub fn descriptor(&self) -> &OwnedFd {
        &self.0
    }

    /// A handle on the file at a path.
    pub fn find(&self, path: &str, links: Links) -> io::Result<OwnedFd> {
        self.open_with(path, links, O_PATH)
    }

    /// Opens the file at a path. Opening a FIFO or a device for reading or writing can block or have effects: inspect
    /// the handle of [`Root::find`] first.
    pub fn open_with(&self, path: &str, links: Links, flags: u64) -> io::Result<OwnedFd> {
        let resolve = match links {
            Links::Inside => RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS,
            Links::Refused => RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_SYMLINKS,
        };
        let how = [flags | O_CLOEXEC, 0, resolve];
        let path = text(if path.is_empty() { "." } else { path })?;
        for _ in 0..ATTEMPTS {
            // SAFETY: path and instructions outlive the call, and the size is that of the instructions.
            let result = unsafe {
                syscall(OPENAT2, self.0.as_raw_fd(), path.as_ptr(), how.as_ptr(), size_of_val(&how))
            };
            match check(result) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // SAFETY: the kernel has just handed the descriptor out.
                other => return other.map(|raw| unsafe { OwnedFd::from_raw_fd(raw as RawFd) }),
            }
        }
        Err(io::ErrorKind::ResourceBusy.into())
    }

    /// A handle on a directory, which is created with its parents where it is missing. A dangling link is followed: its
    /// target is created, inside the root.
    pub fn directory(&self, path: &str, links: Links) -> io::Result<OwnedFd> {
        self.make(path, links, &make_directory, &mut 0)
    }

    /// A handle on the file at a path; where none exists, an empty regular file is created with its parent directories.
    pub fn file(&self, path: &str, links: Links) -> io::Result<OwnedFd> {
        const REGULAR: u32 = 0o100_644;
        self.make(path, links, &|parent, name| make_node(parent, name, REGULAR, 0, 0), &mut 0)
    }

    fn make(
        &self,
        path: &str,
        links: Links,
        make: &dyn Fn(&OwnedFd, &str) -> io::Result<()>,
        followed: &mut usize,
    ) -> io::Result<OwnedFd> {
        let path = path.trim_end_matches('/');
        if path.is_empty() {
            return self.0.try_clone();
        }
        match self.find(path, links) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            other => return other,
        }
        let (parent_path, name) = split(path);
        let parent = self.make(parent_path, links, &make_directory, followed)?;
        match make(&parent, name) {
            Ok(()) => self.find(path, links),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && links == Links::Inside => {
                *followed += 1;
                if *followed > DANGLING_LINKS {
                    return Err(io::ErrorKind::QuotaExceeded.into());
                }
                let target = Root(parent).link(name)?;
                let next = if target.starts_with('/') { target } else { format!("{parent_path}/{target}") };
                self.make(&next, links, make, followed)
            }
            Err(error) => Err(error),
        }
    }

    /// The target of the link of this name in the root.
    fn link(&self, name: &str) -> io::Result<String> {
        let link = self.open_with(name, Links::Refused, O_PATH | O_NOFOLLOW)?;
        let mut target = vec![0u8; 4096];
        // SAFETY: the path is empty, and there is room for as many bytes as are named.
        let length = check(unsafe {
            syscall(READLINKAT, link.as_raw_fd(), c"".as_ptr(), target.as_mut_ptr(), target.len())
        })?;
        target.truncate(length as usize);
        String::from_utf8(target).map_err(io::Error::other)
    }
}

fn make_directory(parent: &OwnedFd, name: &str) -> io::Result<()> {
    let name = text(name)?;
    // SAFETY: the name outlives the call.
    check(unsafe { syscall(MKDIRAT, parent.as_raw_fd(), name.as_ptr(), 0o755) }).map(drop)
}

/// Creates a file or device in a directory; the mode says which. It follows no link: a name that exists is an error.
pub fn make_node(directory: &OwnedFd, name: &str, mode: u32, major: u32, minor: u32) -> io::Result<()> {
    let name = text(name)?;
    let device = device_number(major, minor);
    // SAFETY: the name outlives the call.
    check(unsafe { syscall(MKNODAT, directory.as_raw_fd(), name.as_ptr(), mode, device) }).map(drop)
}

/// The directory and the name of a path.
pub fn split(path: &str) -> (&str, &str) {
    path.trim_end_matches('/').rsplit_once('/').unwrap_or(("", path))
}

/// The file system that a descriptor's file is on.
pub fn file_system(file: &OwnedFd) -> io::Result<i64> {
    let mut data = [0i64; 16];
    // SAFETY: the kernel writes 120 bytes, for which there is room; the first eight are the file system's number.
    check(unsafe { syscall(FSTATFS, file.as_raw_fd(), data.as_mut_ptr()) })?;
    Ok(data[0])
}

/// Returns true if a descriptor's file is the root directory of a mount of procfs.
pub fn is_proc_root(file: &OwnedFd) -> io::Result<bool> {
    const PROC_ROOT: u64 = 1;
    Ok(file_system(file)? == PROCFS && metadata(file)?.ino() == PROC_ROOT)
}

/// Returns true if a descriptor's file is this character device.
pub fn is_character_device(file: &OwnedFd, major: u32, minor: u32) -> io::Result<bool> {
    let data = metadata(file)?;
    Ok(data.file_type().is_char_device() && data.rdev() == device_number(major, minor))
}

pub fn is_directory(file: &OwnedFd) -> io::Result<bool> {
    Ok(metadata(file)?.is_dir())
}

/// A device's number as the kernel writes it.
pub fn device_number(major: u32, minor: u32) -> u64 {
    let (major, minor) = (u64::from(major), u64::from(minor));
    ((major & 0xfff) << 8) | (minor & 0xff) | ((minor & !0xff) << 12) | ((major & !0xfff) << 32)
}

/// The metadata of a descriptor's file, whatever it was opened for.
pub fn metadata(file: &OwnedFd) -> io::Result<std::fs::Metadata> {
    File::from(file.try_clone()?).metadata()
}

fn text(text: &str) -> io::Result<CString> {
    CString::new(Path::new(text).as_os_str().as_bytes()).map_err(io::Error::other)
}

fn check(result: c_long) -> io::Result<c_long> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

#[cfg(test)]
#[path = "rooted/tests.rs"]
mod tests;
