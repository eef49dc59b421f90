//! What is mounted for pods in the node's own mount namespace: memory, and paths within volumes.

use std::ffi::{CString, OsString};
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags, unmount};

/// Everything that is mounted at or below a path, the innermost first.
pub(super) fn below(path: &Path) -> io::Result<Vec<PathBuf>> {
    let text = std::fs::read_to_string("/proc/self/mountinfo")?;
    let points = text.lines().filter_map(|line| line.split(' ').nth(4)).map(unescaped);
    let mut found: Vec<PathBuf> = points.filter(|point| point.starts_with(path)).collect();
    found.reverse();
    Ok(found)
}

/// Unmounts everything at or below a path, or fails: what is still mounted must not be taken for the pod's own.
pub(super) fn release_all(path: &Path) -> io::Result<()> {
    below(path)?.iter().try_for_each(|point| release(point))
}

/// Unmounts whatever is mounted at a path; nothing may be.
pub(super) fn release(path: &Path) -> io::Result<()> {
    loop {
        match unmount(path, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW) {
            Ok(()) => {}
            Err(Errno::INVAL | Errno::NOENT) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Mounts memory at a path, unless that has been done; whether it was to be done. It is never swapped out if the kernel
/// can promise that, which it can since 6.3.
pub(super) fn memory(path: &Path, size: Option<i64>) -> io::Result<bool> {
    if below(path)?.iter().any(|point| point == path) {
        return Ok(false);
    }
    let size = size.map(|size| format!(",size={size}")).unwrap_or_default();
    let mount = |options: String| -> io::Result<()> {
        let options = CString::new(options)?;
        Ok(rustix::mount::mount("tmpfs", path, "tmpfs", MountFlags::empty(), options.as_c_str())?)
    };
    match mount(format!("mode=0777,noswap{size}")) {
        Err(error) if error.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => {
            mount(format!("mode=0777{size}"))?;
        }
        mounted => mounted?,
    }
    Ok(true)
}

/// Spaces and the like are written as octal numbers.
fn unescaped(text: &str) -> PathBuf {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let code = after.get(..3).and_then(|code| std::str::from_utf8(code).ok());
        match code.and_then(|code| u8::from_str_radix(code, 8).ok()).filter(|_| byte == b'\\') {
            Some(decoded) => {
                bytes.push(decoded);
                rest = &after[3..];
            }
            None => {
                bytes.push(byte);
                rest = after;
            }
        }
    }
    OsString::from_vec(bytes).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_as_they_are() {
        assert_eq!(unescaped("/a\\040b\\134c"), PathBuf::from("/a b\\c"));
        assert!(below(Path::new("/")).unwrap().contains(&PathBuf::from("/")));
    }
}
