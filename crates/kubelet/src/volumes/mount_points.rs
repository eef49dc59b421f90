//! Mounts of pods in the node's own mount namespace: tmpfs and subPaths.

use std::ffi::{CString, OsString};
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags, unmount};

/// All mount points at or below a path, the innermost first.
pub(super) fn below(path: &Path) -> io::Result<Vec<PathBuf>> {
    let text = std::fs::read_to_string("/proc/self/mountinfo")?;
    let points = text.lines().filter_map(|line| line.split(' ').nth(4)).map(unescaped);
    let mut found: Vec<PathBuf> = points.filter(|point| point.starts_with(path)).collect();
    found.reverse();
    Ok(found)
}

/// Unmounts everything at or below a path, or fails: a mount must not be taken for the pod's own directory.
pub(super) fn unmount_all(path: &Path) -> io::Result<()> {
    below(path)?.iter().try_for_each(|point| unmount_at(point))
}

/// Unmounts everything at a path; a no-op if nothing is mounted.
pub(super) fn unmount_at(path: &Path) -> io::Result<()> {
    loop {
        match unmount(path, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW) {
            Ok(()) => {}
            Err(Errno::INVAL | Errno::NOENT) => return Ok(()),
            Err(err) => return Err(err.into()),
        }
    }
}

/// Mounts a tmpfs at a path unless there is one. Returns true if it did. The tmpfs is never swapped out if the kernel
/// supports that (`noswap`, since 6.3).
pub(super) fn mount_tmpfs(path: &Path, size: Option<i64>) -> io::Result<bool> {
    if below(path)?.iter().any(|point| point == path) {
        return Ok(false);
    }
    let size = size.map(|size| format!(",size={size}")).unwrap_or_default();
    let mount = |options: String| -> io::Result<()> {
        let options = CString::new(options)?;
        Ok(rustix::mount::mount("tmpfs", path, "tmpfs", MountFlags::empty(), options.as_c_str())?)
    };
    match mount(format!("mode=0777,noswap{size}")) {
        Err(err) if err.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => {
            mount(format!("mode=0777{size}"))?;
        }
        mounted => mounted?,
    }
    Ok(true)
}

/// Decodes the octal escapes of mountinfo.
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
    fn escaped_names_are_decoded() {
        assert_eq!(unescaped("/a\\040b\\134c"), PathBuf::from("/a b\\c"));
        assert!(below(Path::new("/")).unwrap().contains(&PathBuf::from("/")));
    }
}
